//! What wgpu would check of kernels and their buffers, as far as this crate could get it wrong:
//! sizes that depend on the device.

use crate::buffer::Bindings;
use crate::fault::fault;
use crate::lists::refused;
use crate::shader::Shader;
use kernels::Error;
use wgpu::Limits;
use wgpu::naga::valid::ModuleInfo;
use wgpu::naga::{AddressSpace, Module, ShaderStage};

/// The entry point of every kernel.
pub(super) const ENTRY: &str = "main";

/// Whether the device can run a kernel.
///
/// # Errors
/// [`Error::KernelBuild`] naming the limit.
pub(super) fn kernel(
    (module, info): (&Module, &ModuleInfo),
    shader: &Shader,
    limits: &Limits,
) -> Result<(), Error> {
    let is_entry =
        |entry: &wgpu::naga::EntryPoint| entry.name == ENTRY && entry.stage == ShaderStage::Compute;
    let place = module.entry_points.iter().position(is_entry);
    let Some(place) = place else { return Err(refused(&"there is no entry point `main`")) };
    let [x, y, z] = module.entry_points[place].workgroup_size;
    let uses = info.get_entry_point(place);
    let memory = module.global_variables.iter().filter(|(variable, global)| {
        global.space == AddressSpace::WorkGroup && !uses[*variable].is_empty()
    });
    let size = |global: &wgpu::naga::GlobalVariable| {
        u64::from(module.types[global.ty].inner.size(module.to_ctx()))
    };
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    let needs = [
        ("threads along x", u64::from(x), limits.max_compute_workgroup_size_x),
        ("threads along y", u64::from(y), limits.max_compute_workgroup_size_y),
        ("threads along z", u64::from(z), limits.max_compute_workgroup_size_z),
        ("threads", threads, limits.max_compute_invocations_per_workgroup),
        (
            "bytes of workgroup memory",
            memory.map(|(_, global)| size(global)).sum(),
            limits.max_compute_workgroup_storage_size,
        ),
        (
            "storage buffers",
            shader.bindings.len() as u64,
            limits.max_storage_buffers_per_shader_stage,
        ),
        ("bytes of parameters", u64::from(shader.params), limits.max_immediate_size),
    ];
    match needs.iter().find(|(_, needed, most)| *needed > u64::from(*most)) {
        None => Ok(()),
        Some((what, needed, most)) => {
            Err(refused(&format!("it needs {needed} {what}, the device has {most}")))
        }
    }
}

/// Whether these parts of buffers may be bound together.
///
/// # Errors
/// [`Error::DeviceFault`] saying what is wrong with which binding.
pub(super) fn bindings(
    buffers: Bindings<'_>,
    writes: &[bool],
    limits: &Limits,
) -> Result<(), Error> {
    let align = u64::from(limits.min_storage_buffer_offset_alignment).max(1);
    for (index, (slice, written)) in buffers.iter().zip(writes).enumerate() {
        let (buffer, offset, bytes) = slice.id();
        let within =
            bytes > 0 && offset <= slice.raw().size() && bytes <= slice.raw().size() - offset;
        let why = if !within {
            "reaches past the end of its buffer"
        } else if !offset.is_multiple_of(align) {
            "begins at a place where the device binds nothing"
        } else if bytes > limits.max_storage_buffer_binding_size {
            "is larger than the device binds"
        } else if !slice.raw().usage().contains(wgpu::BufferUsages::STORAGE) {
            "is not for kernels"
        } else if *written && buffers.iter().filter(|other| other.id().0 == buffer).count() > 1 {
            "is written, and its buffer is bound twice"
        } else {
            continue;
        };
        return Err(fault(format!("binding {index} {why}")));
    }
    Ok(())
}
