//! Temperature, top-k, top-p and min-p: which tokens may be drawn.

use super::SamplingParams;
use std::cmp::Ordering;

/// `(index of the logit, (logit - largest) / temperature)`. Indices are ordered as tokens are.
type Candidate = (u32, f32);

/// Likelier tokens first, equal ones by rising index.
fn by_falling_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The tokens that pass all filters, at least one if any logit is finite.
pub(super) fn candidates(params: &SamplingParams, logits: &[f32]) -> Vec<Candidate> {
    // Relative to the largest: a tiny temperature then gives -inf, never NaN.
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scaled = |(i, &x): (usize, &f32)| (i as u32, (x - largest) / params.temperature);
    let mut all: Vec<Candidate> =
        logits.iter().enumerate().filter(|(_, x)| x.is_finite()).map(scaled).collect();
    top_k(params.top_k, &mut all);
    top_p(params.top_p, &mut all);
    if params.min_p > 0.0 {
        let floor = params.min_p.ln();
        all.retain(|&(_, x)| x >= floor);
    }
    all
}

fn top_k(k: usize, all: &mut Vec<Candidate>) {
    if 0 < k && k < all.len() {
        all.select_nth_unstable_by(k - 1, by_falling_logit);
        all.truncate(k);
    }
}

/// Keeps the likeliest candidates until their probabilities reach `p`, the one that crosses
/// included.
fn top_p(p: f32, all: &mut Vec<Candidate>) {
    if p >= 1.0 {
        return;
    }
    let weight = |c: &Candidate| f64::from(c.1).exp();
    // Summed in order of index, so that the total does not depend on how top-k left the candidates.
    all.sort_unstable_by_key(|c| c.0);
    let target = f64::from(p) * all.iter().map(weight).sum::<f64>();
    let (mut kept, mut sum, mut sorted) = (0, 0.0, 0);
    while sum < target && kept < all.len() {
        if kept == sorted {
            // Most of the mass is in few tokens: sort no more of them than needed.
            let next = (sorted.max(64) * 2).min(all.len());
            if next < all.len() {
                all[sorted..].select_nth_unstable_by(next - sorted - 1, by_falling_logit);
            }
            all[sorted..next].sort_unstable_by(by_falling_logit);
            sorted = next;
        }
        sum += weight(&all[kept]);
        kept += 1;
    }
    all.truncate(kept.max(1));
}
