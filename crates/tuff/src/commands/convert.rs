//! `tuff convert`: a model file from a Hugging Face folder.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use lab::convert::{Contents, Convert, MtpBlock, Options, Vocabulary};
use lab::transform::{Choice, Recipe};

use super::requant::check_output;
use crate::args::{FormatArgs, WriteArgs, format_lists};
use crate::error::Error;
use crate::{making, terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff convert Qwen3.8-Flash-Next model-bf16.gguf
  tuff convert Qwen3.8-Flash-Next model.gguf --type q8_0 -r experts=q4_k -r ffn_down_exps=iq4_nl
  tuff convert checkpoint out.gguf --type f32 --no-tokenizer --dry-run

The folder has config.json, the weights (.safetensors, with an index if there are several), and
tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json. Without
--type and --role a matrix keeps the type of its weights. Vectors, routers, gates and injections
become f32 unless a role is named. A vision tower is left out. A run that is stopped goes on where
it was when the command is given again; until it is complete, its state is in OUT.partial and
OUT.journal.
";

/// Arguments of `tuff convert`.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{EXAMPLES}\n{}", format_lists()))]
pub(crate) struct Args {
    /// Folder of the model.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// File to write.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of all matrices but routers, gates and injections; the same as --role
    /// matrices=FORMAT before all others. [default: the type of the weights]
    #[arg(short, long = "type", value_name = "FORMAT", value_parser = matrices)]
    #[arg(help_heading = "Formats")]
    ty: Option<Choice>,
    #[command(flatten)]
    formats: FormatArgs,
    /// Leave out tensors of this name; * stands for any characters; may be given several times.
    #[arg(help_heading = "Contents", long, value_name = "PATTERN")]
    ignore: Vec<String>,
    /// Leave out the drafting block (MTP).
    #[arg(help_heading = "Contents", long)]
    no_mtp: bool,
    /// Leave out vocabulary and chat template; such a file runs on token ids only.
    #[arg(help_heading = "Contents", long)]
    no_tokenizer: bool,
    /// Only numbers, vocabulary and chat template; the folder needs no weights.
    #[arg(help_heading = "Contents", long)]
    metadata_only: bool,
    /// Name of the model in the file. [default: the folder's]
    #[arg(help_heading = "Contents", long, value_name = "TEXT")]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

fn matrices(format: &str) -> Result<Choice, lab::transform::ChoiceError> {
    format!("matrices={format}").parse()
}

/// Writes the file.
///
/// # Errors
/// [`Error::Convert`], [`Error::Transform`].
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    check_output(&args.output)?;
    let choices = args.ty.iter().chain(args.formats.recipe().choices()).cloned().collect();
    let imatrix = args.formats.imatrix()?;
    let options = Options {
        recipe: Recipe::new(choices),
        imatrix,
        mtp: if args.no_mtp { MtpBlock::LeaveOut } else { MtpBlock::Include },
        vocabulary: if args.no_tokenizer { Vocabulary::LeaveOut } else { Vocabulary::Include },
        contents: if args.metadata_only { Contents::Metadata } else { Contents::Everything },
        ignore: args.ignore.clone(),
        name: args.name.clone(),
    };
    let convert = Convert::plan(&args.folder, &args.output, options)?;
    let settings = args.write.settings(convert.inputs());
    making::show(&convert.target, &convert.sizes, &settings, &args.write)?;
    if !args.write.quiet {
        notes(&convert);
    }
    making::write(&convert.target, &convert, &settings, &args.write)
}

fn notes(convert: &Convert) {
    if !convert.left_out.is_empty() {
        let tensors = units::count(convert.left_out.len(), "tensor");
        let names: Vec<&str> = convert.left_out.iter().map(String::as_str).collect();
        terminal::note(&format!("{tensors} left out: {}", making::some_of(&names)));
    }
    if !convert.has_template {
        terminal::note("the folder has no chat template; `tuff chat` will not take the file");
    }
}
