//! The command list: kernels and copies in the order in which they were asked for, submitted when a
//! result is wanted.

use crate::buffer::{Allocator, GpuBuffer, Held, Slice};
use crate::constants::{Constants, Place};
use crate::fault::{Faults, fault};
use crate::kernel::Kernel;
use crate::open::{Combination, Injection, Open, SharedCall};
use crate::params::Params;
use crate::pipelines::Pipelines;
use crate::plan_kernels::{FewPlan, SwigluCodes};
use crate::product::{CallLimits, Convolution, Waiting};
use crate::profile::{KernelTime, Profile};
use crate::timer::{self, Timer};
use kernels::Error;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wgpu::{CommandEncoder, ComputePass};

/// Bytes that may be on their way at once: there is a copy of them until they are on the device.
const UPLOAD_CHUNK: usize = 32 << 20;

/// Calls that are recorded before the device gets them.
const LIST_CALLS: usize = 32;

/// Most workgroups along one axis of a grid, on every device.
pub(crate) const MAX_GRID: u32 = 65535;

/// A device with its pending work.
pub(crate) struct Recorder {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pub(crate) allocator: Allocator,
    pub(crate) faults: Faults,
    pipelines: Pipelines,
    constants: Constants,
    /// The call that is still open to others. Everything else that is recorded closes it.
    open: Open,
    call_limits: CallLimits,
    /// Open while kernels follow each other; copies are between passes.
    pass: Option<ComputePass<'static>>,
    encoder: Option<CommandEncoder>,
    download: GpuBuffer,
    /// Calls of kernels so far.
    calls: u64,
    /// Calls of the list that is open.
    open_calls: usize,
    /// Seconds that were spent waiting for the device.
    waited: f64,
    timer: Timer,
    /// While calls are timed one by one.
    profile: Option<Profile>,
    /// Bytes that were uploaded since the device was last waited for.
    uploading: usize,
    /// Kernels that were started.
    #[cfg(test)]
    pub(crate) dispatched: usize,
    /// Lists that were handed over.
    #[cfg(test)]
    pub(crate) submissions: usize,
}

/// A call of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Which one.
    pub(crate) kernel: Kernel,
    /// Its buffers, in the order of its shader's bindings.
    pub(crate) buffers: &'a [Slice<'a>],
    /// A place in the constants, bound after the buffers.
    pub(crate) constants: Option<Place>,
    /// Workgroups.
    pub(crate) grid: [u32; 3],
}

impl Recorder {
    pub(crate) fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        faults: Faults,
    ) -> Result<Self, Error> {
        let allocator = Allocator::new(device.clone());
        let pipelines = Pipelines::new(device.clone(), faults.clone());
        let constants = Constants::new(&allocator)?;
        let download = allocator.readable(1 << 16)?;
        let (pass, encoder) = (None, None);
        let timer = Timer::new(&device, &queue);
        let limits = device.limits();
        let call_limits = CallLimits {
            bindings: limits.max_storage_buffers_per_shader_stage as usize,
            params: limits.max_immediate_size as usize,
        };
        Ok(Self {
            device,
            queue,
            allocator,
            faults,
            pipelines,
            constants,
            open: Open::default(),
            call_limits,
            pass,
            encoder,
            download,
            calls: 0,
            open_calls: 0,
            waited: 0.0,
            timer,
            profile: None,
            uploading: 0,
            #[cfg(test)]
            dispatched: 0,
            #[cfg(test)]
            submissions: 0,
        })
    }

    /// Appends a kernel. Where its grid is empty there is nothing to do.
    pub(crate) fn dispatch<P: Params>(&mut self, call: &Call<'_>, params: &P) {
        self.record_products();
        self.record(call, bytemuck::bytes_of(params));
    }

    /// Appends a product, which may share its call with products before and after it. What it
    /// writes was noted in the buffer.
    pub(crate) fn add_product(&mut self, product: Waiting) {
        if self.open.accepts(&product, self.call_limits) {
            self.open.push(product);
        } else if let Some(product) = self.open.beside_experts(product) {
            self.record_products();
            self.open.push(product);
        }
    }

    /// Appends the sum of experts, which may go on into the residual streams. What it writes was
    /// noted in the buffer.
    pub(crate) fn combine(&mut self, combination: Combination) {
        if !self.open.sums_up(&combination, self.call_limits) {
            self.record_products();
        }
        self.open.combine(combination);
    }

    /// Appends a plan, which may share its call with the shared expert's activation. What it writes
    /// was noted in the buffers.
    pub(crate) fn plan(&mut self, plan: FewPlan) {
        self.record_products();
        self.open.plan(plan);
    }

    /// Lets the activation be made beside the plan that is open; false if there is none.
    pub(crate) fn beside_plan(&mut self, swiglu: SwigluCodes) -> bool {
        self.open.beside_plan(swiglu)
    }

    /// Lets the result of the open call go on into the residual streams; false if it is not what
    /// they are to take. What is written was noted in the buffer.
    pub(crate) fn inject(&mut self, injection: &Injection) -> bool {
        self.open.inject(injection, self.call_limits)
    }

    /// Lets an open product be convolved; false if there is none that makes the rows. What is
    /// written was noted in the buffers.
    pub(crate) fn convolve(&mut self, asked: Convolution) -> bool {
        self.open.convolve(asked, self.call_limits)
    }

    fn record_products(&mut self) {
        while let Some(shared) = self.open.take() {
            let buffers: Vec<Slice<'_>> = shared.buffers.iter().map(Held::slice).collect();
            let SharedCall { kernel, constants, grid, .. } = shared;
            let call = Call { kernel, buffers: &buffers, constants, grid };
            self.record(&call, bytemuck::cast_slice(&shared.params));
        }
    }

    fn record(&mut self, call: &Call<'_>, params: &[u8]) {
        let [x, y, z] = call.grid;
        if x == 0 || y == 0 || z == 0 {
            return;
        }
        assert!(x.max(y).max(z) <= MAX_GRID, "a grid of {:?}", call.grid);
        self.calls += 1;
        self.open_calls += 1;
        if self.profile.is_some() {
            self.pass = None;
        }
        self.open_pass(call.kernel);
        let place = call.constants.map(|place| self.constants.at(place));
        let slices: Vec<_> = call.buffers.iter().copied().chain(place).collect();
        let Some((compiled, group)) = self.pipelines.get(call.kernel, &slices) else { return };
        let Some(pass) = &mut self.pass else { return };
        pass.set_pipeline(&compiled.pipeline);
        pass.set_bind_group(0, group, &[]);
        pass.set_immediates(0, params);
        pass.dispatch_workgroups(x, y, z);
        slices
            .iter()
            .zip(&compiled.writes)
            .filter(|(_, writes)| **writes)
            .for_each(|(s, _)| s.touch());
        #[cfg(test)]
        {
            self.dispatched += 1;
        }
    }

    /// Words from the host for kernels of this submission; `None` if memory is short, which is kept
    /// as a fault. The place holds for the calls up to the next one of this function.
    pub(crate) fn constants(&mut self, words: &[u32]) -> Option<Place> {
        if !self.constants.has_room(words.len()) {
            self.submit();
            let grown = self.constants.grow(&self.allocator, words.len());
            grown.map_err(|error| self.faults.add(error)).ok()?;
        }
        Some(self.constants.add(words))
    }

    /// Puts words from the host at the start of `buffer`, in order with the kernels and without
    /// cutting the list.
    pub(crate) fn put(&mut self, words: &[u32], buffer: &GpuBuffer) {
        assert!(words.len() <= buffer.len(), "words past the end");
        let Some(place) = self.constants(words) else { return };
        buffer.touch();
        if !words.is_empty() {
            let (source, first) = self.constants.source(place);
            let (source, offset, bytes) =
                (source.raw.clone(), 4 * first as u64, size_of_val(words));
            let (target, bytes) = (&buffer.raw, bytes as u64);
            self.encoder().copy_buffer_to_buffer(&source, offset, target, 0, bytes);
        }
    }

    /// Copies `len` values between buffers, in order with the kernels.
    pub(crate) fn copy(&mut self, from: (&GpuBuffer, usize), to: (&GpuBuffer, usize), len: usize) {
        assert!(from.1 + len <= from.0.len() && to.1 + len <= to.0.len(), "a copy past the end");
        to.0.touch();
        if len > 0 {
            let at = |first: usize| 4 * first as u64;
            let (source, target) = (&from.0.raw, &to.0.raw);
            let bytes = at(len);
            self.encoder().copy_buffer_to_buffer(source, at(from.1), target, at(to.1), bytes);
        }
    }

    /// Zeroes values, in order with the kernels.
    pub(crate) fn clear(&mut self, buffer: &GpuBuffer, first: usize, len: usize) {
        assert!(first + len <= buffer.len(), "a clear past the end");
        buffer.touch();
        if len > 0 {
            let (offset, bytes) = (4 * first as u64, 4 * len as u64);
            self.encoder().clear_buffer(&buffer.raw, offset, Some(bytes));
        }
    }

    /// Writes words to a buffer, behind all that was recorded before.
    pub(crate) fn upload(&mut self, words: &[u32], buffer: &GpuBuffer, first: usize) {
        assert!(first + words.len() <= buffer.len(), "an upload past the end");
        buffer.touch();
        // What the queue writes comes before the list that is still open.
        self.submit();
        let bytes: &[u8] = bytemuck::cast_slice(words);
        for (i, chunk) in bytes.chunks(UPLOAD_CHUNK).enumerate() {
            let offset = (4 * first + i * UPLOAD_CHUNK) as u64;
            self.queue.write_buffer(&buffer.raw, offset, chunk);
            self.uploading += chunk.len();
            if self.uploading >= UPLOAD_CHUNK {
                self.submit();
                self.wait();
            }
        }
    }

    /// Submits all that is recorded and copies the first values of `buffer` to `out` when it is
    /// done.
    ///
    /// # Errors
    /// The first fault since the last download.
    pub(crate) fn download(&mut self, buffer: &GpuBuffer, out: &mut [u32]) -> Result<(), Error> {
        if out.len() > self.download.len() {
            self.download = self.allocator.readable(out.len().next_power_of_two())?;
        }
        assert!(out.len() <= buffer.len(), "{} values of {}", out.len(), buffer.len());
        let bytes = 4 * out.len() as u64;
        let target = self.download.raw.clone();
        self.encoder().copy_buffer_to_buffer(&buffer.raw, 0, &target, 0, bytes);
        self.submit();
        if bytes == 0 {
            return self.faults.take();
        }
        if !self.read(&target, bytemuck::cast_slice_mut(out)) {
            // Whatever became of the old one, it is of no use any more.
            self.download = self.allocator.readable(self.download.len())?;
        }
        self.faults.take()
    }

    /// Waits for all that is recorded: seconds that the device was at it since the last call.
    ///
    /// # Errors
    /// The first fault since the last download.
    pub(crate) fn finish(&mut self) -> Result<f64, Error> {
        self.encoder();
        if let Some(encoder) = &mut self.encoder {
            self.timer.end(encoder);
        }
        self.submit();
        let mut stamps = [0u64; 2];
        let read = match self.timer.readable().cloned() {
            Some(buffer) => self.read(&buffer, bytemuck::cast_slice_mut(&mut stamps)),
            None => {
                self.wait();
                false
            }
        };
        let seconds = self.timer.take(read.then_some(stamps));
        self.faults.take().map(|()| seconds)
    }

    /// Copies a buffer that the host can read, after all that was submitted; whether that worked is
    /// also noted with the faults.
    fn read(&mut self, source: &wgpu::Buffer, out: &mut [u8]) -> bool {
        let bytes = out.len() as u64;
        let mapped = Arc::new(Mutex::new(None));
        let result = mapped.clone();
        source.map_async(wgpu::MapMode::Read, 0..bytes, move |done| {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        self.wait();
        let done = mapped.lock().unwrap_or_else(PoisonError::into_inner).take();
        let view = match done {
            Some(Ok(())) => source.get_mapped_range(0..bytes).ok(),
            _ => None,
        };
        let Some(view) = view else {
            self.faults.add(fault("a result could not be read".to_owned()));
            return false;
        };
        out.copy_from_slice(&view);
        drop(view);
        source.unmap();
        true
    }

    /// Bytes of workgroup memory that a kernel may use.
    pub(crate) fn workgroup_memory(&self) -> u32 {
        self.device.limits().max_compute_workgroup_storage_size
    }

    /// Number of bind groups that are kept.
    #[cfg(test)]
    pub(crate) fn bound(&self) -> usize {
        self.pipelines.bound()
    }

    /// Compiles a shader that belongs to no kernel.
    #[cfg(test)]
    pub(crate) fn compile(&self, shader: &crate::shader::Shader) -> Result<(), Error> {
        crate::pipelines::compile(&self.device, shader).map(|_| ())
    }

    /// The device itself.
    #[cfg(test)]
    pub(crate) fn device(&self) -> wgpu::Device {
        self.device.clone()
    }

    /// Loses the device.
    #[cfg(test)]
    pub(crate) fn destroy(&self) {
        self.device.destroy();
    }

    /// Hands what is recorded to the device if that is much, so that it begins while the rest is
    /// recorded. No place of [`Recorder::constants`] may be in use.
    pub(crate) fn submit_much(&mut self) {
        if self.open_calls >= LIST_CALLS {
            self.submit();
        }
    }

    /// A window of so many rows begins: it is likely to make the calls of one before.
    pub(crate) fn begin_window(&mut self, rows: usize) {
        self.pipelines.begin(rows);
    }

    /// Seconds that were spent waiting for the device.
    pub(crate) fn waited(&self) -> f64 {
        self.waited
    }

    /// Hands all that is recorded to the device.
    pub(crate) fn submit(&mut self) {
        self.record_products();
        self.open_calls = 0;
        #[cfg(test)]
        {
            self.submissions += 1;
        }
        self.pass = None;
        if let (Some(profile), Some(encoder)) = (&self.profile, &mut self.encoder) {
            profile.end(encoder);
        }
        self.constants.flush(&self.queue);
        self.pipelines.forget(&self.allocator.take_dropped());
        self.queue.submit(self.encoder.take().map(CommandEncoder::finish));
        self.read_profile();
    }

    /// From now on calls are timed one by one, or no longer; what was found so far.
    pub(crate) fn profile(&mut self, on: bool) -> BTreeMap<String, KernelTime> {
        self.submit();
        let found = self.profile.take().map(|profile| profile.times).unwrap_or_default();
        if on && self.device.features().contains(timer::FEATURES) {
            self.profile = Some(Profile::new(&self.device, &self.queue));
        }
        found
    }

    /// Calls of kernels so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    fn read_profile(&mut self) {
        let Some(mut profile) = self.profile.take() else { return };
        let (buffer, count) = profile.noted();
        let mut stamps = vec![0u64; count];
        if count > 0 && self.read(&buffer, bytemuck::cast_slice_mut(&mut stamps)) {
            profile.add(&stamps);
        } else {
            profile.forget();
        }
        self.profile = Some(profile);
    }

    /// Waits for all that was submitted.
    fn wait(&mut self) {
        self.uploading = 0;
        let begun = Instant::now();
        let poll = wgpu::PollType::wait_indefinitely();
        // wgpu panics here when the device is lost; the process must live and say so.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.faults.add(fault(error.to_string())),
            Err(_) => self.faults.add(fault("waiting for the device failed".to_owned())),
        }
        self.waited += begun.elapsed().as_secs_f64();
    }

    /// The pass that a call of `kernel` is recorded in.
    fn open_pass(&mut self, kernel: Kernel) {
        if self.pass.is_some() {
            return;
        }
        let mut profile = self.profile.take();
        let timestamp_writes =
            profile.as_mut().and_then(|profile| profile.call(&self.pipelines.name(kernel)));
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let pass = self.list().begin_compute_pass(&descriptor).forget_lifetime();
        self.pass = Some(pass);
        self.profile = profile;
    }

    /// The list, outside any pass.
    fn encoder(&mut self) -> &mut CommandEncoder {
        self.record_products();
        self.pass = None;
        self.list()
    }

    fn list(&mut self) -> &mut CommandEncoder {
        let Self { device, encoder, timer, .. } = self;
        encoder.get_or_insert_with(|| {
            let mut encoder = device.create_command_encoder(&Default::default());
            timer.begin(&mut encoder);
            encoder
        })
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// A grid of `count` workgroups along its first two axes; the kernel takes `x + y * width` for its
/// index and must check it.
pub(crate) fn spread(count: usize) -> [u32; 3] {
    let rows = count.div_ceil(MAX_GRID as usize).max(1);
    [count.div_ceil(rows) as u32, rows as u32, 1]
}
