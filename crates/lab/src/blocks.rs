//! Weights of every format, made of valid blocks.
//!
//! Arbitrary bytes are no weights: scales would be infinite, NaN or denormal. So codes are random
//! bytes (every combination is legal in every format) and the scales get chosen values; the float
//! formats, which have no scales, are encoded from random values.

use crate::random::Random;
use gguf::TensorType;
use kernels::Weight;
use kernels::weight::WeightShape;

/// Rows of a weight that differ; the others repeat them. A prime number, so that every row meets
/// every place in a tile, and so that large weights are made (and their products computed) quickly.
pub(crate) const DISTINCT_ROWS: usize = 61;

/// Which rows a weight has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Ordinary ones only: what is timed.
    Usual,
    /// Also rows of zero, denormal and large scales and of extreme codes.
    Edge,
}

/// What a row's blocks are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usual,
    ZeroScale,
    DenormalScale,
    LargeScale,
    LowCodes,
    HighCodes,
}

impl Rows {
    fn kind(self, row: usize) -> Kind {
        match (self, row % 11) {
            (Self::Usual, _) => Kind::Usual,
            (Self::Edge, 5) => Kind::ZeroScale,
            (Self::Edge, 6) => Kind::DenormalScale,
            (Self::Edge, 7) => Kind::LargeScale,
            (Self::Edge, 8) => Kind::LowCodes,
            (Self::Edge, 9) => Kind::HighCodes,
            (Self::Edge, _) => Kind::Usual,
        }
    }
}

/// Formats that carry weights.
pub fn weight_types() -> Vec<TensorType> {
    let is_weight = |ty: &TensorType| {
        let mut out = vec![0.0; ty.block_elements()];
        !ty.is_activation_only()
            && quant::decode_row(*ty, &vec![0; ty.block_bytes()], &mut out).is_ok()
    };
    TensorType::ALL.iter().copied().filter(is_weight).collect()
}

/// A weight of the given shape whose row `r` (over all experts) is row `r % DISTINCT_ROWS` of the
/// [`distinct`] rows.
///
/// # Errors
/// [`kernels::Error::WeightSize`] if the row length does not fit the format.
pub(crate) fn weight(
    ty: TensorType,
    shape: WeightShape,
    rows: Rows,
) -> Result<Weight, kernels::Error> {
    weight_from(0, ty, shape, rows)
}

/// As [`weight`], but beginning with distinct row `first`.
pub(crate) fn weight_from(
    first: usize,
    ty: TensorType,
    shape: WeightShape,
    rows: Rows,
) -> Result<Weight, kernels::Error> {
    let mut base = distinct(ty, shape.n_in, rows);
    let row_bytes = base.len() / DISTINCT_ROWS;
    base.rotate_left(first % DISTINCT_ROWS * row_bytes);
    let size = row_bytes * shape.n_out * shape.experts;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        bytes.extend_from_slice(&base[..base.len().min(size - bytes.len())]);
    }
    Weight::new(ty.name(), ty, shape, bytes.into())
}

/// [`DISTINCT_ROWS`] rows of `n_in` values, as bytes.
fn distinct(ty: TensorType, n_in: usize, rows: Rows) -> Vec<u8> {
    let mut random = Random::new(u64::from(ty.id()) + 1);
    let row_bytes = n_in / ty.block_elements() * ty.block_bytes();
    let mut bytes = vec![0; row_bytes * DISTINCT_ROWS];
    for (row, out) in bytes.chunks_exact_mut(row_bytes.max(1)).enumerate() {
        let kind = rows.kind(row);
        match scale_fields(ty) {
            Some(fields) => {
                let blocks = out.chunks_exact_mut(ty.block_bytes());
                blocks.for_each(|block| fill_block(block, fields, kind, &mut random));
            }
            None => encode(ty, kind, &mut random, out),
        }
    }
    bytes
}

/// What a block's scales are and where.
#[derive(Clone, Copy, Debug)]
enum Fields {
    /// f16 numbers at these offsets.
    Halves(&'static [usize]),
    /// An f16 number in the top nibbles of the four words at this offset.
    Nibbles(usize),
    /// One byte, the power of two with a bias of 127.
    Exponent,
    /// Four bytes of unsigned E4M3.
    E4m3,
}

/// `None` for the float formats.
fn scale_fields(ty: TensorType) -> Option<Fields> {
    use TensorType::*;
    Some(match ty {
        F32 | F16 | BF16 => return None,
        MXFP4 => Fields::Exponent,
        NVFP4 => Fields::E4m3,
        IQ1_M => Fields::Nibbles(48),
        Q4_1 | Q5_1 | Q4_K | Q5_K => Fields::Halves(&[0, 2]),
        Q2_K => Fields::Halves(&[80, 82]),
        Q3_K => Fields::Halves(&[108]),
        Q6_K => Fields::Halves(&[208]),
        TQ1_0 => Fields::Halves(&[52]),
        TQ2_0 => Fields::Halves(&[64]),
        _ => Fields::Halves(&[0]),
    })
}

fn fill_block(block: &mut [u8], fields: Fields, kind: Kind, random: &mut Random) {
    match kind {
        Kind::LowCodes => block.fill(0),
        Kind::HighCodes => block.fill(0xFF),
        _ => random.fill(block),
    }
    match fields {
        Fields::Halves(offsets) => {
            for &at in offsets {
                block[at..at + 2].copy_from_slice(&half_scale(kind, random).to_le_bytes());
            }
        }
        Fields::Nibbles(first) => {
            let bits = half_scale(kind, random);
            for (i, word) in block[first..].chunks_exact_mut(2).enumerate() {
                let nibble = (bits >> (4 * i)) as u8 & 15;
                word[1] = word[1] & 15 | nibble << 4;
            }
        }
        Fields::Exponent => {
            // There is no scale of zero, so the codes are.
            if kind == Kind::ZeroScale {
                block.fill(0);
            }
            block[0] = match kind {
                Kind::DenormalScale => 0,
                Kind::LargeScale => 127 + 12,
                _ => 120 + random.below(4) as u8,
            };
        }
        Fields::E4m3 => block[..4].fill_with(|| match kind {
            Kind::ZeroScale => 0,
            // The smallest number and the largest.
            Kind::DenormalScale => 1,
            Kind::LargeScale => 0x7E,
            // From 1/8 to nearly 1.
            _ => 0x20 + random.below(0x18) as u8,
        }),
    }
}

/// The bits of an f16 scale.
fn half_scale(kind: Kind, random: &mut Random) -> u16 {
    let scale = match kind {
        Kind::ZeroScale => 0.0,
        // The smallest number.
        Kind::DenormalScale => 1.0 / (1 << 24) as f32,
        Kind::LargeScale => 3e4,
        Kind::Usual | Kind::LowCodes | Kind::HighCodes => {
            let size = 0.01 * (1.5 + random.unit());
            if random.below(4) == 0 { -size } else { size }
        }
    };
    quant::Half::from_f32(scale).to_bits()
}

/// A row of a float format, its denormals being elements.
fn encode(ty: TensorType, kind: Kind, random: &mut Random, out: &mut [u8]) {
    let n_in = out.len() / ty.block_bytes() * ty.block_elements();
    let scale = match (kind, ty) {
        (Kind::ZeroScale, _) => 0.0,
        (Kind::DenormalScale, TensorType::F16) => 2e-5,
        (Kind::DenormalScale, _) => 1e-38,
        (Kind::LargeScale, _) => 3e4,
        (Kind::Usual | Kind::LowCodes | Kind::HighCodes, _) => 1.0,
    };
    let values = match kind {
        Kind::LowCodes => vec![-1.0; n_in],
        Kind::HighCodes => vec![1.0; n_in],
        _ => random.values(n_in, scale),
    };
    let done = quant::encode_row(ty, &values, None, out);
    debug_assert!(done.is_ok(), "{done:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_valid_and_as_their_kind_says() {
        for ty in weight_types() {
            let shape = WeightShape { n_in: 512, n_out: 70, experts: 1 };
            let weight = weight(ty, shape, Rows::Edge).unwrap();
            quant::check_row(ty, weight.bytes()).unwrap();
            let values = weight.decode();
            let largest =
                |row: usize| values[row * 512..][..512].iter().fold(0f32, |m, x| m.max(x.abs()));
            for row in 0..DISTINCT_ROWS {
                let largest = largest(row);
                let fits = match Rows::Edge.kind(row) {
                    Kind::ZeroScale => largest == 0.0,
                    Kind::DenormalScale => largest > 0.0 && largest < 0.02,
                    Kind::LargeScale => largest > 300.0 && largest < 1e9,
                    // Code zero may mean a value of zero.
                    Kind::LowCodes | Kind::HighCodes => largest < 100.0,
                    Kind::Usual => largest > 1e-3 && largest < 100.0,
                };
                assert!(fits, "{} row {row}: {largest}", ty.name());
            }
            assert_eq!(weight.row(0), weight.row(DISTINCT_ROWS));
            assert_ne!(weight.row(0), weight.row(1));
        }
    }
}
