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
}

/// Wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {}
