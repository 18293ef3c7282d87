//! Inner loops, written once over a vector type and instantiated per instruction set.
//!
//! [`Lanes`](lanes::Lanes) is the vector type, [`generic`] the loops of the matrix products, and
//! [`Kernels`] the table of their instantiations for one instruction set. All other loops go
//! through [`dispatch`]: [`elementwise`] maps, the [`delta`] rule, attention ([`attend`]). A loop
//! is compiled inside a function that enables the instruction set, so that everything it inlines
//! (the block decoders of `quant` included) may use it.

mod attend;
#[cfg(target_arch = "x86_64")]
mod avx512_decode;
mod cached;
mod delta;
mod dispatch;
pub(crate) mod elementwise;
mod generic;
pub(crate) mod lanes;
mod math;
mod math_lanes;
mod single;
mod stored;
mod taps;
#[cfg(test)]
mod tests;

pub(crate) use attend::{AddValues, HEADS, Scores};
pub(crate) use cached::Cached;
pub(crate) use delta::{DELTA_WORK, DeltaGate, DeltaRun};
pub(crate) use math::Softmax;
use math_lanes::MathLanes;
use stored::Stored;
pub(crate) use stored::StoredType;

use crate::Isa;
use gguf::TensorType;

/// Decodes consecutive blocks.
pub(crate) type Decode = unsafe fn(&[u8], &mut [f32]);
/// Products of a few weight rows with 1 to [`MAX_TILE`] activation rows.
type Tile = unsafe fn(&[u8], usize, &Rows<'_>, &mut Sums);
/// Tiles by the number of activation rows less one: of several weight rows, and of one.
type Tiles = [[Tile; MAX_TILE]; 2];

/// Activation rows that share one pass over weight rows.
pub(crate) const MAX_TILE: usize = 4;

/// Weight rows of the largest tile.
const MAX_ROWS: usize = 4;

/// Results of a tile: `[weight row][activation row]`.
pub(crate) type Sums = [[f32; MAX_TILE]; MAX_ROWS];

/// Up to [`MAX_TILE`] activation rows; unused places repeat the first.
pub(crate) type Rows<'a> = [&'a [f32]; MAX_TILE];

/// The inner loops of one instruction set.
///
/// # Safety
/// Calling a function of this table needs a processor with the instruction set that the table was
/// made for. [`Kernels::new`] only makes tables of instruction sets that it finds.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    isa: Isa,
    decode: fn(TensorType) -> Option<Decode>,
    /// Weight rows of the tiles in `tiles`.
    rows: usize,
    tiles: fn(StoredType) -> &'static Tiles,
    dot: unsafe fn(&[f32], &[f32]) -> f32,
    axpy: unsafe fn(f32, &[f32], &mut [f32]),
}

/// Instantiates the loops for a vector type and its instruction set.
macro_rules! instantiate {
    ($name:ident, $lanes:ty, $isa:expr $(, $features:literal)?) => {
        mod $name {
            use super::lanes::Lanes;
            use super::{Decode, Rows, Stored, StoredType, Sums, Tiles, generic, lanes};
            use gguf::TensorType;
            use quant::{BlockFormat, FormatVisitor, with_format};

            $(#[target_feature(enable = $features)])?
            unsafe fn decode<F: BlockFormat>(bytes: &[u8], out: &mut [f32]) {
                F::decode_blocks(bytes, out);
            }

            struct Find;
            impl FormatVisitor for Find {
                type Out = Decode;
                fn visit<F: BlockFormat>(self) -> Decode {
                    decode::<F>
                }
            }

            pub(super) fn find(ty: TensorType) -> Option<Decode> {
                with_format(ty, Find)
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn tile<E: Stored, const R: usize, const T: usize>(
                w: &[u8],
                n: usize,
                x: &Rows<'_>,
                sums: &mut Sums,
            ) {
                // SAFETY: the instruction set is enabled on this function.
                unsafe { generic::tile::<$lanes, E, R, T>(w, n, x, sums) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
                // SAFETY: the instruction set is enabled on this function.
                unsafe { generic::dot::<$lanes>(a, b) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
                // SAFETY: the instruction set is enabled on this function.
                unsafe { generic::axpy::<$lanes>(a, x, y) }
            }

            const ROWS: usize = <$lanes>::ROWS;

            const fn tiles_of<E: Stored>() -> &'static Tiles {
                &[
                    [tile::<E, ROWS, 1>, tile::<E, ROWS, 2>, tile::<E, ROWS, 3>, tile::<E, ROWS, 4>],
                    [tile::<E, 1, 1>, tile::<E, 1, 2>, tile::<E, 1, 3>, tile::<E, 1, 4>],
                ]
            }

            fn tiles(ty: StoredType) -> &'static Tiles {
                match ty {
                    StoredType::F32 => tiles_of::<quant::F32>(),
                    StoredType::F16 => tiles_of::<quant::F16>(),
                    StoredType::BF16 => tiles_of::<quant::BF16>(),
                }
            }

            pub(super) const KERNELS: super::Kernels = super::Kernels {
                isa: $isa,
                decode: find,
                rows: ROWS,
                tiles,
                dot,
                axpy,
            };
        }
    };
}

instantiate!(portable, lanes::Portable, crate::Isa::Portable);
#[cfg(target_arch = "x86_64")]
instantiate!(avx2, lanes::Avx2, crate::Isa::Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512,
    lanes::Avx512,
    crate::Isa::Avx512,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
);
#[cfg(target_arch = "aarch64")]
instantiate!(neon, lanes::Neon, crate::Isa::Neon, "neon");

impl Kernels {
    /// The loops of `isa`, which the processor must have.
    pub(crate) fn new(isa: Isa) -> Self {
        match isa {
            Isa::Portable => portable::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::AvxVnni => avx2::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Vnni => avx512::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon | Isa::NeonDot | Isa::NeonI8mm => neon::KERNELS,
        }
    }

    /// Decoder of a format; `None` if it carries no weights.
    pub(crate) fn decoder(&self, ty: TensorType) -> Option<Decode> {
        #[cfg(target_arch = "x86_64")]
        if self.isa == Isa::Avx512 {
            // The compiler's 512-bit code for Q2_K is four times slower than its 256-bit code.
            let narrow = if ty == TensorType::Q2_K { avx2::find(ty) } else { None };
            return avx512_decode::find(ty).or(narrow).or_else(|| (self.decode)(ty));
        }
        (self.decode)(ty)
    }

    /// Decodes consecutive blocks with a decoder of this table.
    pub(crate) fn decode(&self, decoder: Decode, bytes: &[u8], out: &mut [f32]) {
        // SAFETY: decoders come from tables of instruction sets that the processor has.
        unsafe { decoder(bytes, out) }
    }

    /// Weight rows that [`Kernels::tile`] takes at once.
    pub(crate) fn tile_rows(&self) -> usize {
        self.rows
    }

    /// Products of the rows in `w` (of the length of `x`, [`Kernels::tile_rows`] of them or one)
    /// with the first `count` rows of `x`; each sum is the same bits in any tile and for any stored
    /// type.
    #[inline]
    pub(crate) fn tile(
        &self,
        (w, ty): (&[u8], StoredType),
        single: bool,
        x: &Rows<'_>,
        count: usize,
        sums: &mut Sums,
    ) {
        let tiles = (self.tiles)(ty)[usize::from(single)];
        // SAFETY: the processor has the instruction set of this table.
        unsafe { (tiles[count - 1])(w, x[0].len(), x, sums) }
    }

    /// `a . b`.
    #[inline]
    pub(crate) fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: as for `tile`.
        unsafe { (self.dot)(a, b) }
    }

    /// `y += a x`.
    #[inline]
    pub(crate) fn axpy(&self, a: f32, x: &[f32], y: &mut [f32]) {
        // SAFETY: as for `tile`.
        unsafe { (self.axpy)(a, x, y) }
    }

    /// `1 / sqrt(mean(x^2) + eps)`.
    pub(crate) fn rms_scale(&self, x: &[f32], eps: f32) -> f32 {
        inverse_root(self.dot(x, x) / x.len() as f32 + eps)
    }

    /// `out = x / sqrt(mean(x^2) + eps) * weight`.
    pub(crate) fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        self.map(elementwise::Normalise { scale: self.rms_scale(x, eps) }, [x, weight], out);
    }
}

/// `1 / sqrt(x)`, and NaN for infinity: where a sum of squares has overflowed, zeros would hide it
/// and every token would look equally likely.
pub(crate) fn inverse_root(x: f32) -> f32 {
    if x == f32::INFINITY { f32::NAN } else { 1.0 / x.sqrt() }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("isa", &self.isa).finish()
    }
}
