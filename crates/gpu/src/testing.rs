//! The GPU that unit tests run on.

use crate::{Gpu, GpuOptions, Route};
use kernels::Activations;

/// The GPU named by `TUFF_GPU`, the preferred one, or a software renderer. Without any the test
/// that asks is skipped, unless `TUFF_GPU_TESTS` is set: then it fails.
pub(crate) fn gpu() -> Option<Gpu> {
    open(None)
}

/// As [`gpu`], with kernels on this route.
pub(crate) fn gpu_on(route: Route) -> Option<Gpu> {
    open(Some(route))
}

fn open(route: Option<Route>) -> Option<Gpu> {
    let named = std::env::var("TUFF_GPU").ok();
    let names = if named.is_some() { vec![named] } else { vec![None, Some("llvmpipe".into())] };
    let mut reason = String::new();
    for adapter in names {
        match Gpu::new(&GpuOptions { adapter, activations: Some(Activations::Int8), route }) {
            Ok(gpu) => return Some(gpu),
            Err(error) => reason = error.to_string(),
        }
    }
    assert!(std::env::var_os("TUFF_GPU_TESTS").is_none(), "{reason}");
    println!("skipped: {reason}");
    None
}
