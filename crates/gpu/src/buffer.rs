//! Memory of the device.

use crate::NAME;
use kernels::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wgpu::{BufferUsages, ErrorFilter};

/// Buffers are this many bytes or a multiple: no view of 16-byte vectors is cut short.
const GRAIN: u64 = 256;

/// f32 values, or any other words, on the device.
#[derive(Debug)]
pub struct GpuBuffer {
    pub(crate) raw: wgpu::Buffer,
    len: usize,
    id: u64,
    /// The number of the last write, of all writes to any buffer.
    written: AtomicU64,
    dropped: Dropped,
    used: Used,
}

static WRITES: AtomicU64 = AtomicU64::new(1);

impl GpuBuffer {
    /// What tells it from all others, also of buffers that are gone.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Differs after every write.
    pub(crate) fn state(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Notes that something is written.
    pub(crate) fn touch(&self) {
        self.written.store(WRITES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Number of 4-byte values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, to be bound.
    pub(crate) fn all(&self) -> Slice<'_> {
        let id = (self.id, 0, self.raw.size());
        Slice { raw: &self.raw, written: Some(&self.written), id }
    }

    /// Some of its values, to be bound; `first` must be a multiple of 64.
    pub(crate) fn part(&self, first: usize, len: usize) -> Slice<'_> {
        assert!(first + len <= self.len, "{len} values from {first} of {}", self.len);
        let bytes = (4 * len as u64).next_multiple_of(16).max(16);
        let id = (self.id, 4 * first as u64, bytes);
        Slice { raw: &self.raw, written: Some(&self.written), id }
    }
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        self.used.fetch_sub(self.raw.size(), Ordering::Relaxed);
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

/// A part of a buffer that a kernel binds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    raw: &'a wgpu::Buffer,
    /// Where a write is noted; `None` if it was already.
    written: Option<&'a AtomicU64>,
    id: SliceId,
}

/// What tells a [`Slice`] from all others, also of buffers that are gone: buffer, offset, bytes.
pub(crate) type SliceId = (u64, u64, u64);

impl Slice<'_> {
    pub(crate) fn id(&self) -> SliceId {
        self.id
    }

    /// Notes that a kernel writes it.
    pub(crate) fn touch(&self) {
        if let Some(written) = self.written {
            written.store(WRITES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The buffer that it is a part of.
    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        self.raw
    }

    pub(crate) fn binding(&self) -> wgpu::BindingResource<'_> {
        let (_, offset, bytes) = self.id;
        let size = std::num::NonZeroU64::new(bytes);
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: self.raw(), offset, size })
    }
}

/// What a call binds: its buffers, and behind them a place in the constants if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bindings<'a> {
    pub(crate) buffers: &'a [Slice<'a>],
    pub(crate) constants: Option<Slice<'a>>,
}

impl<'a> Bindings<'a> {
    /// All of them in the order of the shader's bindings.
    pub(crate) fn iter(self) -> impl Iterator<Item = Slice<'a>> {
        self.buffers.iter().copied().chain(self.constants)
    }

    /// How many there are.
    pub(crate) fn len(self) -> usize {
        self.buffers.len() + usize::from(self.constants.is_some())
    }

    /// Notes that a kernel writes those that `writes` says.
    pub(crate) fn touch(self, writes: &[bool]) {
        self.iter().zip(writes).filter(|(_, writes)| **writes).for_each(|(slice, _)| slice.touch());
    }
}

/// A whole buffer that a call keeps until it is recorded, whatever becomes of the [`GpuBuffer`].
#[derive(Clone, Debug)]
pub(crate) struct Held {
    raw: wgpu::Buffer,
    id: SliceId,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Held {
    pub(crate) fn new(buffer: &GpuBuffer) -> Self {
        Self { raw: buffer.raw.clone(), id: buffer.all().id() }
    }

    /// To be bound; what is written was noted before.
    pub(crate) fn slice(&self) -> Slice<'_> {
        Slice { raw: &self.raw, written: None, id: self.id }
    }
}

/// Ids of buffers that were dropped, for those who cache what refers to them.
pub(crate) type Dropped = Arc<Mutex<Vec<u64>>>;

/// Bytes of all buffers that are in use.
type Used = Arc<AtomicU64>;

/// Who sees to it that a new buffer is zeroed before it is used.
#[derive(Clone, Debug)]
pub(crate) enum Zeroing {
    /// wgpu, which knows all uses of the buffer.
    Tracked,
    /// We do, when the buffer is made: of its uses wgpu learns nothing.
    AtOnce(wgpu::Queue),
}

/// Makes buffers.
#[derive(Debug)]
pub(crate) struct Allocator {
    device: wgpu::Device,
    zeroing: Zeroing,
    dropped: Dropped,
    used: Used,
    /// Most bytes that one buffer may have and a kernel can see of it.
    limit: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Allocator {
    pub(crate) fn new(device: wgpu::Device, zeroing: Zeroing) -> Self {
        let limits = device.limits();
        let limit = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let (dropped, used) = (Dropped::default(), Used::default());
        Self { device, zeroing, dropped, used, limit: limit / GRAIN * GRAIN }
    }

    /// Bytes of all buffers that are in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Most bytes of one buffer.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes the ids of buffers that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> Vec<u64> {
        std::mem::take(&mut self.dropped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A zeroed buffer of `len` values for kernels.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the device lacks it, or no buffer may be so large.
    pub(crate) fn storage(&self, len: usize, what: &'static str) -> Result<GpuBuffer, Error> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let buffer = self.make(len, usage, what)?;
        if let Zeroing::AtOnce(queue) = &self.zeroing {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.clear_buffer(&buffer.raw, 0, None);
            queue.submit([encoder.finish()]);
        }
        Ok(buffer)
    }

    /// A buffer that the host can read.
    ///
    /// # Errors
    /// As for [`Allocator::storage`].
    pub(crate) fn readable(&self, len: usize) -> Result<GpuBuffer, Error> {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let buffer = self.make(len, usage, "a download")?;
        if matches!(self.zeroing, Zeroing::AtOnce(_)) {
            buffer.raw.unmap();
        }
        Ok(buffer)
    }

    fn make(
        &self,
        len: usize,
        usage: BufferUsages,
        what: &'static str,
    ) -> Result<GpuBuffer, Error> {
        let bytes = (len as u64).saturating_mul(4);
        let short = || {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            Error::OutOfMemory { device: NAME, bytes, what }
        };
        if bytes > self.limit {
            return Err(short());
        }
        let size = bytes.next_multiple_of(GRAIN).max(GRAIN);
        let memory = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        // What was never written as far as wgpu knows it would zero when it is mapped.
        let mapped_at_creation =
            usage.contains(BufferUsages::MAP_READ) && matches!(self.zeroing, Zeroing::AtOnce(_));
        let descriptor =
            wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation };
        let raw = self.device.create_buffer(&descriptor);
        if pollster::block_on(memory.pop()).is_some() {
            return Err(short());
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let written = AtomicU64::new(0);
        self.used.fetch_add(raw.size(), Ordering::Relaxed);
        let (dropped, used) = (self.dropped.clone(), self.used.clone());
        Ok(GpuBuffer { raw, len, id, written, dropped, used })
    }
}
