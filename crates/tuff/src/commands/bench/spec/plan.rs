//! What is written: modes, beginnings, length, and how tokens are drawn.

use engine::SamplingParams;
use engine::batch::Job;
use engine::speculation::SpecMode;
use model::Checkpoint;
use model::tokenizer::{SpecialTokens, Tokenizer};

use super::DraftArgs;
use super::prompts::{Prompt, prompts};
use crate::args::{advised, wants_block};
use crate::error::Error;
use crate::model_file::ModelFile;

/// Everything that is to be written.
#[derive(Debug)]
pub(crate) struct SpecPlan {
    /// `off` is always among them.
    pub(super) modes: Vec<SpecMode>,
    /// Modes that the model has no block for.
    pub(super) skipped: Vec<SpecMode>,
    pub(super) prompts: Vec<Prompt>,
    /// Tokens of each text.
    pub(super) tokens: usize,
    pub(super) sampling: SamplingParams,
    pub(super) tokenizer: Tokenizer,
}

impl SpecPlan {
    /// The texts of a command line.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there are only modes that need a block and there is none;
    /// [`Error::Refused`] for a text that the model's context cannot hold; settings out of range.
    pub(crate) fn new(
        args: &DraftArgs,
        (file, checkpoint): (&ModelFile, &Checkpoint),
        seed: u64,
    ) -> Result<SpecPlan, Error> {
        let (modes, skipped) = modes(args, file, checkpoint)?;
        let hp = &checkpoint.hp;
        let tokenizer = file.tokenizer()?;
        let prompts = prompts(args, &tokenizer)?;
        let tokens = usize::try_from(args.spec_tokens).unwrap_or(usize::MAX);
        check_context(&prompts, tokens, hp.context)?;
        // Every text has its full length: nothing may end it.
        let ends = tokenizer.stop_ids().iter().filter(|id| (**id as usize) < hp.vocab);
        let sampling = SamplingParams {
            temperature: args.spec_temperature,
            seed,
            logit_bias: ends.map(|&id| (id, f32::NEG_INFINITY)).collect(),
            ..advised(hp)
        };
        sampling.validate(hp.vocab).map_err(engine::Error::from)?;
        Ok(SpecPlan { modes, skipped, prompts, tokens, sampling, tokenizer })
    }

    /// Request number `i`: another text for each, after one of the beginnings.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub(crate) fn request(&self, i: usize) -> Result<Job, Error> {
        let Prompt { ids, .. } = &self.prompts[i % self.prompts.len()];
        let number = format!("{}. ", i + 1);
        let mut prompt =
            self.tokenizer.encode(&number, SpecialTokens::AsText).map_err(Error::Tokenizer)?;
        prompt.extend(ids);
        let (max_tokens, sampling) = (Some(self.tokens), self.sampling.clone());
        Ok(Job { prompt, max_tokens, sampling, ..Job::default() })
    }

    /// Tokens of each text.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// How tokens are drawn.
    pub(crate) fn sampling(&self) -> &SamplingParams {
        &self.sampling
    }

    /// The modes; `off` is among them.
    pub(crate) fn modes(&self) -> &[SpecMode] {
        &self.modes
    }

    /// The tokenizer, when nothing else is needed any more.
    pub(crate) fn into_tokenizer(self) -> Tokenizer {
        self.tokenizer
    }

    /// Tokens of the longest text with its beginning.
    pub(crate) fn longest(&self) -> usize {
        let longest = self.prompts.iter().map(|prompt| prompt.ids.len()).max();
        longest.unwrap_or(0) + self.tokens
    }
}

/// The modes that can be run, and those that cannot.
fn modes(
    args: &DraftArgs,
    file: &ModelFile,
    checkpoint: &Checkpoint,
) -> Result<(Vec<SpecMode>, Vec<SpecMode>), Error> {
    let has_block = checkpoint.mtp.is_some();
    let runs = |mode: &&SpecMode| has_block || !wants_block(**mode);
    let skipped: Vec<SpecMode> = args.spec.iter().filter(|mode| !runs(mode)).copied().collect();
    let mut modes: Vec<SpecMode> = args.spec.iter().filter(runs).copied().collect();
    let drafts_from_list = args.drafting().draft_vocab().is_some();
    if modes.is_empty() || !has_block && drafts_from_list {
        return Err(file.no_block());
    }
    if !modes.contains(&SpecMode::Off) {
        modes.insert(0, SpecMode::Off);
    }
    Ok((modes, skipped))
}

fn check_context(prompts: &[Prompt], tokens: usize, context: usize) -> Result<(), Error> {
    for prompt in prompts {
        let all = prompt.ids.len().saturating_add(tokens);
        if all > context {
            let name = &prompt.name;
            let text = format!("{name}: a text of {tokens} tokens takes {all} with its beginning");
            let advice = format!("the model's context is {context}; lower --spec-tokens");
            return Err(Error::Refused(format!("{text}, {advice}")));
        }
    }
    Ok(())
}
