//! The activations that a case is checked with: random ones, edges, and such as find faults that an
//! error bound would hide.

use crate::bound::INT8_GROUP;
use crate::random::Random;
use kernels::Activations;

/// A kind of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Evenly spread over [-1, 1).
    Uniform,
    /// In every group of 32 whole multiples of a power of two, of which the largest is 127.
    /// Bringing them to 8 bits changes nothing, so the bound is that of f32. The power differs
    /// between groups near each other, so a wrong group, scale or code shows.
    EightBit,
    /// 1e4 everywhere in even rows; a lone 1e4 in every third group of odd rows.
    Large,
    /// Zero groups and denormals in even rows, values of 1e-20 in odd ones.
    Tiny,
    /// Uniform, but the last row has a NaN and the one before it, if any, an infinity: they must
    /// show, and in these rows alone.
    NotFinite,
}

impl Input {
    /// What products are checked with.
    pub(crate) const ALL: &'static [Self] =
        &[Self::Uniform, Self::EightBit, Self::Large, Self::Tiny, Self::NotFinite];

    /// What operations without a product by a matrix are checked with.
    pub(crate) const SCALED: &'static [Self] = &[Self::Uniform, Self::Large];

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::EightBit => "eight-bit",
            Self::Large => "large",
            Self::Tiny => "tiny",
            Self::NotFinite => "not finite",
        }
    }

    /// The precision whose bound holds, where a matrix was loaded for `activations`.
    pub(crate) fn precision(self, activations: Activations) -> Activations {
        if self == Self::EightBit { Activations::F32 } else { activations }
    }

    /// Largest magnitude of the values of operations that only scale their inputs.
    pub(crate) fn scale(self) -> f32 {
        if self == Self::Large { 1e3 } else { 1.0 }
    }

    /// `[rows, n]`.
    pub(crate) fn rows(self, rows: usize, n: usize) -> Vec<f32> {
        let mut random = Random::new(self as u64 + 77);
        let mut x = random.values(rows * n, 1.0);
        for (t, row) in x.chunks_exact_mut(n).enumerate() {
            for (g, group) in row.chunks_mut(INT8_GROUP).enumerate() {
                self.shape_group((t, g), group, &mut random);
            }
            let at = random.below(n);
            match rows - t {
                1 if self == Self::NotFinite => row[at] = f32::NAN,
                2 if self == Self::NotFinite => row[at] = f32::INFINITY,
                _ => {}
            }
        }
        x
    }

    fn shape_group(self, (row, group): (usize, usize), x: &mut [f32], random: &mut Random) {
        let even = row.is_multiple_of(2);
        match self {
            Self::Uniform | Self::NotFinite => {}
            Self::EightBit => {
                x.iter_mut().for_each(|x| *x = (*x * 127.0).round());
                x[random.below(x.len())] = if random.below(2) == 0 { -127.0 } else { 127.0 };
                // Five, so that it also differs 2, 4, 8 or 16 groups apart.
                let unit = 1.0 / (128 << (group % 5)) as f32;
                x.iter_mut().for_each(|x| *x *= unit);
            }
            Self::Large if even => x.fill(1e4),
            Self::Large if group.is_multiple_of(3) => x[random.below(x.len())] = 1e4,
            Self::Large => {}
            Self::Tiny if even && group.is_multiple_of(2) => x.fill(0.0),
            Self::Tiny => {
                let scale = if even { 1e-40 } else { 1e-20 };
                x.iter_mut().for_each(|x| *x *= scale);
            }
        }
    }
}

impl serde::Serialize for Input {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
