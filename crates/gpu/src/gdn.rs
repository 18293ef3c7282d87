//! Family `gdn`: a dispatch each for the convolution, the delta rule and the output gate.

use crate::buffer::{GpuBuffer, Held};
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::product::{Conv, Convolution};
use crate::recorder::{Call, spread};
use crate::runs::{RunWords, assert_room};
use crate::shader::{Shader, read, write};
use crate::states::{GdnState, check_len};
use kernels::gdn::{GdnInput, GdnSlot};
use kernels::{Commit, Error, Gdn, GdnShape, Window};

/// Threads of the convolution: few, so that the channels of one row fill a device.
const CONV_THREADS: usize = 64;

/// Threads of the delta rule.
const SCAN_THREADS: usize = 256;

/// Columns of the state that a workgroup has.
const SCAN_COLUMNS: usize = 32;

/// Threads for a head's norm.
const GATE_THREADS: usize = 128;

params! {
    /// What a convolution over the columns of a sequence is told.
    ConvParams {
        /// Channels.
        channels: u32,
        /// Values of a slot's state.
        slot_len: u32,
    }
}

params! {
    /// What the delta rule is told.
    ScanParams {
        /// Values of a row of queries, keys and values.
        channels: u32,
        /// Query/key heads.
        key_heads: u32,
        /// Value heads.
        heads: u32,
        /// Values of a slot, with what it set aside.
        slot_len: u32,
        /// Values of its delta-rule state.
        state_len: u32,
        /// Values of a side of rows set aside.
        aside_len: u32,
        /// Epsilon of the l2 norms.
        eps: f32,
        /// One over the root of the head's width.
        query_scale: f32,
    }
}

params! {
    /// What the output gate is told.
    GateParams {
        /// Heads of all rows.
        heads: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
        /// Epsilon of the norm.
        eps: f32,
    }
}

/// A kernel of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GdnKernel {
    /// With so many taps.
    Conv(u32),
    /// Heads of this width.
    Scan(u32),
    /// Heads of this width.
    OutputGate(u32),
    /// The same with the result in 8 bits as well; heads of whole units, a thread for each value.
    OutputGateCodes(u32),
}

impl GdnKernel {
    /// One of each, and sizes that change the text's meaning.
    #[cfg(test)]
    pub(crate) fn some() -> impl Iterator<Item = Self> {
        [1, 4]
            .map(Self::Conv)
            .into_iter()
            .chain(
                [128, 33]
                    .into_iter()
                    .flat_map(|width| [Self::Scan(width), Self::OutputGate(width)]),
            )
            .chain([Self::OutputGateCodes(128)])
    }

    pub(crate) fn shader(self) -> Shader {
        let (math, runs) =
            (include_str!("../shaders/math.wgsl"), include_str!("../shaders/runs.wgsl"));
        match self {
            Self::Conv(taps) => {
                let constants =
                    [("THREADS", CONV_THREADS as u32), ("KERNEL", taps), ("DILATION", 1)];
                let bindings = vec![
                    write("out", "f32"),
                    write("state", "f32"),
                    read("fresh", "f32"),
                    read("taps", "f32"),
                    read("runs", "u32"),
                ];
                let columns = include_str!("../shaders/columns.wgsl");
                let (main, conv) = (
                    include_str!("../shaders/columns_main.wgsl"),
                    include_str!("../shaders/gdn_conv.wgsl"),
                );
                let sources = [math, runs, columns, main, conv];
                Shader::new::<ConvParams>("gdn_conv", &constants, bindings, &sources)
            }
            Self::Scan(width) => {
                let constants = [("THREADS", SCAN_THREADS as u32), ("HEAD", width)];
                let bindings = vec![
                    write("o", "f32"),
                    write("state", "f32"),
                    read("qkv", "f32"),
                    read("alpha", "f32"),
                    read("beta", "f32"),
                    read("a", "f32"),
                    read("dt", "f32"),
                    read("runs", "u32"),
                ];
                let scan = include_str!("../shaders/gdn_scan.wgsl");
                let sources = [math, runs, include_str!("../shaders/norm_scale.wgsl"), scan];
                Shader::new::<ScanParams>("gdn_scan", &constants, bindings, &sources)
            }
            Self::OutputGateCodes(width) => {
                let constants = [("THREADS", width), ("HEAD", width)];
                let mut bindings = vec![write("o", "f32"), read("z", "f32"), read("norm", "f32")];
                bindings.extend([write("codes", "u32"), write("scales", "vec2<u32>")]);
                let sum_up = include_str!("../shaders/sum_up.wgsl");
                let (gate, codes) = (
                    include_str!("../shaders/gdn_gate_codes.wgsl"),
                    include_str!("../shaders/codes.wgsl"),
                );
                let scale = include_str!("../shaders/norm_scale.wgsl");
                let sources = [math, sum_up, scale, gate, codes];
                Shader::new::<GateParams>("gdn_gate_codes", &constants, bindings, &sources)
            }
            Self::OutputGate(width) => {
                let constants = [("THREADS", GATE_THREADS as u32), ("HEAD", width)];
                let bindings = vec![write("o", "f32"), read("z", "f32"), read("norm", "f32")];
                let sum_up = include_str!("../shaders/sum_up.wgsl");
                let gate = include_str!("../shaders/gdn_gate.wgsl");
                let sources = [math, sum_up, include_str!("../shaders/norm_scale.wgsl"), gate];
                Shader::new::<GateParams>("gdn_gate", &constants, bindings, &sources)
            }
        }
    }
}

impl Gdn for Gpu {
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &GpuBuffer,
        window: &Window,
        state: &mut GdnState,
        (m, out): (&GpuBuffer, &mut GpuBuffer),
    ) {
        let (channels, kernel) = (shape.channels(), shape.conv_kernel);
        assert!(m.len().min(out.len()) >= window.rows() * channels, "rows of {channels} channels");
        assert!(taps.len() >= channels * kernel, "{kernel} taps of {channels} channels");
        assert_room(window, state.sides.len(), state.deferred);
        let chunks = RunWords::of_chunks(window, kernel - 1);
        let Some(words) = self.recorder.constants(&chunks.words) else { return };
        let params = ConvParams { channels: channels as u32, slot_len: state.conv.len as u32 };
        let convolution = Convolution {
            conv: Conv { segment: 0, taps: kernel as u32, slot_len: params.slot_len },
            rows: window.rows(),
            m: Held::new(m),
            others: [&*out, &state.conv.buffer, taps].map(Held::new),
            runs: (words, chunks.len() as u32),
        };
        if self.recorder.convolve(convolution) {
            out.touch();
            state.conv.buffer.touch();
            return;
        }
        let call = Call {
            kernel: Kernel::Gdn(GdnKernel::Conv(kernel as u32)),
            buffers: &[out.all(), state.conv.buffer.all(), m.all(), taps.all()],
            constants: Some(words),
            grid: [channels.div_ceil(CONV_THREADS) as u32, chunks.len() as u32, 1],
        };
        self.recorder.dispatch(&call, &params);
    }

    fn gdn_scan(
        &mut self,
        shape: &GdnShape,
        window: &Window,
        input: GdnInput<'_, GpuBuffer, GpuBuffer>,
        state: &mut GdnState,
        o: &mut GpuBuffer,
    ) {
        let GdnShape { key_heads, value_heads, head_dim, eps, .. } = *shape;
        let GdnInput { qkv, alpha, beta, a, dt } = input;
        let (rows, channels) = (window.rows(), shape.channels());
        assert!(qkv.len() >= rows * channels, "{rows} rows of {channels} channels");
        assert!(alpha.len().min(beta.len()) >= rows * value_heads, "gates of {rows} rows");
        assert!(a.len().min(dt.len()) >= value_heads, "{value_heads} heads");
        assert!(o.len() >= rows * shape.value_dim(), "{rows} rows of results");
        assert_room(window, state.sides.len(), state.deferred);
        let runs = RunWords::of_runs(window, |slot| state.sides[slot]);
        let Some(words) = self.recorder.constants(&runs.words) else { return };
        let params = ScanParams {
            channels: channels as u32,
            key_heads: key_heads as u32,
            heads: value_heads as u32,
            slot_len: state.scan.len as u32,
            state_len: state.s_len as u32,
            aside_len: state.aside_len as u32,
            eps,
            query_scale: 1.0 / (head_dim as f32).sqrt(),
        };
        let scan = state.scan.buffer.all();
        let call = Call {
            kernel: Kernel::Gdn(GdnKernel::Scan(head_dim as u32)),
            buffers: &[o.all(), scan, qkv.all(), alpha.all(), beta.all(), a.all(), dt.all()],
            constants: Some(words),
            grid: [head_dim.div_ceil(SCAN_COLUMNS) as u32, value_heads as u32, runs.len() as u32],
        };
        self.recorder.dispatch(&call, &params);
        for run in window.runs().iter().filter(|run| run.commit == Commit::Deferred) {
            state.sides[run.slot] ^= 1;
        }
    }

    fn gdn_output_gate(
        &mut self,
        shape: &GdnShape,
        norm: &GpuBuffer,
        z: &GpuBuffer,
        rows: usize,
        o: &mut GpuBuffer,
    ) {
        let (heads, width) = (rows * shape.value_heads, shape.head_dim);
        assert!(o.len().min(z.len()) >= heads * width, "{heads} heads of {width} values");
        assert!(norm.len() >= width, "the norm of {width} values");
        let grid = spread(heads);
        let params = GateParams { heads: heads as u32, grid: grid[0], eps: shape.eps };
        let buffers = [o.all(), z.all(), norm.all()];
        // The sum over a workgroup of as many threads is the same.
        if width == GATE_THREADS
            && let Some([codes, scales]) = self.codes_for(o, heads * width, width)
        {
            let kernel = Kernel::Gdn(GdnKernel::OutputGateCodes(width as u32));
            let [o_all, z, norm] = buffers;
            let buffers = [o_all, z, norm, codes.all(), scales.all()];
            let call = Call { kernel, buffers: &buffers, constants: None, grid };
            self.recorder.dispatch(&call, &params);
            self.note_codes(o, heads * width);
            return;
        }
        let kernel = Kernel::Gdn(GdnKernel::OutputGate(width as u32));
        self.recorder.dispatch(&Call { kernel, buffers: &buffers, constants: None, grid }, &params);
    }

    /// A fault of the device gives zeros, and is reported by the next download.
    fn export_gdn(&mut self, state: &GdnState, slot: usize) -> GdnSlot {
        let s = state.scan.export(self, slot, state.s_len);
        GdnSlot { s, conv: state.conv.export(self, slot, state.conv_len) }
    }

    fn import_gdn(
        &mut self,
        state: &mut GdnState,
        slot: usize,
        from: &GdnSlot,
    ) -> Result<(), Error> {
        check_len("a delta-rule state", from.s.len(), state.s_len)?;
        check_len("a convolution history", from.conv.len(), state.conv_len)?;
        state.scan.import(self, slot, &from.s);
        state.conv.import(self, slot, &from.conv);
        Ok(())
    }
}
