//! Running the tests: a warm-up, rounds in which every test has its turn, and the sustained test.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use cpu::Bandwidth;
use engine::store::Counters;
use engine::timed::Profile;
use engine::{Engine, Feed, Stores, Want};
use gpu::KernelTime;

use super::Args;
use super::plan::{Kind, Plan, Test, Windows, chunks};
use super::profiled::Profiled;
use super::reads::{self, Disk};
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Show, Unit};
use crate::session::SLOT;

/// One run of a test.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Time of all its windows together, and nothing else.
    pub(super) time: Duration,
    /// Where that time went.
    pub(super) profile: Profile,
    /// What was read of experts meanwhile.
    pub(super) reads: Counters,
}

/// All runs of a test that count.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) test: Test,
    /// Windows per run.
    pub(super) windows: usize,
    /// The first run, which does not count: nothing was in memory yet.
    pub(super) first: Option<Sample>,
    pub(super) samples: Vec<Sample>,
}

/// A tenth of the sustained test.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tenth {
    pub(super) tokens: usize,
    pub(super) time: Duration,
}

/// The sustained test.
#[derive(Debug)]
pub(super) struct Sustained {
    /// How long it went on, with what came between the windows.
    pub(super) elapsed: Duration,
    pub(super) tenths: [Tenth; 10],
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) bandwidth: Bandwidth,
    pub(super) tests: Vec<Measured>,
    pub(super) sustained: Option<Sustained>,
    /// Of devices whose kernels are timed one by one.
    pub(super) kernels: Vec<Kernels>,
    /// Under a model whose experts do not all fit in memory.
    pub(super) disk: Option<Disk>,
}

/// Where the time of a test's windows went on the device.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) test: Test,
    pub(super) windows: usize,
    /// Kernels that were started.
    pub(super) calls: u64,
    /// Seconds of the host at work, and of its waiting for the device.
    pub(super) recording: f64,
    pub(super) waited: f64,
    pub(super) times: BTreeMap<String, KernelTime>,
}

/// A loaded model and what is to be done with it.
pub(super) struct Bench<'a, B: Profiled> {
    engine: Engine<B>,
    plan: &'a Plan,
    show: Show,
}

impl<'a, B: Profiled> Bench<'a, B> {
    pub(super) fn new(engine: Engine<B>, plan: &'a Plan, show: Show) -> Self {
        Self { engine, plan, show }
    }

    /// Runs everything. The bandwidth is taken before and after, and the better one counts, so that
    /// a moment of other work does not pass for a slow memory.
    ///
    /// # Errors
    /// [`Error::Engine`]; [`Error::Interrupted`].
    pub(super) fn run(mut self, args: &Args, file: &Path) -> Result<Results, Error> {
        let before = self.bandwidth(args)?;
        let tests = self.rounds()?;
        let sustained = match self.plan.decode() {
            Some(test) if self.plan.sustained > 0 => Some(self.sustained(test)?),
            _ => None,
        };
        let kernels = self.kernels()?;
        let disk = reads::measure(self.engine.stores(), file)?;
        let after = self.bandwidth(args)?;
        let better = |a: Bandwidth, b: Bandwidth| a.bytes_per_second >= b.bytes_per_second;
        let bandwidth = if better(before, after) { before } else { after };
        Ok(Results { bandwidth, tests, sustained, kernels, disk })
    }

    fn bandwidth(&mut self, args: &Args) -> Result<Bandwidth, Error> {
        let found = self.engine.backend_mut().bandwidth(args)?;
        if interrupt::requested() { Err(Error::Interrupted) } else { Ok(found) }
    }

    /// Every test once more with its kernels timed one by one, on devices that can do that.
    fn kernels(&mut self) -> Result<Vec<Kernels>, Error> {
        let mut all = Vec::new();
        if self.engine.backend_mut().device_use().is_none() {
            return Ok(all);
        }
        for &test in self.plan.tests.iter().filter(|test| test.kind != Kind::Slots) {
            let windows = || test.windows(self.plan.config.chunk);
            let count = windows().len();
            let (plain, timed) = (windows(), windows());
            self.start(test)?;
            let before = self.engine.backend_mut().device_use().unwrap_or_default();
            let mut time = Duration::ZERO;
            self.windows(test.depth, plain, |window| time += window)?;
            let after = self.engine.backend_mut().device_use().unwrap_or_default();
            self.start(test)?;
            self.engine.backend_mut().time_kernels(true);
            self.windows(test.depth, timed, |_| {})?;
            let times = self.engine.backend_mut().time_kernels(false);
            let (calls, waited) = (after.0 - before.0, after.1 - before.1);
            let recording = time.as_secs_f64() - waited;
            all.push(Kernels { test, windows: count, calls, recording, waited, times });
        }
        Ok(all)
    }

    /// Every test in turn, first without counting, then as often as it is to be repeated.
    fn rounds(&mut self) -> Result<Vec<Measured>, Error> {
        let plan = self.plan;
        let chunk = plan.config.chunk;
        let empty = |&test: &Test| {
            let windows = test.windows(chunk).len();
            Measured { test, windows, first: None, samples: Vec::with_capacity(plan.repetitions) }
        };
        let mut measured: Vec<Measured> = plan.tests.iter().map(empty).collect();
        let total = (plan.tests.len() * (plan.repetitions + 1)) as u64;
        let mut progress = Progress::new(self.show, "bench", Unit::Runs);
        let mut done = 0;
        for round in 0..=plan.repetitions {
            for measured in &mut measured {
                let sample = self.sample(measured.test)?;
                match round {
                    0 => measured.first = Some(sample),
                    _ => measured.samples.push(sample),
                }
                done += 1;
                progress.set(done, total);
            }
        }
        Ok(measured)
    }

    /// Runs a test once.
    ///
    /// # Errors
    /// [`Error::Engine`]; [`Error::Interrupted`].
    pub(super) fn sample(&mut self, test: Test) -> Result<Sample, Error> {
        let mut time = Duration::ZERO;
        let before;
        if test.kind == Kind::Slots {
            before = self.reads();
            time = self.slots(test)?;
        } else {
            self.start(test)?;
            before = self.reads();
            let windows = test.windows(self.plan.config.chunk);
            self.windows(test.depth, windows, |window| time += window)?;
        }
        let reads = self.reads().since(&before);
        Ok(Sample { time, profile: self.engine.backend_mut().take_profile(), reads })
    }

    fn reads(&self) -> Counters {
        self.engine.stores().map(Stores::counters).unwrap_or_default()
    }

    /// Decodes several sequences at once; the time of the windows.
    fn slots(&mut self, test: Test) -> Result<Duration, Error> {
        let before = &self.plan.tokens[..test.depth];
        for slot in 0..test.size {
            self.engine.reset(slot)?;
            if !before.is_empty() {
                self.engine.prefill(slot, before, Want::Nothing)?;
            }
        }
        self.engine.backend_mut().take_profile();
        let mut time = Duration::ZERO;
        for tokens in self.plan.tokens[test.depth..][..test.tokens()].chunks_exact(test.size) {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            let feed = |(slot, token)| Feed::new(slot, std::slice::from_ref(token), Want::Last);
            let feeds: Vec<Feed<'_>> = tokens.iter().enumerate().map(feed).collect();
            let started = Instant::now();
            self.engine.forward(&feeds)?;
            time += started.elapsed();
        }
        Ok(time)
    }

    /// Brings the sequence to where the test begins.
    fn start(&mut self, test: Test) -> Result<(), Error> {
        self.engine.reset(SLOT)?;
        let before = chunks(test.depth, self.plan.config.chunk, Want::Nothing);
        self.windows(0, before, |_| {})?;
        self.engine.backend_mut().take_profile();
        Ok(())
    }

    /// Runs windows from a position on; `each` is told the time of each.
    fn windows(
        &mut self,
        mut position: usize,
        windows: Windows,
        mut each: impl FnMut(Duration),
    ) -> Result<(), Error> {
        for (size, want) in windows {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            let tokens = &self.plan.tokens[position..position + size];
            let started = Instant::now();
            self.engine.forward(&[Feed::new(SLOT, tokens, want)])?;
            each(started.elapsed());
            position += size;
        }
        Ok(())
    }

    /// Repeats the decode test until the time is over, the last repetition to its end.
    fn sustained(&mut self, test: Test) -> Result<Sustained, Error> {
        let mut progress = Progress::new(self.show, "sustained", Unit::Seconds);
        let (seconds, windows) = (self.plan.sustained, test.windows(self.plan.config.chunk));
        let (started, limit) = (Instant::now(), Duration::from_secs(seconds));
        let mut tenths = [Tenth::default(); 10];
        while started.elapsed() < limit {
            self.start(test)?;
            self.windows(test.depth, windows.clone(), |window| {
                let tenth = &mut tenths[tenth(started.elapsed(), limit)];
                tenth.tokens += 1;
                tenth.time += window;
            })?;
            progress.set(started.elapsed().as_secs(), seconds);
        }
        Ok(Sustained { elapsed: started.elapsed(), tenths })
    }
}

/// Which tenth of the limit this moment is in; what comes after it counts to the last.
fn tenth(elapsed: Duration, limit: Duration) -> usize {
    let part = elapsed.as_secs_f64() / limit.as_secs_f64() * 10.0;
    (part as usize).min(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_of_a_time() {
        let limit = Duration::from_secs(20);
        let of = |seconds| tenth(Duration::from_secs_f64(seconds), limit);
        assert_eq!([0.0, 1.9, 2.1, 19.9, 20.0, 300.0].map(of), [0, 0, 1, 9, 9, 9]);
    }
}
