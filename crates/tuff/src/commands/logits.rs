//! `tuff logits`: the logits of every position of a token sequence, for comparing engines.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use engine::{Feed, Want};

use crate::args::{DeviceArgs, ModelArg, read_file};
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::{Progress, Show, Unit};
use crate::session::{SLOT, Session};
use crate::terminal;
use crate::{ids, interrupt, units};

const EXAMPLES: &str = "\
Examples:
  tuff logits -m model.gguf --tokens 9707,11,1879 -o logits.f32
  tuff logits --tokens-file ids.txt --chunk 64 -o logits.f32
  tuff tokenize \"Hello\" --ids | tuff logits --tokens-file - --backend reference -o logits.f32

The output is [positions, vocabulary] in row-major order, 32-bit little-endian floats. The file
appears under its name once it is complete.";

/// Arguments of `tuff logits`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Token ids, as in 1,2,3.
    #[arg(long, value_name = "IDS", required_unless_present = "tokens_file")]
    tokens: Option<String>,
    /// File with token ids, separated by commas or blanks, or a JSON array; `-` is standard
    /// input.
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    tokens_file: Option<PathBuf>,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// No progress, no closing line.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Writes the logits.
///
/// # Errors
/// An unusable model or token; [`Error::File`].
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let tokens = match (&args.tokens, &args.tokens_file) {
        (Some(list), _) => ids::parse(list)?,
        (None, Some(path)) => ids::parse(&read_file(path)?)?,
        (None, None) => Vec::new(),
    };
    let file = args.model.open()?;
    let checkpoint = file.checkpoint()?;
    check_tokens(&tokens, checkpoint.hp.vocab)?;
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let config = args.device.config(tokens.len(), checkpoint.hp.context);
    let mut session = Session::load(&checkpoint, &args.device, config, show)?;
    let written = write(&mut session, &tokens, &args.output, show)?;
    if !args.quiet {
        let (rows, vocab) = (tokens.len(), checkpoint.hp.vocab);
        let size = units::bytes(written.values * size_of::<f32>() as u64);
        let path = args.output.display();
        terminal::note(&format!("{path}: {rows} positions of {vocab} logits, {size}"));
    }
    if written.not_finite > 0 {
        let count = written.not_finite;
        terminal::note(&format!("{count} logits are not finite; the model file may be damaged"));
    }
    Ok(())
}

fn check_tokens(tokens: &[u32], vocab: usize) -> Result<(), Error> {
    if tokens.is_empty() {
        return Err(Error::Refused("no tokens were given; name at least one".to_owned()));
    }
    match tokens.iter().find(|&&token| token as usize >= vocab) {
        Some(&token) => Err(engine::Error::TokenOutOfRange { token, vocab }.into()),
        None => Ok(()),
    }
}

/// What was written.
struct Written {
    values: u64,
    not_finite: usize,
}

/// Runs the tokens chunk by chunk and writes each chunk's logits before the next.
fn write(session: &mut Session, tokens: &[u32], path: &Path, show: Show) -> Result<Written, Error> {
    let _watch = interrupt::watch();
    let mut output = OutputFile::create(path)?;
    let mut progress = Progress::new(show, "logits", Unit::Tokens);
    let mut written = Written { values: 0, not_finite: 0 };
    let mut done = 0;
    for chunk in tokens.chunks(session.config().chunk) {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let logits = session.forward(Feed::new(SLOT, chunk, Want::All))?;
        output.write_f32(&logits)?;
        written.values += logits.len() as u64;
        written.not_finite += logits.iter().filter(|logit| !logit.is_finite()).count();
        done += chunk.len();
        progress.set(done as u64, tokens.len() as u64);
    }
    output.finish()?;
    Ok(written)
}
