//! The operations, one file each.

mod attention;
mod delta_rule;
mod experts;
mod hyper;
mod matmul;
mod ngram;
mod sampling;

pub use attention::Attention;
pub use delta_rule::{DeltaRule, DeltaStep};
pub use experts::{Experts, Projection};
pub use hyper::{HcStep, HyperConnection};
pub use matmul::Matmul;
pub use ngram::Ngram;
pub use sampling::Sampling;

use kernels::{Activations, Window};

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

/// The windows that a state is checked over: alone at first, then two slots at once, then on. The
/// last one is `rows` long.
fn windows(rows: usize) -> Vec<Window> {
    vec![window(&[(1, 0, 5)]), window(&[(0, 0, 2), (1, 5, 1)]), window(&[(1, 6, rows)])]
}

/// Copies that together have at least `cold` bytes, and one more.
fn copies(bytes: usize, cold: usize) -> usize {
    cold / bytes.max(1) + 2
}
