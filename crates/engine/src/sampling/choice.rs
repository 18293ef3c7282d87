//! What sampling and drafting share: logits adjusted by penalties and biases, and the choice of one
//! of them, whichever tokens they belong to.

use super::{Context, SamplingParams, filter, penalty, uniform};

/// Which token each logit belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens<'a> {
    /// Logit `i` is of token `i`.
    All,
    /// Logit `i` is of token `ids[i]`; the ids ascend.
    Subset(&'a [u32]),
}

impl Tokens<'_> {
    /// The token of a logit.
    pub(super) fn token(self, index: usize) -> u32 {
        match self {
            Tokens::All => index as u32,
            Tokens::Subset(ids) => ids[index],
        }
    }

    /// The logit of a token, if it has one.
    pub(super) fn logit(self, logits: &mut [f32], token: u32) -> Option<&mut f32> {
        let index = match self {
            Tokens::All => Some(token as usize),
            Tokens::Subset(ids) => ids.binary_search(&token).ok(),
        };
        logits.get_mut(index?)
    }
}

/// Applies penalties, then biases. Nothing becomes NaN or +inf.
pub(super) fn adjust(
    params: &SamplingParams,
    tokens: Tokens<'_>,
    context: &Context<'_>,
    logits: &mut [f32],
) {
    penalty::apply(params, tokens, context, logits);
    for &(token, bias) in &params.logit_bias {
        if let Some(logit) = tokens.logit(logits, token) {
            // Several huge ones must not add up to infinity, which no filter could compare.
            *logit = (*logit + bias).min(f32::MAX);
        }
    }
}

/// The index of the adjusted logit that is chosen for `position`: the largest one, or one drawn
/// from those that pass the filters. `None` if none is finite.
pub(super) fn choose(
    params: &SamplingParams,
    tokens: Tokens<'_>,
    logits: &[f32],
    position: usize,
) -> Option<usize> {
    if params.temperature == 0.0 {
        return kernels::scalar::argmax(logits).map(|index| index as usize);
    }
    let candidates = filter::candidates(params, logits);
    let noisy = |&(index, logit): &(u32, f32)| {
        let noise = gumbel(params.seed, position as u64, tokens.token(index as usize));
        (index, f64::from(logit) + noise)
    };
    let best = candidates.iter().map(noisy).max_by(|a, b| {
        // Equal sums go to the lower token, as everywhere.
        a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))
    });
    best.map(|(index, _)| index as usize)
}

/// Standard Gumbel noise of a token at a position.
fn gumbel(seed: u64, position: u64, token: u32) -> f64 {
    -(-uniform(seed, position, token).ln()).ln()
}
