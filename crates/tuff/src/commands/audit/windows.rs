//! Whole windows: where their time goes, and what the tile table changes.

use std::time::{Duration, Instant};

use cpu::Cpu;
use engine::timed::Timed;
use engine::{Engine, EngineConfig, Feed, Want, uniform};
use kernels::Backend;
use kernels::tiles::{TileTable, Tunable};
use lab::audit::report::{Effect, PartTime, Product, Report, WindowProfile};
use lab::audit::{Side, Store, compare};
use model::Checkpoint;

use super::Plan;
use crate::args::DeviceArgs;
use crate::error::Error;
use crate::session::SLOT;
use crate::{interrupt, session};

/// Tokens of text before the windows.
const BEFORE: usize = 64;

/// Windows that a profile is the mean of.
const WINDOWS: usize = 8;

/// Rows that a sequence has room for at least, [`WINDOWS`] times: a new one costs the tokens
/// before.
const ROOM: usize = 64;

/// Rows of the longest window that is taken to verify drafts.
const MOST_VERIFIED: usize = 16;

/// Time of the comparison at each number of rows.
const COMPARED: Duration = Duration::from_secs(3);

/// Where the time of windows of 1 and 4 rows goes, as far as they are among those asked for.
///
/// # Errors
/// [`Error::Engine`]; [`Error::Interrupted`].
pub(super) fn profiles(
    device: &DeviceArgs,
    checkpoint: &Checkpoint,
    plan: &Plan,
) -> Result<Vec<WindowProfile>, Error> {
    let rows = of_interest(plan);
    let Some(most) = rows.iter().max() else { return Ok(Vec::new()) };
    let mut windows = Windows::new(Timed::new(device.new_cpu()), device, checkpoint, plan, *most)?;
    let mut profiles = Vec::new();
    for rows in rows {
        windows.begin()?;
        windows.run(rows)?;
        windows.engine.backend_mut().take_profile();
        let started = Instant::now();
        for _ in 0..WINDOWS {
            windows.run(rows)?;
        }
        let seconds = started.elapsed().as_secs_f64() / WINDOWS as f64;
        let profile = windows.engine.backend_mut().take_profile();
        let part = |(part, cost): &(engine::timed::Part, engine::timed::Cost)| PartTime {
            group: part.group.name().to_owned(),
            name: part.name.to_owned(),
            seconds: cost.time.as_secs_f64() / WINDOWS as f64,
            bytes: (cost.weight_bytes + cost.state_bytes) / WINDOWS as u64,
        };
        let parts = profile.parts().iter().map(part).collect();
        profiles.push(WindowProfile { rows, seconds, parts });
    }
    Ok(profiles)
}

/// Windows on an engine with the built-in tiles and on one with all that were found better, in
/// turn.
///
/// # Errors
/// [`Error::Engine`]; [`Error::Interrupted`].
pub(super) fn effects(
    device: &DeviceArgs,
    checkpoint: &Checkpoint,
    (plan, store): (&Plan, &Store),
    products: &[Product],
) -> Result<Vec<Effect>, Error> {
    let (rows, table) = (plan.all_rows(), store.full_table());
    if table.is_empty() || rows.is_empty() {
        return Ok(Vec::new());
    }
    let most = rows.iter().copied().max().unwrap_or(1);
    let mut sides = [TileTable::default(), table].map(|table| {
        let mut cpu = Cpu::new(device.cpu_options());
        cpu.set_tiles(table);
        Windows::new(cpu, device, checkpoint, plan, most)
    });
    let [Ok(built_in), Ok(tuned)] = &mut sides else {
        let error = sides.into_iter().find_map(Result::err);
        return Err(error.unwrap_or(Error::Interrupted));
    };
    let mut effects = Vec::new();
    for rows in rows {
        built_in.begin()?;
        tuned.begin()?;
        let timed = |windows: &mut Windows<Cpu>| -> Result<f64, Error> {
            if windows.is_full(rows) {
                windows.begin()?;
                windows.run(rows)?;
            }
            let started = Instant::now();
            windows.run(rows)?;
            Ok(started.elapsed().as_secs_f64())
        };
        let compared = compare(COMPARED, |side| match side {
            Side::First => timed(built_in),
            Side::Second => timed(tuned),
        })?;
        effects.push(Effect {
            rows,
            before: compared.first,
            after: compared.first * compared.ratio,
            noise: compared.noise,
            estimated_gain: Report::estimated_gain(products, rows),
            used: compared.is_won(0.0),
        });
    }
    Ok(effects)
}

/// Decoding and a usual verify step.
fn of_interest(plan: &Plan) -> Vec<usize> {
    plan.rows.iter().copied().filter(|rows| [1, 4].contains(rows)).collect()
}

/// A loaded model that runs windows of random tokens.
struct Windows<B: Backend> {
    engine: Engine<B>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl<B: Backend> Windows<B> {
    fn new(
        backend: B,
        device: &DeviceArgs,
        checkpoint: &Checkpoint,
        plan: &Plan,
        most: usize,
    ) -> Result<Self, Error> {
        let hp = &checkpoint.hp;
        let context = (BEFORE + WINDOWS * most.max(ROOM)).min(hp.context);
        let config = device.config(context, hp.context);
        let config = EngineConfig { chunk: config.chunk.max(most), ..config };
        let engine = session::load(backend, checkpoint, config, (device, plan.show))?;
        let id = |position| (uniform(1, position, 0) * hp.vocab as f64) as u32;
        let tokens = (0..context as u64).map(id).collect();
        Ok(Self { engine, tokens, logits: Vec::new() })
    }

    /// A sequence of some tokens.
    fn begin(&mut self) -> Result<(), Error> {
        self.engine.reset(SLOT)?;
        let before = BEFORE.min(self.tokens.len() / 2);
        Ok(self.engine.prefill(SLOT, &self.tokens[..before], Want::Nothing).map(drop)?)
    }

    /// Whether a window of so many rows would not fit any more.
    fn is_full(&self, rows: usize) -> bool {
        let done = self.engine.history(SLOT).map_or(0, <[u32]>::len);
        done + rows > self.tokens.len()
    }

    fn run(&mut self, rows: usize) -> Result<(), Error> {
        interrupt::check()?;
        let done = self.engine.history(SLOT)?.len();
        let tokens = &self.tokens[done..done + rows];
        // Of a prompt only the last logits are wanted.
        let want = if rows <= MOST_VERIFIED { Want::All } else { Want::Last };
        Ok(self.engine.forward_into(&[Feed::new(SLOT, tokens, want)], &mut self.logits)?)
    }
}
