//! Asking for weights ahead of their use: with a row per lane a panel reads 16 or 32 places of
//! memory in turn, which is more than what processors foresee by themselves.

use super::tasks::Then;
use crate::device::Order;

/// What is asked for while a panel is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// Nothing.
    Nothing,
    /// The panel that follows, byte after byte, in as many parts as this one has chunks.
    NextPanel,
    /// The bytes that are decoded next but a few, in the order in which they will be.
    InOrder,
}

/// How a panel is walked: chunk after chunk, in each through all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) row_bytes: usize,
    pub(crate) chunk_bytes: usize,
    /// Chunks of a row; the last may be shorter.
    pub(crate) chunks: usize,
    /// Number of the panel in its weight.
    pub(crate) number: usize,
    pub(crate) order: Order,
}

/// Bytes of a panel that is small enough for the first level of the cache to hold most of it until
/// its turn comes.
const SMALL: usize = 24 << 10;

/// Bytes of each row that are asked for at once: a few lines, so that few are asked for twice.
const AT_ONCE: usize = 256;

/// Bytes of each row between what is decoded and what is asked for: with 16 rows 32 KiB, a
/// microsecond or two of decoding.
const AHEAD: usize = 2048;

/// Bytes between what is decoded and what is asked for where all rows lie in one stream.
const STREAM_AHEAD: usize = 4096;

impl Fetch {
    /// In the order of a tile's numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::NextPanel, Self::InOrder];

    /// What is best where nothing was measured, for panels of `bytes` bytes.
    pub(crate) const fn built_in(bytes: usize) -> Self {
        if bytes <= SMALL { Self::NextPanel } else { Self::InOrder }
    }

    /// Asks for what follows chunk `chunk` of the rows in `panel`.
    #[inline(always)]
    pub(crate) fn ahead(self, panel: &[u8], walk: &Walk, chunk: usize, then: Then) {
        if walk.order == Order::InTurn {
            return;
        }
        match self {
            Self::Nothing => {}
            Self::NextPanel if then == Then::NextPanel => {
                let part = panel.len().div_ceil(walk.chunks).next_multiple_of(LINE);
                lines(panel.as_ptr_range().end.wrapping_add(chunk * part), part);
            }
            Self::NextPanel => {}
            Self::InOrder => in_order(panel.len(), walk, chunk, then, |at, bytes| {
                lines(panel.as_ptr().wrapping_add(at), bytes);
            }),
        }
    }
}

/// [`Fetch::InOrder`]: at each chunk some of the rows, and of those a few chunks. Tells `ask` where
/// from the start of the panel and how many bytes.
#[inline(always)]
fn in_order(
    panel: usize,
    walk: &Walk,
    chunk: usize,
    then: Then,
    mut ask: impl FnMut(usize, usize),
) {
    let Walk { row_bytes, chunk_bytes, chunks, number, .. } = *walk;
    let rows = panel / row_bytes;
    let together = (AT_ONCE / chunk_bytes).max(1);
    let mut from = chunk + AHEAD.div_ceil(chunk_bytes);
    let end = from + together;
    let turn = (number * chunks + chunk) % together;
    while from < end {
        let (ahead, first) = (from / chunks, from % chunks);
        if ahead > 0 && then != Then::NextPanel {
            return;
        }
        let count = (end - from).min(chunks - first);
        let start = first * chunk_bytes;
        let bytes = (count * chunk_bytes).min(row_bytes - start);
        for row in (turn..rows).step_by(together) {
            ask(ahead * panel + row * row_bytes + start, bytes);
        }
        from += count;
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Asks for what a stream has [`STREAM_AHEAD`] bytes behind the `bytes` bytes at `at`: a line for
/// each that is read.
#[inline(always)]
pub(crate) fn stream(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(STREAM_AHEAD + line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// Asks for the lines of `bytes` bytes from `start`.
#[inline(always)]
fn lines(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_asked_for_once_and_before_its_turn() {
        for (row_bytes, chunk_bytes) in
            [(2720, 272), (2100, 210), (1360, 136), (180, 72), (340, 272), (34, 34), (10880, 272)]
        {
            let (rows, chunks) = (16, usize::div_ceil(row_bytes, chunk_bytes));
            let panel = rows * row_bytes;
            let mut asked = vec![0; 100 * panel];
            for number in 0..99 {
                let order = Order::Rows;
                let walk = Walk { row_bytes, chunk_bytes, chunks, number, order };
                for chunk in 0..chunks {
                    let at = |row: usize| number * panel + row * row_bytes + chunk * chunk_bytes;
                    if number >= 80 {
                        assert!((0..rows).all(|row| asked[at(row)] == 1), "{row_bytes}");
                    }
                    in_order(panel, &walk, chunk, Then::NextPanel, |start, bytes| {
                        let from = (number * panel + start).min(asked.len());
                        let to = (from + bytes).min(asked.len());
                        asked[from..to].iter_mut().for_each(|asked| *asked += 1);
                    });
                    // Nothing beyond the panel where other rows come next.
                    in_order(panel, &walk, chunk, Then::Other, |start, bytes| {
                        assert!(start + bytes <= panel);
                    });
                }
            }
            assert!(asked[80 * panel..81 * panel].iter().all(|&asked| asked == 1), "{row_bytes}");
        }
    }
}
