//! `tuff requant`: a model file with some tensors in other formats.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use gguf::Gguf;
use lab::requant::Requant;

use crate::args::{FormatArgs, WriteArgs, format_lists};
use crate::error::Error;
use crate::making;

const EXAMPLES: &str = "\
Examples:
  tuff requant model.gguf fast.gguf --role dense=q8_0
  tuff requant model.gguf small.gguf -r experts=q4_k -r ffn_down_exps=iq4_nl --imatrix im.gguf
  tuff requant model.gguf small.gguf -r matrices=q4_0 --dry-run

All other tensors keep their bytes, and a split model is split in the same places. A run that is
stopped goes on where it was when the command is given again; until it is complete, its state is in
OUT.partial and OUT.journal. What a coarser format has lost, a finer one does not bring back.
";

/// Arguments of `tuff requant`.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{EXAMPLES}\n{}", format_lists()))]
pub(crate) struct Args {
    /// Model to read: a GGUF file, any part of a split one, or a folder that holds one.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write; for a split model OUT-00001-of-0000N.gguf and so on.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    formats: FormatArgs,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

/// Writes the file.
///
/// # Errors
/// An unreadable model; [`Error::Transform`]; [`Error::Refused`] without a role.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.formats.is_empty() {
        let advice = "no formats were named; say which tensors are to change, as in --role \
                      dense=q8_0 (`tuff help requant` lists roles and formats)";
        return Err(Error::Refused(advice.to_owned()));
    }
    check_output(&args.output)?;
    let input = Gguf::open(&args.input)?;
    let imatrix = args.formats.imatrix()?;
    let has_imatrix = imatrix.is_some();
    let requant = Requant::plan(&input, &args.output, &args.formats.recipe(), imatrix)?;
    let settings = args.write.settings(requant.inputs());
    making::show(&requant.target, &requant.sizes, &settings, &args.write)?;
    if has_imatrix {
        making::note_unimportant(&requant.without_importance);
    }
    making::write(&requant.target, &requant, &settings, &args.write)
}

/// A folder is no file name.
pub(crate) fn check_output(path: &Path) -> Result<(), Error> {
    if path.is_dir() || path.file_name().is_none() {
        let path = path.display();
        return Err(Error::Refused(format!("{path} is a folder; name the file to write in it")));
    }
    Ok(())
}
