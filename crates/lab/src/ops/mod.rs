//! The operations, one file each.

mod attention;
mod delta_rule;
mod draft_input;
mod experts;
mod hyper;
mod matmul;
mod ngram;
mod sampling;

pub use attention::Attention;
pub use delta_rule::{DeltaRule, DeltaStep};
pub use draft_input::DraftInput;
pub use experts::{Experts, Projection};
pub use hyper::{HcStep, HyperConnection};
pub use matmul::Matmul;
pub use ngram::Ngram;
pub use sampling::Sampling;

use kernels::{Activations, Commit, Run, Window};

/// How names end in the precision of the activations.
fn activations_name(activations: Activations) -> &'static str {
    match activations {
        Activations::F32 => "f32",
        Activations::Int8 => "int8",
    }
}

/// A window of one run per `(slot, first position, rows)`.
fn window(runs: &[(usize, usize, usize)]) -> Window {
    let mut window = Window::new();
    runs.iter().for_each(|&(slot, pos, len)| window.push(slot, pos, len));
    window
}

/// Rows that [`windows`] set aside at most.
const DEFERRED: usize = 4;

/// The windows that a recurrent state is checked over: alone at first, then two slots at once, then
/// rows on trial beside another slot, of which two are accepted. The last one is `rows` long.
fn windows(rows: usize) -> Vec<Window> {
    let mut trial = window(&[(0, 2, 1)]);
    let run = Run {
        slot: 1,
        first_row: 1,
        len: DEFERRED,
        first_pos: 6,
        replay: 0,
        commit: Commit::Deferred,
    };
    trial.push_run(run);
    let mut last = Window::new();
    last.push_run(Run {
        first_row: 0,
        len: rows,
        first_pos: 8,
        replay: 2,
        commit: Commit::Now,
        ..run
    });
    vec![window(&[(1, 0, 5)]), window(&[(0, 0, 2), (1, 5, 1)]), trial, last]
}

/// Copies that together have at least `cold` bytes, and one more.
fn copies(bytes: usize, cold: usize) -> usize {
    cold / bytes.max(1) + 2
}
