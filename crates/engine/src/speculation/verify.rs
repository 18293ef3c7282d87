//! The sequence's own word on drafts: its draws from the window's logits.

use crate::logits::RowLogits;
use crate::rules::{Drawing, TokenLogProbs};
use crate::{Context, SamplingError};

/// The sequence whose drafts are verified.
pub(crate) struct Trial<'a> {
    pub(crate) prompt: &'a [u32],
    /// What was generated; the last token was drawn and not fed yet. The round's draws are
    /// appended.
    pub(crate) output: &'a mut Vec<u32>,
    pub(crate) drawing: Drawing<'a>,
    /// What is to be told of the draws.
    pub(crate) details: &'a mut Vec<TokenLogProbs>,
}

/// What a round came to; its draws are the last `drawn` tokens of the output.
pub(crate) struct Verdict {
    /// Tokens drawn.
    pub(crate) drawn: usize,
    /// Drafts accepted.
    pub(crate) accepted: usize,
    /// Whether nothing may follow the last token drawn.
    pub(crate) complete: bool,
    /// Why the last row that counts gave no token. To be told when all tokens drawn have been used:
    /// plain decoding would not have met it before.
    pub(crate) error: Option<SamplingError>,
}

/// Draws row by row from the logits of a window of the last token and `drafts`, each from the
/// accepted tokens before it alone, until a draw is not the draft, or `is_last` says that nothing
/// follows it.
pub(crate) fn judge<'l>(
    rows: impl Iterator<Item = RowLogits<'l>>,
    Trial { prompt, output, mut drawing, details }: Trial<'_>,
    drafts: &[u32],
    is_last: impl Fn(u32) -> bool,
) -> Verdict {
    let mut verdict = Verdict { drawn: 0, accepted: 0, complete: false, error: None };
    for (row, logits) in rows.enumerate() {
        match drawing.draw(logits, &Context { prompt, output }, details) {
            Ok(token) => {
                output.push(token);
                verdict.drawn += 1;
                let accepted = drafts.get(row) == Some(&token);
                verdict.accepted += usize::from(accepted);
                let last = is_last(token);
                verdict.complete = !last && drawing.is_complete(output);
                if !accepted || last || verdict.complete {
                    break;
                }
            }
            Err(error) => {
                verdict.error = Some(error);
                break;
            }
        }
    }
    verdict
}
