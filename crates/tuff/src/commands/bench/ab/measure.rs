//! The comparison: an engine for each setting, and runs in turn.

use std::time::Duration;

use engine::timed::Timed;
use kernels::reference::Reference;
use lab::audit::{self, Duel, Side};
use model::Checkpoint;

use super::clock;
use super::config::Config;
use crate::args::Chosen;
use crate::commands::bench::facts::Machine;
use crate::commands::bench::measure::Bench;
use crate::commands::bench::plan::{Plan, Test};
use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::session;

/// Runs a test once and gives the seconds of its windows.
type Run<'a> = Box<dyn FnMut(Test) -> Result<f64, Error> + 'a>;

/// A setting with its engine.
pub(super) struct Contestant<'a> {
    pub(super) config: &'a Config,
    pub(super) plan: &'a Plan,
    pub(super) machine: Machine,
    /// What its results depend on, in words.
    pub(super) settings: String,
    run: Run<'a>,
    /// Clocks after the runs of the present test.
    clocks: Vec<f64>,
}

/// How two settings did in a test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    pub(super) test: Test,
    /// B is the second.
    pub(super) duel: Duel,
    /// Median clocks after the runs of A and of B, in MHz.
    pub(super) mhz: [Option<f64>; 2],
}

impl<'a> Contestant<'a> {
    /// Loads the model for a setting.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub(super) fn new(
        config: &'a Config,
        plan: &'a Plan,
        checkpoint: &Checkpoint,
        show: Show,
    ) -> Result<Self, Error> {
        let how = (&config.device, show);
        let (machine, run): (Machine, Run<'a>) = match config.device.backend() {
            Chosen::Gpu => {
                let gpu = config.device.new_gpu()?;
                let engine = session::load(gpu, checkpoint, plan.config, how)?;
                let mut bench = Bench::new(engine, plan, show);
                let run = move |test| Ok(bench.sample(test)?.time.as_secs_f64());
                (Machine::gpu(), Box::new(run))
            }
            Chosen::Cpu => {
                let cpu = config.device.new_cpu();
                let machine = Machine::cpu(&cpu);
                let engine = session::load(Timed::new(cpu), checkpoint, plan.config, how)?;
                let mut bench = Bench::new(engine, plan, show);
                (machine, Box::new(move |test| Ok(bench.sample(test)?.time.as_secs_f64())))
            }
            Chosen::Reference => {
                let backend = Timed::new(Reference);
                let engine = session::load(backend, checkpoint, plan.config, how)?;
                let mut bench = Bench::new(engine, plan, show);
                let run = move |test| Ok(bench.sample(test)?.time.as_secs_f64());
                (Machine::reference(), Box::new(run))
            }
        };
        let settings = config.device.in_words(plan.config.context, checkpoint.hp.context);
        Ok(Self { config, plan, machine, settings, run, clocks: Vec::new() })
    }

    fn time(&mut self, test: Test) -> Result<f64, Error> {
        let seconds = (self.run)(test)?;
        self.clocks.extend(clock::mhz());
        Ok(seconds)
    }

    /// The median clock since the last call.
    fn take_clock(&mut self) -> Option<f64> {
        let mut clocks = std::mem::take(&mut self.clocks);
        clocks.sort_unstable_by(f64::total_cmp);
        clocks.get(clocks.len() / 2).copied()
    }
}

/// Every test for about `time`, A and B in turn.
///
/// # Errors
/// [`Error::Engine`]; [`Error::Interrupted`].
pub(super) fn run(
    sides: &mut [Contestant<'_>; 2],
    tests: &[Test],
    time: Duration,
    show: Show,
) -> Result<Vec<Compared>, Error> {
    let mut progress = Progress::new(show, "tests", Unit::Runs);
    let mut compared = Vec::with_capacity(tests.len());
    for (done, &test) in tests.iter().enumerate() {
        progress.set(done as u64, tests.len() as u64);
        let duel = audit::compare(time, |side| match side {
            Side::First => sides[0].time(test),
            Side::Second => sides[1].time(test),
        })?;
        let mhz = [sides[0].take_clock(), sides[1].take_clock()];
        compared.push(Compared { test, duel, mhz });
    }
    Ok(compared)
}
