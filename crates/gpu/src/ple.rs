//! Family `ple`. The table stays on the host: its rows are decoded there and travel with the small
//! inputs of the window. The mix is two dispatches, gates and convolution.

use crate::NAME;
use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::formats::Format;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::params::params;
use crate::recorder::{Call, spread};
use crate::runs::{RunWords, assert_room};
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use crate::states::{PleState, check_len};
use crate::tile::RowTiles;
use kernels::ple::PleInput;
use kernels::{Activations, Error, Ple, PleShape, PleWeights, Weight, Window};
use std::sync::Mutex;

/// Threads for a stream of a row.
const GATE_THREADS: usize = 256;

/// Threads of the convolution.
const CONV_THREADS: usize = 64;

params! {
    /// What the gates are told.
    GateParams {
        /// Values of a stream.
        width: u32,
        /// Streams of a row.
        streams: u32,
        /// Streams of all rows.
        stream_rows: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
        /// Epsilon of the norms.
        eps: f32,
        /// One over the width.
        by_width: f32,
        /// One over its root.
        by_root: f32,
    }
}

params! {
    /// What the convolution is told.
    MixParams {
        /// Values of a row.
        channels: u32,
        /// Values of a slot's state.
        slot_len: u32,
        /// Values of a stream.
        width: u32,
        /// Streams of a row.
        streams: u32,
    }
}

/// A kernel of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PleKernel {
    /// Gates, and what is convolved.
    Gate,
    /// With so many taps, so many tokens apart.
    Conv(u32, u32),
}

impl PleKernel {
    pub(crate) fn shader(self) -> Shader {
        let math = include_str!("../shaders/math.wgsl");
        match self {
            Self::Gate => {
                let bindings = vec![
                    write("c", "f32"),
                    write("gates", "f32"),
                    read("key", "f32"),
                    read("value", "f32"),
                    read("x", "f32"),
                    read("norm_key", "f32"),
                    read("norm_query", "f32"),
                    read("norm_conv", "f32"),
                ];
                let sources = [
                    math,
                    include_str!("../shaders/norm_scale.wgsl"),
                    include_str!("../shaders/sum_up.wgsl"),
                    include_str!("../shaders/ple_gate.wgsl"),
                ];
                let constants = [("THREADS", GATE_THREADS as u32)];
                Shader::new::<GateParams>("ple_gate", &constants, bindings, &sources)
            }
            Self::Conv(taps, dilation) => {
                let bindings = vec![
                    write("x", "f32"),
                    write("state", "f32"),
                    read("fresh", "f32"),
                    read("gates", "f32"),
                    read("value", "f32"),
                    read("taps", "f32"),
                    read("runs", "u32"),
                ];
                let sources = [
                    math,
                    include_str!("../shaders/runs.wgsl"),
                    include_str!("../shaders/columns.wgsl"),
                    include_str!("../shaders/columns_main.wgsl"),
                    include_str!("../shaders/ple_conv.wgsl"),
                ];
                let threads = CONV_THREADS as u32;
                let constants = [("THREADS", threads), ("KERNEL", taps), ("DILATION", dilation)];
                Shader::new::<MixParams>("ple_conv", &constants, bindings, &sources)
            }
        }
    }
}

impl Gpu {
    /// A matrix whose rows stay on the host until they are asked for.
    pub(crate) fn host_table(&self, weight: &Weight) -> Result<Matrix, Error> {
        let (name, ty) = (weight.name().to_owned(), weight.ty());
        let Some(format) = Format::of(ty) else {
            return Err(Error::UnsupportedFormat { name, ty, device: NAME });
        };
        Ok(Matrix {
            tiles: RowTiles::default(),
            name,
            format,
            n_in: weight.n_in(),
            n_out: weight.n_out(),
            experts: weight.experts(),
            activations: Activations::F32,
            parts: Vec::new(),
            decoded: Mutex::default(),
            table: Some(weight.clone()),
            divided: None,
        })
    }

    fn mix_features(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, GpuBuffer>,
        window: &Window,
        input: &PleInput<'_, GpuBuffer, PleState>,
        x: &GpuBuffer,
    ) -> Option<()> {
        let PleShape { streams, width, kernel, dilation, eps } = *shape;
        let PleInput { key, value, state } = input;
        let (rows, wide) = (window.rows(), shape.channels());
        let c = self.scratch(Scratch::PleColumns, rows * wide)?;
        let gates = self.scratch(Scratch::PleGates, rows * streams)?;
        let grid = spread(rows * streams);
        let params = GateParams {
            width: width as u32,
            streams: streams as u32,
            stream_rows: (rows * streams) as u32,
            grid: grid[0],
            eps,
            by_width: 1.0 / width as f32,
            by_root: 1.0 / (width as f32).sqrt(),
        };
        let norms = [w.norm_key.all(), w.norm_query.all(), w.norm_conv.all()];
        let values = [c.all(), gates.all(), key.all(), value.all(), x.all()];
        let call = Call {
            kernel: Kernel::Ple(PleKernel::Gate),
            buffers: &[&values[..], &norms].concat(),
            constants: None,
            grid,
        };
        self.recorder.dispatch(&call, &params);

        let chunks = RunWords::of_chunks(window, shape.history());
        let words = self.recorder.constants(&chunks.words)?;
        let params = MixParams {
            channels: wide as u32,
            slot_len: state.conv.len as u32,
            width: width as u32,
            streams: streams as u32,
        };
        let conv = state.conv.buffer.all();
        let call = Call {
            kernel: Kernel::Ple(PleKernel::Conv(kernel as u32, dilation as u32)),
            buffers: &[x.all(), conv, c.all(), gates.all(), value.all(), w.taps.all()],
            constants: Some(words),
            grid: [wide.div_ceil(CONV_THREADS) as u32, chunks.len() as u32, 1],
        };
        self.recorder.dispatch(&call, &params);
        Some(())
    }
}

impl Ple for Gpu {
    fn ple_gather(&mut self, table: &Matrix, ids: &[u64], e: &mut GpuBuffer) {
        let (rows, width) = (table.n_out * table.experts, table.n_in);
        assert!(ids.iter().all(|&id| id < rows as u64), "a row past the end of {rows}");
        assert!(e.len() >= ids.len() * width, "{} rows of {width} values", ids.len());
        if let Some(weight) = &table.table {
            let mut values = vec![0.0; ids.len() * width];
            for (&id, row) in ids.iter().zip(values.chunks_exact_mut(width)) {
                weight.decode_row(id as usize, row);
            }
            self.recorder.put(bytemuck::cast_slice(&values), e);
        } else {
            let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
            self.decode_rows(table, &ids, 1, e);
        }
    }

    fn ple_mix(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, GpuBuffer>,
        window: &Window,
        input: PleInput<'_, GpuBuffer, PleState>,
        x: &mut GpuBuffer,
    ) {
        let PleShape { width, kernel, .. } = *shape;
        let (rows, wide) = (window.rows(), shape.channels());
        assert!(input.key.len().min(x.len()) >= rows * wide, "{rows} rows of {wide} values");
        assert!(input.value.len() >= rows * width, "{rows} rows of {width} values");
        let norms = [w.norm_key, w.norm_query, w.norm_conv];
        assert!(norms.iter().all(|norm| norm.len() >= wide), "norms of {wide} values");
        assert!(w.taps.len() >= wide * kernel, "{kernel} taps of {wide} channels");
        assert_room(window, input.state.slots, input.state.deferred);
        // A lack of memory is kept as a fault.
        let _ = self.mix_features(shape, w, window, &input, x);
    }

    /// A fault of the device gives zeros, and is reported by the next download.
    fn export_ple(&mut self, state: &PleState, slot: usize) -> Vec<f32> {
        state.conv.export(self, slot, state.conv_len)
    }

    fn import_ple(&mut self, state: &mut PleState, slot: usize, from: &[f32]) -> Result<(), Error> {
        check_len("an n-gram convolution history", from.len(), state.conv_len)?;
        state.conv.import(self, slot, from);
        Ok(())
    }
}
