//! What the routes of a text are like.

use super::usage::coverage;
use super::{Coverage, FORECASTS, LayerUse, Routes};

/// Windows whose experts are counted, in tokens.
pub const WINDOWS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];

/// Distances over which reuse is told, in tokens.
pub const DISTANCES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// All figures; averages are over tokens and layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// By [`WINDOWS`], as far as passages are long enough.
    pub windows: Vec<WindowUse>,
    /// By [`DISTANCES`], as far as passages are long enough.
    pub reuse: Vec<Reuse>,
    /// By layer.
    pub layers: Vec<LayerUse>,
    /// The hottest experts of each layer, the fewest first.
    pub coverage: Vec<Coverage>,
    /// By [`FORECASTS`]; none for a model of one layer.
    pub forecasts: Vec<Forecast>,
}

/// Experts that the tokens of a window use together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowUse {
    /// Tokens of the window.
    pub tokens: usize,
    /// Different experts of a layer, on average over all windows.
    pub unique: f64,
    /// What they would be if every token drew its experts from all alike: `E (1 - (1 - k/E)^T)`.
    pub uniform: f64,
}

/// Experts that a token shares with an earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reuse {
    /// How many tokens earlier.
    pub distance: usize,
    /// Share of a token's experts that the earlier one also used.
    pub share: f64,
    /// What it would be if every token drew its experts from all alike: `k/E`.
    pub uniform: f64,
}

/// How good a forecast of the next layer's experts is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Its name.
    pub name: &'static str,
    /// Share of the used experts that were among as many forecast ones.
    pub hit: f64,
    /// Share of tokens and layers all of whose experts were forecast.
    pub all: f64,
    /// Share of the experts with the largest router logit that were forecast at all.
    pub first: f64,
}

/// A mean that is being added up.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// None without a value.
    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Statistics {
    /// The share of its `used` experts that each token of a window of 4 has in common with all the
    /// others, if the rest were each token's own: that many different experts they use together.
    /// `None` without such a window.
    pub fn share_of_four(&self, used: usize) -> Option<f64> {
        let four = self.windows.iter().find(|window| window.tokens == 4)?;
        Some(((4.0 - four.unique / used as f64) / 3.0).clamp(0.0, 1.0))
    }

    /// Of all tokens of `routes`.
    pub fn of(routes: &Routes) -> Self {
        Self {
            windows: WINDOWS.iter().filter_map(|&tokens| window(routes, tokens)).collect(),
            reuse: DISTANCES.iter().filter_map(|&distance| reuse(routes, distance)).collect(),
            layers: (0..routes.layers).map(|layer| LayerUse::of(routes, layer)).collect(),
            coverage: coverage(routes),
            forecasts: (0..FORECASTS.len()).filter_map(|which| forecast(routes, which)).collect(),
        }
    }
}

/// All windows of so many tokens within a passage, in all layers.
fn window(routes: &Routes, tokens: usize) -> Option<WindowUse> {
    let mut mean = Mean::default();
    // The window that last used an expert.
    let mut seen = vec![usize::MAX; routes.experts];
    let mut number = 0;
    for layer in 0..routes.layers {
        for passage in routes.passages() {
            for start in passage.start..(passage.end + 1).saturating_sub(tokens) {
                let mut unique = 0;
                for token in start..start + tokens {
                    for &expert in routes.chosen(token, layer) {
                        let last = std::mem::replace(&mut seen[usize::from(expert)], number);
                        unique += usize::from(last != number);
                    }
                }
                mean.add(unique as f64);
                number += 1;
            }
        }
    }
    let (experts, used) = (routes.experts as f64, routes.used as f64);
    let uniform = experts * (1.0 - (1.0 - used / experts).powi(tokens as i32));
    mean.get().map(|unique| WindowUse { tokens, unique, uniform })
}

fn reuse(routes: &Routes, distance: usize) -> Option<Reuse> {
    let mut mean = Mean::default();
    for passage in routes.passages() {
        for token in passage.start + distance..passage.end {
            for layer in 0..routes.layers {
                let before = routes.chosen(token - distance, layer);
                mean.add(shared(routes.chosen(token, layer), before) as f64);
            }
        }
    }
    let used = routes.used as f64;
    let uniform = used / routes.experts as f64;
    mean.get().map(|shared| Reuse { distance, share: shared / used, uniform })
}

fn forecast(routes: &Routes, which: usize) -> Option<Forecast> {
    let [mut hit, mut all, mut first] = [Mean::default(); 3];
    for token in 0..routes.tokens.len() {
        for layer in 1..routes.layers {
            let chosen = routes.chosen(token, layer);
            let Some(forecast) = routes.forecast(token, layer, which) else { continue };
            let count = shared(chosen, forecast);
            hit.add(count as f64 / routes.used as f64);
            all.add(f64::from(u8::from(count == routes.used)));
            first.add(f64::from(u8::from(forecast.contains(&chosen[0]))));
        }
    }
    let name = FORECASTS[which];
    Some(Forecast { name, hit: hit.get()?, all: all.get()?, first: first.get()? })
}

/// How many of the experts are among the others.
fn shared(experts: &[u16], others: &[u16]) -> usize {
    experts.iter().filter(|expert| others.contains(expert)).count()
}

#[cfg(test)]
mod tests {
    use super::super::toy;
    use super::*;
    use crate::Random;

    #[test]
    fn a_text_by_hand() {
        // Layer 0 changes one expert a token; layer 1 none.
        let chosen = [[0, 1], [1, 2], [2, 3]].map(|first| [first, [6, 7]]);
        let found = Statistics::of(&toy::routes(&chosen, 3));
        let unique: Vec<f64> = found.windows.iter().map(|window| window.unique).collect();
        assert_eq!(unique, [(3.0 + 2.0) / 2.0, (4.0 + 2.0) / 2.0]);
        assert_eq!(found.windows[0].uniform, 8.0 * (1.0 - 0.75 * 0.75));
        let shares: Vec<f64> = found.reuse.iter().map(|reuse| reuse.share).collect();
        assert_eq!(shares, [(0.5 + 1.0) / 2.0, (0.0 + 1.0) / 2.0]);
        assert_eq!(found.reuse[0].uniform, 0.25);
        // Forecasts of layer 1 are what the token before chose: always right.
        assert_eq!((found.forecasts[0].hit, found.forecasts[2].all), (1.0, 1.0));
    }

    #[test]
    fn passages_do_not_meet() {
        let chosen = [[0, 1], [0, 1], [2, 3], [2, 3]].map(|experts| [experts, experts]);
        let found = Statistics::of(&toy::routes(&chosen, 2));
        assert_eq!((found.windows.len(), found.windows[0].unique), (1, 2.0));
        assert_eq!((found.reuse.len(), found.reuse[0].share), (1, 1.0));
    }

    #[test]
    fn forecasts_that_miss_by_half() {
        let chosen = [[4, 5], [5, 6], [6, 7]].map(|second| [[0, 1], second]);
        // Of token 0 the forecast is its own choice; after that one of two, never the second.
        let found = Statistics::of(&toy::routes(&chosen, 3)).forecasts[1];
        assert_eq!((found.hit, found.all), ((1.0 + 0.5 + 0.5) / 3.0, 1.0 / 3.0));
        assert_eq!(found.first, 1.0);
    }

    #[test]
    fn what_windows_share_is_told_by_how_many_experts_they_use() {
        let of = |unique| {
            let windows = vec![WindowUse { tokens: 4, unique, uniform: 40.0 }];
            let (reuse, layers, coverage) = (Vec::new(), Vec::new(), Vec::new());
            Statistics { windows, reuse, layers, coverage, forecasts: Vec::new() }
        };
        // Ten experts each: all the same, four of them the same, none.
        for (unique, share) in [(10.0, 1.0), (28.0, 0.4), (40.0, 0.0)] {
            assert!((of(unique).share_of_four(10).unwrap() - share).abs() < 1e-12, "{unique}");
        }
        assert_eq!(Statistics { windows: Vec::new(), ..of(1.0) }.share_of_four(10), None);
    }

    #[test]
    fn random_choices_are_as_the_uniform_figures_say() {
        let mut random = Random::new(3);
        let mut pair = || {
            let first = random.below(8);
            let second = (first + 1 + random.below(7)) % 8;
            [first as u16, second as u16]
        };
        let chosen: Vec<_> = (0..20_000).map(|_| [pair(), pair()]).collect();
        let found = Statistics::of(&toy::routes(&chosen, 20_000));
        // 40,000 draws: means are within some 5 standard errors of 1/200 of what is expected.
        for window in &found.windows {
            assert!((window.unique / window.uniform - 1.0).abs() < 0.01, "{window:?}");
        }
        for reuse in &found.reuse {
            assert!((reuse.share / reuse.uniform - 1.0).abs() < 0.025, "{reuse:?}");
        }
        for layer in &found.layers {
            assert!((layer.entropy - 3.0).abs() < 0.01 && layer.unused == 0, "{layer:?}");
        }
    }
}
