//! `tuff plan`: what a model takes of memory with some settings, and whether it fits, without
//! loading it.
//!
//! `report` says it to people, `json` to programs.

mod json;
mod report;

use clap::{Args as ClapArgs, value_parser};
use engine::EngineConfig;

use crate::args::{EngineArgs, ModelArg, SpecArgs};
use crate::error::Error;
use crate::memory::Planned;
use crate::terminal;

/// More sequences than any machine serves are a slip of the keyboard.
const MAX_SLOTS: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  tuff plan -m model.gguf                           what it takes here, and what fits
  tuff plan -m model.gguf --ram 8GiB --ctx 32768    with so much memory, and a longer context
  tuff plan -m model.gguf --slots 8 --kv q8_0       for a server
  tuff plan -m model.gguf --backend gpu --vram 24GiB --json

Nothing is loaded. Weights are counted in the file's formats, caches as full, with room for drafts
unless --spec is off. If what every token needs does not fit, the smallest setting that would do is
told, with exit code 1.";

/// Arguments of `tuff plan`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Sequences at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u64).range(1..=MAX_SLOTS))]
    slots: u64,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Shows the plan.
///
/// # Errors
/// An unusable model or setting; after the plan, [`Error::Engine`] if the model does not fit.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let file = args.model.open()?;
    let drafting = args.spec.drafting();
    let checkpoint = file.checkpoint_with(&drafting)?;
    let sizes = args.engine.config(checkpoint.hp.context);
    let slots = usize::try_from(args.slots).unwrap_or(usize::MAX);
    let config = EngineConfig { slots, ..drafting.extend(sizes) };
    let planned = Planned::new(&checkpoint, &args.engine.device, &config)?;
    let placed = planned.place();
    if args.json {
        let json = json::report(&file, &planned, placed.as_ref().ok().copied());
        terminal::print(&format!("{json:#}\n"))?;
    } else {
        terminal::print(&report::text(&file, &planned, placed.as_ref().ok().copied()))?;
    }
    placed.map(drop)
}
