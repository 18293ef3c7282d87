//! Sizes of an engine.

use crate::Error;
use kernels::KvType;
use kernels::moe::RoutingDials;
use kernels::mtp::NormExtent;
use kernels::rope::RopeScaling;
use kernels::window::MAX_DEFERRED;

/// Sizes of an engine, how it keeps keys and values, and whether it drafts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineConfig {
    /// Sequences that can be live at once.
    pub slots: usize,
    /// Tokens that a sequence may have, at most those of the model's own context times the factor
    /// of `rope_scaling`.
    pub context: usize,
    /// Rows that a window may have; prompts go through in chunks of this many.
    pub chunk: usize,
    /// Tokens that a deferred feed may have: one more than the drafts of a round. Each takes room
    /// in every slot for the inputs of the recurrent layers. 0 is for engines that defer nothing.
    pub deferred: usize,
    /// Type in which keys and values are kept, those of the drafting block too.
    pub kv: KvType,
    /// How positions beyond the model's own context are reached.
    pub rope_scaling: RopeScaling,
    /// Loads the drafting block of a model that has one, with its streams normalised like this.
    pub mtp: Option<NormExtent>,
    /// Other experts than the router's own choices, where that spares reading. Off, unless speed is
    /// wanted more than the model's own answers.
    pub dials: RoutingDials,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            slots: 1,
            context: 4096,
            chunk: 256,
            deferred: 0,
            kv: KvType::F32,
            rope_scaling: RopeScaling::None,
            mtp: None,
            dials: RoutingDials::default(),
        }
    }
}

impl EngineConfig {
    /// Checks that the sizes can be used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let rule = "it must be at least 1";
        for (what, value) in
            [("slots", self.slots), ("context", self.context), ("chunk", self.chunk)]
        {
            if value == 0 {
                return Err(Error::BadSetting { what, value, rule });
            }
        }
        let (what, value) = ("deferred", self.deferred);
        let rule = "a window must hold so many rows, and they are at most 16";
        let most = self.chunk.min(MAX_DEFERRED);
        if value > most { Err(Error::BadSetting { what, value, rule }) } else { Ok(()) }
    }
}
