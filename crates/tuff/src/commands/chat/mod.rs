//! `tuff chat`: a conversation, turn by turn.
//!
//! `conversation` holds the turns, `answer` shows a turn of the model as it comes, `command` reads
//! the lines that begin with a slash, `talk` is the loop over all of it.

mod answer;
mod command;
mod conversation;
mod talk;

use clap::{Args as ClapArgs, ValueEnum};

use crate::args::{EngineArgs, ModelArg, SamplingArgs, SpecArgs};
use crate::error::Error;
use crate::progress::Show;
use crate::session::Session;
use conversation::Conversation;
use talk::{Settings, Talk};

const EXAMPLES: &str = "\
Examples:
  tuff chat -m model.gguf                           talk; /help lists what can be done inside
  tuff chat --system \"Answer in French.\" --think hide
  echo \"What is 2 + 2?\" | tuff chat --think off --quiet
  tuff chat --reasoning-effort low --seed 1 --spec off    without drafts: the same, but slower

At the prompt, Ctrl-D or pressing Ctrl-C twice leaves; during an answer Ctrl-C stops only that. When
standard input is not a terminal, each of its lines is one message and no prompt is shown.";

/// What is done with the model's thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    #[arg(long, value_enum, value_name = "MODE", default_value = "on")]
    think: Think,
    /// How long the model may think, if its template knows that: low, medium or xhigh.
    #[arg(long, value_name = "LEVEL")]
    reasoning_effort: Option<String>,
    /// Tokens of an answer at most, thinking included. [default: until the context is full]
    #[arg(short = 'n', long, value_name = "TOKENS")]
    max_tokens: Option<usize>,
    /// End an answer before this text, which is not shown; can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Memory in MiB for states of earlier prompts and answers: what was computed before (the system
    /// message, the conversation before /regen) is taken from there. Changes speed, never a result;
    /// 0 is none.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    prompt_cache: u32,
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
    let sampling = args.sampling.resolve(&checkpoint.hp)?;
    let config = args.engine.config(checkpoint.hp.context);
    let mut conversation = Conversation::new(template, tokenizer);
    conversation.system = args.system.clone();
    conversation.reasoning_effort = args.reasoning_effort.clone();
    conversation.check(args.think)?;

    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let session =
        Session::load_with(&checkpoint, &args.engine.device, config, (Some(&args.spec), show))?;
    let (think, max_tokens, stop) = (args.think, args.max_tokens, args.stop.clone());
    let settings = Settings { think, max_tokens, stop, sampling, show };
    let budget = usize::try_from(args.prompt_cache).unwrap_or(usize::MAX).saturating_mul(1 << 20);
    Talk::new((session, budget), conversation, settings, &file.name()).run()
}
