//! Small inputs of a window that come from the host: tokens, positions, rows.
//!
//! They are gathered on the host and written to one buffer just before the submission whose kernels
//! read them. Each has a place of its own in it, so none is overwritten while it is still needed,
//! and no copy breaks up the list of kernels.

use crate::buffer::{Allocator, GpuBuffer, Slice};
use kernels::Error;

/// Places begin at multiples of this many words: what bindings ask for on every device.
const ALIGN: usize = 64;

/// Words of the first buffer.
const FIRST_WORDS: usize = 1 << 16;

/// Host words of the submission that is being recorded.
#[derive(Debug)]
pub(crate) struct Constants {
    words: Vec<u32>,
    buffer: GpuBuffer,
}

/// Where some words are, until the next submission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    first: usize,
    len: usize,
}

impl Constants {
    pub(crate) fn new(allocator: &Allocator) -> Result<Self, Error> {
        let buffer = allocator.storage(FIRST_WORDS, "host constants")?;
        Ok(Self { words: Vec::new(), buffer })
    }

    /// Whether `words` more find room.
    pub(crate) fn has_room(&self, words: usize) -> bool {
        self.words.len() + words <= self.buffer.len()
    }

    /// Makes the buffer hold `words` at least; only between submissions.
    pub(crate) fn grow(&mut self, allocator: &Allocator, words: usize) -> Result<(), Error> {
        assert!(self.words.is_empty(), "places are in use");
        if words > self.buffer.len() {
            // With room for what else a window of that size brings, or the next one is cut again.
            let room = (words + FIRST_WORDS).next_power_of_two();
            self.buffer = allocator.storage(room, "host constants")?;
        }
        Ok(())
    }

    /// Adds words, for which there must be room.
    pub(crate) fn add(&mut self, words: &[u32]) -> Place {
        let place = Place { first: self.words.len(), len: words.len() };
        self.words.extend_from_slice(words);
        // The end of the buffer is a multiple, so that room for the words is room for the rest.
        self.words.resize(self.words.len().next_multiple_of(ALIGN), 0);
        place
    }

    /// The words at `place`, to be bound.
    pub(crate) fn at(&self, place: Place) -> Slice<'_> {
        self.buffer.part(place.first, place.len)
    }

    /// The buffer that has the words at `place` when the submission runs, and where.
    pub(crate) fn source(&self, place: Place) -> (&GpuBuffer, usize) {
        (&self.buffer, place.first)
    }

    /// All words so far.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// The buffer that has them when the submission runs.
    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.buffer.raw
    }

    /// Begins again.
    pub(crate) fn forget(&mut self) {
        self.words.clear();
    }

    /// Writes all words, to be read by the next submission, and begins again.
    pub(crate) fn flush(&mut self, queue: &wgpu::Queue) {
        if !self.words().is_empty() {
            queue.write_buffer(self.raw(), 0, bytemuck::cast_slice(self.words()));
            self.forget();
        }
    }
}
