//! The command line: what `tuff --help` shows.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{
    audit, bench, chat, conversations, convert, detokenize, draft_vocab, inspect, kld, logits,
    parity, plan, pull, render, requant, routes, run, serve, tokenize,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default().dimmed());

const FIRST_STEPS: &str = "\
First steps:
  tuff run -p \"Once upon a time\"        continue a text with the sample model
  tuff chat -m model.gguf               talk to a model
  tuff inspect model.gguf               see what is in a file, and whether it can be run
  tuff help run                         all options of a command, with examples

Without -m, the model is the file that the environment variable TUFF_MODEL names, otherwise the
sample model (models/sample/sample.gguf in the project's folder).

Exit codes:
  0    done
  1    something failed: reading or writing a file, a device, memory
  2    the command line is wrong
  3    the model file is unusable: malformed, incomplete, of another architecture
  4    the input was refused: prompt too long, token out of range, template error, bad setting
  130  interrupted with Ctrl-C";

/// Run Qwen3.8-Flash-Next class language models (GGUF architecture qwen4exp) on the machine you
/// own.
#[derive(Debug, Parser)]
#[command(name = "tuff", version, styles = STYLES, max_term_width = 100)]
#[command(after_help = FIRST_STEPS, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct Cli {
    /// Say on standard error what is being done; twice for more. TUFF_LOG=FILTER overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    pub(crate) verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order in which a newcomer meets them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Continue a text.
    Run(Box<run::Args>),
    /// Talk to a model, turn by turn.
    Chat(Box<chat::Args>),
    /// Serve a model over HTTP, with OpenAI's endpoints.
    Serve(Box<serve::Args>),
    /// Fetch a model from the Hugging Face hub.
    Pull(pull::Args),
    /// List or delete the conversations that have a name.
    Conversations(conversations::Args),
    /// Show what is in a model file, check it, or dump one of its tensors.
    Inspect(inspect::Args),
    /// Show what a model takes of memory, and whether it fits, without loading it.
    Plan(Box<plan::Args>),
    /// Turn text into token ids.
    Tokenize(tokenize::Args),
    /// Turn token ids into text.
    Detokenize(detokenize::Args),
    /// Render a conversation with the chat template of a model file.
    Render(render::Args),
    /// Write the logits of every position of a token sequence to a file.
    Logits(logits::Args),
    /// Choose the tokens that drafts are made of.
    DraftVocab(draft_vocab::Args),
    /// Make a model file from a Hugging Face folder.
    Convert(Box<convert::Args>),
    /// Write a model file with some tensors in other formats.
    Requant(Box<requant::Args>),
    /// Measure how fast a model runs here, and where the time goes.
    Bench(Box<bench::Args>),
    /// Measure every kernel on this machine, choose the best tiles, and write a report.
    Audit(Box<audit::Args>),
    /// Check every kernel on this machine against the reference.
    Parity(parity::Args),
    /// Compare what two models, or one with two settings, predict on a text.
    Kld(Box<kld::Args>),
    /// Record which experts a text uses, and tell what that is like.
    Routes(Box<routes::Args>),
}

impl Command {
    /// True if nothing but the result is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Command::Run(args) => args.quiet,
            Command::Chat(args) => args.quiet,
            Command::Serve(args) => args.quiet,
            Command::Pull(args) => args.quiet,
            Command::Logits(args) => args.quiet,
            Command::DraftVocab(args) => args.is_quiet(),
            Command::Convert(args) => args.write.quiet,
            Command::Requant(args) => args.write.quiet,
            Command::Bench(args) => args.quiet,
            Command::Audit(args) => args.quiet,
            Command::Parity(args) => args.quiet,
            Command::Kld(args) => args.quiet,
            Command::Routes(args) => args.quiet,
            Command::Conversations(_)
            | Command::Inspect(_)
            | Command::Plan(_)
            | Command::Tokenize(_)
            | Command::Detokenize(_)
            | Command::Render(_) => false,
        }
    }
}
