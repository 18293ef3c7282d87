//! The trunk's word on drafts: one window, and the sequence's own draws.

use crate::{Context, Engine, Error, Feed, SamplingError, SamplingParams, Want};
use kernels::Backend;

/// Runs drafts through the trunk and draws tokens as plain decoding would.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    window: Vec<u32>,
    logits: Vec<f32>,
}

/// The sequence whose drafts are verified.
pub(crate) struct Trial<'a> {
    pub(crate) slot: usize,
    pub(crate) prompt: &'a [u32],
    /// What was generated; the last token was drawn and not fed yet. The round's draws are
    /// appended.
    pub(crate) output: &'a mut Vec<u32>,
    pub(crate) sampling: &'a SamplingParams,
}

/// What a round came to; its draws are the last `drawn` tokens of the output.
pub(crate) struct Verdict {
    /// Tokens drawn.
    pub(crate) drawn: usize,
    /// Drafts accepted.
    pub(crate) accepted: usize,
    /// Why the last row that counts gave no token. To be told when all tokens drawn have been used:
    /// plain decoding would not have met it before.
    pub(crate) error: Option<SamplingError>,
}

impl Verifier {
    /// Runs the last token of the output and `drafts` as one window. Draws row by row, each from
    /// the accepted tokens before it alone, until a draw is not the draft, or `is_last` says that
    /// nothing follows it. With drafts, the window is on trial: [`Engine::decide`] has to follow.
    pub(crate) fn run<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        trial: Trial<'_>,
        drafts: &[u32],
        is_last: impl Fn(u32) -> bool,
    ) -> Result<Verdict, Error> {
        let Trial { slot, prompt, output, sampling } = trial;
        self.window.clear();
        self.window.extend(output.last());
        self.window.extend(drafts);
        let feed = match drafts {
            [] => Feed::new(slot, &self.window, Want::Last),
            _ => Feed::deferred(slot, &self.window),
        };
        engine.forward_into(&[feed], &mut self.logits)?;

        let vocab = engine.hyper_params().vocab;
        let mut verdict = Verdict { drawn: 0, accepted: 0, error: None };
        for (row, logits) in self.logits.chunks_exact_mut(vocab).enumerate() {
            let position = prompt.len() + output.len();
            match sampling.sample(logits, &Context { prompt, output }, position) {
                Ok(token) => {
                    output.push(token);
                    verdict.drawn += 1;
                    let accepted = drafts.get(row) == Some(&token);
                    verdict.accepted += usize::from(accepted);
                    if !accepted || is_last(token) {
                        break;
                    }
                }
                Err(error) => {
                    verdict.error = Some(error);
                    break;
                }
            }
        }
        Ok(verdict)
    }
}
