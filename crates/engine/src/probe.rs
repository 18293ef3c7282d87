//! Named intermediate values of a pass, for tests and tools that compare engines stage by stage.

/// Receives intermediate values of a window; by default it wants none, which costs nothing.
pub trait Probe {
    /// Whether [`Probe::streams`] should be called.
    fn wants_streams(&self) -> bool {
        false
    }

    /// The residual streams `[T, S, H]` after the embedding (stage 0) and after layer n (stage
    /// n + 1).
    fn streams(&mut self, stage: usize, values: &[f32]) {
        let _ = (stage, values);
    }

    /// Whether [`Probe::selected`] should be called.
    fn wants_selection(&self) -> bool {
        false
    }

    /// The blocks that each row of the window attends in sparse layer `layer`, rising.
    fn selected(&mut self, layer: usize, blocks: &[Vec<u32>]) {
        let _ = (layer, blocks);
    }

    /// Whether [`Probe::router`] should be called. Forecasts are computed only then, besides what
    /// the pass computes, and change nothing of it.
    fn wants_routers(&self) -> bool {
        false
    }

    /// Logits `[T, experts]` of the router of layer `layer`, or what some earlier input forecasts
    /// of them. Of a layer, forecasts come first.
    fn router(&mut self, layer: usize, seen: RouterView, logits: &[f32]) {
        let _ = (layer, seen, logits);
    }
}

/// What the router of a layer was applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouterView {
    /// The layer's own MoE input: what decides.
    Own,
    /// The MoE input of the layer before, as that layer's own hyper-connection read it.
    InputBefore,
    /// The streams as they were when the layer before read its MoE input, read by this layer's own
    /// hyper-connection: known before the layer before runs its experts.
    Early,
    /// The streams as the layer before left them, read the same way: known before this layer mixes
    /// along the sequence.
    Late,
}

/// Wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {}
