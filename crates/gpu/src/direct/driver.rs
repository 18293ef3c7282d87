//! The unsafe part of the direct route: what is asked of the driver through wgpu-hal and ash.

use super::check::{self, ENTRY};
use super::hazards::{Barrier, Use};
use crate::buffer::Bindings;
use crate::fault::fault;
use crate::lists::{STAMP_BYTES, refused};
use crate::pipelines::{Compiled, layout_entries};
use crate::shader::Shader;
use ash::vk;
use kernels::Error;
use std::borrow::Cow;
use std::fmt::{Debug, Formatter};
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ops::{Deref, Range};
use std::sync::Arc;
use wgpu::hal::api::Vulkan;
use wgpu::hal::vulkan;
use wgpu::hal::{self, CommandEncoder as _, Device as _};
use wgpu::naga::front::wgsl;
use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};

/// What kernels may use beyond plain WGSL: parameters, and halves inside of whole words, which
/// every Vulkan device takes apart.
const CAPABILITIES: Capabilities =
    Capabilities::IMMEDIATES.union(Capabilities::SHADER_FLOAT16_IN_FLOAT32);

/// A constant that no kernel uses. wgpu-hal translates modules with one when it makes the pipeline,
/// and only then leaves out what it was told to: bounds of loops, checks of whole divisions, and
/// zeroing workgroup memory.
const OVERRIDE: &str = "override unused: u32 = 0u;\n";

/// Bytes that one command can put into a buffer.
const UPDATE_BYTES: usize = 65536;

/// A Vulkan device. Copies are the same one.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    device: wgpu::Device,
}

/// An object of the driver, destroyed with its owner: the device must be done with it then.
pub(super) struct Owned<T> {
    driver: Driver,
    raw: ManuallyDrop<T>,
    destroy: unsafe fn(&vulkan::Device, T),
}

/// A compiled kernel.
#[derive(Debug)]
pub(super) struct Pipeline {
    pipeline: Owned<vulkan::ComputePipeline>,
    layout: Owned<vulkan::PipelineLayout>,
    group_layout: Owned<vulkan::BindGroupLayout>,
    /// Bytes of its parameters.
    params: u32,
}

/// A kernel with its buffers, which it keeps.
#[derive(Debug)]
pub(super) struct Group {
    set: Owned<vulkan::BindGroup>,
    pub(super) compiled: Arc<Compiled<Pipeline>>,
    pub(super) uses: Vec<Use>,
    _buffers: Vec<wgpu::Buffer>,
}

/// Places for readings of the clock.
pub(super) type TimeStamps = Owned<vulkan::QuerySet>;

/// A part of a buffer that a command reads or writes, and which it keeps.
#[derive(Debug)]
pub(super) struct Stretch {
    raw: vk::Buffer,
    offset: u64,
    bytes: u64,
    _buffer: wgpu::Buffer,
}

/// What a list is made of.
#[derive(Debug)]
pub(super) enum Command {
    Barrier(Barrier),
    Kernel { group: Arc<Group>, params: Range<usize>, grid: [u32; 3] },
    Copy { from: Stretch, to: Stretch },
    Clear(Stretch),
    ResetStamps { set: Arc<TimeStamps>, count: u32 },
    Stamp { set: Arc<TimeStamps>, index: u32 },
    ResolveStamps { set: Arc<TimeStamps>, count: u32, to: Stretch },
}

/// Commands, with all that they use.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) commands: Vec<Command>,
    /// Parameters of its kernels.
    pub(super) words: Vec<u32>,
    /// Where constants go before the first command.
    pub(super) constants: Option<Stretch>,
}

impl List {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.constants.is_none()
    }

    /// Lets go what it used, which the device must be done with.
    pub(super) fn empty(&mut self) {
        self.commands.clear();
        self.words.clear();
        self.constants = None;
    }
}

impl Group {
    /// # Panics
    /// If the kernel has not so many words of parameters.
    pub(super) fn check_params(&self, words: usize) {
        assert_eq!(4 * words, self.compiled.pipeline.params as usize, "words of parameters");
    }
}

impl Stretch {
    /// # Errors
    /// [`Error::DeviceFault`] if the buffer was destroyed with its device.
    pub(super) fn new(buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Self, Error> {
        Ok(Self { raw: handle(buffer)?, offset, bytes, _buffer: buffer.clone() })
    }
}

impl<T> Owned<T> {
    fn new(driver: &Driver, raw: T, destroy: unsafe fn(&vulkan::Device, T)) -> Self {
        Self { driver: driver.clone(), raw: ManuallyDrop::new(raw), destroy }
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses the field after this.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        // SAFETY: the object is of this device. Lists hold what they use until the device is done
        // with them, and `Direct` waits for it before it lets its lists go.
        let destroy = |device: &vulkan::Device| unsafe { (self.destroy)(device, raw) };
        // The device is there as long as its driver.
        let _ = self.driver.with(|device| {
            destroy(device);
            Ok(())
        });
    }
}

impl<T> Debug for Owned<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owned")
    }
}

/// The driver's name of a buffer, which holds as long as the buffer is kept.
fn handle(buffer: &wgpu::Buffer) -> Result<vk::Buffer, Error> {
    // SAFETY: the handle is not destroyed by us; whoever uses it keeps the buffer.
    let found = unsafe { buffer.as_hal::<Vulkan>().map(|buffer| buffer.raw_handle()) };
    found.ok_or_else(|| fault("a buffer is no more".to_owned()))
}

impl Driver {
    /// `None` if the device is not one of Vulkan's.
    pub(super) fn new(device: wgpu::Device) -> Option<Self> {
        let driver = Self { device };
        driver.with(|_| Ok(())).ok().map(|()| driver)
    }

    pub(super) fn device(&self) -> &wgpu::Device {
        &self.device
    }

    fn with<T>(&self, f: impl FnOnce(&vulkan::Device) -> Result<T, Error>) -> Result<T, Error> {
        // SAFETY: the device is only lent, and stays as long as `self.device`.
        match unsafe { self.device.as_hal::<Vulkan>() } {
            Some(device) => f(&device),
            None => Err(fault("the device is not one of Vulkan's".to_owned())),
        }
    }

    /// Waits until the device has nothing to do, or is lost.
    pub(super) fn wait(&self) {
        // SAFETY: the queue is used by one thread at a time, which is the one that is here.
        let wait = |device: &vulkan::Device| unsafe { device.raw_device().device_wait_idle() };
        let _ = self.with(|device| wait(device).map_err(|error| fault(error.to_string())));
    }

    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`Error::KernelBuild`] with the reason.
    pub(super) fn compile(&self, shader: &Shader) -> Result<Pipeline, Error> {
        let text = &format!("{}{OVERRIDE}", shader.text);
        let mut options = wgsl::Options::new();
        options.capabilities = CAPABILITIES;
        let module = wgsl::Frontend::new_with_options(options)
            .parse(text)
            .map_err(|error| refused(&error.emit_to_string(text)))?;
        let info = Validator::new(ValidationFlags::all(), CAPABILITIES)
            .validate(&module)
            .map_err(|error| refused(&error.emit_to_string(text)))?;
        check::kernel((&module, &info), shader, &self.device.limits())?;
        let naga = hal::NagaShader { module: Cow::Owned(module), info, debug_source: None };
        self.with(|device| self.build(device, naga, shader))
    }

    fn build(
        &self,
        device: &vulkan::Device,
        naga: hal::NagaShader,
        shader: &Shader,
    ) -> Result<Pipeline, Error> {
        let label = Some(shader.name.as_str());
        let module = hal::ShaderModuleDescriptor {
            label,
            runtime_checks: wgpu::ShaderRuntimeChecks::unchecked(),
        };
        // SAFETY: the text is this crate's own and was validated. Every kernel keeps its indices
        // inside the buffers that its callers assert to be large enough, and its loops are bounded.
        let module = unsafe { device.create_shader_module(&module, hal::ShaderInput::Naga(naga)) };
        let destroy = vulkan::Device::destroy_shader_module;
        let module = Owned::new(self, module.map_err(|error| refused(&error))?, destroy);
        let descriptor = hal::BindGroupLayoutDescriptor {
            label,
            flags: hal::BindGroupLayoutFlags::empty(),
            entries: &layout_entries(shader),
        };
        // SAFETY: there are no more entries than the device binds, which was checked.
        let layout = unsafe { device.create_bind_group_layout(&descriptor) };
        let destroy = vulkan::Device::destroy_bind_group_layout;
        let group_layout = Owned::new(self, layout.map_err(|error| refused(&error))?, destroy);
        let descriptor = hal::PipelineLayoutDescriptor {
            label,
            flags: hal::PipelineLayoutFlags::empty(),
            bind_group_layouts: &[Some(&*group_layout)],
            immediate_size: shader.params,
        };
        // SAFETY: the layout is of this device, and the parameters are within its limit.
        let layout = unsafe { device.create_pipeline_layout(&descriptor) };
        let destroy = vulkan::Device::destroy_pipeline_layout;
        let layout = Owned::new(self, layout.map_err(|error| refused(&error))?, destroy);
        let descriptor = hal::ComputePipelineDescriptor {
            label,
            layout: &*layout,
            stage: hal::ProgrammableStage {
                module: &*module,
                entry_point: ENTRY,
                constants: &Default::default(),
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        };
        // SAFETY: the entry point is there, within the limits of the device, and its bindings are
        // those of the layout, since both are made of the same list.
        let pipeline = unsafe { device.create_compute_pipeline(&descriptor) };
        let destroy = vulkan::Device::destroy_compute_pipeline;
        let pipeline = Owned::new(self, pipeline.map_err(|error| refused(&error))?, destroy);
        Ok(Pipeline { pipeline, layout, group_layout, params: shader.params })
    }

    /// Binds buffers, which passed [`check::bindings`].
    ///
    /// # Errors
    /// [`Error::DeviceFault`] with what the driver says.
    pub(super) fn bind(
        &self,
        compiled: &Arc<Compiled<Pipeline>>,
        buffers: Bindings<'_>,
        uses: Vec<Use>,
    ) -> Result<Group, Error> {
        let handles = buffers.iter().map(|slice| handle(slice.raw()));
        let handles = handles.collect::<Result<Vec<_>, _>>()?;
        // SAFETY: the memory is wgpu's, whose buffers the group keeps.
        let raw = handles.into_iter().map(|buffer| unsafe { vulkan::Buffer::from_raw(buffer) });
        let raw: Vec<_> = raw.collect();
        let parts = raw.iter().zip(buffers.iter()).map(|(buffer, slice)| {
            let (_, offset, bytes) = slice.id();
            hal::BufferBinding::new_unchecked(buffer, offset, NonZeroU64::new(bytes))
        });
        let parts: Vec<_> = parts.collect();
        let entry = |index| hal::BindGroupEntry { binding: index, resource_index: index, count: 1 };
        let entries: Vec<_> = (0..parts.len() as u32).map(entry).collect();
        let descriptor = hal::BindGroupDescriptor {
            label: None,
            layout: &*compiled.pipeline.group_layout,
            buffers: &parts,
            samplers: &[],
            textures: &[],
            entries: &entries,
            acceleration_structures: &[],
            external_textures: &[],
        };
        let set = self.with(|device| {
            // SAFETY: every part lies within its buffer, and there is one for each entry of the
            // layout, which is of this device.
            unsafe { device.create_bind_group(&descriptor) }
                .map_err(|error| fault(error.to_string()))
        })?;
        let set = Owned::new(self, set, vulkan::Device::destroy_bind_group);
        let kept = buffers.iter().map(|slice| slice.raw().clone()).collect();
        Ok(Group { set, compiled: compiled.clone(), uses, _buffers: kept })
    }

    /// Places for so many readings of the clock.
    ///
    /// # Errors
    /// [`Error::DeviceFault`] with what the driver says.
    pub(super) fn time_stamps(&self, count: u32) -> Result<TimeStamps, Error> {
        let descriptor = wgpu::wgt::QuerySetDescriptor {
            label: Some("time stamps"),
            ty: wgpu::QueryType::Timestamp,
            count,
        };
        self.with(|device| {
            // SAFETY: the device has the feature, which the caller has looked up.
            unsafe { device.create_query_set(&descriptor) }
                .map(|set| Owned::new(self, set, vulkan::Device::destroy_query_set))
                .map_err(|error| fault(error.to_string()))
        })
    }

    /// Records a list, with its constants; whether the encoder could be used. The list must be kept
    /// until the device is done with it.
    pub(super) fn record(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        list: &List,
        constants: &[u32],
    ) -> bool {
        let record = |encoder: Option<&mut vulkan::CommandEncoder>| {
            let Some(encoder) = encoder else { return false };
            self.with(|device| {
                let mut recording = Recording { encoder, device: device.raw_device() };
                // SAFETY: all objects are of this device, and the list keeps them.
                unsafe { recording.list(list, constants) };
                Ok(())
            })
            .is_ok()
        };
        // SAFETY: the encoder is open, and is neither ended nor used otherwise in between.
        unsafe { encoder.as_hal_mut::<Vulkan, _, _>(record) }
    }
}

/// An encoder that is written to.
struct Recording<'a> {
    encoder: &'a mut vulkan::CommandEncoder,
    device: &'a ash::Device,
}

impl Recording<'_> {
    /// # Safety
    /// What the list uses is of this device and stays until the device is done with it.
    unsafe fn list(&mut self, list: &List, constants: &[u32]) {
        let pass = hal::ComputePassDescriptor { label: None, timestamp_writes: None };
        // SAFETY: on Vulkan this opens nothing that barriers and copies could not be in; the next
        // commands need it to bind their buffers for kernels.
        unsafe { self.encoder.begin_compute_pass(&pass) };
        self.barrier(Barrier::All, Host::Elsewhere);
        if let Some(target) = &list.constants {
            self.update(target, constants);
            self.barrier(Barrier::All, Host::Elsewhere);
        }
        for command in &list.commands {
            // SAFETY: as for the list.
            unsafe { self.command(command, &list.words) };
        }
        self.barrier(Barrier::All, Host::Reads);
        // SAFETY: it was begun.
        unsafe { self.encoder.end_compute_pass() };
    }

    fn update(&self, target: &Stretch, words: &[u32]) {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        for (i, chunk) in bytes.chunks(UPDATE_BYTES).enumerate() {
            let offset = target.offset + (i * UPDATE_BYTES) as u64;
            // SAFETY: the encoder is open and the buffer is kept; the words fit in it, and offset
            // and length are multiples of 4.
            unsafe {
                let list = self.encoder.raw_handle();
                self.device.cmd_update_buffer(list, target.raw, offset, chunk);
            }
        }
    }

    /// # Safety
    /// As for [`Recording::list`].
    unsafe fn command(&mut self, command: &Command, words: &[u32]) {
        match command {
            Command::Barrier(barrier) => self.barrier(*barrier, Host::Elsewhere),
            // SAFETY: the buffers were bound for the kernel, and so were as many parameters.
            Command::Kernel { group, params, grid } => unsafe {
                let Pipeline { pipeline, layout, .. } = &group.compiled.pipeline;
                self.encoder.set_compute_pipeline(pipeline);
                self.encoder.set_bind_group(layout, 0, &group.set, &[]);
                if !params.is_empty() {
                    self.encoder.set_immediates(layout, 0, &words[params.clone()]);
                }
                self.encoder.dispatch_workgroups(*grid);
            },
            Command::Copy { from, to } => {
                let (src_offset, dst_offset, size) = (from.offset, to.offset, from.bytes);
                let region = vk::BufferCopy { src_offset, dst_offset, size };
                // SAFETY: both parts lie within their buffers, which differ.
                unsafe {
                    let list = self.encoder.raw_handle();
                    self.device.cmd_copy_buffer(list, from.raw, to.raw, &[region]);
                }
            }
            // SAFETY: the part lies within the buffer, whose memory is wgpu's.
            Command::Clear(Stretch { raw, offset, bytes, .. }) => unsafe {
                let buffer = vulkan::Buffer::from_raw(*raw);
                self.encoder.clear_buffer(&buffer, *offset..offset + bytes);
            },
            // SAFETY: there are so many places.
            Command::ResetStamps { set, count } => unsafe {
                self.encoder.reset_queries(set, 0..*count);
            },
            // SAFETY: the place is there and was emptied.
            Command::Stamp { set, index } => unsafe { self.encoder.write_timestamp(set, *index) },
            // SAFETY: the places were written, and the buffer has room for all of them.
            Command::ResolveStamps { set, count, to } => unsafe {
                let buffer = vulkan::Buffer::from_raw(to.raw);
                let stride = NonZeroU64::MIN.saturating_add(STAMP_BYTES - 1);
                self.encoder.copy_query_results(set, 0..*count, &buffer, to.offset, stride);
            },
        }
    }

    fn barrier(&self, barrier: Barrier, host: Host) {
        let (mut stage, mut written) =
            (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);
        let mut wanted = written | vk::AccessFlags::SHADER_READ;
        if barrier == Barrier::All {
            stage |= vk::PipelineStageFlags::TRANSFER;
            written |= vk::AccessFlags::TRANSFER_WRITE;
            wanted |= vk::AccessFlags::TRANSFER_WRITE | vk::AccessFlags::TRANSFER_READ;
        }
        let mut then = stage;
        if let Host::Reads = host {
            then |= vk::PipelineStageFlags::HOST;
            wanted |= vk::AccessFlags::HOST_READ;
        }
        let memory = vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(wanted);
        // SAFETY: the encoder is open, outside of any render pass.
        unsafe {
            self.device.cmd_pipeline_barrier(
                self.encoder.raw_handle(),
                stage,
                then,
                vk::DependencyFlags::empty(),
                &[memory],
                &[],
                &[],
            );
        }
    }
}

/// Whether the host, too, reads what was written before a barrier.
#[derive(Clone, Copy)]
enum Host {
    Elsewhere,
    Reads,
}
