//! The kernel families on GPUs, through wgpu: Vulkan, Metal, DirectX 12.
//!
//! - `adapter`: which GPU is used, and why another is not.
//! - `buffer`, `constants`, `recorder`, `pipelines`, `fault`: the device layer. Operations
//!   are recorded into command lists, the last of which is submitted when a result is downloaded.
//!   What fails on the way is kept until then.
//! - `lists`: how commands get to the device: `direct`, past wgpu's bookkeeping, or `through_wgpu`.
//! - `shader`, `params`, `kernel`: a kernel is a small value (its family and parameters), from
//!   which its WGSL text is made, with the files under `shaders/`.
//! - `device`: [`Gpu`].
//! - `split`: experts that are in part on the device and in part in host memory.
//!
//! The shaders run without bounds checks; what each of them needs for that is said where it is
//! called, and held by assertions there.

mod adapter;
mod best;
mod buffer;
mod combine;
mod constants;
#[cfg(test)]
mod counts;
mod decode;
mod device;
#[cfg_attr(not(any(windows, target_os = "linux")), path = "no_direct.rs")]
mod direct;
mod elementwise;
mod fault;
mod formats;
mod gdn;
mod gemv;
mod hc;
mod hc_kernels;
mod head;
mod kernel;
mod lists;
#[cfg(test)]
mod lost;
mod matrix;
mod moe;
mod mtp;
mod open;
mod params;
mod pipelines;
mod plan_kernels;
mod ple;
mod product;
mod profile;
mod qsa;
mod recorder;
mod runs;
mod scratch;
mod shader;
mod split;
mod states;
#[cfg(test)]
mod testing;
mod through_wgpu;
mod tile;
mod timer;
mod tunable;

pub use adapter::{GpuOptions, adapters};
pub use buffer::GpuBuffer;
pub use device::Gpu;
pub use lists::Route;
pub use matrix::{Matrix, weight_bytes};
pub use moe::Plan;
pub use profile::KernelTime;
pub use qsa::{QsaState, Selection};
pub use states::{GdnState, PleState};

/// Name of the backend in messages.
pub(crate) const NAME: &str = "gpu";
