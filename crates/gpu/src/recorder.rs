//! The command list: kernels and copies in the order in which they were asked for, submitted when a
//! result is wanted.

use crate::buffer::{Allocator, Bindings, GpuBuffer, Held, Slice, Zeroing};
use crate::constants::{Constants, Place};
use crate::direct;
use crate::fault::{Faults, fault};
use crate::kernel::Kernel;
use crate::lists::{Lists, Route, Values, Work};
use crate::open::{Combination, Injection, Open, SharedCall};
use crate::params::Params;
use crate::plan_kernels::{FewPlan, SwigluCodes};
use crate::product::{CallLimits, Convolution, Waiting};
use crate::profile::{KernelTime, Profile};
use crate::through_wgpu::WgpuLists;
use crate::timer::Timer;
use kernels::Error;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Bytes that may be on their way at once: there is a copy of them until they are on the device.
const UPLOAD_CHUNK: usize = 32 << 20;

/// Calls that are recorded before the device gets a window's first list, so that it begins soon.
/// Each list after it may have twice as many, up to what the route says.
const FIRST_CALLS: usize = 32;

/// Most workgroups along one axis of a grid, on every device.
pub(crate) const MAX_GRID: u32 = 65535;

/// A device with its pending work.
pub(crate) struct Recorder {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pub(crate) allocator: Allocator,
    pub(crate) faults: Faults,
    route: Route,
    lists: Box<dyn Lists>,
    constants: Constants,
    /// The call that is still open to others. Everything else that is recorded closes it.
    open: Open,
    call_limits: CallLimits,
    download: GpuBuffer,
    /// Calls of kernels so far.
    calls: u64,
    /// Calls of the list that is open.
    open_calls: usize,
    /// Calls with which it is handed over.
    list_calls: usize,
    windows: u64,
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
        route: Route,
    ) -> Result<Self, Error> {
        let direct = match route {
            Route::Direct => direct::open(&device, &queue, &faults),
            Route::Wgpu => None,
        };
        let (route, zeroing) = match &direct {
            Some(_) => (Route::Direct, Zeroing::AtOnce(queue.clone())),
            None => (Route::Wgpu, Zeroing::Tracked),
        };
        let mut lists = direct.unwrap_or_else(|| {
            Box::new(WgpuLists::new(device.clone(), queue.clone(), faults.clone()))
        });
        let allocator = Allocator::new(device.clone(), zeroing);
        let constants = Constants::new(&allocator)?;
        let download = allocator.readable(1 << 16)?;
        let timer = Timer::new(&mut *lists, &queue);
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
            route,
            lists,
            constants,
            open: Open::default(),
            call_limits,
            download,
            calls: 0,
            open_calls: 0,
            list_calls: FIRST_CALLS,
            windows: 0,
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
        self.record(call, bytemuck::cast_slice(std::slice::from_ref(params)));
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
            self.record(&call, &shared.params);
        }
    }

    fn record(&mut self, call: &Call<'_>, params: &[u32]) {
        let [x, y, z] = call.grid;
        if x == 0 || y == 0 || z == 0 {
            return;
        }
        assert!(x.max(y).max(z) <= MAX_GRID, "a grid of {:?}", call.grid);
        self.calls += 1;
        self.open_calls += 1;
        self.begin_timed();
        let Self { lists, profile, constants, .. } = self;
        let stamps = profile.as_mut().and_then(|profile| profile.call(lists.name(call.kernel)));
        let constants = call.constants.map(|place| constants.at(place));
        let bindings = Bindings { buffers: call.buffers, constants };
        lists.kernel(&Work { kernel: call.kernel, bindings, params, grid: call.grid, stamps });
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
            self.begin_other();
            let (source, first) = self.constants.source(place);
            let from = Values { buffer: source, first };
            self.lists.copy(from, Values { buffer, first: 0 }, words.len());
        }
    }

    /// Copies `len` values between buffers, in order with the kernels.
    pub(crate) fn copy(&mut self, from: (&GpuBuffer, usize), to: (&GpuBuffer, usize), len: usize) {
        assert!(from.1 + len <= from.0.len() && to.1 + len <= to.0.len(), "a copy past the end");
        to.0.touch();
        if len > 0 {
            self.begin_other();
            let values = |(buffer, first)| Values { buffer, first };
            self.lists.copy(values(from), values(to), len);
        }
    }

    /// Zeroes values, in order with the kernels.
    pub(crate) fn clear(&mut self, buffer: &GpuBuffer, first: usize, len: usize) {
        assert!(first + len <= buffer.len(), "a clear past the end");
        buffer.touch();
        if len > 0 {
            self.begin_other();
            self.lists.clear(Values { buffer, first }, len);
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
        if !out.is_empty() {
            self.begin_other();
            let from = Values { buffer, first: 0 };
            self.lists.copy(from, Values { buffer: &self.download, first: 0 }, out.len());
        }
        self.submit();
        if out.is_empty() {
            return self.faults.take();
        }
        let target = self.download.raw.clone();
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
        self.begin_other();
        self.timer.end(&mut *self.lists);
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
        self.lists.bound()
    }

    /// Compiles a shader that belongs to no kernel.
    #[cfg(test)]
    pub(crate) fn compile(&self, shader: &crate::shader::Shader) -> Result<(), Error> {
        self.lists.compile(shader)
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
        if self.open_calls >= self.list_calls {
            self.submit();
            self.list_calls = (2 * self.list_calls).min(self.lists.most_calls());
        }
    }

    /// A window begins.
    pub(crate) fn begin_window(&mut self) {
        self.list_calls = FIRST_CALLS;
        self.windows += 1;
    }

    /// Windows that have begun.
    pub(crate) fn window(&self) -> u64 {
        self.windows
    }

    /// How kernels get to the device.
    pub(crate) fn route(&self) -> Route {
        self.route
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
        if let Some(profile) = &self.profile {
            profile.end(&mut *self.lists);
        }
        self.lists.submit(&mut self.constants, &self.allocator.take_dropped());
        self.read_profile();
    }

    /// From now on calls are timed one by one, or no longer; what was found so far.
    pub(crate) fn profile(&mut self, on: bool) -> BTreeMap<String, KernelTime> {
        self.submit();
        let found = self.profile.take().map(|profile| profile.times).unwrap_or_default();
        if on {
            self.profile = Profile::new(&mut *self.lists, &self.queue);
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
        self.lists.retire();
    }

    /// Something that is no product begins.
    fn begin_other(&mut self) {
        self.record_products();
        self.begin_timed();
    }

    /// Something begins, and the time with it, unless it has begun already.
    fn begin_timed(&mut self) {
        self.timer.begin(&mut *self.lists);
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
