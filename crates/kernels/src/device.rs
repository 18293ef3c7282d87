//! Where activations, weights and states live, and the sum of all families.

use crate::{
    Error, Gdn, GdnShape, Gemv, Hc, Head, KvType, Moe, Mtp, Ple, PleShape, Qsa, QsaShape, Weight,
};

/// The least precision to which a device may bring the activations that a matrix multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activations {
    /// As they are.
    #[default]
    F32,
    /// 8 bits per value with one scale per 32 values of a row, where the device gains by it. For
    /// the large matrices; not for what decides (routers, the indexer) or feeds a recurrence's
    /// gates.
    Int8,
}

/// Memory of a device and what it holds.
pub trait Device {
    /// f32 activations.
    type Buffer;
    /// A loaded matrix or expert stack, in whatever layout the device likes.
    type Matrix;
    /// A small f32 weight: norms, convolution taps, decay factors.
    type Vector;
    /// The rows of a window grouped by expert.
    type Plan;
    /// The cache positions that each row of a window attends.
    type Selection;
    /// Delta-rule state and convolution history of one layer, all slots.
    type GdnState;
    /// Keys, values and index keys of one layer, all slots.
    type QsaState;
    /// Convolution history of the n-gram features, all slots.
    type PleState;

    /// Short name, for messages and tables.
    fn name(&self) -> &'static str;

    /// Bytes that are taken of the device's own memory; `None` for a device that works in the
    /// host's.
    fn memory_used(&self) -> Option<u64> {
        None
    }

    /// A zeroed buffer of `len` values.
    ///
    /// # Errors
    /// When the device lacks the memory.
    fn alloc(&mut self, len: usize) -> Result<Self::Buffer, Error>;

    /// Copies `values` to the start of `buffer`.
    fn upload(&mut self, values: &[f32], buffer: &mut Self::Buffer);

    /// Copies the first `out.len()` values of `buffer` to `out`, after all work that writes it.
    ///
    /// # Errors
    /// Faults of the device in any operation since the last download.
    fn download(&mut self, buffer: &Self::Buffer, out: &mut [f32]) -> Result<(), Error>;

    /// Waits for all work. A device that does its work later than it is asked for tells how many
    /// seconds it was at it since the last call; `None` is a device whose operations are done when
    /// they return.
    ///
    /// # Errors
    /// As for [`Device::download`].
    fn finish(&mut self) -> Result<Option<f64>, Error> {
        Ok(None)
    }

    /// Tells of a fault that is known by now, without waiting for anything: results since the last
    /// call that told of none are void. Devices that have no faults but what
    /// [`Device::download`] tells have none here.
    ///
    /// # Errors
    /// The first fault since the last call.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Makes a matrix or an expert stack ready for use in products with activations of at least
    /// the stated precision.
    ///
    /// # Errors
    /// When its format has no kernel here or memory is short.
    fn load_matrix(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<Self::Matrix, Error>;

    /// Makes a stack of experts ready of which the `held` ones are to lie in the device's own
    /// memory and the others stay where they are, to be multiplied where they are. Which ones are
    /// held decides about bits, so it is said once, here. Such a stack is for
    /// [`crate::Moe::moe_experts`] alone. A device that works in the host's memory has no use for
    /// it; the default is [`Device::load_matrix`].
    ///
    /// # Errors
    /// As for [`Device::load_matrix`].
    fn load_experts(
        &mut self,
        weight: &Weight,
        activations: Activations,
        held: &[bool],
    ) -> Result<Self::Matrix, Error> {
        let _ = held;
        self.load_matrix(weight, activations)
    }

    /// Tells, before weights are loaded, that they do not all fit into memory: no copy is to be made
    /// of any that nobody asked for.
    fn spare_memory(&mut self) {}

    /// Makes a matrix ready whose bytes are read from elsewhere or row by row: a stack of experts
    /// that a store provides, or an embedding ([`crate::Head::embed`]). A device that arranges
    /// weights for products has no need to; the default is [`Device::load_matrix`].
    ///
    /// # Errors
    /// As for [`Device::load_matrix`].
    fn load_unread(
        &mut self,
        weight: &Weight,
        activations: Activations,
    ) -> Result<Self::Matrix, Error> {
        self.load_matrix(weight, activations)
    }

    /// Makes a table ready whose rows are only ever gathered ([`Ple::ple_gather`]). It may be
    /// larger than the device's memory, so a device with memory of its own leaves it where it is;
    /// the default is [`Device::load_matrix`].
    ///
    /// # Errors
    /// As for [`Device::load_matrix`].
    fn load_table(&mut self, weight: &Weight) -> Result<Self::Matrix, Error> {
        self.load_matrix(weight, Activations::F32)
    }

    /// Makes a small weight ready for use, decoded to f32 in storage order.
    ///
    /// # Errors
    /// As for [`Device::load_matrix`].
    fn load_vector(&mut self, weight: &Weight) -> Result<Self::Vector, Error>;

    /// Empty expert plan.
    fn new_plan(&mut self) -> Self::Plan;

    /// Empty selection.
    fn new_selection(&mut self) -> Self::Selection;

    /// State of one Gated DeltaNet layer for `slots` fresh sequences, with room to set aside
    /// `deferred` rows of each.
    ///
    /// # Errors
    /// When the device lacks the memory.
    fn new_gdn_state(
        &mut self,
        shape: &GdnShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self::GdnState, Error>;

    /// State of one sparse attention layer for `slots` fresh sequences of at most `context` tokens,
    /// which keeps keys and values as `kv`.
    ///
    /// # Errors
    /// [`Error::KvWidth`] if heads are no multiple of the type's block; when the device lacks the
    /// memory.
    fn new_qsa_state(
        &mut self,
        shape: &QsaShape,
        slots: usize,
        context: usize,
        kv: KvType,
    ) -> Result<Self::QsaState, Error>;

    /// State of the n-gram feature layer for `slots` fresh sequences, with room to set aside
    /// `deferred` rows of each.
    ///
    /// # Errors
    /// When the device lacks the memory.
    fn new_ple_state(
        &mut self,
        shape: &PleShape,
        slots: usize,
        deferred: usize,
    ) -> Result<Self::PleState, Error>;

    /// Makes `slot` a fresh sequence.
    fn reset_gdn(&mut self, state: &mut Self::GdnState, slot: usize);

    /// Makes room for `len` tokens in the cache of `slot`, before a window that makes it so long.
    ///
    /// # Errors
    /// When the device lacks the memory; what the cache holds stays as it is.
    fn reserve_qsa(
        &mut self,
        shape: &QsaShape,
        state: &mut Self::QsaState,
        slot: usize,
        len: usize,
    ) -> Result<(), Error>;

    /// Makes `slot` a fresh sequence.
    fn reset_qsa(&mut self, state: &mut Self::QsaState, slot: usize);

    /// Makes `slot` a fresh sequence.
    fn reset_ple(&mut self, state: &mut Self::PleState, slot: usize);
}

/// A device with every family: what the engine runs on.
pub trait Backend: Device + Gemv + Moe + Gdn + Qsa + Hc + Ple + Head + Mtp {}

impl<D: Device + Gemv + Moe + Gdn + Qsa + Hc + Ple + Head + Mtp> Backend for D {}
