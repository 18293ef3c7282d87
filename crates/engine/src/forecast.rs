//! Which experts the next layer will probably want: its router applied to what this layer reads.
//! They are asked of the store while this layer is at work, and change no result.

use crate::engine::routing;
use crate::layers::LayerPass;
use crate::scratch::Scratch;
use crate::weights::{MoeLayer, StoredTable};
use crate::{DraftStep, Engine, Error};
use kernels::host::Plan;
use kernels::moe::MoeChoice;
use kernels::stored::TableSource as _;
use kernels::weight::WeightShape;
use kernels::{Backend, Commit, Weight};
use model::ngram;

/// Where a forecast is worked out.
pub(crate) struct Forecast<B: Backend> {
    /// Router logits `[T, experts]`.
    logits: B::Buffer,
    /// The same in host memory.
    host: Vec<f32>,
    plan: Plan,
    /// Experts named, the likeliest first.
    named: Vec<u32>,
}

impl<B: Backend> Forecast<B> {
    pub(crate) fn new(logits: B::Buffer) -> Self {
        Self { logits, host: Vec::new(), plan: Plan::default(), named: Vec::new() }
    }
}

/// Asks for the experts that `next` is likely to choose for rows of which `u` is this layer's
/// input.
pub(crate) fn read_ahead<B: Backend>(
    backend: &mut B,
    next: &MoeLayer<B>,
    rows: usize,
    choice: MoeChoice,
    s: &mut Forecast<B>,
    u: &B::Buffer,
) {
    let (Some(stored), Some(router)) = (&next.stored, &next.forecast) else { return };
    let Forecast { logits, host, plan, named } = s;
    backend.matmul(router, u, rows, logits);
    host.resize(rows * choice.experts, 0.0);
    if backend.download(logits, host).is_err() {
        // The window's own results tell of it.
        return;
    }
    plan.build(host, choice);
    named.clear();
    if rows == 1 {
        named.extend_from_slice(plan.experts());
    } else {
        // What more rows want is likelier wanted by one at least.
        let mut groups: Vec<_> = plan.groups().iter().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(plan.pairs_of(group).len()));
        named.extend(groups.iter().map(|group| group.expert as u32));
    }
    stored.source.expect(stored.layer, named);
}

impl<B: Backend> Engine<B> {
    /// Begins to read what the tokens of draft steps will want if they are verified: their table
    /// rows, and the experts that the first layer would probably choose.
    pub(crate) fn foresee(&mut self, steps: &[DraftStep]) {
        let Some(stores) = &self.stores else { return };
        self.ngrams.clear();
        for &DraftStep { slot, token } in steps {
            let (Some(ple), Some(_)) = (&self.hp.ple, stores.table()) else { continue };
            let (history, drafts) = (self.slots.tokens(slot), &mut self.drafted[slot]);
            self.before.clear();
            self.before.extend(&history[history.len().saturating_sub(ple.ngram)..]);
            self.before.extend_from_slice(drafts);
            drafts.push(token);
            ngram::rows(ple, &ngram::context(ple, &self.before, token), &mut self.row_ids);
            self.ngrams.extend_from_slice(&self.row_ids);
        }
        if let Some(table) = stores.table() {
            table.expect(&self.ngrams);
        }
        let Some(first) = self.weights.layers.first().filter(|first| first.moe.forecast.is_some())
        else {
            return;
        };
        self.tokens.clear();
        self.tokens.extend(steps.iter().map(|step| step.token));
        self.window.clear();
        self.window.push_run(self.slots.run(steps[0].slot, 0, steps.len(), Commit::Now));
        let Scratch { x, layers, .. } = &mut self.scratch;
        let (hc, weights) = (&self.weights.hc, &self.weights);
        self.backend.embed(&weights.token_embd, &self.tokens, hc.streams, x);
        let routing = routing(&self.hp, &self.config);
        let (window, reads) = (&self.window, &mut self.reads);
        let backend = &mut self.backend;
        let mut pass = LayerPass { backend, hc, routing, window, scratch: layers, reads };
        pass.foresee(first, x);
    }
}

impl StoredTable {
    /// Reads and decodes table rows into `e`.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn gather<B: Backend>(
        &self,
        backend: &mut B,
        rows: &[u64],
        e: &mut B::Buffer,
    ) -> Result<(), Error> {
        let mut bytes = Vec::new();
        self.source.rows(rows, &mut bytes)?;
        let shape = WeightShape { n_in: self.width, n_out: rows.len(), experts: 1 };
        let some = Weight::new(self.name.clone(), self.ty, shape, bytes.into())?;
        let table = backend.load_table(&some)?;
        let all: Vec<u64> = (0..rows.len() as u64).collect();
        backend.ple_gather(&table, &all, e);
        Ok(())
    }
}
