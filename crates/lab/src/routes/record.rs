//! Recording: a probe beside the forward pass.
//!
//! The probe sees router logits; what a device chooses by them is defined in `kernels` (largest
//! first, of equal ones the lower expert), so the choice is made again here, on the host.

use super::{FORECASTS, Routes};
use engine::{Engine, Error, Feed, Probe, RouterView, Want};
use kernels::Backend;
use kernels::host::Plan;
use kernels::moe::MoeChoice;
use model::HyperParams;
use std::ops::ControlFlow;

/// The slot that texts run in.
const SLOT: usize = 0;

/// Whoever routes: an engine, on any backend.
pub trait Router {
    /// Sizes of the model.
    fn sizes(&self) -> &HyperParams;

    /// Tokens that can be fed at once.
    fn chunk(&self) -> usize;

    /// Tokens of a sequence.
    fn context(&self) -> usize;

    /// Forgets what was fed.
    ///
    /// # Errors
    /// Those of the engine.
    fn begin(&mut self) -> Result<(), Error>;

    /// Feeds the next tokens and shows them to `probe`.
    ///
    /// # Errors
    /// Those of the engine.
    fn feed(&mut self, tokens: &[u32], probe: &mut dyn Probe) -> Result<(), Error>;
}

impl<B: Backend> Router for Engine<B> {
    fn sizes(&self) -> &HyperParams {
        self.hyper_params()
    }

    fn chunk(&self) -> usize {
        self.config().chunk
    }

    fn context(&self) -> usize {
        self.config().context
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.reset(SLOT)
    }

    fn feed(&mut self, tokens: &[u32], probe: &mut dyn Probe) -> Result<(), Error> {
        let feed = Feed::new(SLOT, tokens, Want::Nothing);
        self.forward_probed(&[feed], probe).map(|_| ())
    }
}

/// Runs `tokens`, in passages as long as the context allows, and notes all choices. `watch` is told
/// how many tokens are done; if it breaks off, there are no routes.
///
/// # Errors
/// Those of the engine, as for a text without tokens.
pub fn record(
    router: &mut dyn Router,
    tokens: &[u32],
    about: String,
    watch: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Option<Routes>, Error> {
    if tokens.is_empty() {
        return Err(Error::NoTokens);
    }
    let sizes = router.sizes();
    let (layers, experts, used) = (sizes.layers.len(), sizes.moe.experts, sizes.moe.used);
    let views = 1 + FORECASTS.len();
    let passage = router.context();
    let mut recorder = Recorder {
        choice: MoeChoice { experts, used },
        plan: Plan::default(),
        layers,
        first: 0,
        choices: vec![0; tokens.len() * layers * views * used],
    };
    let mut done = 0;
    for passage in tokens.chunks(passage) {
        router.begin()?;
        for chunk in passage.chunks(router.chunk()) {
            recorder.first = done;
            router.feed(chunk, &mut recorder)?;
            done += chunk.len();
            if watch(done).is_break() {
                return Ok(None);
            }
        }
    }
    let (tokens, choices) = (tokens.to_vec(), recorder.choices);
    Ok(Some(Routes { about, layers, experts, used, tokens, passage, choices }))
}

struct Recorder {
    choice: MoeChoice,
    plan: Plan,
    layers: usize,
    /// First token of the window.
    first: usize,
    choices: Vec<u16>,
}

impl Probe for Recorder {
    fn wants_routers(&self) -> bool {
        true
    }

    fn router(&mut self, layer: usize, seen: RouterView, logits: &[f32]) {
        let view = match seen {
            RouterView::Own => 0,
            RouterView::InputBefore => 1,
            RouterView::Early => 2,
            RouterView::Late => 3,
        };
        let used = self.choice.used;
        self.plan.build(logits, self.choice);
        for (row, experts) in self.plan.experts().chunks_exact(used).enumerate() {
            let place = ((self.first + row) * self.layers + layer) * (1 + FORECASTS.len()) + view;
            let out = &mut self.choices[place * used..][..used];
            // Loading has refused models of more than 65536 experts.
            out.iter_mut().zip(experts).for_each(|(out, &expert)| *out = expert as u16);
        }
    }
}
