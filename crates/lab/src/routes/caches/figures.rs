//! Policies and sizes beside each other.

use super::super::{FORECASTS, Routes};
use super::{Counts, Policy, Trace, simulate};

/// Sizes of the caches, as shares of the experts of all layers.
pub const CACHE_SHARES: [f64; 5] = [0.125, 0.25, 0.375, 0.5, 0.75];

/// Tokens of the windows: of decoding, of checking drafts, of prompts.
pub const CACHE_WINDOWS: [usize; 3] = [1, 4, 64];

/// Tokens at the start for which an empty cache is told.
pub const COLD: [usize; 5] = [1, 4, 16, 64, 256];

/// The policies that do not read ahead.
const POLICIES: [Policy; 6] = [
    Policy::Lru,
    Policy::LruPerLayer,
    Policy::Lfu,
    Policy::Pinned,
    Policy::HalfPinned,
    Policy::Optimal,
];

/// What caches of experts would read of a text. All but [`Cold`] is counted in the second half,
/// with the first as the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheFigures {
    /// Experts that the caches hold, by [`CACHE_SHARES`].
    pub slots: [usize; CACHE_SHARES.len()],
    /// By [`CACHE_WINDOWS`].
    pub windows: Vec<CacheWindow>,
    /// Least recently used, from an empty cache, windows of one token: by [`COLD`], as far as the
    /// second half is long enough.
    pub cold: Vec<Cold>,
}

/// With windows of so many tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheWindow {
    /// Tokens of a window.
    pub tokens: usize,
    /// The policies: first those that do not read ahead, then those that do, by forecast and
    /// number of experts.
    pub policies: Vec<PolicyFigures>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFigures {
    /// The policy.
    pub policy: Policy,
    /// By [`CACHE_SHARES`].
    pub counts: [Counts; CACHE_SHARES.len()],
}

/// The first tokens of a cache that is empty at first.
#[derive(Clone, Debug, PartialEq)]
pub struct Cold {
    /// How many.
    pub tokens: usize,
    /// By [`CACHE_SHARES`].
    pub counts: [Counts; CACHE_SHARES.len()],
}

impl CacheFigures {
    /// Of all policies, sizes and windows.
    pub fn of(routes: &Routes) -> Self {
        let slots = CACHE_SHARES.map(|share| slots(routes, share));
        let run = |trace: &Trace, policy| slots.map(|slots| simulate(trace, policy, slots));
        let windows = CACHE_WINDOWS.map(|tokens| {
            let trace = Trace::of(routes, tokens);
            let policies = POLICIES.into_iter().chain(ahead(routes));
            let figures = |policy| PolicyFigures { policy, counts: run(&trace, policy) };
            CacheWindow { tokens, policies: policies.map(figures).collect() }
        });
        let trace = Trace::of(routes, 1);
        let second = routes.tokens.len() - routes.tokens.len() / 2;
        let cold = COLD.into_iter().filter(|&tokens| tokens <= second);
        let cold =
            cold.map(|tokens| Cold { tokens, counts: run(&trace.cold(tokens), Policy::Lru) });
        Self { slots, windows: windows.into(), cold: cold.collect() }
    }
}

/// A cache that holds this share of all experts, at least one.
fn slots(routes: &Routes, share: f64) -> usize {
    let experts = routes.layers.saturating_mul(routes.experts);
    ((experts as f64 * share).round() as usize).max(1)
}

/// Every forecast with one expert of a token, half of those that it uses, and all; none for a model
/// of one layer.
fn ahead(routes: &Routes) -> Vec<Policy> {
    let mut counts = vec![1, routes.used.div_ceil(2), routes.used];
    counts.dedup();
    let forecasts = if routes.layers > 1 { FORECASTS.len() } else { 0 };
    let of = |forecast| counts.iter().map(move |&count| Policy::Ahead { forecast, count });
    (0..forecasts).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::toy;
    use super::*;

    #[test]
    fn sizes_are_shares_of_all_experts() {
        let routes = toy::routes(&[[[0, 1], [2, 3]]; 6], 6);
        let found = CacheFigures::of(&routes);
        assert_eq!(found.slots, [2, 4, 6, 8, 12]);
        assert_eq!(
            found.windows.iter().map(|window| window.tokens).collect::<Vec<_>>(),
            [1, 4, 64]
        );
        // Six policies, and three forecasts with one and two experts.
        assert!(found.windows.iter().all(|window| window.policies.len() == 6 + 3 * 2));
        // Three tokens of the second half, two layers, two experts.
        let lru = &found.windows[0].policies[0];
        assert_eq!(lru.policy, Policy::Lru);
        assert!(lru.counts.iter().all(|counts| (counts.tokens, counts.wanted) == (3, 12)));
        // Two slots hold the experts of one layer, so both layers miss; four hold all.
        assert_eq!(lru.counts.map(|counts| counts.missed), [12, 0, 0, 0, 0]);
        // One window of three tokens reads as much as one token.
        let prompt = &found.windows[2].policies[0];
        assert_eq!((prompt.counts[0].wanted, prompt.counts[0].missed), (4, 4));
        // From an empty cache, the first token misses everything.
        assert_eq!(found.cold.len(), 1);
        assert_eq!(found.cold[0].counts.map(|counts| (counts.wanted, counts.missed)), [(4, 4); 5]);
    }
}
