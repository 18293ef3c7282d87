//! States, plans and selections in host memory, shared by the implementations that live there.

mod kv;
mod memory;
mod order;
mod plan;
mod room;
mod selection;
mod state;

pub use kv::{KvCache, KvRows};
pub use memory::zeroed;
pub use plan::{Group, Plan};
pub use room::{MemoryRoom, available_memory, total_memory};
pub use selection::Selection;
pub use state::{AsideRows, GdnAside, GdnState, KvSlot, PleState, QsaState};

/// The part of [`crate::Moe`] that is the same for every device that keeps plans in host memory.
/// Expands inside the impl.
#[macro_export]
macro_rules! host_plans {
    () => {
        fn moe_plan(
            &mut self,
            logits: &Vec<f32>,
            rows: usize,
            choice: $crate::moe::MoeChoice,
            plan: &mut $crate::host::Plan,
        ) {
            plan.build(&logits[..rows * choice.experts], choice);
        }

        fn moe_plan_dialled(
            &mut self,
            logits: &Vec<f32>,
            rows: usize,
            choice: $crate::moe::MoeChoice,
            dials: (&$crate::moe::RoutingDials, &[bool]),
            plan: &mut $crate::host::Plan,
        ) {
            plan.build_dialled(&logits[..rows * choice.experts], choice, dials);
        }

        fn experts_in_use(&self, plan: &$crate::host::Plan) -> Option<usize> {
            Some(plan.groups().len())
        }
    };
}

/// The part of [`crate::Device`] that is the same for every device in host memory: the types of
/// buffers and states, and the methods that make, copy and reset them. Expands inside the impl.
#[macro_export]
macro_rules! host_memory {
    () => {
        type Buffer = Vec<f32>;
        type Vector = Vec<f32>;
        type Plan = $crate::host::Plan;
        type Selection = $crate::host::Selection;
        type GdnState = $crate::host::GdnState;
        type QsaState = $crate::host::QsaState;
        type PleState = $crate::host::PleState;

        fn alloc(&mut self, len: usize) -> Result<Vec<f32>, $crate::Error> {
            $crate::host::zeroed(len, "activations")
        }

        fn upload(&mut self, values: &[f32], buffer: &mut Vec<f32>) {
            buffer[..values.len()].copy_from_slice(values);
        }

        fn download(&mut self, buffer: &Vec<f32>, out: &mut [f32]) -> Result<(), $crate::Error> {
            out.copy_from_slice(&buffer[..out.len()]);
            Ok(())
        }

        fn new_plan(&mut self) -> Self::Plan {
            Self::Plan::default()
        }

        fn new_selection(&mut self) -> Self::Selection {
            Self::Selection::default()
        }

        fn new_gdn_state(
            &mut self,
            shape: &$crate::GdnShape,
            slots: usize,
            deferred: usize,
        ) -> Result<Self::GdnState, $crate::Error> {
            Self::GdnState::new(shape, slots, deferred)
        }

        fn new_qsa_state(
            &mut self,
            shape: &$crate::QsaShape,
            slots: usize,
            context: usize,
            kv: $crate::KvType,
        ) -> Result<Self::QsaState, $crate::Error> {
            Self::QsaState::new(shape, slots, context, kv)
        }

        fn new_ple_state(
            &mut self,
            shape: &$crate::PleShape,
            slots: usize,
            deferred: usize,
        ) -> Result<Self::PleState, $crate::Error> {
            Self::PleState::new(shape, slots, deferred)
        }

        fn reset_gdn(&mut self, state: &mut Self::GdnState, slot: usize) {
            state.reset(slot);
        }

        fn reserve_qsa(
            &mut self,
            shape: &$crate::QsaShape,
            state: &mut Self::QsaState,
            slot: usize,
            len: usize,
        ) -> Result<(), $crate::Error> {
            state.reserve(shape, slot, len)
        }

        fn reset_qsa(&mut self, state: &mut Self::QsaState, slot: usize) {
            state.reset(slot);
        }

        fn reset_ple(&mut self, state: &mut Self::PleState, slot: usize) {
            state.reset(slot);
        }
    };
}
