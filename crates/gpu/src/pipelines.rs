//! Compiled kernels and bind groups, made when first needed and kept.

use crate::NAME;
use crate::buffer::{Slice, SliceId};
use crate::fault::Faults;
use crate::kernel::Kernel;
use crate::shader::{Access, Shader};
use kernels::Error;
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupLayout, ComputePipeline, ErrorFilter};

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Compiled {
    name: String,
    pub(crate) pipeline: ComputePipeline,
    layout: BindGroupLayout,
    /// Which bindings it writes.
    pub(crate) writes: Vec<bool>,
}

/// A kernel that the driver refused.
#[derive(Debug)]
struct Refused {
    kernel: String,
    why: String,
}

/// Everything that was compiled and bound.
#[derive(Debug)]
pub(crate) struct Pipelines {
    device: wgpu::Device,
    faults: Faults,
    /// Or why the driver refused the kernel.
    compiled: HashMap<Kernel, Result<Arc<Compiled>, Refused>>,
    groups: HashMap<(Kernel, Vec<SliceId>), BindGroup>,
    recent: Recent,
}

/// The calls of windows a while ago in their order. A window makes the calls of one before that had
/// as many rows, so the next one is most often found without a look at the tables.
#[derive(Debug, Default)]
struct Recent {
    /// Rows of the windows, and their calls.
    lists: Vec<(usize, Vec<Bound>)>,
    /// Rows of the present one.
    rows: usize,
    /// The list that is followed, and the place of the next call in it.
    list: usize,
    next: usize,
}

impl Recent {
    /// Where a window begins, chooses the list that its first call stands in, or a new one. `same`
    /// tells whether a call is that one.
    fn choose(&mut self, same: impl Fn(&Bound) -> bool) {
        if self.next == 0 || self.next >= MOST_CALLS {
            self.next = 0;
            let rows = self.rows;
            let fits =
                |(n, calls): &(usize, Vec<Bound>)| *n == rows && calls.first().is_some_and(&same);
            self.list = self.lists.iter().position(fits).unwrap_or_else(|| {
                if self.lists.len() == MOST_LISTS {
                    self.lists.remove(0);
                }
                self.lists.push((rows, Vec::new()));
                self.lists.len() - 1
            });
        }
    }

    /// Drops the lists with calls that have one of these buffers.
    fn forget(&mut self, buffers: &[u64]) {
        let before = self.lists.len();
        let gone = |call: &Bound| call.ids.iter().any(|id| buffers.contains(&id.0));
        self.lists.retain(|(_, calls)| !calls.iter().any(gone));
        if self.lists.len() < before {
            self.next = 0;
        }
    }
}

/// A call's kernel with its buffers.
#[derive(Debug)]
struct Bound {
    kernel: Kernel,
    ids: Vec<SliceId>,
    compiled: Arc<Compiled>,
    group: BindGroup,
}

/// Bind groups that are kept: places of host inputs differ with every length of a window.
const MOST_GROUPS: usize = 32768;

/// Windows whose calls are remembered in their order.
const MOST_LISTS: usize = 12;

/// Calls of a window that are remembered.
const MOST_CALLS: usize = 8192;

impl Pipelines {
    pub(crate) fn new(device: wgpu::Device, faults: Faults) -> Self {
        let (compiled, groups) = (HashMap::new(), HashMap::new());
        Self { device, faults, compiled, groups, recent: Recent::default() }
    }

    /// The kernel with these buffers bound; `None` if it could not be built, which is kept as a
    /// fault every time.
    pub(crate) fn get(
        &mut self,
        kernel: Kernel,
        slices: &[Slice<'_>],
    ) -> Option<(&Compiled, &BindGroup)> {
        let same = |bound: &Bound| {
            bound.kernel == kernel
                && bound.ids.len() == slices.len()
                && bound.ids.iter().zip(slices).all(|(id, slice)| *id == slice.id())
        };
        self.recent.choose(same);
        let place = self.recent.next;
        if !self.recent.lists[self.recent.list].1.get(place).is_some_and(same) {
            let bound = self.look_up(kernel, slices)?;
            let calls = &mut self.recent.lists[self.recent.list].1;
            calls.truncate(place);
            calls.push(bound);
        }
        self.recent.next += 1;
        let bound = &self.recent.lists[self.recent.list].1[place];
        Some((&bound.compiled, &bound.group))
    }

    fn look_up(&mut self, kernel: Kernel, slices: &[Slice<'_>]) -> Option<Bound> {
        let device = &self.device;
        let compiled = self.compiled.entry(kernel).or_insert_with(|| {
            let shader = kernel.shader();
            let refused =
                |error: Error| Refused { kernel: shader.name.clone(), why: error.to_string() };
            compile(device, &shader).map(Arc::new).map_err(refused)
        });
        let compiled = match compiled {
            Ok(compiled) => compiled.clone(),
            // Said each time: what it should have computed is missing each time.
            Err(Refused { kernel, why }) => {
                let (kernel, why) = (kernel.clone(), why.clone());
                self.faults.add(Error::KernelBuild { device: NAME, kernel, why });
                return None;
            }
        };
        if self.groups.len() >= MOST_GROUPS {
            self.groups.clear();
        }
        let ids: Vec<SliceId> = slices.iter().map(Slice::id).collect();
        let group = self
            .groups
            .entry((kernel, ids.clone()))
            .or_insert_with(|| bind(device, &compiled.layout, slices))
            .clone();
        Some(Bound { kernel, ids, compiled, group })
    }

    /// The kernel's name, without making its text again once it is compiled.
    pub(crate) fn name(&self, kernel: Kernel) -> String {
        match self.compiled.get(&kernel) {
            Some(Ok(compiled)) => compiled.name.clone(),
            _ => kernel.shader().name,
        }
    }

    /// A window of so many rows begins.
    pub(crate) fn begin(&mut self, rows: usize) {
        self.recent.rows = rows;
        self.recent.next = 0;
    }

    /// Number of bind groups that are kept.
    #[cfg(test)]
    pub(crate) fn bound(&self) -> usize {
        self.groups.len()
    }

    /// Forgets what is bound to these buffers, which are no more: it would keep their memory.
    pub(crate) fn forget(&mut self, buffers: &[u64]) {
        if !buffers.is_empty() {
            self.groups.retain(|(_, slices), _| slices.iter().all(|s| !buffers.contains(&s.0)));
            self.recent.forget(buffers);
        }
    }
}

fn bind(device: &wgpu::Device, layout: &BindGroupLayout, slices: &[Slice<'_>]) -> BindGroup {
    let entry = |(binding, slice)| {
        let (binding, slice): (usize, &Slice<'_>) = (binding, slice);
        wgpu::BindGroupEntry { binding: binding as u32, resource: slice.binding() }
    };
    let entries: Vec<_> = slices.iter().enumerate().map(entry).collect();
    let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
    device.create_bind_group(&descriptor)
}

pub(crate) fn compile(device: &wgpu::Device, shader: &Shader) -> Result<Compiled, Error> {
    let internal = device.push_error_scope(ErrorFilter::Internal);
    let validation = device.push_error_scope(ErrorFilter::Validation);
    let compiled = build(device, shader);
    let errors = [pollster::block_on(validation.pop()), pollster::block_on(internal.pop())];
    match errors.into_iter().flatten().next() {
        None => Ok(compiled),
        Some(error) => {
            let (kernel, why) = (shader.name.clone(), error.to_string());
            Err(Error::KernelBuild { device: NAME, kernel, why })
        }
    }
}

fn build(device: &wgpu::Device, shader: &Shader) -> Compiled {
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
    let writes = shader.bindings.iter().map(|b| b.access == Access::Write).collect();
    Compiled { name: shader.name.clone(), pipeline, layout, writes }
}

fn layout_entries(shader: &Shader) -> Vec<wgpu::BindGroupLayoutEntry> {
    let entry = |(index, access)| wgpu::BindGroupLayoutEntry {
        binding: index,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    (0..).zip(shader.bindings.iter().map(|binding| binding.access)).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shader::write;
    use crate::testing::gpu;

    #[test]
    fn a_shader_that_the_driver_refuses_is_named() {
        let Some(gpu) = gpu() else { return };
        let text = "@compute @workgroup_size(1) fn main() { y[0] = nothing; }".to_owned();
        let bindings = vec![write("y", "f32")];
        let shader = Shader { name: "broken L=4".to_owned(), bindings, params: 0, text };
        let error = gpu.recorder.compile(&shader).unwrap_err();
        assert!(matches!(&error, Error::KernelBuild { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("broken L=4") && text.contains("nothing"), "{text}");
        assert!(gpu.recorder.faults.take().is_ok());
    }
}
