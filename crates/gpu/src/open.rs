//! The call that was asked for last, while it may still take in what follows: products that others
//! join, the sum of a row's experts, or a plan. What the first two write may go on into the residual
//! streams at once, products into a convolution; beside a plan the shared expert's activation may be
//! made.

use crate::buffer::Held;
use crate::combine::Combine;
use crate::constants::Place;
use crate::kernel::Kernel;
use crate::plan_kernels::{FewPlan, SwigluCodes};
use crate::product::{CallLimits, Convolution, Products, Waiting};

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

/// The sum of experts of so many rows; the first buffer takes it.
#[derive(Debug)]
pub(crate) struct Combination {
    pub(crate) used: u32,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) buffers: Vec<Held>,
}

/// Products, a sum or a plan, never two of them.
#[derive(Debug, Default)]
pub(crate) struct Open {
    products: Products,
    combination: Option<Combination>,
    injection: Option<Injection>,
    convolution: Option<Convolution>,
    plan: Option<FewPlan>,
    beside: Option<SwigluCodes>,
}

impl Open {
    /// Whether a product can join what is open.
    pub(crate) fn accepts(&self, next: &Waiting, limits: CallLimits) -> bool {
        let closed = self.combination.is_some() || self.injection.is_some() || self.plan.is_some();
        !closed && self.products.accept(next, limits)
    }

    pub(crate) fn push(&mut self, next: Waiting) {
        self.products.push(next);
    }

    /// Opens the call of a sum; nothing else may be open.
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

    /// The call; `None` if nothing is open.
    pub(crate) fn take(&mut self) -> Option<SharedCall> {
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
        let same = self.buffers.first() == Some(&injection.y)
            && (self.rows, self.width) == (injection.rows, injection.width);
        same && injection.is_apart() && !self.buffers.contains(&injection.x)
    }

    fn call(self, injection: Option<Injection>) -> SharedCall {
        let Self { used, rows, width, mut buffers } = self;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

    use crate::testing::gpu;
    use crate::{Gpu, GpuBuffer};
    use gguf::TensorType;
    use kernels::moe::{MoeChoice, SharedExpert};
    use kernels::weight::WeightShape;
    use kernels::{Activations, Device, Gemv, Hc, HcShape, Moe, Weight};
    use lab::Random;

    const SHAPE: HcShape = HcShape { streams: 4, width: 70, eps: 1e-6 };

    fn values(gpu: &mut Gpu, seed: u64, len: usize) -> GpuBuffer {
        let mut buffer = gpu.alloc(len).unwrap();
        gpu.upload(&Random::new(seed).values(len, 2.0), &mut buffer);
        buffer
    }

    fn words(gpu: &mut Gpu, buffer: &GpuBuffer) -> Vec<u32> {
        let mut out = vec![0; buffer.len()];
        gpu.recorder.download(buffer, &mut out).unwrap();
        out
    }

    /// Bits of y and the streams with and without something between `make` and the injection, and
    /// the kernels that were started without.
    fn both_ways(
        gpu: &mut Gpu,
        rows: usize,
        mut make: impl FnMut(&mut Gpu, &mut GpuBuffer),
    ) -> usize {
        let gains = values(gpu, 7, rows * SHAPE.streams);
        let mut found = Vec::new();
        let mut started = 0;
        for apart in [true, false] {
            let mut x = values(gpu, 8, (rows + 1) * SHAPE.streams * SHAPE.width);
            let mut y = values(gpu, 9, rows * SHAPE.width);
            started = gpu.recorder.dispatched;
            make(gpu, &mut y);
            if apart {
                gpu.recorder.submit();
            }
            gpu.hc_inject(&SHAPE, &gains, &y, rows, &mut x);
            gpu.recorder.submit();
            started = gpu.recorder.dispatched - started;
            found.push((words(gpu, &y), words(gpu, &x)));
        }
        assert!(found[0] == found[1], "{rows} rows");
        assert_ne!(found[0].1, words_of_seed(8, (rows + 1) * SHAPE.streams * SHAPE.width));
        started
    }

    fn words_of_seed(seed: u64, len: usize) -> Vec<u32> {
        Random::new(seed).values(len, 2.0).iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn streams_take_a_product_with_the_same_bits() {
        let Some(mut gpu) = gpu() else { return };
        let bytes: Vec<u8> =
            Random::new(1).values(96 * 70, 0.2).iter().flat_map(|v| v.to_le_bytes()).collect();
        let shape = WeightShape { n_in: 96, n_out: 70, experts: 1 };
        let weight = Weight::new("w", TensorType::F32, shape, bytes.into()).unwrap();
        for limit in [u64::MAX, 8 << 10] {
            gpu.part_limit = limit;
            let matrix = gpu.load_matrix(&weight, Activations::F32).unwrap();
            for rows in [1, 3, 6, 40] {
                let from = values(&mut gpu, 2, rows * 96);
                let started =
                    both_ways(&mut gpu, rows, |gpu, y| gpu.matmul(&matrix, &from, rows, y));
                // Products of many rows, and weights in parts, are left alone.
                let alone = limit == u64::MAX && rows < 32;
                assert!(if alone { started == 1 } else { started >= 2 }, "{rows} rows: {started}");
            }
        }
        gpu.part_limit = u64::MAX;
    }

    /// Two gates that are the same, one made beside a plan and one alone, and what the plan chose.
    #[test]
    fn an_activation_beside_a_plan_has_the_same_bits() {
        let Some(mut gpu) = gpu() else { return };
        let choice = MoeChoice { experts: 40, used: 5 };
        for (rows, len) in [(1, 96), (4, 4 * 640), (1, 90), (40, 96)] {
            let logits = values(&mut gpu, 1, rows * 40);
            let up = values(&mut gpu, 2, len);
            let mut found = Vec::new();
            for apart in [true, false] {
                let mut gate = values(&mut gpu, 3, len);
                let mut plan = gpu.new_plan();
                let before = gpu.recorder.dispatched;
                gpu.moe_plan(&logits, rows, choice, &mut plan);
                if apart {
                    gpu.recorder.submit();
                }
                gpu.swiglu(&mut gate, &up, len);
                gpu.recorder.submit();
                let started = gpu.recorder.dispatched - before;
                // Rows that are no whole units are not left in 8 bits.
                let together = !apart && rows < 8 && len % 32 == 0;
                let want = if rows < 8 { 1 } else { 2 } + usize::from(!together);
                assert_eq!(started, want, "{rows} rows, {len} values");
                let (experts, _) = plan.chosen().unwrap();
                found.push((words(&mut gpu, experts), words(&mut gpu, &gate)));
            }
            assert!(found[0] == found[1], "{rows} rows, {len} values");
        }
    }

    #[test]
    fn streams_take_the_sum_of_experts_with_the_same_bits() {
        let Some(mut gpu) = gpu() else { return };
        let choice = MoeChoice { experts: 16, used: 5 };
        for rows in [1, 4, 40] {
            let logits = values(&mut gpu, 1, rows * 16);
            let mut plan = gpu.new_plan();
            gpu.moe_plan(&logits, rows, choice, &mut plan);
            let part = values(&mut gpu, 2, rows * 5 * SHAPE.width);
            let (shared, gate) =
                (values(&mut gpu, 3, rows * SHAPE.width), values(&mut gpu, 4, rows));
            let started = both_ways(&mut gpu, rows, |gpu, y| {
                let shared = SharedExpert { y: &shared, gate: &gate, width: SHAPE.width };
                gpu.moe_combine(&plan, &part, shared, y);
            });
            assert_eq!(started, 1);
        }
    }
}
