//! Filling a piece: its rows in small blocks, over several threads, in order.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::Error;
use super::pieces::{Flow, Piece};
use super::target::{Place, Target};

/// Values of a block, about; what a thread holds in memory is a few times that.
const BLOCK_VALUES: u64 = 1 << 18;

/// Memory that a thread uses again from block to block.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rows as they are stored in the source.
    pub raw: Vec<u8>,
    /// Rows as values.
    pub values: Vec<f32>,
}

/// Where the rows of a target come from.
pub trait RowSource: Sync {
    /// Something that says which weights these are: what it is made of must differ whenever they
    /// may. A run is only taken up if it is the same.
    fn identity(&self) -> Vec<u8>;

    /// Fills `out` with rows of the tensor of this number in the target: encoded ones, or bytes
    /// as they are for a tensor that is copied (whose rows count as one byte).
    ///
    /// # Errors
    /// [`Error::Row`], [`Error::Io`].
    fn fill(
        &self,
        tensor: usize,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Error>;
}

/// The blocks of a piece: number `i` is the rows `first + i * step ..`.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    piece: &'a Piece,
    place: &'a Place,
    step: u64,
    count: u64,
}

impl<'a> Blocks<'a> {
    fn new(piece: &'a Piece, place: &'a Place) -> Blocks<'a> {
        let step = (BLOCK_VALUES / place.n_in.max(1)).max(1);
        let count = (piece.rows.end - piece.rows.start).div_ceil(step);
        Blocks { piece, place, step, count }
    }

    fn fill(
        &self,
        i: u64,
        source: &dyn RowSource,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Error> {
        let first = self.piece.rows.start + i * self.step;
        let rows = first..(first + self.step).min(self.piece.rows.end);
        let mut out = vec![0; ((rows.end - rows.start) * self.place.row_bytes) as usize];
        source.fill(self.piece.tensor, rows, &mut out, scratch)?;
        Ok(out)
    }
}

/// Calls `take` with the bytes of a piece in order; returns what it answered last.
///
/// Thread `t` of `n` fills the blocks t, t + n, t + 2n and so on and hands them over one by one, so
/// that they arrive in order and few wait in memory.
pub(crate) fn fill(
    target: &Target,
    piece: &Piece,
    source: &dyn RowSource,
    threads: usize,
    mut take: impl FnMut(&[u8]) -> Result<Flow, Error>,
) -> Result<Flow, Error> {
    let blocks = Blocks::new(piece, &target.places[piece.tensor]);
    let threads = (threads as u64).clamp(1, blocks.count.max(1));
    if threads == 1 {
        let mut scratch = Scratch::default();
        let mut done = (0..blocks.count).map(|i| blocks.fill(i, source, &mut scratch));
        return drain(&mut done, &mut take);
    }
    thread::scope(|scope| {
        let start = |thread| {
            let (sender, receiver) = sync_channel(1);
            scope.spawn(move || feed(&blocks, thread, threads, source, &sender));
            receiver
        };
        let receivers: Vec<Receiver<_>> = (0..threads).map(start).collect();
        let mut done = (0..blocks.count).map_while(|i| {
            let receiver = &receivers[(i % threads) as usize];
            receiver.recv().ok()
        });
        // The receivers end with this closure, and with them threads that would send more.
        drain(&mut done, &mut take)
    })
}

fn feed(
    blocks: &Blocks<'_>,
    thread: u64,
    threads: u64,
    source: &dyn RowSource,
    sender: &SyncSender<Result<Vec<u8>, Error>>,
) {
    let mut scratch = Scratch::default();
    for i in (thread..blocks.count).step_by(threads as usize) {
        let block = blocks.fill(i, source, &mut scratch);
        let failed = block.is_err();
        if sender.send(block).is_err() || failed {
            return;
        }
    }
}

fn drain(
    done: &mut dyn Iterator<Item = Result<Vec<u8>, Error>>,
    take: &mut dyn FnMut(&[u8]) -> Result<Flow, Error>,
) -> Result<Flow, Error> {
    for block in done {
        if take(&block?)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
