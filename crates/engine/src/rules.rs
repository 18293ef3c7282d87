//! What a text keeps to beside its sampling settings: a least length, a reasoning budget, an end to
//! loops, and what is told of its tokens.
//!
//! Each rule looks at nothing but the tokens before the one to be drawn, so a text is the same
//! whatever was drafted, and beside whom.

use crate::constraint::{Constraint, Guide};
use crate::logits::RowLogits;
use crate::sampling::{Context, SamplingError, SamplingParams, check_finite};

/// Longest cycle of tokens that counts as a loop.
const LONGEST_CYCLE: usize = 64;

/// What a text keeps to; the default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Tokens before which the model cannot end its text.
    pub min_tokens: usize,
    /// Where reasoning that the prompt opened ends at the latest.
    pub reasoning: Option<ReasoningBudget>,
    /// What the answer begins with, whatever the model would write.
    pub opening: Option<Opening>,
    /// What follows the opening. The text cannot end before that has begun, and ends where it is
    /// complete.
    pub grammar: Option<Constraint>,
    /// Ends the text once its last so many tokens go round in a circle; 0 is never.
    pub loop_tokens: usize,
    /// What is told of each token.
    pub detail: Detail,
}

/// A hard limit to reasoning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasoningBudget {
    /// Tokens of reasoning at most.
    pub tokens: usize,
    /// The token that ends reasoning. If it is among the first `tokens` tokens, nothing is forced.
    pub tag: u32,
    /// The tokens written when the budget is used up, `tag` among them.
    pub close: Vec<u32>,
}

/// A beginning that an answer must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The token behind whose first occurrence the answer begins; `None` is the text's beginning.
    pub after: Option<u32>,
    /// The tokens it begins with.
    pub tokens: Vec<u32>,
}

impl Opening {
    /// The token that must follow `output`, if one must.
    fn forced(&self, output: &[u32]) -> Option<u32> {
        let begun = match self.after {
            None => 0,
            Some(tag) => {
                // Only near the end: what was written behind the opening need not be searched.
                let near = output.len().saturating_sub(self.tokens.len());
                let at = near + output[near..].iter().position(|&token| token == tag)?;
                if output[..at].contains(&tag) {
                    return None;
                }
                at + 1
            }
        };
        self.tokens.get(output.len() - begun).copied()
    }
}

/// What is told of tokens, see [`crate::Event::Token`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing: there is only text.
    #[default]
    Text,
    /// Their ids.
    Tokens,
    /// Ids, log-probabilities, and so many of the likeliest tokens in their place.
    LogProbs(usize),
}

/// Log-probabilities at a place of a text: of the model's own logits, before penalties, biases,
/// temperature and filters. -inf where the model rules a token out, never NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogProbs {
    /// Of the token that was drawn.
    pub drawn: f32,
    /// The likeliest tokens, falling.
    pub top: Vec<(u32, f32)>,
}

/// What tokens are drawn by.
#[derive(Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) sampling: &'a SamplingParams,
    pub(crate) rules: &'a Rules,
    /// Tokens that end a text.
    pub(crate) end_tokens: &'a [u32],
    /// Keeps to the rules' grammar.
    pub(crate) guide: Option<&'a mut Guide>,
}

impl Drawing<'_> {
    /// Draws the token that follows `context` from its `logits`, which are changed on the way; what
    /// is to be told of it goes to `details`.
    pub(crate) fn draw(
        &mut self,
        logits: RowLogits<'_>,
        context: &Context<'_>,
        details: &mut Vec<TokenLogProbs>,
    ) -> Result<u32, SamplingError> {
        let position = context.prompt.len() + context.output.len();
        let logits = match logits {
            RowLogits::All(logits) => logits,
            RowLogits::Best(best) => {
                let forced = self.rules.forced(context.output);
                return forced.map_or_else(|| self.sampling.sample_best(best, position), Ok);
            }
        };
        let own = match self.rules.detail {
            Detail::LogProbs(count) => {
                check_finite(logits, position)?;
                Some((logits.to_vec(), count))
            }
            _ => None,
        };
        let token = self.choose(logits, context, position)?;
        details.extend(own.map(|(own, count)| log_probs(&own, token, count)));
        Ok(token)
    }

    /// Whether nothing may follow `output`.
    pub(crate) fn is_complete(&mut self, output: &[u32]) -> bool {
        self.guide.as_mut().is_some_and(|guide| guide.is_complete(output))
    }

    fn choose(
        &mut self,
        logits: &mut [f32],
        context: &Context<'_>,
        position: usize,
    ) -> Result<u32, SamplingError> {
        if let Some(token) = self.rules.forced(context.output) {
            check_finite(logits, position)?;
            return Ok(token);
        }
        if context.output.len() < self.rules.min_tokens {
            for &token in self.end_tokens {
                if let Some(logit) = logits.get_mut(token as usize) {
                    // What is wrong with logits must not be covered up.
                    *logit = if logit.is_finite() { f32::MIN } else { *logit };
                }
            }
        }
        if let Some(guide) = &mut self.guide {
            guide.restrict(logits, context.output, self.end_tokens, position)?;
        }
        self.sampling.sample(logits, context, position)
    }
}

impl Rules {
    /// Whether a draw behind `output` looks at nothing but what the sampling settings look at.
    pub(crate) fn are_silent(&self, output: &[u32]) -> bool {
        let is_told = matches!(self.detail, Detail::LogProbs(_));
        self.grammar.is_none() && !is_told && output.len() >= self.min_tokens
    }

    /// What keeps a text to its grammar, if it has one.
    pub(crate) fn guide(&self) -> Option<Guide> {
        let after = self.opening.as_ref().and_then(|opening| opening.after);
        let opening = self.opening.as_ref().map_or(0, |opening| opening.tokens.len());
        self.grammar.as_ref().map(|grammar| Guide::new(&*grammar.0, after, opening))
    }

    /// The token that must follow `output`, if one must.
    fn forced(&self, output: &[u32]) -> Option<u32> {
        let close = self.reasoning.as_ref().and_then(|budget| budget.forced(output));
        close.or_else(|| self.opening.as_ref()?.forced(output))
    }
}

impl ReasoningBudget {
    fn forced(&self, output: &[u32]) -> Option<u32> {
        let token = *self.close.get(output.len().checked_sub(self.tokens)?)?;
        (!output[..self.tokens].contains(&self.tag)).then_some(token)
    }
}

fn log_probs(logits: &[f32], drawn: u32, count: usize) -> TokenLogProbs {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let total: f64 = logits.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
    let log_total = largest + total.ln();
    let of = |token: u32| {
        let logit = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        (f64::from(logit) - log_total).min(0.0) as f32
    };
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let falling =
        |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let count = count.min(ids.len());
    if 0 < count && count < ids.len() {
        ids.select_nth_unstable_by(count - 1, falling);
    }
    ids.truncate(count);
    ids.sort_unstable_by(falling);
    TokenLogProbs { drawn: of(drawn), top: ids.into_iter().map(|id| (id, of(id))).collect() }
}

/// Notices when the end of a text goes round in a circle.
#[derive(Clone, Debug)]
pub(crate) struct LoopWatch {
    limit: usize,
    /// Latest tokens, in a ring.
    latest: [u32; LONGEST_CYCLE],
    seen: usize,
    /// By length of the cycle, from 1: tokens since which each equals the one a cycle before.
    equal: [usize; LONGEST_CYCLE],
}

impl LoopWatch {
    /// Watches for loops of `limit` tokens; 0 is none.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, latest: [0; LONGEST_CYCLE], seen: 0, equal: [0; LONGEST_CYCLE] }
    }

    /// Takes the next token; whether the text has gone round for `limit` tokens, and through its
    /// cycle at least four times.
    pub(crate) fn push(&mut self, token: u32) -> bool {
        if self.limit == 0 {
            return false;
        }
        let mut looping = false;
        for cycle in 1..=LONGEST_CYCLE.min(self.seen) {
            let before = self.latest[(self.seen - cycle) % LONGEST_CYCLE];
            let equal = &mut self.equal[cycle - 1];
            *equal = if before == token { *equal + 1 } else { 0 };
            looping |= *equal + cycle >= self.limit.max(4 * cycle);
        }
        self.latest[self.seen % LONGEST_CYCLE] = token;
        self.seen += 1;
        looping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a loop is noticed: tokens pushed until then.
    fn noticed(limit: usize, tokens: impl IntoIterator<Item = u32>) -> Option<usize> {
        let mut watch = LoopWatch::new(limit);
        tokens.into_iter().position(|token| watch.push(token)).map(|at| at + 1)
    }

    #[test]
    fn fault_121_loops_of_any_cycle_are_noticed_after_so_many_tokens() {
        assert_eq!(noticed(20, std::iter::repeat_n(0, 100)), Some(20));
        let of_cycle = |cycle: u32| (0..1000u32).map(move |i| i % cycle);
        assert_eq!(noticed(20, of_cycle(3)), Some(20));
        assert_eq!(noticed(20, of_cycle(5)), Some(20));
        assert_eq!(noticed(20, of_cycle(10)), Some(40), "four times round");
        assert_eq!(noticed(300, of_cycle(64)), Some(300));
        assert_eq!(noticed(300, of_cycle(65)), None);
        assert_eq!(noticed(0, of_cycle(1)), None);
        let late = (100..150).chain(std::iter::repeat_n(7, 30));
        assert_eq!(noticed(30, late), Some(80));
        let broken = (0..200u32).map(|i| if i % 19 == 0 { 1 } else { 0 });
        assert_eq!(noticed(20, broken.clone().take(19 * 4 - 1)), None);
    }

    #[test]
    fn the_reasoning_budget_forces_its_close_unless_reasoning_has_ended() {
        let reasoning = Some(ReasoningBudget { tokens: 2, tag: 9, close: vec![8, 9, 7] });
        let rules = Rules { reasoning, ..Rules::default() };
        assert_eq!(rules.forced(&[]), None);
        assert_eq!(rules.forced(&[1]), None);
        assert_eq!(rules.forced(&[1, 2]), Some(8));
        assert_eq!(rules.forced(&[1, 2, 8]), Some(9));
        assert_eq!(rules.forced(&[1, 2, 8, 9]), Some(7));
        assert_eq!(rules.forced(&[1, 2, 8, 9, 7]), None);
        assert_eq!(rules.forced(&[1, 9]), None);
        assert_eq!(rules.forced(&[9, 2, 8]), None);
    }

    #[test]
    fn an_opening_is_forced_once_where_it_belongs() {
        let of = |after| Opening { after, tokens: vec![5, 6] };
        let at_once = of(None);
        assert_eq!(at_once.forced(&[]), Some(5));
        assert_eq!(at_once.forced(&[5]), Some(6));
        assert_eq!(at_once.forced(&[5, 6]), None);
        let later = of(Some(9));
        assert_eq!(later.forced(&[]), None);
        assert_eq!(later.forced(&[1, 9]), Some(5));
        assert_eq!(later.forced(&[1, 9, 5]), Some(6));
        assert_eq!(later.forced(&[1, 9, 5, 6]), None);
        assert_eq!(later.forced(&[1, 9, 5, 6, 3, 9]), None);
    }

    #[test]
    fn fault_118_log_probabilities_are_those_of_a_softmax_and_never_nan() {
        let logits = [0.0, 2.0, f32::NEG_INFINITY, 2.0, -1.0];
        let found = log_probs(&logits, 4, 4);
        let total: f64 = [0.0f64, 2.0, 2.0, -1.0].iter().map(|x| x.exp()).sum();
        let of = |x: f64| (x - total.ln()) as f32;
        assert_eq!(found.drawn, of(-1.0));
        assert_eq!(found.top, [(1, of(2.0)), (3, of(2.0)), (0, of(0.0)), (4, of(-1.0))]);
        assert_eq!(
            log_probs(&logits, 2, 0),
            TokenLogProbs { drawn: f32::NEG_INFINITY, top: vec![] }
        );
        assert_eq!(log_probs(&logits, 1, 99).top.len(), 5);
    }

    #[test]
    fn an_end_token_waits_for_the_least_length_and_bad_logits_still_show() {
        let sampling = SamplingParams::default();
        let rules = Rules { min_tokens: 1, ..Rules::default() };
        let draw = |logits: &[f32], output: &[u32]| {
            let (sampling, rules) = (&sampling, &rules);
            let mut drawing = Drawing { sampling, rules, end_tokens: &[1], guide: None };
            let context = Context { prompt: &[0], output };
            drawing.draw(RowLogits::All(&mut logits.to_vec()), &context, &mut Vec::new())
        };
        assert_eq!(draw(&[0.0, 5.0, 1.0], &[]), Ok(2));
        assert_eq!(draw(&[0.0, 5.0, 1.0], &[2]), Ok(1));
        assert!(draw(&[0.0, f32::NAN, 1.0], &[]).is_err());
    }
}
