//! One module per command: its arguments as clap sees them, and what it does.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod conversations;
pub(crate) mod convert;
pub(crate) mod detokenize;
pub(crate) mod draft_vocab;
pub(crate) mod inspect;
pub(crate) mod kld;
pub(crate) mod logits;
pub(crate) mod parity;
pub(crate) mod plan;
pub(crate) mod pull;
pub(crate) mod render;
pub(crate) mod requant;
pub(crate) mod routes;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod tokenize;

use crate::cli::Command;
use crate::error::Error;

/// Carries out a command.
///
/// # Errors
/// Whatever ends it early.
pub(crate) fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Chat(args) => chat::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Conversations(args) => conversations::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Tokenize(args) => tokenize::run(&args),
        Command::Detokenize(args) => detokenize::run(&args),
        Command::Render(args) => render::run(&args),
        Command::Logits(args) => logits::run(&args),
        Command::DraftVocab(args) => draft_vocab::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Requant(args) => requant::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Kld(args) => kld::run(&args),
        Command::Routes(args) => routes::run(&args),
    }
}
