//! Family `hc`: hyper-connections, the mixing of the residual streams before and after each block.

use crate::Device;

/// Sizes of the residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HcShape {
    /// Residual streams S.
    pub streams: usize,
    /// Width of one stream (hidden size H).
    pub width: usize,
    /// Epsilon of the norm.
    pub eps: f32,
}

/// Weights of one read; `D = S * H`.
#[derive(Debug)]
pub struct HcWeights<'a, M, V> {
    /// `[D]`, multiplies the normalised streams.
    pub norm: &'a V,
    /// `{D, rank}`.
    pub down: &'a M,
    /// `{rank, D}`.
    pub up: &'a M,
    /// `{D, S}`; absent for the final mixer, which injects nothing.
    pub inject: Option<&'a M>,
}

/// Read from and inject into the residual streams.
///
/// ```text
/// n      = concat over s of RMS(X[s]) * norm        each stream by itself
/// low    = silu( (down . n) / S )
/// gate   = sigma( up . low )
/// u      = (1/S) * sum over s of gate[s] * n[s]
/// weight = 2 * sigma( (inject . n) / S )
/// ```
pub trait Hc: Device {
    /// Reads `x` `[rows, S, H]` into `u` `[rows, H]` and, where `w.inject` is given, the streams'
    /// write weights into `weights` `[rows, S]`.
    fn hc_read(
        &mut self,
        shape: &HcShape,
        w: &HcWeights<'_, Self::Matrix, Self::Vector>,
        x: &Self::Buffer,
        rows: usize,
        out: HcRead<'_, Self::Buffer>,
    );

    /// `x[t, s] += weights[t, s] * y[t]`: `y` is `[rows, H]`.
    fn hc_inject(
        &mut self,
        shape: &HcShape,
        weights: &Self::Buffer,
        y: &Self::Buffer,
        rows: usize,
        x: &mut Self::Buffer,
    );
}

/// Where [`Hc::hc_read`] puts its results.
#[derive(Debug)]
pub struct HcRead<'a, B> {
    /// `[rows, H]`, the block's input.
    pub u: &'a mut B,
    /// `[rows, S]`, untouched when there is no inject matrix.
    pub weights: &'a mut B,
}
