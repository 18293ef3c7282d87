//! `tuff inspect`: what is in a model file, and whether it can be run.
//!
//! `report` gathers the facts; `text` (with `numbers` and `tensors`) and `json` write them
//! down. `check` looks at every block, `dump` decodes one tensor. `draft_vocab` is about another
//! file: a draft vocabulary for the model.

mod check;
mod draft_vocab;
mod dump;
mod json;
mod numbers;
mod report;
mod tensors;
mod text;

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::ModelArg;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::terminal;
use crate::units;
use report::Report;

const EXAMPLES: &str = "\
Examples:
  tuff inspect model.gguf                           metadata, tensors, sizes, warnings
  tuff inspect model.gguf --tensors --check         every tensor, and every block's scales
  tuff inspect model.gguf --dump output.weight -o output.f32
  tuff inspect model.gguf --draft-vocab draft.ids --text story.txt

Any GGUF file will do: of other architectures the metadata and the tensors are shown. A qwen4exp
file that cannot be run is shown as far as possible, with the list of its faults and exit code 3.
A dump is [rows, row length] in 32-bit little-endian floats.";

/// Arguments of `tuff inspect`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, any part of a split model, or a folder that holds one.
    #[arg(value_name = "FILE", conflicts_with = "model")]
    file: Option<PathBuf>,
    /// List every tensor, not only the kinds of tensors.
    #[arg(long)]
    tensors: bool,
    /// Read every block and report scales that are infinite, NaN or reserved.
    #[arg(long)]
    check: bool,
    /// Print a JSON object; long arrays are abbreviated.
    #[arg(long)]
    json: bool,
    /// Write this tensor, decoded, to the file of -o.
    #[arg(long, value_name = "TENSOR", requires = "output", conflicts_with_all = ["json", "check"])]
    dump: Option<String>,
    /// File for --dump.
    #[arg(short, long, value_name = "FILE", requires = "dump")]
    output: Option<PathBuf>,
    /// Show what is in this draft vocabulary for the model, in place of the model.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["json", "check", "dump", "tensors"])]
    draft_vocab: Option<PathBuf>,
    /// Text to tell how much of it the draft vocabulary has; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "draft_vocab")]
    text: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArg,
}

/// Shows a model file.
///
/// # Errors
/// A file that is no GGUF; [`Error::Unusable`] after the report of a model that cannot be run.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let file = match &args.file {
        Some(path) => ModelFile::open(Some(path))?,
        None => args.model.open()?,
    };
    if let (Some(tensor), Some(output)) = (&args.dump, &args.output) {
        return dump::write(&file, tensor, output);
    }
    if let Some(list) = &args.draft_vocab {
        return terminal::print(&draft_vocab::report(&file, list, args.text.as_deref())?);
    }
    let report = Report::new(&file);
    let checked = args.check.then(|| check::check(&file.gguf));
    if args.json {
        let json = json::report(&report, checked.as_ref());
        terminal::print(&format!("{json:#}\n"))?;
    } else {
        terminal::print(&text::report(&report, args.tensors, checked.as_ref()))?;
    }
    verdict(&file, &report, checked.as_ref())
}

/// The error that ends the inspection of a file with faults.
fn verdict(
    file: &ModelFile,
    report: &Report<'_>,
    checked: Option<&check::Checked>,
) -> Result<(), Error> {
    let bad = checked.map_or(0, |checked| checked.bad.len());
    let reason = match (report.faults.len(), bad) {
        (0, 0) => return Ok(()),
        (0, bad) => {
            let tensors = units::count(bad, "tensor");
            format!("damaged weights in {tensors}, listed above; fetch the file again")
        }
        (faults, _) => {
            let faults = units::count(faults, "fault");
            format!("{faults}, listed above; fetch or convert the file again")
        }
    };
    Err(Error::Unusable { path: file.path.clone(), reason })
}
