//! Threads that wait for the disk, so that many reads are under way at once.

use crate::StoreError;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads that do jobs in the order in which they come.
#[derive(Debug)]
pub(crate) struct ReadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    ended: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A lock that a panic of another thread does not take away: what it guards is whole between any
/// two statements that change it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReadPool {
    pub(crate) fn new(threads: usize) -> Result<Self, StoreError> {
        let mut pool = Self { shared: Arc::default(), threads: Vec::new() };
        for n in 0..threads.max(1) {
            let shared = pool.shared.clone();
            let builder = thread::Builder::new().name(format!("read-{n}"));
            let thread = builder
                .spawn(move || shared.work())
                .map_err(|source| StoreError::Threads { source: Arc::new(source) })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Does `job` on one of the threads.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        lock(&self.shared.queue).jobs.push_back(Box::new(job));
        self.shared.more.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.ended {
                return;
            }
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job();
                    queue = lock(&self.queue);
                }
                None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        {
            let mut queue = lock(&self.shared.queue);
            queue.ended = true;
            queue.jobs.clear();
        }
        self.shared.more.notify_all();
        let own = thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner of the pool may be one of its own jobs.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}
