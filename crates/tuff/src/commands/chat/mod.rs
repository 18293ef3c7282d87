//! `tuff chat`: a conversation, turn by turn.
//!
//! `conversation` holds the turns, `answer` shows a turn of the model as it comes, `command` reads
//! the lines that begin with a slash, `named` keeps a conversation that has a name on disk, `talk`
//! is the loop over all of it.

mod answer;
mod command;
mod conversation;
mod named;
mod talk;

use clap::{Args as ClapArgs, ValueEnum};
use engine::EngineConfig;
use serde::{Deserialize, Serialize};

use crate::args::{EngineArgs, ModelArg, SamplingArgs, SpecArgs};
use crate::conversations::{FolderArg, Name};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::progress::Show;
use crate::session::Session;
use crate::{memory, units};
use conversation::Conversation;
use named::{Made, Named};
use talk::{Settings, Talk};

const EXAMPLES: &str = "\
Examples:
  tuff chat -m model.gguf                           talk; /help lists what can be done inside
  tuff chat --system \"Answer in French.\" --think hide
  tuff chat --conversation holiday                  goes on with what was said in it before
  echo \"What is 2 + 2?\" | tuff chat --think off --quiet

At the prompt, Ctrl-D or pressing Ctrl-C twice leaves; during an answer Ctrl-C stops only that. When
standard input is not a terminal, each of its lines is one message and no prompt is shown.";

/// What is done with the model's thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Think {
    /// The model thinks and it is shown.
    On,
    /// The model answers at once.
    Off,
    /// The model thinks and it is not shown.
    Hide,
}

/// Arguments of `tuff chat`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// System message: who the model is and how it answers.
    #[arg(short, long, value_name = "TEXT")]
    system: Option<String>,
    /// Thinking before an answer: shown (dimmed, or between <think> and </think> without
    /// colours), off, or hidden.
    /// [default: on, or as a named conversation had it]
    #[arg(long, value_enum, value_name = "MODE")]
    think: Option<Think>,
    /// How long the model may think, if its template knows that: low, medium or xhigh.
    #[arg(long, value_name = "LEVEL")]
    reasoning_effort: Option<String>,
    /// Tokens of an answer at most, thinking included. [default: until the context is full]
    #[arg(short = 'n', long, value_name = "TOKENS")]
    max_tokens: Option<usize>,
    /// End an answer before this text, which is not shown; can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Memory in MiB for states of earlier prompts and answers: what was computed before (the
    /// system message, the conversation before /regen) is taken from there. No more than --ram
    /// leaves beside the model. Changes speed, never a result; 0 is none.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    prompt_cache: u32,
    /// Keep the conversation on disk under this name, and go on with it if it is there: messages,
    /// system message, thinking and seed. Saved after every answer.
    #[arg(short, long, value_name = "NAME")]
    conversation: Option<Name>,
    /// Disk space for the states of named conversations, which spare reading them again after a
    /// restart; what was not used for the longest time goes first. 0 is none.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = units::parse_bytes)]
    #[arg(requires = "conversation")]
    disk_cache: u64,
    #[command(flatten)]
    folder: FolderArg,
    /// Only what the model says: no greeting, no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Talks until the user leaves.
///
/// # Errors
/// An unusable model or setting; with piped input, the first message that cannot be answered.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let file = args.model.open()?;
    let tokenizer = file.tokenizer()?;
    let template = file.template()?.with_token_variables(&tokenizer);
    let checkpoint = file.checkpoint_with(&args.spec.drafting())?;
    let mut sampling = args.sampling.resolve(&checkpoint.hp)?;
    let config = args.engine.config(checkpoint.hp.context);
    let mut named = args.named()?;
    let record = named.as_ref().and_then(Named::record);
    let mut conversation = Conversation::new(template, tokenizer);
    conversation.system = args.system.clone().or_else(|| record?.system.clone());
    let effort = || record?.reasoning_effort.clone();
    conversation.reasoning_effort = args.reasoning_effort.clone().or_else(effort);
    let think = args.think.or(record.map(|record| record.think)).unwrap_or(Think::On);
    if let Some(record) = record.filter(|_| !args.sampling.has_seed()) {
        sampling.seed = record.seed;
    }
    conversation.check(think)?;

    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let (device, sizes) = (&args.engine.device, args.spec.drafting().extend(config));
    let states = memory::saved_states(&checkpoint, device, &sizes, args.prompt_cache)?;
    let device = device.with_saved_states(states);
    let session = Session::load_with(&checkpoint, &device, config, (Some(&args.spec), show))?;
    if let Some(named) = &mut named {
        named.begin(args.made(&file, &config)?, args.disk_cache);
    }
    let (max_tokens, stop) = (args.max_tokens, args.stop.clone());
    let settings = Settings { think, max_tokens, stop, sampling, show };
    let budget = usize::try_from(states).unwrap_or(usize::MAX);
    Talk::new((session, budget), (conversation, named), settings, &file.name()).run()
}

impl Args {
    /// The named conversation, if there is to be one.
    fn named(&self) -> Result<Option<Named>, Error> {
        let open = |name| Named::open(self.folder.folder()?, name);
        self.conversation.as_ref().map(open).transpose()
    }

    /// What saved states depend on besides their tokens: any change of it leaves them unused. The
    /// engine adds what it knows of the model's tensors and its own sizes.
    fn made(&self, file: &ModelFile, config: &EngineConfig) -> Result<Made, Error> {
        let mut files = file.fingerprint();
        if let Some(block) = self.spec.drafting().block_file() {
            files += &ModelFile::open(Some(block))?.fingerprint();
        }
        let arithmetic = self.engine.device.arithmetic();
        let EngineConfig { kv, rope_scaling, .. } = config;
        let version = env!("CARGO_PKG_VERSION");
        let fingerprint = format!("{version} {files} {arithmetic} {kv} {rope_scaling:?}");
        Ok(Made { model: file.name(), fingerprint })
    }
}
