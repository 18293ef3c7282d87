//! Experts in part on the device and in part in host memory, for models of which the device holds
//! only a part: both multiply at the same time, each those that it has.
//!
//! Which experts are where is said when they are loaded and never changes, since the two round
//! differently. A window's experts are chosen on the device as ever; then the host fetches the
//! choice and the rows, which is a wait in every such layer. It hands the device a list of the
//! pairs whose experts are there, multiplies the others meanwhile, and puts their results at the
//! pairs' own places. They are added up on the device, in the order of the choices, as if all came
//! from there.

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]
mod tests;

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::elementwise::Elementwise;
use crate::fault::fault;
use crate::matrix::Matrix;
use crate::moe::Plan;
use crate::product::Pairs;
use crate::scratch::Scratch;
use crate::tile::Width;
use cpu::{Cpu, CpuMatrix, CpuOptions};
use kernels::moe::{ExpertMatrices, GateUp, MoeChoice};
use kernels::{Activations, Device, Error, Moe, Weight, host};
use std::fmt;

/// Pairs whose results are brought to the device at once.
const UPLOADED: usize = 2048;

/// A stack of experts that are not all on the device.
#[derive(Debug)]
pub(crate) struct Divided {
    /// Of each expert that is on the device, the place in the stack there.
    places: Vec<Option<u32>>,
    /// The whole stack as it lies in the file.
    on_host: CpuMatrix,
}

/// The processors, and what is handed to and fro.
#[derive(Debug, Default)]
pub(crate) struct Host {
    processors: Processors,
    work: Work,
}

/// The processors, which are started when they are wanted first.
#[derive(Default)]
struct Processors {
    cpu: Option<Cpu>,
    /// How they are started, unless by default.
    start: Option<Box<dyn FnOnce() -> Cpu + Send>>,
}

/// Values between the steps of a layer, kept from call to call.
#[derive(Debug, Default)]
struct Work {
    /// Pairs of experts on the device.
    here: host::Plan,
    /// Pairs of all others.
    there: host::Plan,
    /// `[rows, H]`, and behind it the bits of the chosen experts `[rows, used]`.
    fetched: Vec<f32>,
    chosen: Vec<u32>,
    /// `[rows * used, F]`.
    act: Vec<f32>,
    /// `[rows * used, H]`.
    part: Vec<f32>,
    /// Results on their way to the device, and the pairs that they are of.
    packed: Vec<f32>,
    pairs: Vec<u32>,
    /// Pairs by expert, as kernels read them.
    order: Vec<u32>,
    /// Expert, first place in the order, pairs, nothing.
    tiles: Vec<u32>,
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processors").field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

impl Processors {
    fn get(&mut self) -> &mut Cpu {
        let start = &mut self.start;
        self.cpu.get_or_insert_with(|| match start.take() {
            Some(start) => start(),
            None => Cpu::new(CpuOptions::default()),
        })
    }
}

/// What a layer's experts are multiplied with.
struct Layer<'a> {
    rows: usize,
    used: usize,
    places: &'a [Option<u32>],
    /// Values of a row, and of a pair's activation.
    widths: [usize; 2],
}

/// Makes room for so many values, which are not cleared.
fn grow(values: &mut Vec<f32>, len: usize) {
    if values.len() < len {
        values.resize(len, 0.0);
    }
}

impl Work {
    /// Gives each pair to the side that has its expert.
    fn divide(&mut self, layer: &Layer<'_>) {
        let Layer { used, places, .. } = *layer;
        let choice = MoeChoice { experts: places.len(), used };
        self.here.group_some(&self.chosen, choice, |expert| places[expert].is_some());
        self.there.group_some(&self.chosen, choice, |expert| places[expert].is_none());
    }

    /// Tiles of up to `tokens` pairs of one expert on the device, and their order.
    fn cut(&mut self, places: &[Option<u32>], tokens: usize) {
        self.order.clear();
        self.tiles.clear();
        for group in self.here.groups() {
            // Groups are of experts that have a place.
            let Some(place) = places[group.expert] else { continue };
            for pairs in self.here.pairs_of(group).chunks(tokens) {
                self.tiles.extend([place, self.order.len() as u32, pairs.len() as u32, 0]);
                self.order.extend_from_slice(pairs);
            }
        }
    }

    /// Multiplies the pairs of experts that are not on the device.
    fn multiply_there(
        &mut self,
        cpu: &mut Cpu,
        layer: &Layer<'_>,
        experts: ExpertMatrices<'_, CpuMatrix>,
    ) -> Result<(), Error> {
        let Layer { rows, used, widths: [width, hidden], .. } = *layer;
        let Self { there, fetched, act, part, .. } = self;
        grow(act, rows * used * hidden);
        grow(part, rows * used * width);
        cpu.moe_experts(there, experts, fetched, (act, part));
        cpu.check()
    }

    /// The results of some pairs of the processors, one after the other.
    fn pack(&mut self, pairs: std::ops::Range<usize>, width: usize) -> (&[f32], &[u32]) {
        let Self { part, packed, pairs: all, .. } = self;
        packed.clear();
        for &pair in &all[pairs.clone()] {
            packed.extend_from_slice(&part[pair as usize * width..][..width]);
        }
        (packed, &all[pairs])
    }
}

/// The stacks of a layer as the processors have them.
fn on_host<'a>(experts: &ExpertMatrices<'a, Matrix>) -> Option<ExpertMatrices<'a, CpuMatrix>> {
    let matrix = |matrix: &'a Matrix| matrix.divided.as_ref().map(|divided| &divided.on_host);
    let gate_up = match experts.gate_up {
        GateUp::Separate { gate, up } => GateUp::Separate { gate: matrix(gate)?, up: matrix(up)? },
        GateUp::Fused(both) => GateUp::Fused(matrix(both)?),
    };
    Some(ExpertMatrices { gate_up, down: matrix(experts.down)?, stored: experts.stored })
}

/// The places of a layer's experts on the device; `None` where all are there.
fn places<'a>(experts: &ExpertMatrices<'a, Matrix>) -> Option<&'a [Option<u32>]> {
    let of = |matrix: &'a Matrix| matrix.divided.as_ref().map(|divided| &divided.places[..]);
    let found = of(experts.down);
    let others = match experts.gate_up {
        GateUp::Separate { gate, up } => [gate, up],
        GateUp::Fused(both) => [both, both],
    };
    assert!(others.iter().all(|other| of(other) == found), "stacks that are not divided alike");
    found
}

impl Gpu {
    /// How the processors are started that multiply experts for which the device has no room.
    /// Without it they are started with their default options, and only if there are such experts.
    pub fn set_host(&mut self, start: impl FnOnce() -> Cpu + Send + 'static) {
        self.host.processors.start = Some(Box::new(start));
    }

    /// A stack of which only the held experts come to the device.
    pub(crate) fn load_divided(
        &mut self,
        weight: &Weight,
        activations: Activations,
        held: &[bool],
    ) -> Result<Matrix, Error> {
        let count = weight.experts();
        assert_eq!(held.len(), count, "{}: experts that are held or not", weight.name());
        let here: Vec<usize> = (0..count).filter(|&expert| held[expert]).collect();
        if here.len() == count {
            return self.load(weight, activations);
        }
        let on_host = self.host.processors.get().load_matrix(weight, activations)?;
        let mut matrix = self.load_some(weight, activations, Some(&here))?;
        let mut places = vec![None; count];
        here.iter().zip(0..).for_each(|(&expert, place)| places[expert] = Some(place));
        matrix.divided = Some(Divided { places, on_host });
        Ok(matrix)
    }

    /// Multiplies the experts of a layer that are not all on the device; whether there are such. A
    /// fault is kept, and results are void then.
    pub(crate) fn divided_experts(
        &mut self,
        plan: &Plan,
        experts: &ExpertMatrices<'_, Matrix>,
        u: &GpuBuffer,
        (act, part): (&GpuBuffer, &GpuBuffer),
    ) -> bool {
        let Some(places) = places(experts) else { return false };
        let widths = [experts.down.n_out, experts.down.n_in];
        let (rows, used) = plan.sizes();
        let layer = Layer { rows, used, places, widths };
        assert!(u.len() >= rows * widths[0], "{rows} rows of {}", widths[0]);
        assert!(act.len() >= rows * used * widths[1], "activations of {rows} rows");
        assert!(part.len() >= rows * used * widths[0], "parts of {rows} rows");
        let mut host = std::mem::take(&mut self.host);
        if let Err(error) = self.multiply(&mut host, (&layer, plan), experts, u, (act, part)) {
            self.recorder.faults.add(error);
        }
        self.host = host;
        true
    }

    fn multiply(
        &mut self,
        Host { processors, work }: &mut Host,
        (layer, plan): (&Layer<'_>, &Plan),
        experts: &ExpertMatrices<'_, Matrix>,
        u: &GpuBuffer,
        (act, part): (&GpuBuffer, &GpuBuffer),
    ) -> Result<(), Error> {
        // Without a choice memory was short for the plan, which is kept as a fault.
        let (Some((chosen, width)), Some(on_host)) = (plan.chosen(), on_host(experts)) else {
            return Ok(());
        };
        self.fetch(layer, (u, chosen), work)?;
        work.divide(layer);
        let alone = work.there.groups().is_empty();
        if let Some(stored) = experts.stored.filter(|_| !alone) {
            processors.get().moe_want(&work.there, stored);
        }
        work.cut(layer.places, width.tokens() as usize);
        self.multiply_here(layer, (work, width), experts, u, (act, part));
        // The device begins before the processors do.
        self.recorder.submit();
        if !alone {
            work.multiply_there(processors.get(), layer, on_host)?;
            self.bring(layer, work, part);
        }
        Ok(())
    }

    /// Waits for the choice of a window's experts, and for its rows. Nothing is chosen if memory is
    /// short, which is kept as a fault.
    fn fetch(
        &mut self,
        layer: &Layer<'_>,
        (u, chosen): (&GpuBuffer, &GpuBuffer),
        work: &mut Work,
    ) -> Result<(), Error> {
        let Layer { rows, used, places, widths: [width, _] } = *layer;
        let (values, pairs) = (rows * width, rows * used);
        work.chosen.clear();
        let Some(both) = self.scratch(Scratch::Fetched, values + pairs) else { return Ok(()) };
        self.recorder.copy((u, 0), (&both, 0), values);
        self.recorder.copy((chosen, 0), (&both, values), pairs);
        work.fetched.clear();
        work.fetched.resize(values + pairs, 0.0);
        self.download(&both, &mut work.fetched)?;
        let chosen: &[u32] = bytemuck::cast_slice(&work.fetched[values..]);
        if let Some(expert) = chosen.iter().find(|&&expert| expert as usize >= places.len()) {
            return Err(fault(format!("expert {expert} of {} was chosen", places.len())));
        }
        work.chosen.extend_from_slice(chosen);
        Ok(())
    }

    /// Multiplies the pairs of experts that are on the device.
    fn multiply_here(
        &mut self,
        layer: &Layer<'_>,
        (work, width): (&Work, Width),
        experts: &ExpertMatrices<'_, Matrix>,
        u: &GpuBuffer,
        (act, part): (&GpuBuffer, &GpuBuffer),
    ) -> Option<()> {
        let (rows, count) = (layer.rows, layer.rows * layer.used);
        let tile_count = work.tiles.len() / 4;
        if tile_count == 0 {
            return None;
        }
        // As many as there can be, so that they are not made anew time and again.
        let order = self.scratch(Scratch::Order, count)?;
        let tiles = self.scratch(Scratch::Tiles, 4 * count)?;
        self.recorder.put(&work.order, &order);
        self.recorder.put(&work.tiles, &tiles);
        let (order, tiles) = (&*order, &*tiles);
        let pairs = |pairs_per_x| Pairs { tiles, order, tile_count, width, pairs_per_x, rows };
        self.gate_up((pairs(layer.used), count), &experts.gate_up, u, act)?;
        self.down((pairs(1), count), experts.down, act, part)
    }

    /// Puts what the processors computed at the places of its pairs.
    fn bring(&mut self, layer: &Layer<'_>, work: &mut Work, part: &GpuBuffer) -> Option<()> {
        let [width, _] = layer.widths;
        let Work { there, pairs, .. } = &mut *work;
        pairs.clear();
        there.groups().iter().for_each(|group| pairs.extend(there.pairs_of(group)));
        let count = pairs.len();
        let buffer = self.scratch(Scratch::FromHost, count.min(UPLOADED) * width)?;
        for first in (0..count).step_by(UPLOADED) {
            let (values, pairs) = work.pack(first..count.min(first + UPLOADED), width);
            self.recorder.upload(bytemuck::cast_slice(values), &buffer, 0);
            let buffers = [part.all(), buffer.all()];
            let shape = (pairs.len(), width, 0);
            self.elementwise(Elementwise::ScatterRows, &buffers, Some(pairs), shape);
        }
        Some(())
    }
}
