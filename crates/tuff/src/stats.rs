//! How a generation went, in a line, and how its drafts went.

use std::time::Duration;

use engine::{Finish, Summary};
use model::tokenizer::Tokenizer;

/// Tokens, speeds and the reason why it ended; then how drafts went, if there were any.
pub(crate) fn line(summary: &Summary, tokenizer: &Tokenizer) -> String {
    let prompt = rate(summary.prefilled, summary.prompt_time);
    let generated = rate(summary.tokens.len(), summary.generate_time);
    let reused = match summary.reused {
        0 => String::new(),
        reused => format!(" ({reused} more known already)"),
    };
    let drafts = match summary.speculation.total().drafted {
        0 => String::new(),
        _ => format!("\n{}", summary.speculation),
    };
    format!(
        "prompt {prompt}{reused}; generated {generated}; {}{drafts}",
        finish(&summary.finish, tokenizer)
    )
}

/// Why it ended, in words.
pub(crate) fn finish(finish: &Finish, tokenizer: &Tokenizer) -> String {
    match finish {
        Finish::EndOfText(id) => {
            format!("ended by the model ({})", tokenizer.piece(*id).unwrap_or_default())
        }
        Finish::StopString(stop) => format!("ended at the stop text {stop:?}"),
        Finish::Length => "ended at the token limit (-n)".to_owned(),
        Finish::ContextFull => "ended because the context is full (--ctx)".to_owned(),
        Finish::Repetition => "ended because it went round in a circle".to_owned(),
        Finish::Complete => "complete".to_owned(),
        Finish::Cancelled => "interrupted".to_owned(),
    }
}

/// A count of tokens and their speed.
fn rate(tokens: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let noun = if tokens == 1 { "token" } else { "tokens" };
    if tokens == 0 || seconds <= 0.0 {
        return format!("{tokens} {noun}");
    }
    format!("{tokens} {noun}, {:.1}/s", tokens as f64 / seconds)
}
