//! The kernels of family `hc`.

use crate::formats::{Book, Format, UNIT, Values};
use crate::params::params;
use crate::shader::{Binding, Shader, read, write};
use crate::tile::Width;

/// Threads of a kernel that works value by value.
pub(crate) const THREADS: usize = 256;

/// Threads of the first step, and of sums over one stream.
const DOWN_THREADS: u32 = 128;

/// Lanes of a row of `down` in one stream. Decides the order of a sum.
pub(crate) const DOWN_LANES: u32 = 16;

/// Most rows that the kernels for few take at once.
pub(crate) const MOST_TOKENS: usize = 4;

/// Rows that the kernel for many takes at once.
pub(crate) const DOWN_MANY: usize = 64;

/// Most bytes of workgroup memory for the low values.
const LOW_BYTES: usize = 9 << 10;

/// Units that a lane asks for before it needs the first: codes of so many are in registers.
const AHEAD: u32 = 6;

/// The same of units without codes, which are larger there.
const AHEAD_FLOATS: u32 = 2;

/// Ranks up to this one have room there.
pub(crate) const MOST_RANK: usize = 2048;

params! {
    /// What a kernel of this family is told.
    HcParams {
        /// Rows of the window.
        rows: u32,
        /// Values of a stream.
        width: u32,
        /// Low values.
        rank: u32,
        /// Units of one stream of a row of `down`.
        units: u32,
        /// Where sums of streams lie behind the products with `down`.
        side_at: u32,
        /// First row of this call.
        first_row: u32,
        /// Values from one row of low values to the next.
        pitch: u32,
        /// Workgroups along the first axis of the grid.
        grid: u32,
        /// Epsilon of the norm.
        eps: f32,
        /// One over the width.
        by_width: f32,
        /// Planes of the weight, in words.
        a: u32,
        /// Second plane.
        b: u32,
        /// Third plane.
        c: u32,
        /// Fourth plane.
        d: u32,
        /// Fifth plane.
        e: u32,
        /// From one code plane to the next.
        stride: u32,
    }
}

/// A kernel of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HcKernel {
    pub(crate) step: HcStep,
    /// Residual streams.
    pub(crate) streams: u32,
    /// Whether there are write weights.
    pub(crate) inject: bool,
    /// Whether streams are whole units, so that `down` is multiplied stream by stream.
    pub(crate) split: bool,
}

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HcStep {
    /// Products with `down` and sums of streams.
    Down {
        format: Format,
        /// Rows at once.
        tokens: u32,
        /// Units of a stream.
        units: u32,
        /// Units of streams in workgroup memory. Changes no bit.
        stage: u32,
    },
    /// Products with `up`, gates, mix, write weights.
    Up {
        format: Format,
        /// Rows at once.
        tokens: u32,
        /// Low values.
        rank: u32,
        /// Whether the mix is left in 8 bits, too.
        codes: bool,
    },
    /// Products with `down` of many rows.
    DownMany(Format),
    /// Sums of streams alone.
    Side,
    /// The normed streams.
    Norm,
    /// The low values.
    Low,
    /// The mix, from gates.
    Mix,
    /// Into the streams.
    Inject,
}

/// Lanes of a row of `up`. Decides the order of a sum.
pub(crate) fn up_lanes(units: usize) -> u32 {
    units.min(2) as u32
}

/// Rows at once with `up`, of `rows`: their results have a thread each.
pub(crate) fn up_tokens(rows: usize, units: usize, streams: usize) -> usize {
    let lanes = up_lanes(units) as usize;
    rows.min(MOST_TOKENS).min(LOW_BYTES / (128 * (units + 1))).min(streams * lanes)
}

/// Columns of a workgroup that mixes `streams` streams.
pub(crate) fn up_columns(streams: usize, lanes: u32) -> usize {
    (THREADS / (streams * lanes as usize)).max(1)
}

/// Units of a stream that a workgroup of `down` has at once, in so many bytes of memory.
pub(crate) fn down_stage(units: usize, tokens: usize, memory: u32) -> u32 {
    let lanes = DOWN_LANES as usize;
    let sums = DOWN_THREADS as usize * (32 + 4 * tokens);
    let room = (memory as usize).saturating_sub(sums) / (128 * tokens);
    (room.saturating_sub(1).min(units.next_multiple_of(lanes)) / lanes * lanes).max(lanes) as u32
}

/// Units that a lane asks for at once, of `steps` in all.
fn ahead(format: Format, steps: u32) -> u32 {
    let most = if format.layout().values.has_codes() { AHEAD } else { AHEAD_FLOATS };
    steps.div_ceil(steps.div_ceil(most))
}

impl HcKernel {
    /// One of each, of formats with and without codes and tables.
    #[cfg(test)]
    pub(crate) fn some() -> Vec<Self> {
        let mut steps = vec![HcStep::Norm, HcStep::Low, HcStep::Mix, HcStep::Side, HcStep::Inject];
        for format in Format::ALL {
            steps.extend([16, 80].map(|stage| HcStep::Down {
                format,
                tokens: 3,
                units: 80,
                stage,
            }));
            let rank_and_codes = [(320, true), (70, false)];
            steps.extend(rank_and_codes.map(|(rank, codes)| HcStep::Up {
                format,
                tokens: 4,
                rank,
                codes,
            }));
            steps.push(HcStep::DownMany(format));
        }
        let each = [(4, true, true), (4, false, true), (3, true, false)];
        let of = |(streams, inject, split)| {
            let steps = steps.iter().filter(move |step| split || step.format().is_none());
            steps.map(move |&step| Self { step, streams, inject, split })
        };
        each.into_iter().flat_map(of).collect()
    }

    pub(crate) fn shader(self) -> Shader {
        match self.step {
            HcStep::Down { .. } | HcStep::Up { .. } => self.few(),
            HcStep::DownMany(format) => self.down_many(format),
            _ => self.simple(),
        }
    }

    fn constants(self, threads: u32) -> Vec<(&'static str, u32)> {
        let inject = if self.inject { self.streams } else { 0 };
        let split = u32::from(self.split);
        vec![("THREADS", threads), ("STREAMS", self.streams), ("INJECT", inject), ("SPLIT", split)]
    }

    fn few(self) -> Shader {
        let math = include_str!("../shaders/math.wgsl");
        let parts = include_str!("../shaders/hc_parts.wgsl");
        let (w, w4) = (read("w", "u32"), read("w4", "vec4<u32>"));
        let (name, format, steps, mut constants, mut bindings, rest) = match self.step {
            HcStep::Up { format, tokens, rank, codes } => {
                let lanes = up_lanes(rank.div_ceil(UNIT as u32) as usize);
                let columns = up_columns(self.streams as usize, lanes) as u32;
                let mut constants = self.constants(columns * self.streams * lanes);
                constants.extend([("T", tokens), ("LANES", lanes), ("RANK", rank)]);
                constants.push(("CODES", u32::from(codes)));
                let mut bindings = vec![
                    write("u", "f32"),
                    write("weights", "f32"),
                    w,
                    w4,
                    read("part", "vec4<f32>"),
                    read("x", "vec4<f32>"),
                    read("norm", "f32"),
                ];
                let mut rest = vec![include_str!("../shaders/hc_up.wgsl")];
                if codes {
                    bindings.extend([write("codes", "u32"), write("scales", "vec2<u32>")]);
                    rest.push(include_str!("../shaders/hc_codes.wgsl"));
                    rest.push(include_str!("../shaders/codes.wgsl"));
                } else {
                    rest.push(include_str!("../shaders/hc_no_codes.wgsl"));
                }
                let steps = rank.div_ceil(UNIT as u32).div_ceil(lanes);
                ("hc_up", format, steps, constants, bindings, rest)
            }
            HcStep::Down { format, tokens, units, stage } => {
                let mut constants = self.constants(DOWN_THREADS);
                constants.extend([("T", tokens), ("LANES", DOWN_LANES)]);
                constants.extend([("UNITS", units), ("STAGE", stage)]);
                let mut bindings = vec![write("part", "f32"), w, w4];
                bindings.extend(self.side_inputs());
                let rest = vec![
                    include_str!("../shaders/hc_part_at.wgsl"),
                    include_str!("../shaders/hc_fours.wgsl"),
                    include_str!("../shaders/hc_side.wgsl"),
                    include_str!("../shaders/hc_down.wgsl"),
                ];
                let steps = units.div_ceil(DOWN_LANES);
                ("hc_down", format, steps, constants, bindings, rest)
            }
            _ => unreachable!("steps for few rows are these two"),
        };
        let mut sources = vec![math, include_str!("../shaders/norm_scale.wgsl"), parts];
        constants.push(("AHEAD", ahead(format, steps)));
        add_products(format, &mut constants, &mut bindings, &mut sources);
        sources.extend(rest);
        let family = format!("{name} {}", format.name());
        Shader::new::<HcParams>(&family, &constants, bindings, &sources)
    }

    fn down_many(self, format: Format) -> Shader {
        let width = Width::Many(DOWN_MANY as u32);
        let (rows, of_thread) = width.of_thread();
        let mut constants = self.constants(DOWN_THREADS);
        constants.extend([("LANES", DOWN_LANES), ("RT", rows), ("TT", of_thread)]);
        constants.push(("T", width.tokens()));
        let mut bindings = vec![write("part", "f32"), read("w", "u32"), read("w4", "vec4<u32>")];
        bindings.extend(self.side_inputs());
        let mut sources = Vec::new();
        add_products(format, &mut constants, &mut bindings, &mut sources);
        sources.push(include_str!("../shaders/hc_fours.wgsl"));
        sources.push(include_str!("../shaders/hc_down_many.wgsl"));
        let family = format!("hc_down_many {}", format.name());
        Shader::new::<HcParams>(&family, &constants, bindings, &sources)
    }

    fn simple(self) -> Shader {
        let (x, norm) = (read("x", "f32"), read("norm", "f32"));
        let part = read("part", "f32");
        let mut threads = THREADS as u32;
        let parts = include_str!("../shaders/hc_parts.wgsl");
        let mut sources = vec![
            include_str!("../shaders/math.wgsl"),
            include_str!("../shaders/norm_scale.wgsl"),
            include_str!("../shaders/hc_part_at.wgsl"),
            parts,
        ];
        let (name, bindings, source) = match self.step {
            HcStep::Norm => (
                "hc_norm",
                vec![write("out", "f32"), part, x, norm],
                include_str!("../shaders/hc_norm.wgsl"),
            ),
            HcStep::Low => {
                ("hc_low", vec![write("out", "f32"), part], include_str!("../shaders/hc_low.wgsl"))
            }
            HcStep::Mix => (
                "hc_mix",
                vec![
                    write("u", "f32"),
                    write("weights", "f32"),
                    part,
                    read("gates", "f32"),
                    x,
                    norm,
                ],
                include_str!("../shaders/hc_mix.wgsl"),
            ),
            HcStep::Side => {
                threads = DOWN_THREADS;
                sources.push(if self.split {
                    include_str!("../shaders/hc_fours.wgsl")
                } else {
                    include_str!("../shaders/hc_scalars.wgsl")
                });
                sources.push(include_str!("../shaders/hc_side.wgsl"));
                let mut bindings = vec![write("part", "f32")];
                bindings.extend(self.side_inputs());
                ("hc_side", bindings, include_str!("../shaders/hc_side_main.wgsl"))
            }
            _ => {
                sources.clear();
                (
                    "hc_inject",
                    vec![write("x", "f32"), read("weights", "f32"), read("y", "f32")],
                    include_str!("../shaders/hc_inject.wgsl"),
                )
            }
        };
        sources.push(source);
        Shader::new::<HcParams>(name, &self.constants(threads), bindings, &sources)
    }

    fn side_inputs(self) -> [Binding; 3] {
        let ty = if self.split { "vec4<f32>" } else { "f32" };
        [read("x", ty), read("norm", ty), read("inject", ty)]
    }
}

impl HcStep {
    /// The format of the matrix that the step multiplies with.
    #[cfg(test)]
    fn format(self) -> Option<Format> {
        match self {
            Self::Down { format, .. } | Self::Up { format, .. } | Self::DownMany(format) => {
                Some(format)
            }
            _ => None,
        }
    }
}

/// Adds what a product of f32 activations with a format's units needs.
fn add_products(
    format: Format,
    constants: &mut Vec<(&'static str, u32)>,
    bindings: &mut Vec<Binding>,
    sources: &mut Vec<&'static str>,
) {
    let layout = format.layout();
    let halves = matches!(layout.values, Values::ScaledHalves | Values::AffineHalves);
    let affine = matches!(layout.values, Values::Affine | Values::AffineHalves);
    constants.extend([("HALVES", u32::from(halves)), ("AFFINE", u32::from(affine))]);
    if layout.book != Book::None {
        bindings.push(read("book", "u32"));
    }
    sources.extend(layout.source);
    sources.push(if layout.values.has_codes() {
        include_str!("../shaders/add_coded.wgsl")
    } else {
        include_str!("../shaders/add_float.wgsl")
    });
}
