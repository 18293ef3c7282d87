//! Little-endian fields of alignment 1, and the exact f16 conversions.
//!
//! Blocks have odd sizes (17, 18, 34, 110 bytes...), so no field may demand alignment. The f16
//! conversion is our own because it must be branch-free (to vectorise) and inline into callers
//! with other target features; a run-time feature test per scale would cost more than the work.

use bytemuck::{Pod, Zeroable};

/// An IEEE binary16 number stored little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Half([u8; 2]);

impl Half {
    /// Zero.
    pub const ZERO: Self = Self([0; 2]);

    /// The number with these bits.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits.to_le_bytes())
    }

    /// The bits of the number.
    #[inline(always)]
    #[must_use]
    pub const fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// Rounds to nearest, ties to even; too large becomes infinite.
    #[must_use]
    pub const fn from_f32(value: f32) -> Self {
        // The constant variant never uses hardware, so every machine writes the same bytes.
        Self::from_bits(half::f16::from_f32_const(value).to_bits())
    }

    /// Exact value; denormals and infinities are kept, NaN payloads pass through.
    #[inline(always)]
    #[must_use]
    pub const fn to_f32(self) -> f32 {
        const EXPONENT_BIAS_GAP: u32 = (127 - 15) << 23;
        const DENORMAL_UNIT: f32 = 1.0 / (1 << 24) as f32;
        let bits = self.to_bits() as u32;
        let sign = (bits & 0x8000) << 16;
        let magnitude = bits & 0x7fff;
        let normal = (magnitude << 13) + EXPONENT_BIAS_GAP;
        let denormal = (magnitude as i32 as f32 * DENORMAL_UNIT).to_bits();
        let special = (magnitude << 13) | 0x7f80_0000;
        let finite = if magnitude < 0x0400 { denormal } else { normal };
        let value = if magnitude < 0x7c00 { finite } else { special };
        f32::from_bits(sign | value)
    }
}

/// A u16 stored little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Le16([u8; 2]);

impl Le16 {
    /// Stores a value.
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u16) -> Self {
        Self(value.to_le_bytes())
    }

    /// The value.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u16 {
        u16::from_le_bytes(self.0)
    }
}

/// A u32 (or the bits of an f32) stored little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Le32([u8; 4]);

impl Le32 {
    /// Stores a value.
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value.to_le_bytes())
    }

    /// The value.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u32 {
        u32::from_le_bytes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Half;

    #[test]
    fn half_to_f32_agrees_with_the_half_crate_on_every_pattern() {
        for bits in 0..=u16::MAX {
            let ours = Half::from_bits(bits).to_f32();
            let theirs = half::f16::from_bits(bits).to_f32_const();
            if theirs.is_nan() {
                assert!(ours.is_nan(), "{bits:#06x}");
            } else {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#06x}");
            }
        }
    }
}
