//! The draw of a draft token, coupled with the draw that will check it.
//!
//! A draft is drawn with the noise that [`SamplingParams::sample`] uses for the same seed, position
//! and token. Where the draft's distribution is the target's, both draws are the same token; where
//! they are near each other, so nearly always. The text does not depend on it: what is kept is
//! always the target's own draw.

use super::choice::{Tokens, adjust, choose};
use super::{Context, SamplingParams, check_finite, filter};

/// A drafted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draft {
    /// The token.
    pub token: u32,
    /// Its probability in the draft's distribution, penalties and biases applied but no filters; at
    /// temperature 1 if the settings are greedy.
    pub confidence: f32,
}

impl SamplingParams {
    /// Draws the draft of the token at `position` from a draft head's `logits`, which are changed
    /// on the way. Logit `i` is of token `ids[i]` (the ids ascend), or of token `i` without `ids`.
    ///
    /// `None` if there is nothing to draw from: a logit is NaN or +inf, none is left, or there are
    /// not as many ids as logits. A draft that is not made costs time and nothing else, so none of
    /// this is an error.
    pub fn draft(
        &self,
        logits: &mut [f32],
        ids: Option<&[u32]>,
        context: &Context<'_>,
        position: usize,
    ) -> Option<Draft> {
        let tokens = match ids {
            Some(ids) if ids.len() != logits.len() => return None,
            Some(ids) => Tokens::Subset(ids),
            None => Tokens::All,
        };
        check_finite(logits, position).ok()?;
        adjust(self, tokens, context, logits);
        let chosen = choose(self, tokens, logits, position)?;
        let confidence = probability(logits, chosen, self.temperature);
        Some(Draft { token: tokens.token(chosen), confidence })
    }
}

/// Softmax of the logits at this temperature (1 in place of 0), at one index.
fn probability(logits: &[f32], index: usize, temperature: f32) -> f32 {
    // Of 250,000 logits that are so far below the largest, all together weigh less than 0.001.
    const NEGLIGIBLE: f32 = -20.0;
    let temperature = if temperature == 0.0 { 1.0 } else { temperature };
    let largest = filter::largest(logits);
    // Relative to the largest, as in the filters: a tiny temperature then gives 0, never NaN.
    let weight = |x: f32| ((x - largest) / temperature).exp();
    let floor = largest + NEGLIGIBLE * temperature;
    let heavy = logits.iter().copied().filter(|&x| x >= floor);
    let total: f64 = heavy.map(|x| f64::from(weight(x))).sum();
    (f64::from(weight(logits[index])) / total) as f32
}
