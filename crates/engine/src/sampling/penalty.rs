//! Penalties for tokens that occurred before.

use super::SamplingParams;
use super::choice::Tokens;
use std::collections::HashMap;

/// The tokens before the one to be chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// What was given.
    pub prompt: &'a [u32],
    /// What was generated since.
    pub output: &'a [u32],
}

/// Applies the penalties of `params`. Counts are taken from the context anew, so that they hold
/// exactly the tokens before this position whatever was tried and given up in between.
pub(super) fn apply(
    params: &SamplingParams,
    tokens: Tokens<'_>,
    context: &Context<'_>,
    logits: &mut [f32],
) {
    let repetition = params.repetition_penalty != 1.0;
    let occurrence = params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
    if !repetition && !occurrence {
        return;
    }
    let window = match params.penalty_window {
        0 => usize::MAX,
        n => n,
    };
    let output = latest(context.output, window);
    let prompt = latest(context.prompt, window - output.len());

    // Per token: whether it is there at all, and how often in the output.
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for &token in prompt {
        counts.entry(token).or_default();
    }
    for &token in output {
        *counts.entry(token).or_default() += 1;
    }
    for (token, count) in counts {
        let Some(logit) = tokens.logit(logits, token) else { continue };
        if repetition {
            *logit = match *logit > 0.0 {
                // A penalty close to zero must not make the logit infinite.
                true => (*logit / params.repetition_penalty).min(f32::MAX),
                false => *logit * params.repetition_penalty,
            };
        }
        if count > 0 {
            let penalty = params.presence_penalty + params.frequency_penalty * count as f32;
            // Finite, so that a token forbidden by now stays so instead of becoming NaN.
            *logit = (*logit - penalty.clamp(f32::MIN, f32::MAX)).min(f32::MAX);
        }
    }
}

fn latest(tokens: &[u32], count: usize) -> &[u32] {
    &tokens[tokens.len().saturating_sub(count)..]
}
