//! Products of one format on one instruction set, and the loop over a panel's chunks.

use super::activation::{ActBlock, Acts};
use super::fetch::Walk;
use super::formats::{self, PanelFormat, PanelVisitor, with_panel_format};
use super::interleave::Pieces;
use super::lanes::RowLanes;
use super::panel::{Panel, RowPointers};
use super::tasks::PanelRows;
use super::tile::tile;
use super::{CHUNK, GROUP, MAX_TILE};
use crate::Isa;
use crate::device::{Encoded, Order};
use gguf::TensorType;

type Decode = unsafe fn(&RowPointers, usize, usize, &mut Panel);
type DecodeInTurn = unsafe fn(*const u8, usize, &mut Panel);
type Tile = unsafe fn(&[Panel; 2], usize, &[*const ActBlock; MAX_TILE], &mut [f32]);
/// Tiles of one panel and of two, by the number of window rows less one.
type Tiles = [[Tile; MAX_TILE]; 2];
type Quantise = unsafe fn(&[f32], &mut ActBlock);

/// The products of one instruction set.
///
/// # Safety
/// As for [`crate::simd::Kernels`]: only made for instruction sets that the processor has.
#[derive(Clone, Copy)]
pub(crate) struct Int8Kernels {
    find: fn(TensorType) -> Option<Product>,
    quantise: Quantise,
}

/// The product of one format.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    decode: Decode,
    decode_in_turn: DecodeInTurn,
    /// How blocks are interleaved.
    pub(super) pieces: Option<Pieces>,
    tiles: &'static Tiles,
    /// Weight rows of a panel.
    rows: usize,
    /// Panels that are multiplied together.
    panels: usize,
    block_elements: usize,
    block_bytes: usize,
}

/// Working memory of one thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    panels: Box<[Panel; 2]>,
    /// Two sets of sums: gate and up projections need one each.
    sums: [Vec<f32>; 2],
}

impl Default for Scratch {
    fn default() -> Self {
        Self { panels: Box::new([Panel::ZERO, Panel::ZERO]), sums: [Vec::new(), Vec::new()] }
    }
}

impl Scratch {
    /// Both sets of sums, each as [`Product::panel`] left it.
    pub(crate) fn sums_mut(&mut self) -> (&mut [f32], &mut [f32]) {
        let [a, b] = &mut self.sums;
        (a, b)
    }
}

impl Product {
    /// Weight rows of a panel.
    pub(crate) fn panel_rows(&self) -> usize {
        self.rows
    }

    /// Weight rows that [`Product::panel`] takes at most.
    pub(crate) fn rows(&self) -> usize {
        self.panels * self.rows
    }

    /// Bytes of a weight row of `n_in` values.
    pub(crate) fn row_bytes(&self, n_in: usize) -> usize {
        n_in / self.block_elements * self.block_bytes
    }

    /// Multiplies the rows of `panel` (at most [`Product::rows`]) of `weights` with the rows
    /// `tokens` of `x`. Afterwards set `set` of the scratch's sums holds a row for each of
    /// `tokens`, of as many values as is returned, the first of which are the products.
    pub(crate) fn panel(
        &self,
        weights: Encoded<'_>,
        PanelRows { first, last, then, fetch, tile_rows }: PanelRows,
        x: &Acts<'_>,
        tokens: &[u32],
        (scratch, set): (&mut Scratch, usize),
    ) -> usize {
        let Scratch { panels, sums } = scratch;
        let Encoded { bytes, n_in, row_bytes, order, .. } = weights;
        assert!(first < last && last - first <= self.rows());
        assert!((1..=MAX_TILE).contains(&tile_rows));
        assert!(x.blocks.len() >= n_in.div_ceil(CHUNK) * x.rows);
        assert!(tokens.iter().all(|&t| (t as usize) < x.rows), "rows of the window");
        let end = match order {
            Order::Rows => last,
            Order::InTurn => last.next_multiple_of(self.rows),
        };
        let encoded = &bytes[first * row_bytes..end * row_bytes];
        let of_panel = encoded.chunks(self.rows * row_bytes);
        let (count, stride) = (of_panel.len(), of_panel.len() * self.rows);
        let mut rows = [RowPointers::new(encoded, row_bytes); 2];
        for (rows, encoded) in rows.iter_mut().zip(of_panel.clone()) {
            *rows = RowPointers::new(encoded, row_bytes);
        }
        let sums = crate::device::room(&mut sums[set], tokens.len() * stride);
        sums.fill(0.0);
        let chunk_bytes = CHUNK / self.block_elements * self.block_bytes;
        let (chunks, number) = (n_in.div_ceil(CHUNK), first / stride);
        let walk = Walk { row_bytes, chunk_bytes, chunks, number, order };
        for (c, start) in (0..n_in).step_by(CHUNK).enumerate() {
            let values = CHUNK.min(n_in - start);
            fetch.ahead(encoded, &walk, c, then);
            let blocks = values / self.block_elements;
            for ((panel, rows), encoded) in panels.iter_mut().zip(&rows).zip(of_panel.clone()) {
                match order {
                    // SAFETY: `rows` are rows of `n_in` values in this format, and the processor
                    // has the instruction set that this product was made for.
                    Order::Rows => unsafe { (self.decode)(rows, c * chunk_bytes, blocks, panel) },
                    Order::InTurn => {
                        let bytes = blocks * self.block_bytes * self.rows;
                        let own = &encoded[c * chunk_bytes * self.rows..][..bytes];
                        // SAFETY: `own` are the blocks of all rows; the rest as above.
                        unsafe { (self.decode_in_turn)(own.as_ptr(), blocks, panel) }
                    }
                }
            }
            let blocks = &x.blocks[c * x.rows..(c + 1) * x.rows];
            let mut next = tokens.chunks(tile_rows).skip(1);
            let tiles = tokens.chunks(tile_rows).zip(sums.chunks_mut(tile_rows * stride));
            for (tokens, sums) in tiles {
                let mut of_tile: [*const ActBlock; MAX_TILE] = [&blocks[0]; MAX_TILE];
                for (block, &t) in of_tile.iter_mut().zip(tokens) {
                    *block = &blocks[t as usize];
                }
                for &t in next.next().unwrap_or_default() {
                    prefetch_block(&blocks[t as usize]);
                }
                let tile = self.tiles[count - 1][tokens.len() - 1];
                // SAFETY: as above; the pointers come from references.
                unsafe { tile(panels, values / GROUP, &of_tile, sums) };
            }
        }
        stride
    }
}

/// Asks for a block of activations, for the tile after this one: with many window rows they come
/// from the second level of the cache.
#[inline(always)]
fn prefetch_block(block: &ActBlock) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<ActBlock>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(block).cast::<i8>().wrapping_add(line);
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

/// Instantiates the products for a vector type and its instruction set.
macro_rules! instantiate {
    ($name:ident, $lanes:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            $(#[target_feature(enable = $features)])?
            unsafe fn decode<F: PanelFormat>(
                rows: &RowPointers,
                at: usize,
                blocks: usize,
                panel: &mut Panel,
            ) {
                // SAFETY: the instruction set is enabled on this function; the rest is passed on.
                unsafe { formats::decode::<F, $lanes>(rows, at, blocks, panel) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn decode_in_turn<F: PanelFormat>(
                from: *const u8,
                blocks: usize,
                panel: &mut Panel,
            ) {
                // SAFETY: the instruction set is enabled on this function; the rest is passed on.
                unsafe { formats::decode_in_turn::<F, $lanes>(from, blocks, panel) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn product<
                const T: usize,
                const P: usize,
                const SPLIT: usize,
                const OFFSETS: bool,
            >(
                panels: &[Panel; 2],
                groups: usize,
                x: &[*const ActBlock; MAX_TILE],
                sums: &mut [f32],
            ) {
                // SAFETY: the instruction set is enabled on this function; the rest is passed on.
                unsafe { tile::<$lanes, T, P, SPLIT, OFFSETS>(panels, groups, x, sums) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn quantise(x: &[f32], block: &mut ActBlock) {
                // SAFETY: the instruction set is enabled on this function.
                unsafe { <$lanes>::quantise(x, block) }
            }

            const PANELS: usize = <$lanes>::PANELS;

            /// Without two panels at a time, the tiles of two are never called.
            const fn tiles<const SPLIT: usize, const OFFSETS: bool>() -> &'static Tiles {
                &[
                    [
                        product::<1, 1, SPLIT, OFFSETS>,
                        product::<2, 1, SPLIT, OFFSETS>,
                        product::<3, 1, SPLIT, OFFSETS>,
                        product::<4, 1, SPLIT, OFFSETS>,
                    ],
                    [
                        product::<1, PANELS, SPLIT, OFFSETS>,
                        product::<2, PANELS, SPLIT, OFFSETS>,
                        product::<3, PANELS, SPLIT, OFFSETS>,
                        product::<4, PANELS, SPLIT, OFFSETS>,
                    ],
                ]
            }

            struct Find;
            impl PanelVisitor for Find {
                type Out = Product;
                fn visit<F: PanelFormat>(self) -> Product {
                    let tiles = match (F::SPLIT, F::OFFSETS) {
                        (1, false) => tiles::<1, false>(),
                        (1, true) => tiles::<1, true>(),
                        (_, false) => tiles::<2, false>(),
                        (_, true) => tiles::<2, true>(),
                    };
                    Product {
                        decode: decode::<F>,
                        decode_in_turn: decode_in_turn::<F>,
                        pieces: F::PIECES,
                        tiles,
                        rows: <$lanes>::ROWS,
                        panels: PANELS,
                        block_elements: F::ELEMENTS,
                        block_bytes: F::BYTES,
                    }
                }
            }

            fn find(ty: TensorType) -> Option<Product> {
                with_panel_format(ty, Find)
            }

            pub(super) const KERNELS: Int8Kernels = Int8Kernels { find, quantise };
        }
    };
}

instantiate!(portable, crate::int8::lanes_portable::Portable);
#[cfg(target_arch = "x86_64")]
instantiate!(avx2, crate::int8::lanes_x86::Avx2<crate::int8::lanes_x86::Madd>, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx_vnni,
    crate::int8::lanes_x86::Avx2<crate::int8::lanes_x86::Vnni>,
    "avx2,fma,f16c,avxvnni"
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512_vnni,
    crate::int8::lanes_x86::Avx512Vnni,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi"
);

#[cfg(target_arch = "aarch64")]
instantiate!(neon, crate::int8::lanes_neon::Neon<crate::int8::lanes_neon::Widening>, "neon");
#[cfg(target_arch = "aarch64")]
instantiate!(
    neon_dot,
    crate::int8::lanes_neon::Neon<crate::int8::lanes_neon::DotProduct>,
    "neon,dotprod"
);
#[cfg(target_arch = "aarch64")]
instantiate!(
    neon_i8mm,
    crate::int8::lanes_neon::Neon<crate::int8::lanes_neon::Matrix>,
    "neon,dotprod,i8mm"
);

impl Int8Kernels {
    /// The products of `isa`, which the processor must have.
    pub(crate) fn new(isa: Isa) -> Self {
        match isa {
            Isa::Portable => portable::KERNELS,
            // Without VNNI, 512-bit vectors have no product of bytes worth having.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => avx2::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => avx_vnni::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => avx512_vnni::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => neon_dot::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => neon_i8mm::KERNELS,
        }
    }

    /// The product of a format; `None` for floats and what carries no weights.
    pub(crate) fn product(&self, ty: TensorType) -> Option<Product> {
        (self.find)(ty)
    }

    /// Quantises up to 256 values, a multiple of 32.
    pub(crate) fn quantise(&self, x: &[f32], block: &mut ActBlock) {
        // SAFETY: the processor has the instruction set of this table.
        unsafe { (self.quantise)(x, block) }
    }
}

impl std::fmt::Debug for Int8Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Int8Kernels").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Product").field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What a panel says of value `i` of row `r`.
    fn value(
        panel: &Panel,
        rows: usize,
        split: usize,
        offsets: bool,
        bias: u8,
        (r, i): (usize, usize),
    ) -> f32 {
        let code = panel.codes[(i / 4 * rows + r) * 4 + i % 4] ^ bias;
        let group = i / (GROUP / split) * rows + r;
        let value = panel.scales[group] * f32::from(code as i8);
        if offsets { value + panel.offsets[group] } else { value }
    }

    #[test]
    fn activations_get_the_same_bits_on_every_instruction_set() {
        let value = |i: usize| ((i * 7919) % 4001) as f32 / 1000.0 - 2.0;
        let special = [0.0, 1e-40, 9e-31, 1.1e-30, 3e38, f32::INFINITY, -f32::INFINITY, f32::NAN];
        for case in 0..64 {
            let mut x: [f32; CHUNK] = std::array::from_fn(|i| value(i + case * CHUNK));
            // Ties, a group of zeros, and values that are none in the place of some.
            x[..GROUP].iter_mut().for_each(|x| *x = (*x * 127.0).round() / 2.0);
            x[GROUP..2 * GROUP].fill(special[case % 3]);
            x[3 * GROUP + case % GROUP] = special[case % 8];
            for len in [CHUNK, 160, GROUP] {
                let mut want = ActBlock::ZERO;
                crate::int8::activation::quantise(&x[..len], &mut want);
                for isa in Isa::available() {
                    let mut found = ActBlock::ZERO;
                    Int8Kernels::new(isa).quantise(&x[..len], &mut found);
                    let bits = |x: &ActBlock| x.scale.map(f32::to_bits);
                    assert_eq!(bits(&found), bits(&want), "{} {case}", isa.name());
                    assert_eq!(found.q, want.q, "{} {case}", isa.name());
                    assert_eq!(found.bias16, want.bias16, "{} {case}", isa.name());
                    assert_eq!(found.bias32, want.bias32, "{} {case}", isa.name());
                }
            }
        }
    }

    struct Shape;
    impl PanelVisitor for Shape {
        type Out = (usize, bool);
        fn visit<F: PanelFormat>(self) -> (usize, bool) {
            (F::SPLIT, F::OFFSETS)
        }
    }

    #[test]
    fn panels_hold_the_values_that_the_definition_decodes() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats");
        let mut formats = 0;
        for isa in Isa::available() {
            let bias = match isa.name() {
                "avxvnni" | "avx512vnni" => 128,
                _ => 0,
            };
            for &ty in TensorType::ALL {
                let Some(product) = Int8Kernels::new(isa).product(ty) else { continue };
                formats += 1;
                let (split, offsets) = with_panel_format(ty, Shape).unwrap();
                for file in ["rand", "edge"] {
                    let path = fixtures.join(format!("{}.{file}.bin", ty.name()));
                    let all = std::fs::read(path).unwrap();
                    let blocks = all.len() / ty.block_bytes();
                    // One block per row and chunk; a panel of every size from 1 row up.
                    for first in 0..blocks {
                        let count = (blocks - first).min(1 + first % product.rows);
                        let bytes = &all[first * ty.block_bytes()..][..count * ty.block_bytes()];
                        let rows = RowPointers::new(bytes, ty.block_bytes());
                        let mut panel = Panel::ZERO;
                        // SAFETY: every row has one block; the instruction set is available.
                        unsafe { (product.decode)(&rows, 0, 1, &mut panel) };
                        if product.interleaves() {
                            let mut in_turn = vec![0; product.rows * ty.block_bytes()];
                            product.interleave(bytes, ty.block_bytes(), &mut in_turn);
                            let mut own = Panel::ZERO;
                            // SAFETY: as above, of whole panels.
                            unsafe { (product.decode_in_turn)(in_turn.as_ptr(), 1, &mut own) };
                            assert!(own.codes == panel.codes, "{} {}", ty.name(), isa.name());
                            let bits =
                                |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                            assert_eq!(bits(&own.scales), bits(&panel.scales), "{}", ty.name());
                            assert_eq!(bits(&own.offsets), bits(&panel.offsets), "{}", ty.name());
                        }
                        for r in 0..count {
                            let block = &bytes[r * ty.block_bytes()..][..ty.block_bytes()];
                            let mut want = vec![0.0; ty.block_elements()];
                            quant::decode_row(ty, block, &mut want).unwrap();
                            for (i, want) in want.iter().enumerate() {
                                let found =
                                    value(&panel, product.rows, split, offsets, bias, (r, i));
                                let same = found.to_bits() == want.to_bits()
                                    || found.is_nan() && want.is_nan();
                                let (name, isa) = (ty.name(), isa.name());
                                assert!(
                                    same,
                                    "{name} {isa} {file} block {first}+{r}, {i}: {found} for {want}"
                                );
                            }
                        }
                    }
                }
            }
        }
        assert!(formats >= 25);
    }
}
