//! From logits to a token: settings, filters, penalties, and a generator that depends on nothing
//! but (seed, position, token).
//!
//! Order: penalties, logit bias, temperature, top-k, top-p, min-p, draw. The draw is by Gumbel
//! noise: the token with the largest `logit / temperature + gumbel(seed, position, token)` wins,
//! which is an exact draw from the filtered distribution and needs no order among the tokens. A
//! draft of that token is drawn with the same noise, so that it is likely to be the same.

mod choice;
mod draft;
mod filter;
mod penalty;
mod philox;
mod short;

pub use draft::Draft;
pub use penalty::Context;
pub use philox::{philox4x32_10, uniform};

pub(crate) use short::Short;

use choice::Tokens;

/// Settings of the sampler; the default is greedy.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the k likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest tokens that together reach this probability; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens of at least this share of the likeliest token's probability; 0 keeps all.
    pub min_p: f32,
    /// Divides positive logits (multiplies negative ones) of tokens in the prompt or the output; 1
    /// is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the logits of tokens in the output.
    pub presence_penalty: f32,
    /// Subtracted per occurrence from the logits of tokens in the output.
    pub frequency_penalty: f32,
    /// Latest tokens that the penalties look at; 0 means all.
    pub penalty_window: usize,
    /// Added to the logits of single tokens; -inf forbids one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Key of the generator.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_window: 0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// Unusable settings or logits.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A setting is out of range.
    #[error("{name} is {value}; {rule}")]
    OutOfRange {
        /// Setting.
        name: &'static str,
        /// Its value.
        value: f32,
        /// What is allowed.
        rule: &'static str,
    },
    /// A bias names a token outside the vocabulary.
    #[error("logit bias for token {token}, but the vocabulary has {vocab}")]
    BiasToken {
        /// Token.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// The settings leave no token to choose.
    #[error(
        "logit biases and penalties forbid every token at position {position}; allow at least one"
    )]
    NothingLeft {
        /// Position in the sequence of the token to be chosen.
        position: usize,
    },
    /// What the text must look like leaves no token, or could not be followed.
    #[error("the grammar of the text failed at position {position}: {what}")]
    Grammar {
        /// Position in the sequence of the token to be chosen.
        position: usize,
        /// What went wrong.
        what: String,
    },
    /// The model gave logits that no token can be chosen from.
    #[error(
        "the model gave non-finite logits at position {position} ({what}); the file may be damaged, check it with `tuff inspect --check`"
    )]
    NonFinite {
        /// Position in the sequence of the token to be chosen.
        position: usize,
        /// What was found.
        what: &'static str,
    },
}

impl SamplingParams {
    /// Checks every setting against its range.
    ///
    /// # Errors
    /// [`SamplingError`] for the first that is out of range.
    pub fn validate(&self, vocab: usize) -> Result<(), SamplingError> {
        let at_least_zero = |x: f32| x >= 0.0 && x.is_finite();
        let share = |x: f32| (0.0..=1.0).contains(&x);
        let rules: [(&'static str, f32, bool, &'static str); 6] = [
            (
                "temperature",
                self.temperature,
                at_least_zero(self.temperature),
                "it must be 0 (greedy) or more",
            ),
            ("top_p", self.top_p, share(self.top_p) && self.top_p > 0.0, "it must be in (0, 1]"),
            ("min_p", self.min_p, share(self.min_p), "it must be in [0, 1]"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite(),
                "it must be over 0; 1 is off",
            ),
            (
                "presence_penalty",
                self.presence_penalty,
                self.presence_penalty.is_finite(),
                "it must be a finite number",
            ),
            (
                "frequency_penalty",
                self.frequency_penalty,
                self.frequency_penalty.is_finite(),
                "it must be a finite number",
            ),
        ];
        for (name, value, ok, rule) in rules {
            if !ok {
                return Err(SamplingError::OutOfRange { name, value, rule });
            }
        }
        for &(token, value) in &self.logit_bias {
            if token as usize >= vocab {
                return Err(SamplingError::BiasToken { token, vocab });
            }
            if value.is_nan() || value == f32::INFINITY {
                let rule = "it must be a number or -inf";
                return Err(SamplingError::OutOfRange { name: "logit_bias", value, rule });
            }
        }
        Ok(())
    }

    /// Chooses the token at `position` from its `logits`, which are changed on the way.
    ///
    /// # Errors
    /// [`SamplingError::NonFinite`] if a logit is NaN or +inf, or none is finite;
    /// [`SamplingError::NothingLeft`] if biases and penalties forbid every token.
    pub fn sample(
        &self,
        logits: &mut [f32],
        context: &Context<'_>,
        position: usize,
    ) -> Result<u32, SamplingError> {
        check_finite(logits, position)?;
        choice::adjust(self, Tokens::All, context, logits);
        let chosen = choice::choose(self, Tokens::All, logits, position);
        chosen.map(|index| index as u32).ok_or(SamplingError::NothingLeft { position })
    }
}

pub(crate) fn check_finite(logits: &[f32], position: usize) -> Result<(), SamplingError> {
    // Without a way out in the middle, so that a compiler makes vectors of it.
    let (mut bad, mut any) = (false, false);
    for &x in logits {
        bad |= x.is_nan() | (x == f32::INFINITY);
        any |= x > f32::NEG_INFINITY;
    }
    let non_finite = |what| Err(SamplingError::NonFinite { position, what });
    match logits.iter().find(|&&x| bad && (x.is_nan() || x == f32::INFINITY)) {
        Some(x) if x.is_nan() => non_finite("NaN"),
        Some(_) => non_finite("+inf"),
        None if any => Ok(()),
        None => non_finite("-inf everywhere"),
    }
}

#[cfg(test)]
mod draft_tests;
#[cfg(test)]
mod tests;
