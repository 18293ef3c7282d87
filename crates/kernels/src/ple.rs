//! Family `ple`: hashed n-gram features added to the residual streams.

use crate::{Device, Error, Window};

/// Sizes of the n-gram feature layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PleShape {
    /// Residual streams S.
    pub streams: usize,
    /// Width of one stream (hidden size H).
    pub width: usize,
    /// Taps of the causal convolution.
    pub kernel: usize,
    /// Tokens between taps.
    pub dilation: usize,
    /// Epsilon of the norms.
    pub eps: f32,
}

impl PleShape {
    /// Convolved channels `D = S * H`.
    pub fn channels(&self) -> usize {
        self.streams * self.width
    }

    /// Columns of history that the convolution looks back.
    pub fn history(&self) -> usize {
        (self.kernel - 1) * self.dilation
    }

    /// Values of one slot's history: `[history, channels]`, oldest first.
    pub fn conv_len(&self) -> usize {
        self.history() * self.channels()
    }
}

/// Small weights of the n-gram feature layer, `D = S * H`.
#[derive(Debug)]
pub struct PleWeights<'a, V> {
    /// `[D]`.
    pub norm_key: &'a V,
    /// `[D]`.
    pub norm_query: &'a V,
    /// `[D]`.
    pub norm_conv: &'a V,
    /// `[D, kernel]`, the last tap multiplies the current token.
    pub taps: &'a V,
}

/// Rows of the n-gram table and their mixing into the streams.
pub trait Ple: Device {
    /// `e[t]` = the table rows `ids[t * heads ..][.. heads]` side by side. The table stays where it
    /// is (mapped file, device memory); only these rows are read. It was loaded with
    /// [`Device::load_table`].
    fn ple_gather(&mut self, table: &Self::Matrix, ids: &[u64], e: &mut Self::Buffer);

    /// Adds the features to the streams and advances the slot's history:
    ///
    /// ```text
    /// k[s] = RMS(key[s]) * norm_key[s];  q[s] = RMS(X[s]) * norm_query[s]
    /// a[s] = k[s] . q[s] / sqrt(H)
    /// g[s] = sigma(sign(a[s]) * sqrt(max(|a[s]|, 1e-6)))           sign(0) = 0
    /// z[s] = g[s] * value;  c[s] = RMS(z[s]) * norm_conv[s]
    /// X   += z + silu(sum over j of taps[j] * c at t - dilation * (kernel-1-j))
    /// ```
    ///
    /// `key` is `[rows, D]`, `value` is `[rows, H]`, `x` is `[rows, S, H]`.
    fn ple_mix(
        &mut self,
        shape: &PleShape,
        w: &PleWeights<'_, Self::Vector>,
        window: &Window,
        input: PleInput<'_, Self::Buffer, Self::PleState>,
        x: &mut Self::Buffer,
    );

    /// One slot's convolution history, in the layout of [`PleShape::conv_len`].
    fn export_ple(&mut self, state: &Self::PleState, slot: usize) -> Vec<f32>;

    /// Makes a copy of another slot's history that of `slot`, which must have nothing to replay.
    ///
    /// # Errors
    /// [`Error::StateSize`] if it belongs to another shape; the slot is as it was then.
    fn import_ple(
        &mut self,
        state: &mut Self::PleState,
        slot: usize,
        from: &[f32],
    ) -> Result<(), Error>;
}

/// Inputs of [`Ple::ple_mix`].
#[derive(Debug)]
pub struct PleInput<'a, B, S> {
    /// `[rows, D]`.
    pub key: &'a B,
    /// `[rows, H]`.
    pub value: &'a B,
    /// History of the convolution, advanced.
    pub state: &'a mut S,
}
