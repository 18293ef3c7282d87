//! `tuff pull`: fetching a model from the Hugging Face hub.

use std::ops::ControlFlow;

use clap::Args as ClapArgs;
use hub::{ModelName, Remote};

use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::{hub_folder, interrupt, terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff pull OWNER/REPO                 the only model of a repository, or what there is
  tuff pull OWNER/REPO:Q4_K_M          one of several
  tuff chat -m OWNER/REPO:Q4_K_M       talk to it

The path of the model goes to standard output. What was broken off goes on where it was. Models lie
where other programs that use the hub have them: in HF_HUB_CACHE, HF_HOME/hub or
~/.cache/huggingface/hub. HF_ENDPOINT names another hub, HF_TOKEN a token for private models, and
HF_HUB_OFFLINE=1 is --offline.";

/// Arguments of `tuff pull`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Model: a repository, and which of its files if it has several.
    #[arg(value_name = "OWNER/REPO[:QUANT]")]
    model: ModelName,
    /// Ask no server: only tell where the model is.
    #[arg(long)]
    offline: bool,
    /// No progress bar and no closing line.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// Whatever keeps the model from being complete.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let folder = hub_folder::folder()?;
    if args.offline || hub_folder::is_offline() {
        let path = folder.find(&args.model)?;
        return terminal::print(&format!("{}\n", path.display()));
    }
    let token = hub_folder::setting("HF_TOKEN").or_else(|| folder.token());
    let remote = Remote::new(hub_folder::setting("HF_ENDPOINT").as_deref(), token);
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let mut bar = Progress::new(show, "pull", Unit::Bytes);
    let _watch = interrupt::watch();
    let found = hub::fetch(&remote, &folder, &args.model, &mut |progress| {
        bar.set(progress.done, progress.total);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.clear();
    if !args.quiet {
        let bytes = units::bytes(found.bytes);
        terminal::note(&match found.transferred {
            0 => format!("{}: {bytes}, all there already", args.model),
            came => format!("{}: {bytes}, {} of them new", args.model, units::bytes(came)),
        });
    }
    terminal::print(&format!("{}\n", found.path.display()))
}
