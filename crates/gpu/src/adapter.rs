//! The choice of a GPU: the fastest kind that can do the work, or the one that was named.

use crate::NAME;
use crate::fault::Faults;
use crate::lists::Route;
use crate::timer;
use kernels::{Activations, Error};
use wgpu::{Adapter, AdapterInfo, Backends, DeviceType, Features, Limits};

/// What a [`crate::Gpu`] is made with.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions {
    /// Part of the name of the GPU to use, in any case. Without it the first discrete one is used,
    /// or else an integrated one; a software renderer must be named.
    pub adapter: Option<String>,
    /// Least precision of activations, whatever a matrix is loaded for: [`Activations::F32`] turns
    /// products of 8 bits off.
    pub activations: Option<Activations>,
    /// How kernels get to the device. Without it what the environment's `TUFF_GPU_ROUTE` says,
    /// `direct` or `wgpu`, or else the direct one where there is one.
    pub route: Option<Route>,
}

impl GpuOptions {
    /// The route to take, if it is there.
    pub(crate) fn route(&self) -> Route {
        let named = std::env::var("TUFF_GPU_ROUTE").is_ok_and(|name| name == "wgpu");
        self.route.unwrap_or(if named { Route::Wgpu } else { Route::Direct })
    }
}

/// Storage buffers that a kernel may bind.
const MAX_BINDINGS: u32 = 9;

/// Bytes of parameters that a kernel may have on every device.
pub(crate) const MAX_PARAMS: u32 = 128;

/// Bytes of parameters that are used where a device has so many.
const WANTED_PARAMS: u32 = 256;

/// An open GPU.
pub(crate) struct Opened {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) info: AdapterInfo,
}

/// The GPUs of this machine, in the order in which they are preferred, each with the reason why it
/// cannot be used, if there is one.
pub fn adapters() -> Vec<(String, Option<String>)> {
    let describe = |adapter: &Adapter| (title(&adapter.get_info()), refusal(adapter));
    found().iter().map(describe).collect()
}

/// Opens the GPU that `options` ask for.
pub(crate) fn open(options: &GpuOptions, faults: &Faults) -> Result<Opened, Error> {
    let adapters = found();
    let adapter = choose(&adapters, options.adapter.as_deref())?;
    let info = adapter.get_info();
    let limits = adapter.limits();
    let params = limits.max_immediate_size.min(WANTED_PARAMS);
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("tuff"),
        required_features: required() | adapter.features() & timer::FEATURES,
        required_limits: Limits { max_immediate_size: params, ..limits },
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
        .map_err(|error| no_device(format!("{} did not open: {error}", title(&info))))?;
    faults.watch(&device);
    Ok(Opened { device, queue, info })
}

/// Every GPU, discrete ones first.
fn found() -> Vec<Adapter> {
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    // Debug layers cost time and are not there on most machines.
    descriptor.flags = wgpu::InstanceFlags::empty();
    // Rather an error than a system that starts to swap the GPU's memory.
    descriptor.memory_budget_thresholds.for_resource_creation = Some(97);
    let instance = wgpu::Instance::new(descriptor);
    let mut adapters = pollster::block_on(instance.enumerate_adapters(backends));
    adapters.sort_by_key(|adapter| preference(adapter.get_info().device_type));
    adapters
}

fn preference(ty: DeviceType) -> u8 {
    match ty {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

fn choose<'a>(adapters: &'a [Adapter], named: Option<&str>) -> Result<&'a Adapter, Error> {
    let mut reasons = Vec::new();
    for adapter in adapters {
        let info = adapter.get_info();
        let why = match (named, refusal(adapter)) {
            (Some(name), _) if !title(&info).to_lowercase().contains(&name.to_lowercase()) => {
                "has another name".to_owned()
            }
            (None, _) if info.device_type == DeviceType::Cpu => {
                "is a software renderer; name it to use it".to_owned()
            }
            (_, Some(why)) => why,
            (_, None) => return Ok(adapter),
        };
        reasons.push(format!("{} {why}", title(&info)));
    }
    if reasons.is_empty() {
        reasons.push("no driver for Vulkan, Metal or DirectX 12 found a GPU".to_owned());
    }
    Err(no_device(reasons.join("; ")))
}

/// Why this adapter cannot do the work.
fn refusal(adapter: &Adapter) -> Option<String> {
    let missing = required() - adapter.features();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter_names().map(|(name, _)| name).collect();
        return Some(format!("lacks {}", names.join(", ")));
    }
    let limits = adapter.limits();
    let needs = [
        ("bytes of parameters", limits.max_immediate_size, MAX_PARAMS),
        ("storage buffers", limits.max_storage_buffers_per_shader_stage, MAX_BINDINGS),
        ("threads in a workgroup", limits.max_compute_invocations_per_workgroup, 256),
        ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size, 16 << 10),
    ];
    let short = needs.iter().find(|(_, found, needed)| found < needed)?;
    Some(format!("has {} {}, {} are needed", short.1, short.0, short.2))
}

fn required() -> Features {
    Features::IMMEDIATES
}

/// Name, interface and driver.
pub(crate) fn title(info: &AdapterInfo) -> String {
    let AdapterInfo { name, backend, driver_info, .. } = info;
    format!("{name} ({backend}, {driver_info})")
}

fn no_device(why: String) -> Error {
    Error::NoDevice { device: NAME, why }
}
