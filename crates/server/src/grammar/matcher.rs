//! llguidance's matchers as the engine wants them.

use super::language::told;
use engine::TokenSet;
use llguidance::Matcher;
use llguidance::api::StopReason;

/// A compiled grammar: a matcher at its beginning.
pub(super) struct Compiled(Matcher);

/// A matcher of one answer.
struct Running(Matcher);

impl Compiled {
    pub(super) fn new(matcher: Matcher) -> Self {
        Self(matcher)
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("stop", &self.0.stop_reason()).finish_non_exhaustive()
    }
}

impl engine::Grammar for Compiled {
    fn begin(&self) -> Box<dyn engine::Matcher> {
        // With tables of its own: what a step costs, which is limited, then depends on no other
        // answer.
        Box::new(Running(self.0.deep_clone()))
    }
}

/// What went wrong, if something did.
fn check(matcher: &Matcher) -> Result<(), String> {
    match matcher.stop_reason() {
        reason if reason.is_ok() => Ok(()),
        reason => Err(told(&matcher.get_error().unwrap_or_else(|| reason.to_string()))),
    }
}

/// The tokens that may follow.
pub(super) fn allowed(matcher: &mut Matcher) -> Result<TokenSet, String> {
    check(matcher)?;
    let mask = matcher.compute_mask_or_eos().map_err(|error| told(&error.to_string()))?;
    check(matcher)?;
    Ok(TokenSet(mask.as_slice().to_vec()))
}

impl engine::Matcher for Running {
    fn allowed(&mut self) -> Result<TokenSet, String> {
        allowed(&mut self.0)
    }

    fn push(&mut self, token: u32) -> Result<(), String> {
        self.0.consume_token(token).map_err(|error| told(&error.to_string()))?;
        check(&self.0)
    }

    fn is_complete(&self) -> bool {
        matches!(self.0.stop_reason(), StopReason::NoExtension | StopReason::NoExtensionBias)
    }
}
