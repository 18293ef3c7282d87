//! Lists that are recorded past wgpu's bookkeeping, on Vulkan.
//!
//! wgpu follows every buffer through every call, which takes longer than many a kernel runs. Here
//! it makes the buffers and submits the lists, and learns nothing of what is in them. So this
//! module does the rest: it keeps what lists use until the device is done with them (`Running`),
//! and puts barriers between commands that need each other (`hazards`). A list begins and ends with
//! a barrier for everything, so what wgpu itself does between lists (writing to buffers, zeroing
//! new ones) is in order with them.

mod check;
mod driver;
mod hazards;

use crate::buffer::Bindings;
use crate::constants::Constants;
use crate::fault::{Faults, fault};
use crate::kernel::Kernel;
use crate::lists::{Lists, Route, Stamps, Values, Work, readable_stamps};
use crate::pipelines::{Compiled, Maker, Pipelines};
use crate::shader::Shader;
use crate::timer;
use driver::{Command, Driver, Group, List, Pipeline, Stretch, TimeStamps};
use hazards::{Barrier, Hazards, Use};
use kernels::Error;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wgpu::BufferUsages;

/// Calls of a list: as many as are soon recorded, and enough that handing them over, which takes
/// some 30 us, is little beside it.
const MOST_CALLS: usize = 128;

/// Words of constants that are put into the list itself. More go through a buffer of wgpu's.
const WORDS_IN_LIST: usize = 1 << 16;

/// The list that is open, those that are under way, and what lists use.
#[derive(Debug)]
pub(crate) struct Direct {
    driver: Driver,
    queue: wgpu::Queue,
    faults: Faults,
    pipelines: Pipelines<DirectMaker>,
    list: List,
    running: Running,
    sets: Vec<(u32, Arc<TimeStamps>)>,
}

/// Lists that the device may be at work on: what they use must stay.
#[derive(Debug, Default)]
struct Running {
    /// With their numbers, which rise.
    lists: VecDeque<(u64, List)>,
    /// The number of the last one.
    last: u64,
    /// The number up to which they are done.
    done: Arc<AtomicU64>,
    /// Emptied lists, whose memory is used again.
    spare: Vec<List>,
}

/// Lists on the direct route; `None` where the device is not one of Vulkan's.
pub(crate) fn open(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    faults: &Faults,
) -> Option<Box<dyn Lists>> {
    let driver = Driver::new(device.clone())?;
    let maker = DirectMaker { driver: driver.clone(), hazards: Hazards::default() };
    Some(Box::new(Direct {
        driver,
        queue: queue.clone(),
        faults: faults.clone(),
        pipelines: Pipelines::new(maker, faults.clone()),
        list: List::default(),
        running: Running::default(),
        sets: Vec::new(),
    }))
}

impl Direct {
    fn barrier(&mut self, barrier: Option<Barrier>) {
        if let Some(barrier) = barrier {
            self.list.commands.push(Command::Barrier(barrier));
        }
    }

    fn hazards(&mut self) -> &mut Hazards {
        &mut self.pipelines.maker.hazards
    }

    /// A barrier unless what a copy or a clear needs is there.
    fn before_copy(&mut self, from: Option<Values<'_>>, to: Values<'_>) {
        let hazards = self.hazards();
        let from = from.map(|from| Use { place: hazards.place(from.buffer.id()), writes: false });
        let to = Use { place: hazards.place(to.buffer.id()), writes: true };
        let barrier = hazards.copy(from, to);
        self.barrier(barrier);
    }

    /// The values as a command has them; a fault that is kept if they may not be used so.
    fn stretch(&self, values: Values<'_>, len: usize, usage: BufferUsages) -> Option<Stretch> {
        let raw = &values.buffer.raw;
        let made = if raw.usage().contains(usage) {
            Stretch::new(raw, values.offset(), 4 * len as u64)
        } else {
            Err(fault(format!("a buffer for {:?} is used for {usage:?}", raw.usage())))
        };
        made.map_err(|error| self.faults.add(error)).ok()
    }

    fn set(&self, stamps: &Stamps) -> Arc<TimeStamps> {
        self.sets[stamps.set].1.clone()
    }
}

impl Lists for Direct {
    fn kernel(&mut self, work: &Work<'_>) {
        let bound = self.pipelines.get(work.kernel, work.bindings);
        let Some(group) = bound.map(|bound| bound.group.clone()) else {
            // A stamp that nobody writes would be waited for.
            if let Some((stamps, index)) = work.stamps {
                self.stamp(stamps, index);
                self.stamp(stamps, index + 1);
            }
            return;
        };
        group.check_params(work.params.len());
        let barrier = match work.stamps {
            None => self.hazards().kernel(&group.uses),
            Some(_) => Some(self.hazards().everything()),
        };
        self.barrier(barrier);
        if let Some((stamps, index)) = work.stamps {
            self.stamp(stamps, index);
            self.hazards().kernel(&group.uses);
        }
        work.bindings.touch(&group.compiled.writes);
        let first = self.list.words.len();
        self.list.words.extend_from_slice(work.params);
        let params = first..self.list.words.len();
        self.list.commands.push(Command::Kernel { group, params, grid: work.grid });
        if let Some((stamps, index)) = work.stamps {
            self.stamp(stamps, index + 1);
        }
    }

    fn copy(&mut self, from: Values<'_>, to: Values<'_>, len: usize) {
        if from.buffer.id() == to.buffer.id() {
            return self.faults.add(fault("a copy within a buffer".to_owned()));
        }
        let Some(source) = self.stretch(from, len, BufferUsages::COPY_SRC) else { return };
        let Some(target) = self.stretch(to, len, BufferUsages::COPY_DST) else { return };
        self.before_copy(Some(from), to);
        self.list.commands.push(Command::Copy { from: source, to: target });
    }

    fn clear(&mut self, values: Values<'_>, len: usize) {
        let Some(target) = self.stretch(values, len, BufferUsages::COPY_DST) else { return };
        self.before_copy(None, values);
        self.list.commands.push(Command::Clear(target));
    }

    fn stamps(&mut self, count: u32) -> Option<Stamps> {
        let device = self.driver.device();
        if !device.features().contains(timer::FEATURES) {
            return None;
        }
        let readable = readable_stamps(device, count, Route::Direct);
        let made = self.sets.iter().position(|(found, _)| *found == count);
        let set = match made {
            Some(set) => set,
            None => {
                let made = self.driver.time_stamps(count);
                let made = made.map_err(|error| self.faults.add(error)).ok()?;
                self.sets.push((count, Arc::new(made)));
                self.sets.len() - 1
            }
        };
        Some(Stamps { set, readable })
    }

    fn stamp(&mut self, stamps: &Stamps, index: u32) {
        let (set, count) = (self.set(stamps), self.sets[stamps.set].0);
        if index == 0 {
            self.list.commands.push(Command::ResetStamps { set: set.clone(), count });
        }
        self.list.commands.push(Command::Stamp { set, index });
    }

    fn resolve(&mut self, stamps: &Stamps, count: u32) {
        let target = Stretch::new(&stamps.readable, 0, stamps.readable.size());
        match target {
            Ok(to) => {
                let set = self.set(stamps);
                self.list.commands.push(Command::ResolveStamps { set, count, to });
            }
            Err(error) => self.faults.add(error),
        }
    }

    fn submit(&mut self, constants: &mut Constants, dropped: &[u64]) {
        self.pipelines.forget(dropped);
        self.hazards().forget(dropped);
        // The barrier at the end of the list.
        self.hazards().everything();
        if constants.words().len() > WORDS_IN_LIST {
            constants.flush(&self.queue);
        }
        let words = constants.words();
        let target = match words.is_empty() {
            true => Ok(None),
            false => Stretch::new(constants.raw(), 0, size_of_val(words) as u64).map(Some),
        };
        match target {
            Ok(target) => self.list.constants = target,
            Err(error) => self.faults.add(error),
        }
        if self.list.is_empty() {
            // What wgpu was told to write is not to wait for the next list.
            self.queue.submit([]);
        } else {
            let mut encoder = self.driver.device().create_command_encoder(&Default::default());
            if !self.driver.record(&mut encoder, &self.list, words) {
                self.faults.add(fault("a list of commands could not be recorded".to_owned()));
            }
            self.queue.submit([encoder.finish()]);
            self.running.add(&mut self.list, &self.queue);
        }
        constants.forget();
        self.running.retire();
    }

    fn retire(&mut self) {
        self.running.retire();
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

impl Running {
    /// Keeps the list that was submitted just now, and puts an empty one in its place.
    fn add(&mut self, list: &mut List, queue: &wgpu::Queue) {
        self.last += 1;
        let (number, done) = (self.last, self.done.clone());
        queue.on_submitted_work_done(move || {
            done.fetch_max(number, Ordering::Release);
        });
        let empty = self.spare.pop().unwrap_or_default();
        self.lists.push_back((number, std::mem::replace(list, empty)));
    }

    /// Lets go what the lists used that are done.
    fn retire(&mut self) {
        let done = self.done.load(Ordering::Acquire);
        while self.lists.front().is_some_and(|(number, _)| *number <= done) {
            let Some((_, mut list)) = self.lists.pop_front() else { return };
            list.empty();
            self.spare.push(list);
        }
    }
}

impl Drop for Direct {
    /// The device may still use what goes now.
    fn drop(&mut self) {
        self.driver.wait();
    }
}

/// Makes the driver's pipelines and descriptor sets.
#[derive(Debug)]
struct DirectMaker {
    driver: Driver,
    hazards: Hazards,
}

impl Maker for DirectMaker {
    type Pipeline = Pipeline;
    type Group = Group;

    fn compile(&self, shader: &Shader) -> Result<Pipeline, Error> {
        self.driver.compile(shader)
    }

    fn bind(
        &mut self,
        compiled: &Arc<Compiled<Pipeline>>,
        buffers: Bindings<'_>,
    ) -> Result<Group, Error> {
        check::bindings(buffers, &compiled.writes, &self.driver.device().limits())?;
        let writes = compiled.writes.iter().copied();
        let uses = buffers.iter().zip(writes);
        let uses =
            uses.map(|(slice, writes)| Use { place: self.hazards.place(slice.id().0), writes });
        let uses = uses.collect();
        self.driver.bind(compiled, buffers, uses)
    }
}
