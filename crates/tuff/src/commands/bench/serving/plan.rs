//! What is asked: different requests for each number of them, and a long prompt with a question.

use engine::batch::Job;
use engine::speculation::SpecMode;
use engine::{EngineConfig, SamplingParams};
use model::Checkpoint;
use model::tokenizer::Tokenizer;

use super::super::Args;
use super::super::plan::tokens;
use super::super::spec::{DraftArgs, SpecPlan};
use crate::error::Error;
use crate::model_file::ModelFile;

/// Tokens of the answer that a question follows, and of that to the question.
const ANSWER: usize = 32;

/// Tokens of the question.
const QUESTION: usize = 24;

/// Most requests at once.
const MAX_REQUESTS: usize = 256;

/// A prompt, and what is asked behind its answer.
#[derive(Debug)]
pub(super) struct FollowUp {
    pub(super) first: Job,
    pub(super) question: Vec<u32>,
}

/// Everything that is to be asked.
#[derive(Debug)]
pub(super) struct RequestPlan {
    /// How many at once.
    pub(super) counts: Vec<usize>,
    pub(super) modes: Vec<SpecMode>,
    /// As many as the largest count.
    pub(super) jobs: Vec<Job>,
    pub(super) follow_up: Option<FollowUp>,
    pub(super) repetitions: usize,
    pub(super) config: EngineConfig,
    pub(super) tokenizer: Tokenizer,
}

impl RequestPlan {
    /// The requests of a command line.
    ///
    /// # Errors
    /// [`Error::Refused`] if there are none, or the context does not hold one.
    pub(super) fn new(
        args: &Args,
        drafts: &DraftArgs,
        (file, checkpoint): (&ModelFile, &Checkpoint),
    ) -> Result<Self, Error> {
        let hp = &checkpoint.hp;
        let texts = SpecPlan::new(drafts, (file, checkpoint), args.seed)?;
        let counts = args.serving.requests.as_ref().map_or(Vec::new(), |counts| counts.to_vec());
        let most = counts.iter().copied().max().unwrap_or(0);
        if most > MAX_REQUESTS {
            let advice = format!("--requests {most}: at most {MAX_REQUESTS} at once");
            return Err(Error::Refused(advice));
        }
        if most == 0 && args.serving.follow_up.is_none() {
            return Err(Error::Refused("--requests names no number of requests".to_owned()));
        }
        let jobs = (0..most).map(|i| texts.request(i)).collect::<Result<Vec<_>, _>>()?;
        let follow_up = args.serving.follow_up.map(|len| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            follow_up(tokens(args.seed, len + QUESTION, hp.vocab), len, texts.sampling())
        });
        let jobs_longest = jobs.iter().map(|job| job.prompt.len() + texts.tokens()).max();
        let turns = follow_up.as_ref();
        let turns_longest = turns.map(|turns| turns.first.prompt.len() + 2 * ANSWER + QUESTION);
        let longest = jobs_longest.max(turns_longest).unwrap_or(0);
        let config = args.device.config(longest, hp.context);
        let reach = config.rope_scaling.reach(hp.context);
        if longest > reach {
            return Err(Error::Refused(format!(
                "the longest request takes {longest} tokens, the model's context is {reach}; take \
                 fewer"
            )));
        }
        let config = EngineConfig { slots: most.max(1), ..config };
        let repetitions = usize::try_from(args.repetitions).unwrap_or(usize::MAX);
        let modes = texts.modes().to_vec();
        let tokenizer = texts.into_tokenizer();
        Ok(Self { counts, modes, jobs, follow_up, repetitions, config, tokenizer })
    }
}

fn follow_up(mut ids: Vec<u32>, len: usize, sampling: &SamplingParams) -> FollowUp {
    let question = ids.split_off(len);
    let (max_tokens, sampling) = (Some(ANSWER), sampling.clone());
    let first = Job { prompt: ids, max_tokens, sampling, ..Job::default() };
    FollowUp { first, question }
}
