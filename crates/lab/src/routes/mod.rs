//! Which experts a text uses: recorded from a model, kept in a file, and counted.
//!
//! * [`record`]: runs a text and notes the router's choices, and what earlier inputs forecast.
//! * [`Routes`]: the choices; [`Routes::write`] and [`Routes::read`] keep them in a file.
//! * [`Statistics`]: how alike neighbouring tokens choose, how unevenly experts are used, and how
//!   good the forecasts are.
//! * [`caches`]: what a cache of experts would have to read, under several policies.

pub mod caches;
mod file;
mod record;
mod statistics;
mod usage;

pub use record::{Router, record};
pub use statistics::{DISTANCES, Forecast, Reuse, Statistics, WINDOWS, WindowUse};
pub use usage::{Coverage, HOTTEST, LayerUse, SHARES};

use std::ops::Range;

/// Forecasts that are recorded of each layer but the first, in this order.
pub const FORECASTS: [&str; 3] = ["input before", "early", "late"];

/// The choices of every token in every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// What was recorded, in words: model and settings.
    pub about: String,
    /// Layers of the model.
    pub layers: usize,
    /// Experts of a layer.
    pub experts: usize,
    /// Experts that a token uses.
    pub used: usize,
    /// The text.
    pub tokens: Vec<u32>,
    /// Tokens of a passage, each of which began with an empty state; the last may be shorter.
    pub passage: usize,
    /// `[tokens, layers, 1 + FORECASTS, used]`: the chosen experts, then the forecast ones, each in
    /// order of falling router logit. Of layer 0, which nothing forecasts, forecasts are zeros.
    pub(crate) choices: Vec<u16>,
}

impl Routes {
    /// The experts that `token` uses in `layer`, the one with the largest router logit first.
    pub fn chosen(&self, token: usize, layer: usize) -> &[u16] {
        self.view(token, layer, 0)
    }

    /// The experts of `layer` that were forecast for `token`, by [`FORECASTS`]; none for layer 0.
    pub fn forecast(&self, token: usize, layer: usize, which: usize) -> Option<&[u16]> {
        (layer > 0).then(|| self.view(token, layer, 1 + which))
    }

    fn view(&self, token: usize, layer: usize, view: usize) -> &[u16] {
        let place = (token * self.layers + layer) * (1 + FORECASTS.len()) + view;
        &self.choices[place * self.used..][..self.used]
    }

    /// Tokens of each passage.
    pub fn passages(&self) -> impl Iterator<Item = Range<usize>> {
        let len = self.tokens.len();
        (0..len).step_by(self.passage).map(move |start| start..len.min(start + self.passage))
    }
}

#[cfg(test)]
pub(crate) mod toy {
    //! Routes of a few tokens by hand.

    use super::{FORECASTS, Routes};

    /// Of 8 experts 2 are used; `chosen` is by token and layer. Forecasts are what the token before
    /// chose there.
    pub(crate) fn routes(chosen: &[[[u16; 2]; 2]], passage: usize) -> Routes {
        let mut choices = Vec::new();
        for (t, layers) in chosen.iter().enumerate() {
            for (layer, experts) in layers.iter().enumerate() {
                choices.extend(experts);
                let before = if layer == 0 { [0, 0] } else { chosen[t.max(1) - 1][layer] };
                (0..FORECASTS.len()).for_each(|_| choices.extend(before));
            }
        }
        let tokens = (0..chosen.len() as u32).collect();
        let about = "toy".to_owned();
        Routes { about, layers: 2, experts: 8, used: 2, tokens, passage, choices }
    }
}
