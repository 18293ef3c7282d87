//! `tuff run`: continues a text.

use std::ops::ControlFlow;

use clap::Args as ClapArgs;
use engine::{Event, Finish, Request};
use model::tokenizer::Tokenizer;

use crate::args::{EngineArgs, ModelArg, SamplingArgs, SpecArgs, TextArgs};
use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::session::Session;
use crate::terminal::{self, TextOut};
use crate::{interrupt, stats, stored};

const EXAMPLES: &str = "\
Examples:
  tuff run -p \"Once upon a time\"                      with the sample model
  tuff run -m model.gguf -f story.txt --mtp mtp.gguf  continue a file, with a drafting block
  tuff run -p \"1, 2, 3,\" -t 0 --quiet                 the likeliest text, and nothing else
  echo -n \"Dear Sir\" | tuff run - --seed 7 --stop \"Yours\"

The text goes to the model as it is, without a chat template; `tuff chat` is for conversations.
Ctrl-C ends the text (exit code 130).";

/// Characters of the text that are shown before its continuation on a terminal.
const RECALLED: usize = 400;

/// Arguments of `tuff run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    text: TextArgs,
    /// Tokens to generate at most.
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 256)]
    max_tokens: usize,
    /// End before this text, which is not shown; can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Only the text: no progress, no statistics.
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

/// Continues a text.
///
/// # Errors
/// An unusable model, prompt or setting; [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let file = args.model.open()?;
    let tokenizer = file.tokenizer()?;
    let text = args.text.read()?;
    let prompt = prompt(args, &text, &tokenizer)?;
    let checkpoint = file.checkpoint_with(&args.spec.drafting())?;
    let sampling = args.sampling.resolve(&checkpoint.hp)?;
    let config = args.engine.config(checkpoint.hp.context);
    check_prompt(&prompt, config.context)?;
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let mut session =
        Session::load_with(&checkpoint, &args.engine.device, config, (Some(&args.spec), show))?;

    let max_tokens = Some(args.max_tokens);
    let request = Request { prompt: &prompt, max_tokens, sampling, stop: args.stop.clone() };
    let watch = interrupt::watch();
    let mut stream = Stream::new(show);
    if !args.quiet {
        stream.recall(&text)?;
    }
    let result = session.generate(&tokenizer, &request, None, &mut |event| stream.take(event));
    drop(watch);
    stream.end()?;
    let summary = result?;
    if !args.quiet {
        terminal::note(&stats::line(&summary, &tokenizer));
        let tokens = summary.prefilled + summary.tokens.len();
        if let Some(line) = session.reads().and_then(|reads| stored::line(&reads, tokens)) {
            terminal::note(&line);
        }
    }
    if summary.finish == Finish::Cancelled { Err(Error::Interrupted) } else { Ok(()) }
}

/// The ids of the text, after the beginning-of-sequence id where the file wants one.
fn prompt(args: &Args, text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
    let mut ids: Vec<u32> =
        tokenizer.bos_id().filter(|_| tokenizer.add_bos()).into_iter().collect();
    ids.extend(tokenizer.encode(text, args.text.special()).map_err(Error::Tokenizer)?);
    tracing::info!("the prompt has {} tokens", ids.len());
    Ok(ids)
}

/// What the engine would refuse, before the model is loaded.
fn check_prompt(prompt: &[u32], context: usize) -> Result<(), Error> {
    let tokens = prompt.len();
    if tokens == 0 {
        let advice = "the prompt is empty: there is nothing to continue, give at least a word";
        return Err(Error::Refused(advice.to_owned()));
    }
    if tokens > context {
        return Err(engine::Error::ContextFull { tokens, context }.into());
    }
    Ok(())
}

/// Where the text goes as it is generated.
struct Stream {
    out: TextOut,
    progress: Progress,
    failed: Option<Error>,
}

impl Stream {
    fn new(show: Show) -> Stream {
        let progress = Progress::new(show, "prompt", Unit::Tokens);
        Stream { out: TextOut::stdout(), progress, failed: None }
    }

    /// Shows a person the end of the text that is being continued, dimmed; pipes get only what is
    /// new.
    fn recall(&mut self, text: &str) -> Result<(), Error> {
        if !self.out.is_terminal() {
            return Ok(());
        }
        let skipped = text.chars().count().saturating_sub(RECALLED);
        let end: String = text.chars().skip(skipped).collect();
        if skipped > 0 {
            self.out.aside("... ")?;
        }
        self.out.aside(&end)
    }

    fn take(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Prompt { done, total } if done < total => {
                self.progress.set(done as u64, total as u64);
            }
            Event::Prompt { .. } => self.progress.clear(),
            Event::Token { .. } => {}
            Event::Note(note) => tracing::warn!("{note}"),
            Event::Text(text) => {
                if let Err(error) = self.out.text(text) {
                    self.failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Ends the line.
    fn end(mut self) -> Result<(), Error> {
        self.progress.clear();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.text("\n"),
        }
    }
}
