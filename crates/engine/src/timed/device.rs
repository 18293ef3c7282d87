//! Memory of the timed backend: that of the backend inside, which only matrices do not show.

use super::part::{Moved, Part};
use super::{HostBackend, Timed, TimedMatrix};
use kernels::{Activations, Device, Error, GdnShape, KvType, PleShape, QsaShape, Weight};

impl<B: HostBackend> Device for Timed<B> {
    type Buffer = B::Buffer;
    type Matrix = TimedMatrix<B::Matrix>;
    type Vector = B::Vector;
    type Plan = B::Plan;
    type Selection = B::Selection;
    type GdnState = B::GdnState;
    type QsaState = B::QsaState;
    type PleState = B::PleState;

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn memory_used(&self) -> Option<u64> {
        self.inner.memory_used()
    }

    fn alloc(&mut self, len: usize) -> Result<B::Buffer, Error> {
        self.inner.alloc(len)
    }

    fn upload(&mut self, values: &[f32], buffer: &mut B::Buffer) {
        self.inner.upload(values, buffer);
    }

    fn download(&mut self, buffer: &B::Buffer, out: &mut [f32]) -> Result<(), Error> {
        self.timed(Part::DOWNLOAD, Moved::nothing(), |inner| inner.download(buffer, out))
    }

    fn check(&mut self) -> Result<(), Error> {
        self.inner.check()
    }

    fn load_matrix(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<Self::Matrix, Error> {
        Ok(timed(self.inner.load_matrix(weight, activations)?, weight))
    }

    fn spare_memory(&mut self) {
        self.inner.spare_memory();
    }

    fn load_unread(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<Self::Matrix, Error> {
        Ok(timed(self.inner.load_unread(weight, activations)?, weight))
    }

    fn load_table(&mut self, weight: &Weight) -> Result<Self::Matrix, Error> {
        Ok(timed(self.inner.load_table(weight)?, weight))
    }

    fn load_vector(&mut self, weight: &Weight) -> Result<B::Vector, Error> {
        self.inner.load_vector(weight)
    }

    fn new_plan(&mut self) -> B::Plan {
        self.inner.new_plan()
    }

    fn new_selection(&mut self) -> B::Selection {
        self.inner.new_selection()
    }

    fn new_gdn_state(
        &mut self,
        shape: &GdnShape,
        slots: usize,
        deferred: usize,
    ) -> Result<B::GdnState, Error> {
        self.inner.new_gdn_state(shape, slots, deferred)
    }

    fn new_qsa_state(
        &mut self,
        shape: &QsaShape,
        slots: usize,
        context: usize,
        kv: KvType,
    ) -> Result<B::QsaState, Error> {
        self.inner.new_qsa_state(shape, slots, context, kv)
    }

    fn new_ple_state(
        &mut self,
        shape: &PleShape,
        slots: usize,
        deferred: usize,
    ) -> Result<B::PleState, Error> {
        self.inner.new_ple_state(shape, slots, deferred)
    }

    fn reset_gdn(&mut self, state: &mut B::GdnState, slot: usize) {
        self.inner.reset_gdn(state, slot);
    }

    fn reserve_qsa(
        &mut self,
        shape: &QsaShape,
        state: &mut B::QsaState,
        slot: usize,
        len: usize,
    ) -> Result<(), Error> {
        self.inner.reserve_qsa(shape, state, slot, len)
    }

    fn reset_qsa(&mut self, state: &mut B::QsaState, slot: usize) {
        self.inner.reset_qsa(state, slot);
    }

    fn reset_ple(&mut self, state: &mut B::PleState, slot: usize) {
        self.inner.reset_ple(state, slot);
    }
}

fn timed<M>(inner: M, weight: &Weight) -> TimedMatrix<M> {
    TimedMatrix {
        inner,
        part: Part::of_matrix(weight.name()),
        row_bytes: weight.row_bytes(),
        expert_bytes: weight.row_bytes() * weight.n_out(),
    }
}
