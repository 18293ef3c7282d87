//! Rows of a table that stays on the disk: the n-gram table is as large as all the rest of a model,
//! and a token uses sixteen rows of ninety bytes of it.
//!
//! Rows are read as soon as they are known, all at once, and some thousands of those read last are
//! kept.

use crate::buffer::{BLOCK, Buffer};
use crate::disk::read_part;
use crate::pool::{ReadPool, lock};
use crate::{Disk, StoreError};
use kernels::stored::TableSource;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Rows that are read ahead at once, at most: more than any window wants.
const MOST_AHEAD: usize = 1 << 14;

thread_local! {
    /// Blocks around a row.
    static BLOCKS: RefCell<Buffer> = RefCell::default();
}

/// Where a table lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// The file.
    pub path: PathBuf,
    /// Where the first row begins.
    pub offset: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Number of rows.
    pub rows: u64,
}

/// Rows that are read as they are wanted.
#[derive(Debug)]
pub struct TableStore {
    shared: Arc<Shared>,
    pool: ReadPool,
}

#[derive(Debug)]
struct Shared {
    layout: TableLayout,
    disk: Box<dyn Disk>,
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rows: HashMap<u64, Row>,
    /// Rows held, those read first in front.
    order: VecDeque<u64>,
    /// Rows that are kept while no window gathers more.
    most: usize,
    read: u64,
    /// How often rows were gathered.
    gathered: u64,
}

#[derive(Debug)]
enum Row {
    Reading,
    Held(Box<[u8]>),
    /// Boxed, as most rows have nothing to tell.
    Failed(Box<Failure>),
}

#[derive(Debug)]
struct Failure {
    error: StoreError,
    /// How often rows had been gathered when the row began to be read.
    begun: u64,
}

impl TableStore {
    /// A table over `disk`, its file; keeps up to `bytes` bytes of rows.
    ///
    /// # Errors
    /// When the layout cannot be, or the threads cannot be started.
    pub fn new(
        layout: &TableLayout,
        disk: Box<dyn Disk>,
        (bytes, threads): (u64, usize),
    ) -> Result<Self, StoreError> {
        let all = layout.rows.checked_mul(layout.row_bytes as u64);
        if layout.row_bytes == 0 || all.and_then(|all| all.checked_add(layout.offset)).is_none() {
            let what = format!("{} table rows of {} bytes", layout.rows, layout.row_bytes);
            return Err(StoreError::Layout { what });
        }
        let most = (bytes / Self::memory_of_row(layout.row_bytes)).clamp(64, 1 << 24) as usize;
        let state = Mutex::new(State { most, ..State::default() });
        let shared = Shared { layout: layout.clone(), disk, state, ready: Condvar::new() };
        Ok(Self { shared: Arc::new(shared), pool: ReadPool::new(threads)? })
    }

    /// Memory of a row that is kept, with what finding it takes.
    fn memory_of_row(row_bytes: usize) -> u64 {
        // An allocation has a header, and is a multiple of 16 bytes.
        let own = (row_bytes + 8).next_multiple_of(16).max(32);
        // A table of hashes has between 7/16 and 7/8 of its places in use, and while it grows there
        // is the old one of half the size too; a list of places is full or half full.
        let place = (size_of::<(u64, Row)>() + 1) * 7 / 2;
        (own + place + 2 * size_of::<u64>()) as u64
    }

    /// Rows read so far.
    pub fn rows_read(&self) -> u64 {
        lock(&self.shared.state).read
    }

    /// Rows in memory.
    pub fn held(&self) -> usize {
        lock(&self.shared.state).order.len()
    }

    fn begin(&self, state: &mut State, row: u64) {
        state.rows.insert(row, Row::Reading);
        let (shared, begun) = (self.shared.clone(), state.gathered);
        self.pool.submit(move || shared.read(row, begun));
    }
}

impl State {
    /// Rows that are being read, and such as could not be.
    fn not_held(&self) -> usize {
        self.rows.len() - self.order.len()
    }

    /// Forgets which rows could not be read: asked for again, they are read again.
    fn forget_failed(&mut self) {
        self.rows.retain(|_, row| !matches!(row, Row::Failed(_)));
    }

    /// Drops the rows that were read first until no more than `most` are held.
    fn shrink(&mut self) {
        while self.order.len() > self.most {
            if let Some(row) = self.order.pop_front() {
                self.rows.remove(&row);
            }
        }
    }
}

impl Shared {
    fn read(&self, row: u64, begun: u64) {
        let TableLayout { offset, row_bytes, .. } = self.layout;
        let place = (offset + row * row_bytes as u64, row_bytes);
        let read = || {
            BLOCKS.with_borrow_mut(|blocks| {
                if blocks.as_ref().len() < Buffer::reserved(row_bytes) {
                    *blocks = Buffer::new(row_bytes.max(BLOCK));
                }
                let range = read_part(&*self.disk, place, blocks)?;
                Ok(Box::from(&blocks.as_ref()[range]))
            })
        };
        // Somebody waits for it: also a fault of this program must end it.
        let found = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            let panicked = io::Error::other("the thread that reads panicked");
            Err(StoreError::read(self.disk.path(), place, panicked))
        });
        let mut state = lock(&self.state);
        state.read += 1;
        match found {
            Ok(bytes) => {
                state.rows.insert(row, Row::Held(bytes));
                state.order.push_back(row);
            }
            Err(error) => {
                state.rows.insert(row, Row::Failed(Box::new(Failure { error, begun })));
            }
        }
        self.ready.notify_all();
    }
}

impl TableSource for TableStore {
    fn expect(&self, rows: &[u64]) {
        let mut state = lock(&self.shared.state);
        // Nobody may ever come for them: they take no more memory than others.
        state.shrink();
        for &row in rows.iter().filter(|&&row| row < self.shared.layout.rows) {
            if state.not_held() >= MOST_AHEAD {
                state.forget_failed();
            }
            if state.not_held() >= MOST_AHEAD {
                return;
            }
            if !state.rows.contains_key(&row) {
                self.begin(&mut state, row);
            }
        }
    }

    fn rows(&self, rows: &[u64], out: &mut Vec<u8>) -> Result<(), kernels::Error> {
        out.clear();
        let count = self.shared.layout.rows;
        if let Some(row) = rows.iter().find(|&&row| row >= count) {
            let what = format!("row {row} of a table of {count}");
            return Err(StoreError::Layout { what }.into());
        }
        let mut state = lock(&self.shared.state);
        state.gathered += 1;
        let own = state.gathered;
        for &row in rows {
            if !state.rows.contains_key(&row) {
                self.begin(&mut state, row);
            }
        }
        for &row in rows {
            loop {
                match state.rows.get(&row) {
                    Some(Row::Held(bytes)) => {
                        out.extend_from_slice(bytes);
                        break;
                    }
                    // What was read for somebody else fails for nobody: it is read again.
                    Some(Row::Failed(failure)) if failure.begun < own => {
                        self.begin(&mut state, row);
                    }
                    Some(Row::Failed(failure)) => {
                        let error = failure.error.clone();
                        state.forget_failed();
                        state.shrink();
                        return Err(error.into());
                    }
                    Some(Row::Reading) => {
                        let wait = self.shared.ready.wait(state);
                        state = wait.unwrap_or_else(PoisonError::into_inner);
                    }
                    // Expected in vain: a failure that another row's told of was forgotten.
                    None => self.begin(&mut state, row),
                }
            }
        }
        state.shrink();
        Ok(())
    }
}
