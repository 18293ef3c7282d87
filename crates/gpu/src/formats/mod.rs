//! How weights lie on the device.
//!
//! A row is cut into *units* of 32 values. Blocks of a format are taken apart at load: what a
//! kernel reads together lies together, in *planes*, which are arrays with the same number of
//! bytes for every block. Codes keep their bits. A shader file per layout, in `shaders/formats`,
//! puts a unit together again, to the bits of `quant`'s scales, offsets and codes.

mod repack;

use gguf::TensorType;
use kernels::Weight;
use repack::Repack::{self, AnyPacked, Plain};
use std::ops::Range;

/// Values of a unit.
pub(crate) const UNIT: usize = 32;

/// Most planes of a layout that have a place of their own in the parameters.
pub(crate) const MAX_PLANES: usize = 5;

/// What a kernel makes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Values {
    /// f32 values.
    Float,
    /// Signed bytes, with one scale.
    Scaled,
    /// Signed bytes, with a scale for each half.
    ScaledHalves,
    /// Signed bytes, with one scale and one offset.
    Affine,
    /// Signed bytes, with a scale and an offset for each half.
    AffineHalves,
}

impl Values {
    /// Whether there are codes, which int8 products need.
    pub(crate) fn has_codes(self) -> bool {
        self != Self::Float
    }
}

/// A table that a layout's shader looks codes up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Book {
    /// None.
    None,
    /// Pairs of the 16 values of IQ4_NL.
    Iq4,
    /// Rows of four magnitudes.
    Iq3S,
    /// Rows of four magnitudes.
    Iq3Xxs,
    /// Rows of eight magnitudes.
    Iq2S,
}

/// Everything about one layout.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Bytes of each plane for one block. The first `code_planes` are alike and of 16-byte vectors.
    pub(crate) planes: &'static [usize],
    /// Planes at the front that share one place in the parameters, a stride apart.
    pub(crate) code_planes: usize,
    /// What comes out.
    pub(crate) values: Values,
    /// Table that goes with it.
    pub(crate) book: Book,
    /// Values of a block, a multiple of [`UNIT`]. A block of floats is padded with zeros.
    pub(crate) block: usize,
    /// WGSL text that defines `load`.
    pub(crate) source: &'static [&'static str],
    /// Takes a block apart: its bytes, and its part of every plane.
    pub(crate) repack: Repack,
}

/// A layout: cheap to copy and compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q2_0,
    Iq4Nl,
    Iq4Xs,
    Iq3S,
    Iq3Xxs,
    Iq2S,
    Q4K,
    Q5K,
    Q6K,
    /// Bytes and one f32 scale per half unit, whatever the file's format.
    Bytes,
    /// The same with offsets.
    BytesAffine,
}

impl Format {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q2_0,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Iq3S,
        Self::Iq3Xxs,
        Self::Iq2S,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Bytes,
        Self::BytesAffine,
    ];

    /// The layout of weights of type `ty`; `None` for what carries no weights.
    pub(crate) fn of(ty: TensorType) -> Option<Self> {
        if ty.is_activation_only() {
            return None;
        }
        Some(match ty {
            TensorType::F32 => Self::F32,
            TensorType::F16 => Self::F16,
            TensorType::BF16 => Self::Bf16,
            TensorType::Q8_0 => Self::Q8_0,
            TensorType::Q4_0 => Self::Q4_0,
            TensorType::Q2_0 => Self::Q2_0,
            TensorType::IQ4_NL => Self::Iq4Nl,
            TensorType::IQ4_XS => Self::Iq4Xs,
            TensorType::IQ3_S => Self::Iq3S,
            TensorType::IQ3_XXS => Self::Iq3Xxs,
            TensorType::IQ2_S => Self::Iq2S,
            TensorType::Q4_K => Self::Q4K,
            TensorType::Q5_K => Self::Q5K,
            TensorType::Q6_K => Self::Q6K,
            _ if repack::has_offsets(ty)? => Self::BytesAffine,
            _ => Self::Bytes,
        })
    }

    /// What there is to know about it.
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::F32 => &FLOAT32,
            Self::F16 => &FLOAT16,
            Self::Bf16 => &BFLOAT16,
            Self::Q8_0 => &Q8_0,
            Self::Q4_0 => &Q4_0,
            Self::Q2_0 => &Q2_0,
            Self::Iq4Nl => &IQ4_NL,
            Self::Iq4Xs => &IQ4_XS,
            Self::Iq3S => &IQ3_S,
            Self::Iq3Xxs => &IQ3_XXS,
            Self::Iq2S => &IQ2_S,
            Self::Q4K => &Q4_K,
            Self::Q5K => &Q5_K,
            Self::Q6K => &Q6_K,
            Self::Bytes => &BYTES,
            Self::BytesAffine => &BYTES_AFFINE,
        }
    }

    /// Name in kernel names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q2_0 => "Q2_0",
            Self::Iq4Nl => "IQ4_NL",
            Self::Iq4Xs => "IQ4_XS",
            Self::Iq3S => "IQ3_S",
            Self::Iq3Xxs => "IQ3_XXS",
            Self::Iq2S => "IQ2_S",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::Bytes => "bytes",
            Self::BytesAffine => "bytes_affine",
        }
    }
}

/// `layout!(NAME, block, [planes], code planes, values, book, repack, files...)`.
macro_rules! layout {
    ($name:ident, $block:literal, [$($plane:literal),+], $codes:literal, $values:ident, $book:ident,
     $repack:expr, $($file:literal),+) => {
        static $name: Layout = Layout {
            planes: &[$($plane),+],
            code_planes: $codes,
            values: Values::$values,
            book: Book::$book,
            block: $block,
            source: &[$(include_str!(concat!("../../shaders/formats/", $file, ".wgsl"))),+],
            repack: $repack,
        };
    };
}

layout!(
    FLOAT32,
    32,
    [16, 16, 16, 16, 16, 16, 16, 16],
    8,
    Float,
    None,
    Plain(repack::vectors),
    "floats",
    "f32"
);
layout!(
    FLOAT16,
    32,
    [16, 16, 16, 16],
    4,
    Float,
    None,
    Plain(repack::vectors),
    "floats",
    "read",
    "f16"
);
layout!(BFLOAT16, 32, [16, 16, 16, 16], 4, Float, None, Plain(repack::vectors), "floats", "bf16");
layout!(Q8_0, 32, [16, 16, 2], 2, Scaled, None, Plain(repack::q8_0), "unit", "read", "q8_0");
layout!(
    Q4_0,
    32,
    [16, 2],
    1,
    Scaled,
    None,
    Plain(repack::scale_then_codes),
    "unit",
    "read",
    "q4_0"
);
layout!(Q2_0, 64, [16, 2], 1, Scaled, None, Plain(repack::q2_0), "unit", "read", "q2_0");
layout!(
    IQ4_NL,
    32,
    [16, 2],
    1,
    Scaled,
    Iq4,
    Plain(repack::scale_then_codes),
    "unit",
    "read",
    "table",
    "iq4_nl"
);
layout!(
    IQ4_XS,
    256,
    [128, 8],
    1,
    Scaled,
    Iq4,
    Plain(repack::iq4_xs),
    "unit",
    "read",
    "table",
    "iq4_xs"
);
layout!(
    IQ3_S,
    256,
    [64, 32, 8, 4, 2],
    1,
    Scaled,
    Iq3S,
    Plain(repack::iq3_s),
    "unit",
    "read",
    "iq3_s"
);
layout!(
    IQ3_XXS,
    256,
    [64, 32, 2],
    1,
    Scaled,
    Iq3Xxs,
    Plain(repack::iq3_xxs),
    "unit",
    "read",
    "iq3_xxs"
);
layout!(
    IQ2_S,
    256,
    [32, 32, 8, 8, 2],
    1,
    ScaledHalves,
    Iq2S,
    Plain(repack::iq2_s),
    "unit",
    "read",
    "iq2_s"
);
layout!(
    Q4_K,
    256,
    [128, 16],
    1,
    Affine,
    None,
    Plain(repack::q4_k),
    "unit",
    "read",
    "six_bit",
    "q4_k"
);
layout!(
    Q5_K,
    256,
    [128, 32, 16],
    1,
    Affine,
    None,
    Plain(repack::q5_k),
    "unit",
    "read",
    "six_bit",
    "q5_k"
);
layout!(
    Q6_K,
    256,
    [128, 64, 16, 2],
    1,
    ScaledHalves,
    None,
    Plain(repack::q6_k),
    "unit",
    "read",
    "q6_k"
);
layout!(BYTES, 32, [16, 16, 16], 2, ScaledHalves, None, AnyPacked, "unit", "packed");
layout!(BYTES_AFFINE, 32, [16, 16, 16], 2, AffineHalves, None, AnyPacked, "unit", "packed");

impl Book {
    /// Number of words of the table.
    pub(crate) fn len(self) -> usize {
        use quant::codebook::{IQ2S_GRID, IQ3S_GRID, IQ3XXS_GRID};
        match self {
            Self::None => 0,
            Self::Iq4 => 256,
            Self::Iq3S => IQ3S_GRID.len(),
            Self::Iq3Xxs => IQ3XXS_GRID.len(),
            Self::Iq2S => 2 * IQ2S_GRID.len(),
        }
    }

    /// The words of the table.
    pub(crate) fn words(self) -> Vec<u32> {
        use quant::codebook::{IQ2S_GRID, IQ3S_GRID, IQ3XXS_GRID, KVALUES_IQ4NL};
        let fours = |rows: &[[u8; 4]]| rows.iter().map(|row| u32::from_le_bytes(*row)).collect();
        match self {
            Self::None => Vec::new(),
            Self::Iq4 => {
                let value = |code: usize| u32::from(KVALUES_IQ4NL[code] as u8);
                (0..256).map(|byte| value(byte & 15) | value(byte >> 4) << 8).collect()
            }
            Self::Iq3S => fours(IQ3S_GRID),
            Self::Iq3Xxs => fours(IQ3XXS_GRID),
            Self::Iq2S => fours(IQ2S_GRID.as_flattened().as_chunks().0),
        }
    }
}

/// The planes of some rows of a weight, as words.
pub(crate) fn repack_rows(weight: &Weight, format: Format, rows: Range<usize>) -> Vec<Vec<u32>> {
    let layout = format.layout();
    let blocks = weight.n_in().div_ceil(layout.block);
    let words = |bytes: &usize| vec![0u32; (bytes * blocks * rows.len()).div_ceil(4)];
    let mut planes: Vec<Vec<u32>> = layout.planes.iter().map(words).collect();
    let mut bytes: Vec<&mut [u8]> =
        planes.iter_mut().map(|plane| bytemuck::cast_slice_mut(plane)).collect();
    match layout.repack {
        AnyPacked => {
            let row = weight.row_bytes();
            let source = &weight.bytes()[rows.start * row..rows.end * row];
            repack::any_packed(weight.ty(), source, &mut bytes);
        }
        Plain(repack) => {
            let ty = weight.ty();
            let block = layout.block / ty.block_elements() * ty.block_bytes();
            let rows = rows.map(|row| weight.row(row));
            for (index, source) in rows.flat_map(|row| row.chunks(block)).enumerate() {
                let mut parts: Vec<&mut [u8]> = bytes
                    .iter_mut()
                    .zip(layout.planes)
                    .map(|(plane, size)| &mut plane[index * size..][..*size])
                    .collect();
                if source.len() == block {
                    repack(source, &mut parts);
                } else {
                    let mut padded = source.to_vec();
                    padded.resize(block, 0);
                    repack(&padded, &mut parts);
                }
            }
        }
    }
    planes
}
