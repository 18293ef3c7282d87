//! Temperature, top-k, top-p and min-p: which tokens may be drawn.

use super::SamplingParams;
use kernels::scalar;
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
    let largest = largest(logits);
    let scaled = |(i, &x): (usize, &f32)| (i as u32, (x - largest) / params.temperature);
    let floor = top_k_floor(params.top_k, logits);
    let wanted = |x: f32| x.is_finite() && x >= floor;
    let mut all: Vec<Candidate> =
        logits.iter().enumerate().filter(|&(_, &x)| wanted(x)).map(scaled).collect();
    top_k(params.top_k, &mut all);
    top_p(params.top_p, &mut all);
    if params.min_p > 0.0 {
        let floor = params.min_p.ln();
        all.retain(|&(_, x)| x >= floor);
    }
    all
}

/// The largest logit; -inf if one is NaN, which no draw gets to.
pub(super) fn largest(logits: &[f32]) -> f32 {
    scalar::largest(logits).unwrap_or(f32::NEG_INFINITY)
}

/// A value that the `k` largest logits reach: the `k`-th largest of the maxima of pieces, each of
/// which is a logit. What is below need not be looked at. -inf if there is nothing to gain.
fn top_k_floor(k: usize, logits: &[f32]) -> f32 {
    const PIECE: usize = 64;
    let pieces = logits.len() / PIECE;
    if k == 0 || k >= pieces {
        return f32::NEG_INFINITY;
    }
    let mut maxima: Vec<f32> = logits.chunks_exact(PIECE).map(largest).collect();
    *maxima.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniform;

    #[test]
    fn the_floor_keeps_the_k_largest_of_any_logits() {
        for len in [0, 1, 63, 64, 200, 8192, 8200] {
            // Coarse, so that there are many equal ones.
            let value = |i: u32| (uniform(3, len as u64, i) * 50.0).floor() as f32;
            let mut logits: Vec<f32> = (0..len as u32).map(value).collect();
            logits.iter_mut().step_by(7).for_each(|x| *x = f32::NEG_INFINITY);
            for k in [0, 1, 2, 20, 40, 127, 128, 500, 9000] {
                let params = SamplingParams { temperature: 1.0, top_k: k, ..Default::default() };
                let mut found: Vec<u32> =
                    candidates(&params, &logits).iter().map(|c| c.0).collect();
                found.sort_unstable();
                let mut all: Vec<u32> =
                    (0..len as u32).filter(|&i| logits[i as usize].is_finite()).collect();
                all.sort_by(|&a, &b| {
                    logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b))
                });
                all.truncate(if k == 0 { usize::MAX } else { k });
                all.sort_unstable();
                assert_eq!(found, all, "{k} of {len}");
            }
        }
    }
}
