//! The accesses that a text makes, in order.

use super::super::{FORECASTS, Routes};
use std::collections::HashSet;
use std::ops::Range;

/// Layers of windows, one after the other: first those of the warm-up, then those that count.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Layers of the model.
    pub(super) layers: usize,
    pub(super) steps: Vec<Step>,
    /// Steps of the warm-up.
    pub(super) warm: usize,
    /// Experts that occur; they are numbered over all layers.
    pub(super) experts: usize,
}

/// What one layer of one window wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) layer: usize,
    /// The window.
    pub(super) tokens: Range<usize>,
    /// Different experts: of the last token first, the likeliest first.
    pub(super) wanted: Vec<u32>,
    /// By [`FORECASTS`], experts of the next layer of this window that are known to be likely
    /// before it runs: rank by rank, in each the last token's first. Empty for the last layer.
    pub(super) forecast: [Vec<Ranked>; FORECASTS.len()],
}

/// An expert that is forecast, and the best rank that a token gives it, the likeliest 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ranked {
    pub(super) expert: u32,
    pub(super) rank: usize,
}

impl Trace {
    /// The text of `routes` in windows of so many tokens (at least one). The first half is the
    /// warm-up. No window reaches over the middle or a passage's border; those before it may be
    /// shorter.
    pub fn of(routes: &Routes, window: usize) -> Self {
        let (window, numbers) = (window.max(1), Numbers::of(routes));
        let half = routes.tokens.len() / 2;
        let mut steps = Vec::new();
        let mut add = |tokens: Range<usize>| {
            let end = tokens.end;
            for start in tokens.step_by(window) {
                add_window(&mut steps, routes, &numbers, start..end.min(start + window));
            }
        };
        routes.passages().for_each(|passage| add(passage.start..passage.end.min(half)));
        let cut = |passage: Range<usize>| passage.start.max(half)..passage.end;
        routes.passages().for_each(|passage| add(cut(passage)));
        let warm = steps.partition_point(|step| step.tokens.end <= half);
        Self { layers: routes.layers, steps, warm, experts: numbers.len() }
    }

    /// What counts of it without the warm-up, at most its first `tokens` tokens.
    #[must_use]
    pub fn cold(&self, tokens: usize) -> Self {
        let steps = &self.steps[self.warm..];
        let end = steps.first().map_or(0, |first| first.tokens.start.saturating_add(tokens));
        let steps = steps.iter().take_while(|step| step.tokens.end <= end).cloned().collect();
        Self { steps, warm: 0, ..*self }
    }
}

fn add_window(steps: &mut Vec<Step>, routes: &Routes, numbers: &Numbers, tokens: Range<usize>) {
    for layer in 0..routes.layers {
        let wanted = tokens.clone().rev().flat_map(|token| routes.chosen(token, layer));
        let mut wanted: Vec<u32> = wanted.map(|&expert| numbers.get(layer, expert)).collect();
        keep_first(&mut wanted, |&expert| expert);
        let forecast = std::array::from_fn(|which| {
            forecast(routes, numbers, tokens.clone(), (layer + 1, which))
        });
        steps.push(Step { layer, tokens: tokens.clone(), wanted, forecast });
    }
}

/// What the forecast number `which` says of a layer.
fn forecast(
    routes: &Routes,
    numbers: &Numbers,
    tokens: Range<usize>,
    (layer, which): (usize, usize),
) -> Vec<Ranked> {
    let mut all = Vec::new();
    if layer < routes.layers {
        for token in tokens.rev() {
            let experts = routes.forecast(token, layer, which).unwrap_or_default();
            all.extend(
                experts
                    .iter()
                    .enumerate()
                    .map(|(rank, &expert)| Ranked { expert: numbers.get(layer, expert), rank }),
            );
        }
    }
    all.sort_by_key(|ranked| ranked.rank);
    keep_first(&mut all, |ranked| ranked.expert);
    all
}

/// Leaves the first of all items with the same expert.
fn keep_first<T>(items: &mut Vec<T>, expert: impl Fn(&T) -> u32) {
    let mut seen = HashSet::new();
    items.retain(|item| seen.insert(expert(item)));
}

/// Numbers for the experts of all layers that occur: a file may claim far more than it names.
struct Numbers {
    /// By layer, ascending.
    experts: Vec<Vec<u16>>,
    /// By layer, the number of its first expert.
    first: Vec<usize>,
}

impl Numbers {
    fn of(routes: &Routes) -> Self {
        let mut first = Vec::with_capacity(routes.layers);
        let mut next = 0;
        let of_layer = |layer| {
            let mut experts = Vec::new();
            for token in 0..routes.tokens.len() {
                experts.extend_from_slice(routes.chosen(token, layer));
                let forecasts =
                    (0..FORECASTS.len()).filter_map(|i| routes.forecast(token, layer, i));
                forecasts.for_each(|forecast| experts.extend_from_slice(forecast));
            }
            experts.sort_unstable();
            experts.dedup();
            experts.shrink_to_fit();
            first.push(next);
            next += experts.len();
            experts
        };
        let experts = (0..routes.layers).map(of_layer).collect();
        Self { experts, first }
    }

    fn len(&self) -> usize {
        self.experts.iter().map(Vec::len).sum()
    }

    /// Of an expert that occurs.
    fn get(&self, layer: usize, expert: u16) -> u32 {
        let place = self.experts[layer].partition_point(|&other| other < expert);
        (self.first[layer] + place) as u32
    }
}
