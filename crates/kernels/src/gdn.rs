//! Family `gdn`: Gated DeltaNet, the recurrent layers.

use crate::{Device, Error, Window};

/// Sizes of a Gated DeltaNet layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GdnShape {
    /// Query/key heads.
    pub key_heads: usize,
    /// Value heads; value head j uses key head `j mod key_heads`.
    pub value_heads: usize,
    /// Width of a key and of a value head.
    pub head_dim: usize,
    /// Taps of the causal convolution.
    pub conv_kernel: usize,
    /// Epsilon of the output norm and of the l2 norm.
    pub eps: f32,
}

impl GdnShape {
    /// Convolved channels: queries, keys, values.
    pub fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.head_dim
    }

    /// Width of all value heads together.
    pub fn value_dim(&self) -> usize {
        self.value_heads * self.head_dim
    }

    /// Values of one slot's delta-rule state: `[value_heads, key dim, value dim]`.
    pub fn state_len(&self) -> usize {
        self.value_heads * self.head_dim * self.head_dim
    }

    /// Values of one slot's convolution history: `[conv_kernel - 1, channels]`, oldest first.
    pub fn conv_len(&self) -> usize {
        (self.conv_kernel - 1) * self.channels()
    }
}

/// The recurrence of a Gated DeltaNet layer, run by run in the order of positions. Each run says
/// what it replays first and when its own rows enter the state ([`crate::Commit`]).
pub trait Gdn: Device {
    /// `out[t] = silu(sum over k of taps[k] * m[t - (kernel-1) + k])` per channel, zeros before the
    /// start of the sequence; the slot's history is advanced. `m` and `out` are `[rows, channels]`,
    /// `taps` is `[channels, kernel]`, the last tap multiplies the current token.
    fn gdn_conv(
        &mut self,
        shape: &GdnShape,
        taps: &Self::Vector,
        window: &Window,
        state: &mut Self::GdnState,
        io: (&Self::Buffer, &mut Self::Buffer),
    );

    /// Advances the delta rule and reads it, per value head with state `S` `[key, value]`:
    ///
    /// ```text
    /// q, k  = x / sqrt(sum(x^2) + eps) per head;  q *= 1 / sqrt(head_dim)
    /// beta  = sigma(beta);  g = a * softplus(alpha + dt)
    /// S     = exp(g) S;  d = beta (v - S^T k);  S += k d^T;  o = S^T q
    /// ```
    ///
    /// `qkv` is `[rows, channels]` (the convolution's result), `o` is `[rows, value_dim]`.
    fn gdn_scan(
        &mut self,
        shape: &GdnShape,
        window: &Window,
        input: GdnInput<'_, Self::Buffer, Self::Vector>,
        state: &mut Self::GdnState,
        o: &mut Self::Buffer,
    );

    /// `o = RMS(o) * norm * sigma(z)` per value head: `o` and `z` are `[rows, value_dim]`, `norm`
    /// is `[head_dim]`.
    fn gdn_output_gate(
        &mut self,
        shape: &GdnShape,
        norm: &Self::Vector,
        z: &Self::Buffer,
        rows: usize,
        o: &mut Self::Buffer,
    );

    /// A copy of one slot's state.
    fn export_gdn(&mut self, state: &Self::GdnState, slot: usize) -> GdnSlot;

    /// Makes a copy of another slot's state that of `slot`. What the slot has set aside stays as it
    /// is: it must have nothing to replay.
    ///
    /// # Errors
    /// [`Error::StateSize`] if it belongs to another shape; the slot is as it was then.
    fn import_gdn(
        &mut self,
        state: &mut Self::GdnState,
        slot: usize,
        from: &GdnSlot,
    ) -> Result<(), Error>;
}

/// State of one slot in one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct GdnSlot {
    /// Delta-rule state, in the layout of [`GdnShape::state_len`].
    pub s: Vec<f32>,
    /// Convolution history, in the layout of [`GdnShape::conv_len`].
    pub conv: Vec<f32>,
}

/// Inputs of [`Gdn::gdn_scan`].
#[derive(Debug)]
pub struct GdnInput<'a, B, V> {
    /// `[rows, channels]`: convolved queries, keys, values.
    pub qkv: &'a B,
    /// `[rows, value_heads]`, before the softplus.
    pub alpha: &'a B,
    /// `[rows, value_heads]`, before the sigmoid.
    pub beta: &'a B,
    /// `[value_heads]`, negative.
    pub a: &'a V,
    /// `[value_heads]`, added to alpha.
    pub dt: &'a V,
}
