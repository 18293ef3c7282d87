//! Weights that stay in storage until a window wants them: what a device asks of a store.
//!
//! A model may be larger than the memory. Its experts are then read when a window has chosen them,
//! and kept as long as there is room; which ones are kept never changes what is computed.

use crate::Error;
use gguf::Bytes;
use std::fmt::Debug;
use std::sync::Arc;

/// Experts of a model that are brought into memory as they are wanted.
pub trait ExpertSource: Debug + Send + Sync {
    /// A window of `rows` rows wants these experts of `layer`, each named once: what is not in
    /// memory begins to be read. Whatever was wanted before and not taken is forgotten.
    fn want(&self, layer: usize, experts: &mut dyn Iterator<Item = usize>, rows: usize);

    /// Waits until some of the wanted experts are in memory, and puts those into `taken` in place
    /// of what it held; none are left to take when it stays empty. They stay in memory as long as
    /// what was taken is held, and to hold all of them at once there may be no room: use some, drop
    /// them, take the next.
    ///
    /// # Errors
    /// [`Error::Storage`] when one cannot be read. Nothing is wanted any more then.
    fn take(&self, taken: &mut Vec<TakenExpert>) -> Result<(), Error>;

    /// Names experts that `layer` is likely to want soon, the likeliest first. Nobody waits for
    /// them, and they are dropped first if they were named in vain.
    fn expect(&self, layer: usize, experts: &[u32]);

    /// Sets `held[e]` where expert `e` of `layer` is in memory.
    fn resident(&self, layer: usize, held: &mut [bool]);
}

/// An expert in memory.
#[derive(Clone, Debug)]
pub struct TakenExpert {
    /// Which one of the wanted ones, counted in the order in which they were named.
    pub place: usize,
    /// Encoded rows of its gate, up and down matrices.
    pub parts: [Bytes; 3],
}

/// The experts of a layer, where a store holds them.
#[derive(Clone, Debug)]
pub struct StoredExperts {
    /// The store.
    pub source: Arc<dyn ExpertSource>,
    /// The layer's number there.
    pub layer: usize,
}

/// Rows of a table that are read as they are wanted.
pub trait TableSource: Debug + Send + Sync {
    /// These rows will be wanted soon: their reading begins.
    fn expect(&self, rows: &[u64]);

    /// Puts the encoded rows into `out` in place of what it held, one after the other.
    ///
    /// # Errors
    /// [`Error::Storage`] when one cannot be read.
    fn rows(&self, rows: &[u64], out: &mut Vec<u8>) -> Result<(), Error>;
}
