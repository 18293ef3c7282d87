//! How the panels of a product are dealt to threads.

use super::Product;

/// Multiplications that a task has at least: enough work to outweigh taking it.
const TASK_PRODUCTS: usize = 64 * 1024;

/// Tasks per thread, where there is enough work: so many that the threads end together, so few that
/// a thread mostly reads on where it is.
const TASKS_PER_THREAD: usize = 16;

/// Panels of a product with `rows` weight rows, a few to a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelTasks {
    rows: usize,
    per_panel: usize,
    per_task: usize,
}

/// A panel's weight rows, and whether the same task takes the rows after them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelRows {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) then: Then,
}

/// What a panel's task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The panel that follows in memory.
    NextPanel,
    /// Something else.
    Other,
}

impl PanelTasks {
    /// Tasks over `rows` weight rows of `n_in` values times `tokens` rows of activations, where
    /// there are `matrices` such products at once for `threads` threads.
    pub(crate) fn new(
        product: &Product,
        (rows, n_in): (usize, usize),
        tokens: usize,
        (matrices, threads): (usize, usize),
    ) -> Self {
        // Two panels at a time are faster, one at a time reaches more threads.
        let few = rows.div_ceil(product.rows()) * matrices < 4 * threads;
        let per_panel = if few { product.panel_rows() } else { product.rows() };
        let enough = TASK_PRODUCTS.div_ceil((per_panel * n_in * tokens).max(1));
        let panels = rows.div_ceil(per_panel);
        let even = panels * matrices / (threads * TASKS_PER_THREAD);
        Self { rows, per_panel, per_task: enough.max(even).min(panels).max(1) }
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(self.per_panel * self.per_task)
    }

    /// The panels of task `i`.
    pub(crate) fn panels(&self, i: usize) -> impl Iterator<Item = PanelRows> + use<> {
        let Self { rows, per_panel, per_task } = *self;
        let start = i * per_task * per_panel;
        let end = rows.min(start + per_task * per_panel);
        (start..end).step_by(per_panel).map(move |first| {
            let last = end.min(first + per_panel);
            let then = if last < end { Then::NextPanel } else { Then::Other };
            PanelRows { first, last, then }
        })
    }
}

impl PanelRows {
    /// The same rows in a stack of experts, whose rows begin at `base`.
    pub(crate) fn of_expert(self, base: usize) -> Self {
        Self { first: base + self.first, last: base + self.last, ..self }
    }
}
