//! Whether a piece of work is worth a region of the pool.

use crate::pool::Pool;

/// Operations below which a region costs more than it saves, some six microseconds of one thread.
/// An operation is a load, a product and a store; a sigmoid counts as four. The barrier is the
/// smaller part of a region's cost: what one core has just written has to travel to the other.
const SERIAL: usize = 64 * 1024;

/// Runs the tasks on all threads if they have many `operations` together, else here.
pub(super) fn spread(
    pool: &mut Pool,
    operations: usize,
    tasks: usize,
    task: &(dyn Fn(usize) + Sync),
) {
    if operations < SERIAL { (0..tasks).for_each(task) } else { pool.run(tasks, task) }
}

/// Part `i` of `len` values cut into parts of `size`.
pub(super) fn part(len: usize, size: usize, i: usize) -> std::ops::Range<usize> {
    i * size..len.min((i + 1) * size)
}
