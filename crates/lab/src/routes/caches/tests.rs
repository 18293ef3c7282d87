//! Policies by hand, against plain lists and against all possibilities.

use super::super::{FORECASTS, Routes};
use super::*;
use crate::Random;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// Routes of (layers, experts, used); `choose` gives a token's experts of a layer, those chosen
/// (view 0) and those forecast.
fn routes(
    (layers, experts, used): (usize, usize, usize),
    (tokens, passage): (usize, usize),
    mut choose: impl FnMut(usize, usize, usize) -> Vec<u16>,
) -> Routes {
    let mut choices = Vec::new();
    for token in 0..tokens {
        for layer in 0..layers {
            for view in 0..=FORECASTS.len() {
                match (layer, view) {
                    (0, 1..) => choices.extend(vec![0; used]),
                    _ => choices.extend(choose(token, layer, view)),
                }
            }
        }
    }
    let tokens = (0..tokens as u32).collect();
    Routes { about: String::new(), layers, experts, used, tokens, passage, choices }
}

/// One layer, one expert a token; the first `warm` are the warm-up.
fn line(experts: &[u16], warm: usize) -> Trace {
    let routes = routes((1, 8, 1), (experts.len(), experts.len()), |t, _, _| vec![experts[t]]);
    Trace { warm, ..Trace::of(&routes, 1) }
}

fn missed(trace: &Trace, policy: Policy, slots: usize) -> u64 {
    let counts = simulate(trace, policy, slots);
    assert_eq!(counts.reads(), counts.missed);
    counts.missed
}

#[test]
fn lru_by_hand() {
    assert_eq!(missed(&line(&[0, 1, 2, 0, 1, 2], 0), Policy::Lru, 2), 6);
    // 2 goes in place of 1, then 1 in place of 2.
    assert_eq!(missed(&line(&[0, 1, 0, 2, 0, 1], 0), Policy::Lru, 2), 4);
    // The warm-up fills the cache and is not counted.
    assert_eq!(missed(&line(&[0, 1, 0, 2, 0, 1], 4), Policy::Lru, 2), 1);
}

#[test]
fn lfu_by_hand() {
    // 0 was wanted twice, so 1 goes in place of 2 and back; LRU would lose 0, too.
    let trace = line(&[0, 0, 1, 2, 0, 1], 0);
    assert_eq!((missed(&trace, Policy::Lfu, 2), missed(&trace, Policy::Lru, 2)), (4, 5));
}

#[test]
fn lfu_forgets_what_is_long_ago() {
    // 300 times 0, then 1 and 2 by turns. Counts are halved at windows 256 and 512. After 512 they
    // are: of 0, (127 + 45) / 2 = 86; of 2 (by then wanted 105 times), 52 + 1; of 1, 106 / 2 = 53.
    // Till one of them has 86, too, each goes in place of the other: 1 does at window 577, so at
    // 578 it is 0 that goes. Misses: the first window, and 301 to 578.
    let turns = (0..600).map(|turn| 1 + turn % 2);
    let trace = line(&[0; 300].into_iter().chain(turns).collect::<Vec<u16>>(), 0);
    assert_eq!(AGEING, 256);
    assert_eq!(missed(&trace, Policy::Lfu, 2), 1 + 278);
}

#[test]
fn pinned_by_hand() {
    let trace = line(&[0, 0, 0, 1, 1, 2, 0, 1, 2, 0], 6);
    assert_eq!(missed(&trace, Policy::Pinned, 2), 1);
    assert_eq!(missed(&trace, Policy::Pinned, 8), 0);
    // 0 is pinned; the other slot holds 2 first, then 1, then 2 again.
    assert_eq!(missed(&trace, Policy::HalfPinned, 2), 2);
}

#[test]
fn optimal_by_hand() {
    // 2 is read and not kept.
    assert_eq!(missed(&line(&[0, 1, 2, 0, 1, 2], 0), Policy::Optimal, 2), 4);
    // Behind the warm-up the slot holds 2, the first to be wanted.
    assert_eq!(missed(&line(&[0, 1, 2, 1, 2, 0], 4), Policy::Optimal, 1), 1);
    // What the warm-up has not seen is not held.
    assert_eq!(missed(&line(&[0, 1, 2, 3], 3), Policy::Optimal, 4), 1);
}

#[test]
fn each_layer_has_its_slots() {
    let of_layer = [[0, 0, 1, 1], [0, 1, 0, 1]];
    let routes = routes((2, 8, 1), (4, 4), |token, layer, _| vec![of_layer[layer][token]]);
    let trace = Trace { warm: 0, ..Trace::of(&routes, 1) };
    // One slot each; two for layer 0, which is no help; two each.
    let found = [2, 3, 4].map(|slots| missed(&trace, Policy::LruPerLayer, slots));
    assert_eq!(found, [2 + 4, 2 + 4, 2 + 2]);
}

#[test]
fn a_window_that_is_too_large_keeps_the_likeliest() {
    let tokens = [[0, 1, 2], [0, 1, 2]];
    let routes = routes((1, 8, 3), (2, 2), |token, _, _| tokens[token].to_vec());
    let trace = Trace { warm: 0, ..Trace::of(&routes, 1) };
    // 0 and 1 stay.
    assert_eq!(missed(&trace, Policy::Lru, 2), 3 + 1);
    assert_eq!(missed(&trace, Policy::Optimal, 2), 3 + 1);
}

#[test]
fn reading_ahead_by_hand() {
    let (chosen, forecast) = ([0, 1, 2, 0], [0, 2, 3, 0]);
    let routes = routes((2, 4, 1), (4, 4), |token, layer, view| match (layer, view) {
        (0, _) => vec![0],
        (_, 0) => vec![chosen[token]],
        _ => vec![forecast[token]],
    });
    let trace = Trace { warm: 0, ..Trace::of(&routes, 1) };
    for which in 0..FORECASTS.len() {
        // Token 0 misses 0 of layer 0 and reads 0 ahead, rightly. Token 1 reads 2 for nothing and
        // misses 1, which takes its slot. Token 2 reads 3 in place of 0 and misses 2, which takes
        // its slot. Token 3 reads 0 in place of 1, rightly.
        let policy = Policy::Ahead { forecast: which, count: 1 };
        let expected = Counts { tokens: 4, wanted: 8, missed: 3, prefetched: 4, wrong: 2 };
        assert_eq!(simulate(&trace, policy, 3), expected);
        // One slot is that of the running layer: nothing is read ahead.
        let expected = Counts { missed: 8, prefetched: 0, wrong: 0, ..expected };
        assert_eq!(simulate(&trace, policy, 1), expected);
    }
}

#[test]
fn only_the_likeliest_are_read_ahead() {
    let routes = routes((2, 8, 2), (2, 2), |_, layer, view| match (layer, view) {
        (0, _) => vec![0, 1],
        (_, 0) => vec![2, 3],
        _ => vec![3, 4],
    });
    let trace = Trace::of(&routes, 1).cold(1);
    let run = |count| simulate(&trace, Policy::Ahead { forecast: 2, count }, 8);
    let expected = Counts { tokens: 1, wanted: 4, missed: 3, prefetched: 1, wrong: 0 };
    assert_eq!(run(1), expected);
    assert_eq!(run(2), Counts { prefetched: 2, wrong: 1, ..expected });
}

#[test]
fn windows_want_each_expert_once_and_stop_at_borders() {
    let chosen = [[5, 1], [1, 2], [3, 4], [4, 3], [6, 7], [7, 0]];
    let forecast = [[1, 5], [2, 1], [4, 3], [4, 3], [7, 6], [0, 7]];
    let routes = routes((2, 8, 2), (6, 4), |token, _, view| {
        if view == 0 { chosen[token].to_vec() } else { forecast[token].to_vec() }
    });
    let trace = Trace::of(&routes, 4);
    // The middle is at 3, a passage's border at 4.
    let windows: Vec<_> = trace.steps.iter().map(|step| step.tokens.clone()).collect();
    assert_eq!(windows, [0..3, 0..3, 3..4, 3..4, 4..6, 4..6]);
    assert_eq!((trace.warm, trace.experts), (2, 16));
    // All experts occur in both layers, so that numbers are plain.
    assert_eq!(trace.steps[0].wanted, [3, 4, 1, 2, 5]);
    assert_eq!(trace.steps[1].wanted, [11, 12, 9, 10, 13]);
    let ranked: Vec<_> =
        trace.steps[4].forecast[1].iter().map(|ranked| (ranked.expert, ranked.rank)).collect();
    assert_eq!(ranked, [(8, 0), (15, 0), (14, 1)]);
    assert!(trace.steps[5].forecast.iter().all(Vec::is_empty));

    assert_eq!(trace.cold(1).steps, trace.steps[2..4]);
    assert_eq!(trace.cold(2).steps, trace.steps[2..4]);
    assert_eq!(trace.cold(usize::MAX).steps, trace.steps[2..]);
}

/// What random routes are made from.
#[derive(Clone, Debug)]
struct Recipe {
    /// Layers, experts, used.
    sizes: (usize, usize, usize),
    tokens: usize,
    passage: usize,
    window: usize,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Forecasts {
    Random,
    Right,
}

impl Recipe {
    fn trace(&self, forecasts: Forecasts) -> Trace {
        let (_, experts, used) = self.sizes;
        let mut random = Random::new(self.seed);
        let mut last = Vec::new();
        let routes = routes(self.sizes, (self.tokens, self.passage), |_, _, view| {
            if view == 0 || forecasts == Forecasts::Random {
                last.clear();
                while last.len() < used {
                    // Of two the smaller: some experts are hotter.
                    let expert = random.below(experts).min(random.below(experts)) as u16;
                    if !last.contains(&expert) {
                        last.push(expert);
                    }
                }
            }
            last.clone()
        });
        Trace::of(&routes, self.window)
    }

    fn all_experts(&self) -> usize {
        self.sizes.0 * self.sizes.1
    }
}

fn recipe(most: (usize, usize), tokens: usize) -> impl Strategy<Value = Recipe> {
    let sizes = (1..=most.0, 2..=most.1).prop_flat_map(|(layers, experts)| {
        (1..=experts.min(3)).prop_map(move |used| (layers, experts, used))
    });
    (sizes, 1..=tokens, 1..=tokens, 1usize..=4, any::<u64>()).prop_map(
        |(sizes, tokens, passage, window, seed)| Recipe { sizes, tokens, passage, window, seed },
    )
}

/// Misses of an LRU list without any cleverness.
fn listed(trace: &Trace, slots: usize) -> u64 {
    // The one that goes first is the first.
    let mut list: Vec<u32> = Vec::new();
    let mut missed = 0;
    for (at, step) in trace.steps.iter().enumerate() {
        let absent = step.wanted.iter().filter(|expert| !list.contains(expert)).count();
        missed += if at < trace.warm { 0 } else { absent as u64 };
        list.retain(|expert| !step.wanted.contains(expert));
        list.extend(step.wanted.iter().rev());
        list.drain(..list.len().saturating_sub(slots));
    }
    missed
}

/// The fewest misses behind the warm-up by trying everything: of what is held or wanted, any that
/// have room are held next. Sets are bits.
fn fewest(trace: &Trace, slots: usize) -> u64 {
    let bits = |step: &Step| step.wanted.iter().fold(0u32, |set, &expert| set | 1 << expert);
    let room = |set: u32| set.count_ones() as usize <= slots;
    let subsets = |set: u32| (0..=set).filter(move |&part| part & !set == 0 && room(part));
    let (warm, rest) = trace.steps.split_at(trace.warm);
    let seen = warm.iter().map(bits).fold(0, |all, set| all | set);
    let mut least: HashMap<u32, u64> = subsets(seen).map(|held| (held, 0)).collect();
    for wanted in rest.iter().map(bits) {
        let mut then = HashMap::new();
        for (held, missed) in least {
            let missed = missed + u64::from((wanted & !held).count_ones());
            for next in subsets(held | wanted) {
                let best = then.entry(next).or_insert(missed);
                *best = missed.min(*best);
            }
        }
        least = then;
    }
    least.into_values().min().unwrap()
}

/// All that does not read ahead.
const DEMAND: [Policy; 5] =
    [Policy::Lru, Policy::LruPerLayer, Policy::Lfu, Policy::Pinned, Policy::HalfPinned];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lru_is_a_list(recipe in recipe((3, 8), 40), slots in 1usize..24) {
        let trace = recipe.trace(Forecasts::Random);
        prop_assert_eq!(missed(&trace, Policy::Lru, slots), listed(&trace, slots));
        let cold = trace.cold(usize::MAX);
        prop_assert_eq!(missed(&cold, Policy::Lru, slots), listed(&cold, slots));
    }

    #[test]
    fn nothing_reads_less_than_the_optimal(recipe in recipe((3, 8), 40)) {
        let trace = recipe.trace(Forecasts::Random);
        for trace in [trace.cold(usize::MAX), trace] {
            for slots in 1..=recipe.all_experts() {
                let least = missed(&trace, Policy::Optimal, slots);
                for policy in DEMAND {
                    prop_assert!(least <= missed(&trace, policy, slots), "{policy:?} {slots}");
                }
            }
        }
    }

    #[test]
    fn reading_ahead_saves_no_reads(recipe in recipe((3, 8), 40), count in 1usize..4) {
        let trace = recipe.trace(Forecasts::Random).cold(usize::MAX);
        for slots in 1..=recipe.all_experts() {
            let found = simulate(&trace, Policy::Ahead { forecast: 1, count }, slots);
            prop_assert!(missed(&trace, Policy::Optimal, slots) <= found.reads());
            prop_assert!(found.missed <= found.wanted && found.wrong <= found.prefetched);
            // What was read ahead rightly was not missed.
            prop_assert!(found.prefetched - found.wrong <= found.wanted - found.missed);
        }
    }

    #[test]
    fn a_larger_cache_never_misses_more(recipe in recipe((3, 8), 40)) {
        let trace = recipe.trace(Forecasts::Random);
        for policy in [Policy::Lru, Policy::Optimal, Policy::Pinned] {
            let of_size = (1..=recipe.all_experts()).map(|slots| missed(&trace, policy, slots));
            let of_size: Vec<u64> = of_size.collect();
            prop_assert!(of_size.is_sorted_by(|small, large| small >= large), "{of_size:?}");
        }
    }

    #[test]
    fn with_room_for_all_only_what_is_new_is_missed(recipe in recipe((3, 8), 40)) {
        let trace = recipe.trace(Forecasts::Random);
        let (warm, rest) = trace.steps.split_at(trace.warm);
        let set = |steps: &[Step]| steps.iter().flat_map(|step| step.wanted.clone()).collect();
        let (before, after): (HashSet<u32>, HashSet<u32>) = (set(warm), set(rest));
        let new = after.difference(&before).count() as u64;
        let cold = trace.cold(usize::MAX);
        for policy in [Policy::Lru, Policy::LruPerLayer, Policy::Lfu, Policy::Optimal] {
            prop_assert_eq!(missed(&trace, policy, recipe.all_experts()), new);
            prop_assert_eq!(missed(&cold, policy, recipe.all_experts()), after.len() as u64);
        }
    }

    #[test]
    fn the_optimal_is_the_best_of_all_possibilities(
        recipe in recipe((2, 3), 12),
        slots in 1usize..5,
    ) {
        let trace = recipe.trace(Forecasts::Random);
        prop_assert_eq!(missed(&trace, Policy::Optimal, slots), fewest(&trace, slots));
    }

    #[test]
    fn right_forecasts_read_the_same_but_early(recipe in recipe((4, 8), 40), more in 0usize..8) {
        let trace = recipe.trace(Forecasts::Right);
        // Room for two layers: with less, reading ahead would have to stop.
        let most = trace.steps.iter().map(|step| step.wanted.len()).max().unwrap_or(0);
        let slots = 2 * most + more;
        let found = simulate(&trace, Policy::Ahead { forecast: 0, count: recipe.sizes.2 }, slots);
        prop_assert_eq!(found.reads(), missed(&trace, Policy::Lru, slots));
        prop_assert_eq!(found.wrong, 0);
        let first = trace.steps[trace.warm..].iter().filter(|step| step.layer == 0);
        prop_assert!(found.missed <= first.map(|step| step.wanted.len() as u64).sum());
    }
}
