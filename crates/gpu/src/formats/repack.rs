//! Blocks of a file taken apart into planes.

use gguf::TensorType;
use quant::{
    IQ2_S, IQ3_S, IQ3_XXS, IQ4_XS, Packed, PackedVisitor, Q2_0, Q4_K, Q5_K, Q6_K, Q8_0, with_packed,
};

/// How a block is taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repack {
    /// A block at a time: its bytes, and its part of each plane.
    Plain(fn(&[u8], &mut [&mut [u8]])),
    /// Through the codes and scales that `quant` gives for any packed format.
    AnyPacked,
}

/// Whether values of a packed format have offsets; `None` for other types.
pub(super) fn has_offsets(ty: TensorType) -> Option<bool> {
    struct Offsets;
    impl PackedVisitor for Offsets {
        type Out = bool;
        fn visit<F: Packed>(self) -> bool {
            let zero: F = bytemuck::Zeroable::zeroed();
            zero.offsets().is_some()
        }
    }
    with_packed(ty, Offsets)
}

/// Planes of any packed format, unit by unit: two of 16 codes, and one of scales and offsets.
/// `planes` are as long as `bytes` needs.
pub(crate) fn any_packed(ty: TensorType, bytes: &[u8], planes: &mut [&mut [u8]]) {
    struct Units<'a, 'b>(&'a [u8], &'a mut [&'b mut [u8]]);
    impl PackedVisitor for Units<'_, '_> {
        type Out = ();
        fn visit<F: Packed>(self) {
            let mut unit = 0;
            for block in self.0.chunks_exact(F::BYTES) {
                let block: &F = bytemuck::from_bytes(block);
                let (codes, scales, offsets) = (block.codes(), block.scales(), block.offsets());
                for (i, codes) in codes.as_ref().as_chunks::<16>().0.iter().enumerate() {
                    let at = 16 * (unit + i / 2);
                    self.1[i % 2][at..at + 16].copy_from_slice(bytemuck::cast_slice(codes));
                    let group = 16 * i / F::GROUP;
                    let offset = offsets.as_ref().map_or(0.0, |offsets| offsets.as_ref()[group]);
                    let place = at + 4 * (i % 2);
                    let scale = scales.as_ref()[group].to_le_bytes();
                    self.1[2][place..place + 4].copy_from_slice(&scale);
                    self.1[2][place + 8..place + 12].copy_from_slice(&offset.to_le_bytes());
                }
                unit += F::ELEMENTS / 32;
            }
        }
    }
    // A type that is not packed has no such layout.
    let _ = with_packed(ty, Units(bytes, planes));
}

/// A unit of floats, zeros beyond the end of a row, as vectors of 16 bytes.
pub(super) fn vectors(block: &[u8], planes: &mut [&mut [u8]]) {
    for (plane, vector) in planes.iter_mut().zip(block.as_chunks::<16>().0) {
        plane.copy_from_slice(vector);
    }
}

pub(super) fn q8_0(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &Q8_0 = bytemuck::from_bytes(block);
    let codes: &[u8] = bytemuck::cast_slice(&block.qs);
    planes[0].copy_from_slice(&codes[..16]);
    planes[1].copy_from_slice(&codes[16..]);
    planes[2].copy_from_slice(bytemuck::bytes_of(&block.d));
}

/// Q4_0 and IQ4_NL: a scale, then nibbles in the order in which they are used.
pub(super) fn scale_then_codes(block: &[u8], planes: &mut [&mut [u8]]) {
    let (scale, codes) = block.split_at(2);
    planes[0].copy_from_slice(codes);
    planes[1].copy_from_slice(scale);
}

pub(super) fn q2_0(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &Q2_0 = bytemuck::from_bytes(block);
    let codes = block.codes().map(|code| (code + 1) as u8);
    put_words(planes[0], codes.as_chunks::<16>().0.iter().map(two_bits));
    planes[1].copy_from_slice(bytemuck::bytes_of(&block.d));
}

pub(super) fn iq4_xs(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &IQ4_XS = bytemuck::from_bytes(block);
    planes[0].copy_from_slice(block.qs.as_flattened());
    planes[1].copy_from_slice(&bytemuck::bytes_of(block)[..8]);
}

pub(super) fn iq3_s(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &IQ3_S = bytemuck::from_bytes(block);
    planes[0].copy_from_slice(&block.qs);
    planes[1].copy_from_slice(&block.signs);
    planes[2].copy_from_slice(&block.qh);
    planes[3].copy_from_slice(&block.scales);
    planes[4].copy_from_slice(bytemuck::bytes_of(&block.d));
}

pub(super) fn iq3_xxs(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &IQ3_XXS = bytemuck::from_bytes(block);
    planes[0].copy_from_slice(&block.qs);
    planes[1].copy_from_slice(bytemuck::bytes_of(&block.signs_scales));
    planes[2].copy_from_slice(bytemuck::bytes_of(&block.d));
}

pub(super) fn iq2_s(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &IQ2_S = bytemuck::from_bytes(block);
    planes[0].copy_from_slice(&block.qs);
    planes[1].copy_from_slice(&block.signs);
    planes[2].copy_from_slice(&block.qh);
    planes[3].copy_from_slice(&block.scales);
    planes[4].copy_from_slice(bytemuck::bytes_of(&block.d));
}

pub(super) fn q4_k(block: &[u8], planes: &mut [&mut [u8]]) {
    let all: &Q4_K = bytemuck::from_bytes(block);
    put_nibbles(planes[0], &all.codes().map(|code| code as u8));
    planes[1].copy_from_slice(&block[..16]);
}

pub(super) fn q5_k(block: &[u8], planes: &mut [&mut [u8]]) {
    let all: &Q5_K = bytemuck::from_bytes(block);
    let codes = all.codes().map(|code| code as u8);
    put_nibbles(planes[0], &codes);
    put_words(planes[1], codes.as_chunks::<32>().0.iter().map(fifth_bits));
    planes[2].copy_from_slice(&block[..16]);
}

pub(super) fn q6_k(block: &[u8], planes: &mut [&mut [u8]]) {
    let block: &Q6_K = bytemuck::from_bytes(block);
    let codes = block.codes().map(|code| (code + 32) as u8);
    put_nibbles(planes[0], &codes);
    let high = codes.map(|code| code >> 4);
    put_words(planes[1], high.as_chunks::<16>().0.iter().map(two_bits));
    planes[2].copy_from_slice(bytemuck::cast_slice(&block.scales));
    planes[3].copy_from_slice(bytemuck::bytes_of(&block.d));
}

/// Low nibbles, unit by unit: byte k has codes k and k + 16.
fn put_nibbles(plane: &mut [u8], codes: &[u8]) {
    for (bytes, codes) in plane.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<32>().0) {
        for (k, byte) in bytes.iter_mut().enumerate() {
            *byte = codes[k] & 15 | (codes[k + 16] & 15) << 4;
        }
    }
}

/// 16 codes of 2 bits: code `4c + i` in bits `2c` of byte i.
fn two_bits(codes: &[u8; 16]) -> u32 {
    let place = |k: usize| 8 * (k % 4) + 2 * (k / 4);
    codes.iter().enumerate().fold(0, |word, (k, code)| word | u32::from(*code) << place(k))
}

/// The fifth bits of 32 codes: that of code `4c + i` is bit c of byte i.
fn fifth_bits(codes: &[u8; 32]) -> u32 {
    let place = |k: usize| 8 * (k % 4) + k / 4;
    codes.iter().enumerate().fold(0, |word, (k, code)| word | u32::from(code >> 4 & 1) << place(k))
}

fn put_words(plane: &mut [u8], words: impl Iterator<Item = u32>) {
    for (bytes, word) in plane.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}
