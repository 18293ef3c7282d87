//! Router logits for a probe: those that decide, and forecasts of the next layer's.
//!
//! Everything is computed into scratch buffers at moments when the pass has no more use for what
//! they hold, so that a pass with a probe has the bits of one without.

use crate::Error;
use crate::layers::LayerPass;
use crate::probe::{Probe, RouterView};
use crate::weights::Layer;
use kernels::Backend;
use kernels::hc::HcRead;

/// A layer and its number.
type Numbered<'a, B> = (usize, &'a Layer<B>);

/// What the streams forecast of the next layer, before this one reads its MoE input.
pub(crate) fn early<B: Backend>(
    pass: &mut LayerPass<'_, B>,
    probe: &mut dyn Probe,
    (number, next): Numbered<'_, B>,
    x: &B::Buffer,
) -> Result<(), Error> {
    from_streams(pass, next, x);
    show(pass, probe, number, RouterView::Early)
}

/// The logits that layer `number` has just chosen its experts by.
pub(crate) fn own<B: Backend>(
    pass: &mut LayerPass<'_, B>,
    probe: &mut dyn Probe,
    number: usize,
) -> Result<(), Error> {
    show(pass, probe, number, RouterView::Own)
}

/// What this layer's MoE input, still in its buffer, and then the finished streams `x` forecast of
/// the next layer.
pub(crate) fn late<B: Backend>(
    pass: &mut LayerPass<'_, B>,
    probe: &mut dyn Probe,
    (number, next): Numbered<'_, B>,
    x: &B::Buffer,
) -> Result<(), Error> {
    route(pass, next);
    show(pass, probe, number, RouterView::InputBefore)?;
    from_streams(pass, next, x);
    show(pass, probe, number, RouterView::Late)
}

/// Reads `x` as the layer would read its MoE input, and applies its router.
fn from_streams<B: Backend>(pass: &mut LayerPass<'_, B>, layer: &Layer<B>, x: &B::Buffer) {
    let (rows, scratch) = (pass.window.rows(), &mut *pass.scratch);
    let out = HcRead { u: &mut scratch.u, weights: &mut scratch.inject };
    pass.backend.hc_read(pass.hc, &layer.hc_ffn.weights(), x, rows, out);
    route(pass, layer);
}

fn route<B: Backend>(pass: &mut LayerPass<'_, B>, layer: &Layer<B>) {
    let (rows, scratch) = (pass.window.rows(), &mut *pass.scratch);
    pass.backend.matmul(&layer.moe.router, &scratch.u, rows, &mut scratch.moe.router);
}

fn show<B: Backend>(
    pass: &mut LayerPass<'_, B>,
    probe: &mut dyn Probe,
    layer: usize,
    seen: RouterView,
) -> Result<(), Error> {
    let mut logits = vec![0.0; pass.window.rows() * pass.routing.choice.experts];
    pass.backend.download(&pass.scratch.moe.router, &mut logits)?;
    probe.router(layer, seen, &logits);
    Ok(())
}
