//! A matrix or an expert stack on the device: its planes, in as many buffers as it takes.

use crate::NAME;
use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::formats::repack_rows;
use crate::formats::{Format, Layout, MAX_PLANES, UNIT};
use crate::split::Divided;
use crate::tile::RowTiles;
use gguf::TensorType;
use kernels::{Activations, Error, Weight};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Bytes of weights that are repacked at once.
const CHUNK: usize = 16 << 20;

/// Planes begin at multiples of this many bytes.
const ALIGN: usize = 256;

/// A loaded weight.
#[derive(Debug)]
pub struct Matrix {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    pub(crate) experts: usize,
    pub(crate) activations: Activations,
    pub(crate) tiles: RowTiles,
    pub(crate) parts: Vec<Part>,
    /// All of it as f32, where a kernel wanted it so.
    pub(crate) decoded: Mutex<Option<Decoded>>,
    /// A table that stays on the host; there are no parts then, and it is no factor of a product.
    pub(crate) table: Option<Weight>,
    /// A stack of which other experts stay on the host; the parts have those that are here then.
    pub(crate) divided: Option<Divided>,
}

/// All values of a matrix, decoded on the device.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) values: Arc<GpuBuffer>,
    /// Faults that were reported before they were made.
    pub(crate) faults: u64,
}

/// Consecutive rows (over all experts that are here) of a weight, in one buffer.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
    pub(crate) buffer: GpuBuffer,
    pub(crate) planes: Planes,
}

/// Where the planes of a part are, in words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planes {
    /// Places of the first code plane and of the planes that are no code planes.
    pub(crate) places: [u32; MAX_PLANES],
    /// From one code plane to the next.
    pub(crate) stride: u32,
}

impl Matrix {
    /// Units of a row.
    pub(crate) fn units(&self) -> usize {
        self.n_in.div_ceil(UNIT)
    }
}

/// Where the planes of `rows` rows are, in bytes, and how much they take together.
fn place(layout: &Layout, blocks: usize) -> (Vec<usize>, usize) {
    let mut end = 0;
    let mut places = Vec::with_capacity(layout.planes.len());
    for bytes in layout.planes {
        places.push(end);
        end += (bytes * blocks).next_multiple_of(ALIGN);
    }
    (places, end)
}

/// Bytes that `rows` rows of `n_in` values of type `ty` take on the device, but for what aligns
/// them; `None` for a type that has no kernel.
pub fn weight_bytes(ty: TensorType, n_in: usize, rows: usize) -> Option<u64> {
    let layout = Format::of(ty)?.layout();
    let blocks = (rows as u64).saturating_mul(n_in.div_ceil(layout.block) as u64);
    Some(blocks.saturating_mul(layout.planes.iter().sum::<usize>() as u64))
}

/// The rows of a weight that come to the device.
struct Rows<'a> {
    weight: &'a Weight,
    /// Those of a stack, where not all do.
    experts: Option<&'a [usize]>,
}

impl Rows<'_> {
    fn count(&self) -> usize {
        self.experts.map_or(self.weight.rows(), |experts| experts.len() * self.weight.n_out())
    }

    /// The planes of some rows, counted as they lie on the device.
    fn repack(&self, format: Format, rows: Range<usize>) -> Result<Vec<Vec<u32>>, Error> {
        let Some(experts) = self.experts else {
            return Ok(repack_rows(self.weight, format, rows));
        };
        let n_out = self.weight.n_out();
        let (count, source) = (rows.len(), |row: usize| experts[row / n_out] * n_out + row % n_out);
        let chosen: Vec<u32> = rows.map(|row| source(row) as u32).collect();
        let some = self.weight.select_rows(&chosen)?;
        Ok(repack_rows(&some, format, 0..count))
    }
}

impl Gpu {
    /// Repacks a weight and brings it to the device.
    pub(crate) fn load(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<Matrix, Error> {
        self.load_some(weight, activations, None)
    }

    /// As [`Gpu::load`], of a stack only these experts, if they are named.
    pub(crate) fn load_some(
        &mut self,
        weight: &Weight,
        activations: Activations,
        held: Option<&[usize]>,
    ) -> Result<Matrix, Error> {
        let (n_in, n_out, experts) = (weight.n_in(), weight.n_out(), weight.experts());
        let (name, ty) = (weight.name().to_owned(), weight.ty());
        let Some(format) = Format::of(ty) else {
            return Err(Error::UnsupportedFormat { name, ty, device: NAME });
        };
        let per_part = self.rows_per_part(weight, format)?;
        let (parts, decoded, table) = (Vec::new(), Mutex::default(), None);
        let tiles = self.row_tiles(weight, activations);
        let mut matrix = Matrix {
            name,
            format,
            n_in,
            n_out,
            experts,
            activations,
            tiles,
            parts,
            decoded,
            table,
            divided: None,
        };
        let rows = Rows { weight, experts: held };
        let count = rows.count();
        for first_row in (0..count).step_by(per_part) {
            let some = (first_row, per_part.min(count - first_row));
            matrix.parts.push(self.load_part(&rows, format, some)?);
        }
        Ok(matrix)
    }

    /// Rows that one buffer may hold: whole experts of a stack.
    fn rows_per_part(&self, weight: &Weight, format: Format) -> Result<usize, Error> {
        let layout = format.layout();
        let blocks = weight.n_in().div_ceil(layout.block);
        let row: usize = layout.planes.iter().sum::<usize>() * blocks;
        let slack = ALIGN * layout.planes.len();
        let limit = self.part_limit.min(self.recorder.allocator.limit());
        let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(slack);
        let step = if weight.experts() > 1 { weight.n_out().max(1) } else { 1 };
        let rows = room / row / step * step;
        let bytes = row.saturating_mul(step);
        let short = Error::OutOfMemory { device: NAME, bytes, what: "an expert's weights" };
        if rows == 0 { Err(short) } else { Ok(rows) }
    }

    fn load_part(
        &mut self,
        source: &Rows<'_>,
        format: Format,
        (first_row, rows): (usize, usize),
    ) -> Result<Part, Error> {
        let (layout, weight) = (format.layout(), source.weight);
        let blocks = weight.n_in().div_ceil(layout.block);
        let (places, bytes) = place(layout, rows * blocks);
        let buffer = self.recorder.allocator.storage(bytes / 4, "weights")?;
        // Four rows end at a word in every plane.
        let step = (CHUNK / weight.row_bytes().max(1)).next_multiple_of(4).max(4);
        for from in (0..rows).step_by(step) {
            let count = step.min(rows - from);
            let planes = source.repack(format, first_row + from..first_row + from + count)?;
            for ((plane, start), bytes) in planes.iter().zip(&places).zip(layout.planes) {
                self.recorder.upload(plane, &buffer, (start + from * blocks * bytes) / 4);
            }
        }
        let mut planes = Planes::default();
        let word = |plane: usize| (places[plane] / 4) as u32;
        let singles = std::iter::once(0).chain(layout.code_planes..layout.planes.len());
        planes.places.iter_mut().zip(singles).for_each(|(place, plane)| *place = word(plane));
        planes.stride = if layout.code_planes > 1 { word(1) } else { 0 };
        Ok(Part { first_row, rows, buffer, planes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of 256 values, as docs/gpu.md has them; of a type without a layout of its own they
    /// are a byte a value and scales. Rows are whole units.
    #[test]
    fn bytes_of_weights_are_known_before_they_are_loaded() {
        let types = [
            (TensorType::F32, 1024),
            (TensorType::BF16, 512),
            (TensorType::Q8_0, 272),
            (TensorType::Q4_0, 144),
            (TensorType::IQ4_XS, 136),
            (TensorType::IQ3_S, 110),
            (TensorType::IQ2_S, 82),
            (TensorType::Q2_K, 384),
        ];
        for (ty, bytes) in types {
            assert_eq!(weight_bytes(ty, 512, 30), Some(60 * bytes), "{}", ty.name());
        }
        assert_eq!(weight_bytes(TensorType::Q8_0, 32, 3), Some(3 * 34));
        assert_eq!(weight_bytes(TensorType::I32, 32, 3), None);
        for format in Format::ALL {
            let (layout, blocks) = (format.layout(), 33);
            let summed = layout.planes.iter().sum::<usize>() * blocks;
            let placed = place(layout, blocks).1;
            assert!((summed..summed + ALIGN * layout.planes.len()).contains(&placed));
        }
    }
}
