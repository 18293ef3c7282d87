//! Options of the sampler. What is not given comes from the model file, or is what the model
//! family's own generation settings say.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use clap::Args;
use engine::SamplingParams;
use model::HyperParams;

use crate::error::Error;

/// The family's generation settings (docs/qwen4exp.md, section 12).
const TEMPERATURE: f32 = 1.0;
const TOP_K: usize = 20;
const TOP_P: f32 = 0.95;

/// How tokens are chosen.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Randomness: 0 always takes the likeliest token. [default: the file's, otherwise 1.0]
    #[arg(short, long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Choose among the K likeliest tokens; 0 or -1: among all. [default: the file's, otherwise
    /// 20]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = parse_top_k)]
    top_k: Option<usize>,
    /// Choose among the likeliest tokens that reach this probability together; 1: among all.
    /// [default: the file's, otherwise 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Choose among tokens with at least this share of the likeliest one's probability; 0: all.
    #[arg(long, value_name = "P", allow_negative_numbers = true, default_value_t = 0.0)]
    min_p: f32,
    /// Makes tokens that occurred in prompt or text less likely; 1: off.
    #[arg(long, value_name = "X", allow_negative_numbers = true, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Taken once from the logits of tokens that occurred in the text; 0: off.
    #[arg(long, value_name = "X", allow_negative_numbers = true, default_value_t = 0.0)]
    presence_penalty: f32,
    /// Taken from the logit of a token for each time it occurred in the text; 0: off.
    #[arg(long, value_name = "X", allow_negative_numbers = true, default_value_t = 0.0)]
    frequency_penalty: f32,
    /// Latest tokens that the penalties look at; 0: all.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    penalty_window: usize,
    /// Added to the logit of one token, as in 42=-inf; can be given several times.
    #[arg(long, value_name = "ID=VALUE", value_parser = parse_bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Number that decides all random choices: the same seed, settings and prompt give the same
    /// text. [default: random, shown with -v]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingArgs {
    /// Whether the seed was given.
    pub(crate) fn has_seed(&self) -> bool {
        self.seed.is_some()
    }

    /// The settings for a model.
    ///
    /// # Errors
    /// [`Error::Engine`] for a setting out of range.
    pub(crate) fn resolve(&self, hp: &HyperParams) -> Result<SamplingParams, Error> {
        let advised = advised(hp);
        let seed = self.seed.unwrap_or_else(random_seed);
        let params = SamplingParams {
            temperature: self.temperature.unwrap_or(advised.temperature),
            top_k: self.top_k.unwrap_or(advised.top_k),
            top_p: self.top_p.unwrap_or(advised.top_p),
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            penalty_window: self.penalty_window,
            logit_bias: self.logit_bias.clone(),
            seed,
        };
        params.validate(hp.vocab).map_err(engine::Error::from)?;
        tracing::info!(
            "sampling: temperature {}, top-k {}, top-p {}, min-p {}, seed {seed}",
            params.temperature,
            params.top_k,
            params.top_p,
            params.min_p
        );
        Ok(params)
    }
}

/// The settings of a command line without any: those of the model file, otherwise the family's.
pub(crate) fn advised(hp: &HyperParams) -> SamplingParams {
    let file = hp.sampling.unwrap_or_default();
    let top_k = file.top_k.map(|k| usize::try_from(k).unwrap_or(usize::MAX));
    SamplingParams {
        temperature: file.temp.unwrap_or(TEMPERATURE),
        top_k: top_k.unwrap_or(TOP_K),
        top_p: file.top_p.unwrap_or(TOP_P),
        ..SamplingParams::default()
    }
}

fn parse_top_k(text: &str) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(0),
        Ok(k) => usize::try_from(k).map_err(|_| "use 0 or -1 to switch it off".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_bias(text: &str) -> Result<(u32, f32), String> {
    let (id, value) = text.split_once('=').ok_or("expected ID=VALUE, as in 42=-1.5")?;
    let id = id.trim().parse().map_err(|error| format!("token id: {error}"))?;
    let value = value.trim().parse().map_err(|error| format!("value: {error}"))?;
    Ok((id, value))
}

/// The standard library seeds its hash maps from the system's random numbers.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_113_top_k_is_off_or_a_count() {
        assert_eq!(parse_top_k("-1"), Ok(0));
        assert_eq!(parse_top_k("0"), Ok(0));
        assert_eq!(parse_top_k("9999999"), Ok(9_999_999));
        assert!(parse_top_k("-2").is_err());
        assert!(parse_top_k("1.5").is_err());
    }

    #[test]
    fn biases_are_id_and_value() {
        assert_eq!(parse_bias("42=-1.5"), Ok((42, -1.5)));
        assert_eq!(parse_bias("0=-inf"), Ok((0, f32::NEG_INFINITY)));
        assert!(parse_bias("42").is_err());
        assert!(parse_bias("x=1").is_err());
        assert!(parse_bias("1=x").is_err());
    }

    #[test]
    fn random_seeds_differ() {
        assert_ne!(random_seed(), random_seed());
    }
}
