//! Whole windows: what the tile table changes in them.

use std::time::{Duration, Instant};

use engine::{Engine, EngineConfig, Feed, Want, uniform};
use kernels::Backend;
use kernels::tiles::{RowClass, Tile, Tunable};
use lab::audit::report::{Effect, Product, Report};
use lab::audit::{Found, Side, Store, compare};
use model::Checkpoint;

use super::Plan;
use super::backends::Audited;
use crate::args::DeviceArgs;
use crate::error::Error;
use crate::session::SLOT;
use crate::{interrupt, session};

/// Tokens of text before the windows.
const BEFORE: usize = 64;

/// Windows that a profile is the mean of.
pub(super) const WINDOWS: usize = 8;

/// Rows that a sequence has room for at least, [`WINDOWS`] times: a new one costs the tokens
/// before.
const ROOM: usize = 64;

/// Rows of the longest window that is taken to verify drafts.
const MOST_VERIFIED: usize = 16;

/// Time of the comparison at each number of rows.
const COMPARED: Duration = Duration::from_secs(3);

/// Windows with the built-in tiles and with all that were found better, in turn, on one engine: a
/// large model may not fit twice.
///
/// # Errors
/// [`Error::Engine`]; [`Error::Interrupted`].
pub(super) fn effects<B: Audited>(
    device: &DeviceArgs,
    checkpoint: &Checkpoint,
    (plan, store): (&Plan, &Store),
    products: &[Product],
) -> Result<Vec<Effect>, Error> {
    // Where nothing was found there is nothing to compare.
    let is_tuned = |rows: &usize| {
        let tuned = store.found().iter().filter(|found| !found.tile.is_empty());
        tuned.map(Found::class).any(|class| class == RowClass::of(*rows))
    };
    let rows: Vec<usize> = plan.all_rows().into_iter().filter(is_tuned).collect();
    let Some(most) = rows.iter().copied().max() else { return Ok(Vec::new()) };
    let mut backend = B::open(device)?;
    backend.set_tiles(store.full_table());
    let mut windows = Windows::new(backend, device, checkpoint, plan, most)?;
    let mut effects = Vec::new();
    for rows in rows {
        windows.begin()?;
        let compared = compare(COMPARED, |side| windows.timed(rows, side))?;
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
pub(super) fn of_interest(plan: &Plan) -> Vec<usize> {
    plan.rows.iter().copied().filter(|rows| [1, 4].contains(rows)).collect()
}

/// A loaded model that runs windows of random tokens.
pub(super) struct Windows<B: Backend> {
    engine: Engine<B>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl<B: Backend> Windows<B> {
    pub(super) fn new(
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

    /// What the engine runs on.
    pub(super) fn backend(&mut self) -> &mut B {
        self.engine.backend_mut()
    }

    /// A sequence of some tokens.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        self.engine.reset(SLOT)?;
        let before = BEFORE.min(self.tokens.len() / 2);
        Ok(self.engine.prefill(SLOT, &self.tokens[..before], Want::Nothing).map(drop)?)
    }

    /// Whether a window of so many rows would not fit any more.
    fn is_full(&self, rows: usize) -> bool {
        let done = self.engine.history(SLOT).map_or(0, <[u32]>::len);
        done + rows > self.tokens.len()
    }

    pub(super) fn run(&mut self, rows: usize) -> Result<(), Error> {
        interrupt::check()?;
        let done = self.engine.history(SLOT)?.len();
        let tokens = &self.tokens[done..done + rows];
        // Of a prompt only the last logits are wanted.
        let want = if rows <= MOST_VERIFIED { Want::All } else { Want::Last };
        Ok(self.engine.forward_into(&[Feed::new(SLOT, tokens, want)], &mut self.logits)?)
    }
}

impl<B: Tunable> Windows<B> {
    /// Seconds of a window of `rows` rows, with the built-in tiles or with those of the table.
    fn timed(&mut self, rows: usize, side: Side) -> Result<f64, Error> {
        let built_in = Tile::default();
        let forced = if side == Side::First { Some(&built_in) } else { None };
        self.backend()
            .force_tile(forced)
            .map_err(|error| Error::Engine(kernels::Error::from(error).into()))?;
        if self.is_full(rows) {
            self.begin()?;
            self.run(rows)?;
        }
        let started = Instant::now();
        self.run(rows)?;
        Ok(started.elapsed().as_secs_f64())
    }
}
