//! The call that was asked for last, while it may still take in what follows: products that others
//! join, the sum of a row's experts, or a plan. What the first two write may go on into the residual
//! streams at once, products into a convolution; beside a plan the shared expert's activation may be
//! made.

#[cfg(test)]
mod tests;

use crate::buffer::Held;
use crate::combine::Combine;
use crate::constants::Place;
use crate::kernel::Kernel;
use crate::plan_kernels::{FewPlan, SwigluCodes};
use crate::product::{CallLimits, Convolution, Downs, Products, Waiting};

/// A call that is ready to be recorded. What it writes was noted in the buffers.
#[derive(Debug)]
pub(crate) struct SharedCall {
    pub(crate) kernel: Kernel,
    pub(crate) buffers: Vec<Held>,
    /// Bound after them.
    pub(crate) constants: Option<Place>,
    pub(crate) params: Vec<u32>,
    pub(crate) grid: [u32; 3],
}

/// `x[t, s] += gains[t, s] * y[t]` of so many streams.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    pub(crate) streams: u32,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) gains: Held,
    pub(crate) y: Held,
    pub(crate) x: Held,
}

/// The sum of experts of so many rows.
#[derive(Debug)]
pub(crate) struct Combination {
    pub(crate) used: u32,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// The sum, the shared expert, parts of the others, their weights, the gate of the shared one.
    pub(crate) buffers: [Held; 5],
    /// Experts of every row.
    pub(crate) experts: Held,
    /// How their pairs are grouped.
    pub(crate) tiles_and_order: [Held; 2],
}

/// Products, a sum or a plan, never two of them; but a sum may have the products that it adds up.
#[derive(Debug, Default)]
pub(crate) struct Open {
    products: Products,
    downs: Option<Downs>,
    combination: Option<Combination>,
    injection: Option<Injection>,
    convolution: Option<Convolution>,
    plan: Option<FewPlan>,
    beside: Option<SwigluCodes>,
}

impl Open {
    /// Whether a product can join what is open.
    pub(crate) fn accepts(&self, next: &Waiting, limits: CallLimits) -> bool {
        let closed = self.combination.is_some()
            || self.injection.is_some()
            || self.plan.is_some()
            || self.downs.is_some()
            || self.convolution.is_some();
        !closed && self.products.accept(next, limits)
    }

    pub(crate) fn push(&mut self, next: Waiting) {
        self.products.push(next);
    }

    /// Lets a product wait beside one with experts, for the sum of both. Gives it back if none is
    /// open that it could wait for.
    pub(crate) fn beside_experts(&mut self, next: Waiting) -> Option<Waiting> {
        let [routed] = self.products.waiting() else { return Some(next) };
        let closed = self.injection.is_some() || self.convolution.is_some();
        if closed || !Downs::can_be(routed, &next) {
            return Some(next);
        }
        let Some(routed) = self.products.take_only() else { return Some(next) };
        self.downs = Some(Downs::new(routed, next));
        None
    }

    /// Whether a sum is that of the products that wait for one.
    pub(crate) fn sums_up(&self, combination: &Combination, limits: CallLimits) -> bool {
        let alone = self.combination.is_none();
        alone && self.downs.as_ref().is_some_and(|downs| downs.takes(combination, limits))
    }

    /// Opens the call of a sum; nothing else may be open but what it sums up.
    pub(crate) fn combine(&mut self, combination: Combination) {
        self.combination = Some(combination);
    }

    /// Opens the call of a plan; nothing else may be open.
    pub(crate) fn plan(&mut self, plan: FewPlan) {
        self.plan = Some(plan);
    }

    /// Lets an activation be made beside the plan; false if none is open that could take it.
    pub(crate) fn beside_plan(&mut self, swiglu: SwigluCodes) -> bool {
        let fits =
            self.beside.is_none() && self.plan.as_ref().is_some_and(|plan| plan.takes(&swiglu));
        if fits {
            self.beside = Some(swiglu);
        }
        fits
    }

    /// Lets what is open go on into the streams; false if it is nothing that could.
    pub(crate) fn inject(&mut self, injection: &Injection, limits: CallLimits) -> bool {
        let closed = self.injection.is_some() || self.convolution.is_some();
        let fits = !closed
            && match &self.combination {
                Some(sum) => sum.takes(injection),
                None => self.products.takes(injection, limits),
            };
        if fits {
            self.injection = Some(injection.clone());
        }
        fits
    }

    /// Lets a product that is open be convolved; false if none is that could.
    pub(crate) fn convolve(&mut self, asked: Convolution, limits: CallLimits) -> bool {
        if self.injection.is_some() || self.convolution.is_some() {
            return false;
        }
        self.convolution = self.products.convolved(asked, limits);
        self.convolution.is_some()
    }

    /// The next of the calls that are open; `None` if nothing is.
    pub(crate) fn take(&mut self) -> Option<SharedCall> {
        if let Some(downs) = self.downs.take() {
            if let Some(sum) = self.combination.take() {
                return Some(downs.call(sum, self.injection.take()));
            }
            let [routed, shared] = downs.apart();
            self.products.push(routed);
            let first = self.products.take(None, None);
            self.products.push(shared);
            return first;
        }
        if let Some(plan) = self.plan.take() {
            return Some(plan.call(self.beside.take()));
        }
        let injection = self.injection.take();
        match self.combination.take() {
            Some(sum) => Some(sum.call(injection)),
            None => self.products.take(injection, self.convolution.take()),
        }
    }
}

impl Combination {
    fn takes(&self, injection: &Injection) -> bool {
        let same = self.buffers[0] == injection.y
            && (self.rows, self.width) == (injection.rows, injection.width);
        same && injection.is_apart() && !self.buffers.contains(&injection.x)
    }

    fn call(self, injection: Option<Injection>) -> SharedCall {
        let Self { used, rows, width, buffers, .. } = self;
        let mut buffers = buffers.to_vec();
        let streams = injection.as_ref().map_or(0, |injection| injection.streams);
        buffers.extend(injection.into_iter().flat_map(Injection::buffers));
        Combine { used, streams }.call(buffers, (rows, width))
    }
}

impl Injection {
    /// Whether the streams are neither what they take nor its weights, nor these each other.
    pub(crate) fn is_apart(&self) -> bool {
        self.x != self.y && self.x != self.gains && self.gains != self.y
    }

    /// Those that a kernel binds besides its own.
    pub(crate) fn buffers(self) -> [Held; 2] {
        [self.gains, self.x]
    }
}
