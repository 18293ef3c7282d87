//! Lists of commands: what both ways of recording them have in common.

use crate::buffer::{Bindings, GpuBuffer};
use crate::constants::Constants;
use crate::kernel::Kernel;
use kernels::Error;
use std::fmt::Debug;

/// How kernels get to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Past wgpu's bookkeeping, which takes longer than many a kernel runs. Vulkan only.
    Direct,
    /// Through wgpu.
    Wgpu,
}

/// A call of a kernel, ready to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) bindings: Bindings<'a>,
    /// As many words as the kernel has.
    pub(crate) params: &'a [u32],
    /// Workgroups; there are some.
    pub(crate) grid: [u32; 3],
    /// Stamps of its begin and, behind that, its end, if it is timed by itself.
    pub(crate) stamps: Option<(&'a Stamps, u32)>,
}

/// Some values of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) buffer: &'a GpuBuffer,
    pub(crate) first: usize,
}

impl Values<'_> {
    /// Bytes before the first one.
    pub(crate) fn offset(&self) -> u64 {
        4 * self.first as u64
    }
}

/// Places for readings of the device's clock.
#[derive(Debug)]
pub(crate) struct Stamps {
    /// Which ones, for the lists that made them.
    pub(crate) set: usize,
    /// Where [`Lists::resolve`] puts the readings, which the host can read.
    pub(crate) readable: wgpu::Buffer,
}

/// Records commands into a list and hands it to the device.
///
/// Commands take effect in the order in which they were recorded, and see what
/// [`wgpu::Queue::write_buffer`] wrote before the list was submitted. What fails is kept as a
/// fault. Callers have asserted that buffers are as long as it takes.
pub(crate) trait Lists: Debug + Send {
    /// Appends a kernel, and notes in its buffers that it writes them.
    fn kernel(&mut self, work: &Work<'_>);

    /// Copies `len` values.
    fn copy(&mut self, from: Values<'_>, to: Values<'_>, len: usize);

    /// Zeroes `len` values.
    fn clear(&mut self, values: Values<'_>, len: usize);

    /// Places for so many readings of the clock, if the device has one.
    fn stamps(&mut self, count: u32) -> Option<Stamps>;

    /// Notes the time in one of the places; with the first one all are emptied.
    fn stamp(&mut self, stamps: &Stamps, index: u32);

    /// Brings the first `count` readings to where the host can read them.
    fn resolve(&mut self, stamps: &Stamps, count: u32);

    /// Submits the list, with the constants that its kernels read. `dropped` are numbers of buffers
    /// that no later list uses.
    fn submit(&mut self, constants: &mut Constants, dropped: &[u64]);

    /// Lets go what lists used that are done: the device was waited for.
    fn retire(&mut self) {}

    /// Most calls that it pays to gather in a list while the device is at work on another one.
    fn most_calls(&self) -> usize;

    /// Name of a kernel.
    fn name(&self, kernel: Kernel) -> String;

    /// Number of bind groups that are kept.
    #[cfg(test)]
    fn bound(&self) -> usize;

    /// Compiles a shader that belongs to no kernel.
    #[cfg(test)]
    fn compile(&self, shader: &crate::shader::Shader) -> Result<(), Error>;
}

/// Bytes of a reading of the clock.
pub(crate) const STAMP_BYTES: u64 = 8;

/// Makes the buffer that readings are resolved to. On the direct route wgpu must not think of it as
/// never written, or it zeroes it when it is mapped.
pub(crate) fn readable_stamps(device: &wgpu::Device, count: u32, route: Route) -> wgpu::Buffer {
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("time stamps"),
        size: STAMP_BYTES * u64::from(count),
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: route == Route::Direct,
    });
    if route == Route::Direct {
        buffer.unmap();
    }
    buffer
}

/// [`Error::KernelBuild`] without the kernel's name, which is known where it is kept.
pub(crate) fn refused(why: &impl ToString) -> Error {
    let why = why.to_string();
    Error::KernelBuild { device: crate::NAME, kernel: String::new(), why }
}
