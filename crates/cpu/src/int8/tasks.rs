//! How the panels of a product are dealt to threads.

use super::Product;
use super::fetch::Fetch;
use crate::tiles::CpuTile;

/// Multiplications that a task has at least: enough work to outweigh taking it.
const TASK_PRODUCTS: usize = 64 * 1024;

/// Tasks per thread, where there is enough work and unless the tile says otherwise: so many that
/// the threads end together, so few that a thread mostly reads on where it is.
const TASKS_PER_THREAD: usize = 16;

/// Window rows up to which reading weights takes longer than multiplying them.
const FEW_TOKENS: usize = 16;

/// What shares the threads at once, and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Products at once.
    pub(crate) matrices: usize,
    pub(crate) threads: usize,
    pub(crate) tile: CpuTile,
}

/// Panels of a product with `rows` weight rows, a few to a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelTasks {
    rows: usize,
    per_panel: usize,
    per_task: usize,
    tile_rows: usize,
    fetch: Fetch,
}

/// A panel's weight rows, whether the same task takes the rows after them, what is asked for ahead,
/// and how many window rows are multiplied with it at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelRows {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) then: Then,
    pub(crate) fetch: Fetch,
    pub(crate) tile_rows: usize,
}

/// What a panel's task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The panel that follows in memory.
    NextPanel,
    /// Something else, or nothing.
    Other,
}

impl PanelTasks {
    /// Tasks over `rows` weight rows of `n_in` values times `tokens` rows of activations.
    pub(crate) fn new(
        product: &Product,
        (rows, n_in): (usize, usize),
        tokens: usize,
        Load { matrices, threads, tile }: Load,
    ) -> Self {
        // Two panels at a time save products their loads, which counts where a panel meets many
        // window rows. One at a time reaches more threads, and reads of half as many places.
        let few = rows.div_ceil(product.rows()) * matrices < 4 * threads;
        let one = few || tokens <= FEW_TOKENS;
        let panels = tile.panels.unwrap_or(if one { 1 } else { 2 }) as usize;
        let per_panel = (panels * product.panel_rows()).min(product.rows());
        let enough = TASK_PRODUCTS.div_ceil((per_panel * n_in * tokens).max(1));
        let panels = rows.div_ceil(per_panel);
        let tasks = tile.tasks.map_or(TASKS_PER_THREAD, |tasks| tasks as usize);
        let even = panels * matrices / (threads * tasks);
        let per_task = enough.max(even).min(panels).max(1);
        let fetch = tile.fetch.unwrap_or(Fetch::built_in(per_panel * product.row_bytes(n_in)));
        Self { rows, per_panel, per_task, tile_rows: tile.rows(), fetch }
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(self.per_panel * self.per_task)
    }

    /// The panels of task `i`.
    pub(crate) fn panels(&self, i: usize) -> impl Iterator<Item = PanelRows> + use<> {
        let Self { rows, per_panel, per_task, tile_rows, fetch } = *self;
        let start = i * per_task * per_panel;
        let end = rows.min(start + per_task * per_panel);
        (start..end).step_by(per_panel).map(move |first| {
            let last = end.min(first + per_panel);
            let then = if last < end { Then::NextPanel } else { Then::Other };
            PanelRows { first, last, then, fetch, tile_rows }
        })
    }
}
