//! Family `mtp`: what the drafting block does differently from a decoder layer, its input.

use crate::{Device, HcShape};

/// Over what the root mean square of the streams is taken in the drafting block's input norm.
/// Published engines differ; it changes drafts, never text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormExtent {
    /// All streams of a token together.
    #[default]
    Whole,
    /// Each stream by itself.
    PerStream,
}

/// Norms of the drafting block's input.
#[derive(Debug)]
pub struct MtpNorms<'a, V> {
    /// `[H]`, of the embedding.
    pub embedding: &'a V,
    /// `[S * H]`, of the streams.
    pub streams: &'a V,
    /// How the streams are normalised.
    pub extent: NormExtent,
}

/// Input of the drafting block.
pub trait Mtp: Device {
    /// Embedding and streams side by side, normalised, once per stream:
    ///
    /// ```text
    /// out[t, s] = [ RMS(e[t]) * norms.embedding | RMS(x[t])[s] * norms.streams[s] ]
    /// ```
    ///
    /// `e` is `[rows, H]`, `x` is `[rows, S, H]`, `out` is `[rows, S, 2 H]`. Its product with the
    /// block's projection `{2 H, H}` are the streams that enter the block.
    fn mtp_input(
        &mut self,
        shape: &HcShape,
        norms: &MtpNorms<'_, Self::Vector>,
        io: (&Self::Buffer, &Self::Buffer),
        rows: usize,
        out: &mut Self::Buffer,
    );
}
