//! What a benchmark asks of a backend besides windows: where their time went, and how fast memory
//! is.

use std::collections::BTreeMap;

use cpu::{Bandwidth, Cpu, CpuOptions};
use engine::timed::{HostBackend, Profile, Timed};
use gpu::{Gpu, KernelTime};
use kernels::Backend;
use kernels::tiles::Tunable;

use super::Args;
use crate::args::Chosen;
use crate::error::Error;

/// A backend that can be benched.
pub(super) trait Profiled: Backend {
    /// What the operations since the last call took, where they are timed one by one.
    fn take_profile(&mut self) -> Profile;

    /// How fast memory is read; on a GPU how fast it is copied, read and written bytes together.
    ///
    /// # Errors
    /// Memory that is short.
    fn bandwidth(&mut self, args: &Args) -> Result<Bandwidth, Error>;

    /// Starts or ends the timing of single kernels; what was found so far.
    fn time_kernels(&mut self, _on: bool) -> BTreeMap<String, KernelTime> {
        BTreeMap::new()
    }

    /// Kernels that were started so far, and seconds that were spent waiting for the device, where
    /// these are figures of interest.
    fn device_use(&self) -> Option<(u64, f64)> {
        None
    }
}

impl<B: HostBackend> Profiled for Timed<B> {
    fn take_profile(&mut self) -> Profile {
        self.take_profile()
    }

    /// Measured with threads of its own, so that it is the same for every backend.
    fn bandwidth(&mut self, args: &Args) -> Result<Bandwidth, Error> {
        let options = match args.device.backend() {
            Chosen::Reference => CpuOptions { threads: 1, ..Default::default() },
            Chosen::Cpu | Chosen::Gpu => args.device.cpu_options(),
        };
        Ok(Cpu::new(options).read_bandwidth().map_err(engine::Error::from)?)
    }
}

impl Profiled for Gpu {
    fn take_profile(&mut self) -> Profile {
        Profile::default()
    }

    fn bandwidth(&mut self, _args: &Args) -> Result<Bandwidth, Error> {
        let speeds = self.speeds().map_err(engine::Error::from)?;
        Ok(Bandwidth { bytes_per_second: speeds.copy, buffer_bytes: 0 })
    }

    fn time_kernels(&mut self, on: bool) -> BTreeMap<String, KernelTime> {
        self.profile(on)
    }

    fn device_use(&self) -> Option<(u64, f64)> {
        Some((self.calls(), self.waited()))
    }
}
