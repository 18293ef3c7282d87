//! One thread pool for all kernels: numbered tasks, taken in turn by the caller and the workers.
//!
//! A window has a thousand short parallel regions, so a waiting thread first spins for a moment,
//! then offers its processor to others for some tens of microseconds, and then sleeps: an idle engine
//! burns nothing, and more threads than processors still get on. Which thread runs a task is left to
//! chance: results must not (and by the kernels' construction do not) depend on it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Spins before a waiting thread yields: about a microsecond.
const SPINS: usize = 64;

/// Yields before a worker sleeps: longer than the serial gaps inside a window, some 50 microseconds.
const YIELDS: usize = 200;

/// Waits a little, the longer the more often it was called: spins first, then yields.
fn pause(waited: usize) {
    if waited < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// The job of the current epoch.
#[derive(Clone, Copy)]
struct Job {
    task: *const Task<'static>,
    tasks: usize,
}

// SAFETY: the pointee is `Sync`, and `Pool::run` keeps it alive until every worker is done with it.
unsafe impl Send for Job {}

struct State {
    job: Mutex<Option<Job>>,
    wake: Condvar,
    epoch: AtomicUsize,
    sleeping: AtomicUsize,
    next: AtomicUsize,
    busy: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
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
    /// A pool of `threads` threads, the caller's included; at least one. A worker that the system refuses is left out.
    pub fn new(threads: usize) -> Self {
        let state = Arc::new(State {
            job: Mutex::new(None),
            wake: Condvar::new(),
            epoch: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let spawn = |i: usize| {
            let state = Arc::clone(&state);
            let thread = std::thread::Builder::new().name(format!("tuff-{i}"));
            thread.spawn(move || work(&state)).ok()
        };
        let workers = (1..threads).filter_map(spawn).collect();
        Self { state, workers }
    }

    /// Threads that work, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once with every number below `tasks`, on all threads, and returns when all are done.
    ///
    /// # Panics
    /// If a task panics, after the others have ended.
    pub fn run(&mut self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() {
            return (0..tasks).for_each(task);
        }
        let state = &*self.state;
        // SAFETY: only the lifetime is erased. The pointer is used by workers that count in `busy`,
        // and this function does not return before that count is zero.
        let erased = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        state.next.store(0, Ordering::Relaxed);
        state.busy.store(self.workers.len(), Ordering::Relaxed);
        *state.job.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Job { task: erased, tasks });
        // Sequentially consistent with the worker's `sleeping`: either it sees the new epoch before
        // it sleeps, or it is seen here as sleeping.
        state.epoch.fetch_add(1, Ordering::SeqCst);
        if state.sleeping.load(Ordering::SeqCst) > 0 {
            let _job = state.job.lock().unwrap_or_else(PoisonError::into_inner);
            state.wake.notify_all();
        }
        let own = catch_unwind(AssertUnwindSafe(|| take(state, tasks, task)));
        let mut waited = 0;
        while state.busy.load(Ordering::Acquire) > 0 {
            pause(waited);
            waited += 1;
        }
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
        self.state.epoch.fetch_add(1, Ordering::SeqCst);
        {
            let _job = self.state.job.lock().unwrap_or_else(PoisonError::into_inner);
            self.state.wake.notify_all();
        }
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
    let mut seen = 0;
    loop {
        wait(state, seen);
        seen += 1;
        if state.stop.load(Ordering::SeqCst) {
            return;
        }
        let job = *state.job.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Job { task, tasks }) = job {
            // SAFETY: `Pool::run` waits until this worker has left `busy`.
            let task = unsafe { &*task };
            if catch_unwind(AssertUnwindSafe(|| take(state, tasks, task))).is_err() {
                state.panicked.store(true, Ordering::Relaxed);
            }
        }
        state.busy.fetch_sub(1, Ordering::Release);
    }
}

/// Returns once the epoch is past `seen`.
fn wait(state: &State, seen: usize) {
    for waited in 0..SPINS + YIELDS {
        if state.epoch.load(Ordering::Acquire) != seen {
            return;
        }
        pause(waited);
    }
    state.sleeping.fetch_add(1, Ordering::SeqCst);
    let mut job = state.job.lock().unwrap_or_else(PoisonError::into_inner);
    while state.epoch.load(Ordering::SeqCst) == seen {
        job = state.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
    }
    drop(job);
    state.sleeping.fetch_sub(1, Ordering::SeqCst);
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
