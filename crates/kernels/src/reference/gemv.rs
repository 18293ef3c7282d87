//! Matrix times rows.

use super::{Reference, dot};
use crate::{Gemv, Weight};

/// `y[t] = w_e x[t]` for rows `x` of expert `expert`; `y` rows have a stride of `n_out`.
pub(super) fn expert_matmul(
    w: &Weight,
    expert: usize,
    x: &[&[f32]],
    mut y: impl FnMut(usize, usize, f32),
) {
    let mut row = vec![0.0; w.n_in()];
    for r in 0..w.n_out() {
        w.decode_row(expert * w.n_out() + r, &mut row);
        for (t, x) in x.iter().enumerate() {
            y(t, r, dot(&row, x) as f32);
        }
    }
}

impl Gemv for Reference {
    fn matmul(&mut self, w: &Weight, x: &Vec<f32>, rows: usize, y: &mut Vec<f32>) {
        assert_eq!(w.experts(), 1, "{} is an expert stack", w.name());
        let x: Vec<&[f32]> = x.chunks_exact(w.n_in()).take(rows).collect();
        assert_eq!(x.len(), rows);
        expert_matmul(w, 0, &x, |t, r, value| y[t * w.n_out() + r] = value);
    }
}
