//! Lists that are recorded through wgpu, which checks every call and puts barriers between them.

use crate::buffer::Bindings;
use crate::constants::Constants;
use crate::fault::Faults;
use crate::kernel::Kernel;
use crate::lists::{Lists, Route, STAMP_BYTES, Stamps, Values, Work, readable_stamps, refused};
use crate::pipelines::{Compiled, Maker, Pipelines, layout_entries};
use crate::shader::Shader;
use crate::timer;
use kernels::Error;
use std::sync::Arc;
use wgpu::{CommandEncoder, ComputePass, ErrorFilter};

/// Calls of a list: wgpu records as slowly as the device works, so the device would wait for more.
const MOST_CALLS: usize = 32;

/// The list that is open, and what lists use.
#[derive(Debug)]
pub(crate) struct WgpuLists {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipelines: Pipelines<WgpuMaker>,
    /// Open while kernels follow each other; copies are between passes.
    pass: Option<ComputePass<'static>>,
    encoder: Option<CommandEncoder>,
    sets: Vec<StampSet>,
}

/// Places for readings of the clock, and where they are resolved to.
#[derive(Debug)]
struct StampSet {
    count: u32,
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
}

impl WgpuLists {
    pub(crate) fn new(device: wgpu::Device, queue: wgpu::Queue, faults: Faults) -> Self {
        let pipelines = Pipelines::new(WgpuMaker { device: device.clone() }, faults);
        Self { device, queue, pipelines, pass: None, encoder: None, sets: Vec::new() }
    }

    /// The list, outside any pass.
    fn encoder(&mut self) -> &mut CommandEncoder {
        self.pass = None;
        let Self { device, encoder, .. } = self;
        encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()))
    }

    fn open_pass(&mut self, stamps: Option<(&Stamps, u32)>) {
        if stamps.is_some() {
            self.pass = None;
        }
        if self.pass.is_some() {
            return;
        }
        self.encoder();
        let timestamp_writes = stamps.map(|(stamps, index)| wgpu::ComputePassTimestampWrites {
            query_set: &self.sets[stamps.set].set,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        });
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let Some(encoder) = &mut self.encoder else { return };
        self.pass = Some(encoder.begin_compute_pass(&descriptor).forget_lifetime());
    }
}

impl StampSet {
    fn new(device: &wgpu::Device, count: u32) -> Self {
        let set = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("time stamps"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let resolved = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("time stamps"),
            size: STAMP_BYTES * u64::from(count),
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Self { count, set, resolved }
    }
}

impl Lists for WgpuLists {
    fn kernel(&mut self, work: &Work<'_>) {
        self.open_pass(work.stamps);
        let Some(bound) = self.pipelines.get(work.kernel, work.bindings) else { return };
        let Some(pass) = &mut self.pass else { return };
        let [x, y, z] = work.grid;
        pass.set_pipeline(&bound.compiled.pipeline.pipeline);
        pass.set_bind_group(0, &*bound.group, &[]);
        pass.set_immediates(0, bytemuck::cast_slice(work.params));
        pass.dispatch_workgroups(x, y, z);
        work.bindings.touch(&bound.compiled.writes);
        if work.stamps.is_some() {
            self.pass = None;
        }
    }

    fn copy(&mut self, from: Values<'_>, to: Values<'_>, len: usize) {
        let (source, target) = (&from.buffer.raw, &to.buffer.raw);
        let bytes = 4 * len as u64;
        self.encoder().copy_buffer_to_buffer(source, from.offset(), target, to.offset(), bytes);
    }

    fn clear(&mut self, values: Values<'_>, len: usize) {
        self.encoder().clear_buffer(&values.buffer.raw, values.offset(), Some(4 * len as u64));
    }

    fn stamps(&mut self, count: u32) -> Option<Stamps> {
        if !self.device.features().contains(timer::FEATURES) {
            return None;
        }
        let made = self.sets.iter().position(|set| set.count == count);
        let set = made.unwrap_or_else(|| {
            self.sets.push(StampSet::new(&self.device, count));
            self.sets.len() - 1
        });
        Some(Stamps { set, readable: readable_stamps(&self.device, count, Route::Wgpu) })
    }

    fn stamp(&mut self, stamps: &Stamps, index: u32) {
        self.encoder();
        if let Some(encoder) = &mut self.encoder {
            encoder.write_timestamp(&self.sets[stamps.set].set, index);
        }
    }

    fn resolve(&mut self, stamps: &Stamps, count: u32) {
        self.encoder();
        if let Some(encoder) = &mut self.encoder {
            let StampSet { set, resolved, .. } = &self.sets[stamps.set];
            encoder.resolve_query_set(set, 0..count, resolved, 0);
            let bytes = STAMP_BYTES * u64::from(count);
            encoder.copy_buffer_to_buffer(resolved, 0, &stamps.readable, 0, bytes);
        }
    }

    fn submit(&mut self, constants: &mut Constants, dropped: &[u64]) {
        self.pass = None;
        constants.flush(&self.queue);
        self.pipelines.forget(dropped);
        self.queue.submit(self.encoder.take().map(CommandEncoder::finish));
    }

    fn most_calls(&self) -> usize {
        MOST_CALLS
    }

    fn name(&self, kernel: Kernel) -> String {
        self.pipelines.name(kernel)
    }

    #[cfg(test)]
    fn bound(&self) -> usize {
        self.pipelines.bound()
    }

    #[cfg(test)]
    fn compile(&self, shader: &Shader) -> Result<(), Error> {
        self.pipelines.compile(shader)
    }
}

/// Makes wgpu's pipelines and bind groups.
#[derive(Debug)]
struct WgpuMaker {
    device: wgpu::Device,
}

/// A pipeline, and how its buffers are bound.
#[derive(Debug)]
struct WgpuPipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

impl Maker for WgpuMaker {
    type Pipeline = WgpuPipeline;
    type Group = wgpu::BindGroup;

    fn compile(&self, shader: &Shader) -> Result<WgpuPipeline, Error> {
        let internal = self.device.push_error_scope(ErrorFilter::Internal);
        let validation = self.device.push_error_scope(ErrorFilter::Validation);
        let compiled = build(&self.device, shader);
        let errors = [pollster::block_on(validation.pop()), pollster::block_on(internal.pop())];
        errors.into_iter().flatten().next().map_or(Ok(compiled), |error| Err(refused(&error)))
    }

    fn bind(
        &mut self,
        compiled: &Arc<Compiled<WgpuPipeline>>,
        buffers: Bindings<'_>,
    ) -> Result<wgpu::BindGroup, Error> {
        let slices: Vec<_> = buffers.iter().collect();
        let entry = |(binding, slice)| {
            let (binding, slice): (usize, &crate::buffer::Slice<'_>) = (binding, slice);
            wgpu::BindGroupEntry { binding: binding as u32, resource: slice.binding() }
        };
        let entries: Vec<_> = slices.iter().enumerate().map(entry).collect();
        let layout = &compiled.pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        Ok(self.device.create_bind_group(&descriptor))
    }
}

fn build(device: &wgpu::Device, shader: &Shader) -> WgpuPipeline {
    let label = Some(shader.name.as_str());
    let source = wgpu::ShaderSource::Wgsl(shader.text.as_str().into());
    let descriptor = wgpu::ShaderModuleDescriptor { label, source };
    // SAFETY: the text is this crate's own. Every kernel keeps its indices inside the buffers that
    // its callers assert to be large enough, and its loops are bounded.
    let module = unsafe {
        device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
    };
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label,
        entries: &layout_entries(shader),
    });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: shader.params,
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    });
    WgpuPipeline { pipeline, layout }
}
