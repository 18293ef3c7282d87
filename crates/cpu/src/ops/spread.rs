//! Whether a piece of work is worth a region of the pool.

use crate::pool::Pool;

/// Element-wise operations on values below which a region costs more than it saves: some three
/// microseconds of one thread.
const SERIAL: usize = 16 * 1024;

/// Runs the tasks on all threads if they touch many `values` together, else here.
pub(super) fn spread(pool: &mut Pool, values: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    if values < SERIAL { (0..tasks).for_each(task) } else { pool.run(tasks, task) }
}

/// Part `i` of `len` values cut into parts of `size`.
pub(super) fn part(len: usize, size: usize, i: usize) -> std::ops::Range<usize> {
    i * size..len.min((i + 1) * size)
}
