//! One thread pool for all kernels: numbered tasks, taken in turn by the caller and the workers.
//!
//! A window has a thousand short parallel regions, so a waiting thread first spins for a moment,
//! then offers its processor to others for some tens of microseconds, and then sleeps: an idle
//! engine burns nothing, and more threads than processors still get on. Which thread runs a task is
//! left to chance: results must not (and by the kernels' construction do not) depend on it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Spins before a waiting thread yields: about a microsecond.
const SPINS: usize = 64;

/// Yields before a worker sleeps: longer than the serial gaps inside a window, some 50
/// microseconds.
const YIELDS: usize = 200;

/// Waits a little, the longer the more often it was called: spins first, then yields.
fn pause(waited: usize) {
    if waited < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// The work of one region.
#[derive(Clone, Copy)]
struct Job {
    task: *const Task<'static>,
    tasks: usize,
}

// SAFETY: the pointee is `Sync`, and `Pool::run` keeps it alive until no worker is inside the job.
unsafe impl Send for Job {}

/// One word that says which region is current, whether workers may still enter it, and how many
/// are inside: a worker that comes late, because others have its processor, keeps nobody waiting.
mod gate {
    /// Workers may enter.
    pub(super) const OPEN: usize = 1;
    /// One worker inside.
    pub(super) const WORKER: usize = 2;
    /// One region further.
    pub(super) const REGION: usize = 1 << 16;

    /// Number of the region.
    pub(super) fn region(gate: usize) -> usize {
        gate / REGION
    }

    /// Workers inside.
    pub(super) fn inside(gate: usize) -> usize {
        gate % REGION / WORKER
    }
}

/// Workers that fit the gate's count.
const MAX_WORKERS: usize = gate::REGION / gate::WORKER - 1;

struct State {
    gate: AtomicUsize,
    job: Mutex<Option<Job>>,
    next: AtomicUsize,
    wake: Condvar,
    sleeping: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
}

impl State {
    /// The job is plain data; a panic elsewhere cannot leave it half written.
    fn job(&self) -> MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next region. Sequentially consistent with a worker's `sleeping`: either it sees
    /// the new region before it sleeps, or it is seen here as sleeping.
    fn open(&self) {
        let gate = self.gate.load(Ordering::Relaxed);
        let next = gate::region(gate).wrapping_add(1).wrapping_mul(gate::REGION);
        self.gate.store(next | gate::OPEN, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            let _job = self.job();
            self.wake.notify_all();
        }
    }

    /// Ends the region: no worker enters any more, and those inside are waited for.
    fn close(&self) {
        self.gate.fetch_and(!gate::OPEN, Ordering::Relaxed);
        let mut waited = 0;
        while gate::inside(self.gate.load(Ordering::Acquire)) > 0 {
            pause(waited);
            waited += 1;
        }
    }

    /// Enters region `region` if it is still open.
    fn enter(&self, region: usize) -> bool {
        let enter = |gate: usize| {
            let may = gate::region(gate) == region && gate & gate::OPEN != 0;
            may.then_some(gate + gate::WORKER)
        };
        self.gate.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    fn leave(&self) {
        self.gate.fetch_sub(gate::WORKER, Ordering::Release);
    }
}

/// A fixed number of threads that work together on numbered tasks.
pub struct Pool {
    state: Arc<State>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

impl Pool {
    /// A pool of `threads` threads, the caller's included; at least one. A worker that the system
    /// refuses is left out.
    pub fn new(threads: usize) -> Self {
        let state = Arc::new(State {
            gate: AtomicUsize::new(0),
            job: Mutex::new(None),
            next: AtomicUsize::new(0),
            wake: Condvar::new(),
            sleeping: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let spawn = |i: usize| {
            let state = Arc::clone(&state);
            let thread = std::thread::Builder::new().name(format!("tuff-{i}"));
            thread.spawn(move || work(&state)).ok()
        };
        let workers = (1..threads).take(MAX_WORKERS).map_while(spawn).collect();
        Self { state, workers }
    }

    /// Threads that work, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once with every number below `tasks`, on all threads, and returns when all are
    /// done.
    ///
    /// # Panics
    /// If a task panics, after the others have ended.
    pub fn run(&mut self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() {
            return (0..tasks).for_each(task);
        }
        let state = &*self.state;
        // SAFETY: only the lifetime is erased. The pointer is used by workers inside the region,
        // and this function does not return before the region is closed and none is inside.
        let erased = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        *state.job() = Some(Job { task: erased, tasks });
        state.next.store(0, Ordering::Relaxed);
        state.open();
        let own = catch_unwind(AssertUnwindSafe(|| take(state, tasks, task)));
        state.close();
        let panicked = state.panicked.swap(false, Ordering::Relaxed);
        match own {
            Err(payload) => resume_unwind(payload),
            Ok(()) => assert!(!panicked, "a task of the thread pool panicked"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.state.open();
        for worker in self.workers.drain(..) {
            // A worker catches its tasks' panics; there is nothing to hear from it.
            let _ = worker.join();
        }
    }
}

/// Runs tasks until none is left.
fn take(state: &State, tasks: usize, task: &Task<'_>) {
    loop {
        let i = state.next.fetch_add(1, Ordering::Relaxed);
        if i >= tasks {
            return;
        }
        task(i);
    }
}

fn work(state: &State) {
    let mut region = 0;
    loop {
        region = wait(state, region);
        if state.stop.load(Ordering::SeqCst) {
            return;
        }
        if !state.enter(region) {
            continue;
        }
        let job = *state.job();
        if let Some(Job { task, tasks }) = job {
            // SAFETY: `Pool::run` waits until this worker has left the region.
            let task = unsafe { &*task };
            if catch_unwind(AssertUnwindSafe(|| take(state, tasks, task))).is_err() {
                state.panicked.store(true, Ordering::Relaxed);
            }
        }
        state.leave();
    }
}

/// Waits for a region other than `seen`; its number.
fn wait(state: &State, seen: usize) -> usize {
    let current = || gate::region(state.gate.load(Ordering::SeqCst));
    for waited in 0..SPINS + YIELDS {
        if current() != seen {
            return current();
        }
        pause(waited);
    }
    state.sleeping.fetch_add(1, Ordering::SeqCst);
    let mut job = state.job();
    while current() == seen {
        job = state.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
    }
    drop(job);
    state.sleeping.fetch_sub(1, Ordering::SeqCst);
    current()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in 1..6 {
            let mut pool = Pool::new(threads);
            for tasks in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, &|i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn works_after_sleeping_and_many_times_in_a_row() {
        let mut pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        for round in 0..2000 {
            if round % 500 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            pool.run(5, &|i| {
                total.fetch_add(i, Ordering::Relaxed);
            });
        }
        assert_eq!(total.into_inner(), 2000 * 10);
    }

    #[test]
    fn a_panicking_task_is_reported_and_the_pool_lives() {
        let mut pool = Pool::new(4);
        for bad in 0..8 {
            let run = AssertUnwindSafe(|| pool.run(8, &|i| assert_ne!(i, bad)));
            assert!(catch_unwind(run).is_err());
        }
        let count = AtomicUsize::new(0);
        pool.run(8, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 8);
    }
}
