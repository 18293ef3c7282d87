//! `tuff bench --requests` and `--follow-up`: whole requests through the scheduler, as a server
//! runs them.
//!
//! `plan` says what is asked, `measure` asks it and makes sure that nobody's answer depends on its
//! company, `report` writes down how fast it was.

mod measure;
mod plan;
mod report;

use clap::Args as ClapArgs;
use engine::EngineConfig;
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;
use model::sizes::MAX_CONTEXT;

use super::facts::{Facts, Machine};
use super::plan::{Counts, parse_counts};
use super::{Args, STDOUT};
use crate::args::Chosen;
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::Show;
use crate::{interrupt, session, terminal};
use measure::{Answered, Turn};
use plan::RequestPlan;

/// Whole requests.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Requests")]
pub(crate) struct ServingArgs {
    /// Answer so many different requests at once, with each draft mode of --spec (or off and
    /// adaptive), and check that each answer is the one that it is alone. Their texts and lengths
    /// are those of --spec.
    #[arg(long, value_name = "REQUESTS,...", value_parser = parse_counts)]
    requests: Option<Counts>,
    /// Answer a prompt of so many random tokens, then a short question behind the answer: how much
    /// of it is computed, and when the first token comes.
    #[arg(long, value_name = "TOKENS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_CONTEXT as u64))]
    follow_up: Option<u64>,
}

impl ServingArgs {
    /// Whether there is something to ask.
    pub(super) fn is_wanted(&self) -> bool {
        self.requests.is_some() || self.follow_up.is_some()
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
struct Results {
    requests: Vec<Answered>,
    turns: Vec<Turn>,
}

/// Measures and writes table or JSON.
///
/// # Errors
/// As for [`super::run`].
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let file = args.model.open()?;
    let drafts = args.drafts.for_requests();
    let checkpoint = file.checkpoint_for(&drafts.drafting())?;
    let plan = RequestPlan::new(args, &drafts, (&file, &checkpoint))?;
    let (machine, results) = match args.device.backend() {
        Chosen::Gpu => {
            let gpu = args.device.new_gpu()?;
            (Machine::gpu(), measure(gpu, args, &plan, &checkpoint)?)
        }
        Chosen::Cpu => {
            let cpu = args.device.new_cpu();
            (Machine::cpu(&cpu), measure(cpu, args, &plan, &checkpoint)?)
        }
        Chosen::Reference => (Machine::reference(), measure(Reference, args, &plan, &checkpoint)?),
    };
    let facts = Facts::new(&file, &checkpoint, machine);
    let Some(path) = &args.json else {
        return terminal::print(&report::text(&facts, &plan, &results));
    };
    let text = format!("{:#}\n", report::json(&facts, &plan, &results));
    if path.as_os_str() == STDOUT {
        return terminal::print(&text);
    }
    let mut output = OutputFile::create(path)?;
    output.write_text(&text)?;
    output.finish()?;
    terminal::print(&report::text(&facts, &plan, &results))
}

fn measure<B: Backend>(
    backend: B,
    args: &Args,
    plan: &RequestPlan,
    checkpoint: &Checkpoint,
) -> Result<Results, Error> {
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let drafts = args.drafts.for_requests();
    let vocab = session::read_draft_vocab(checkpoint, &drafts.drafting())?;
    let config: EngineConfig = drafts.drafting().extend(plan.config);
    let mut engine = session::load(backend, checkpoint, config, (&args.device, show))?;
    session::load_draft_vocab(&mut engine, checkpoint, vocab)?;
    let _watch = interrupt::watch();
    measure::run(engine, plan, show)
}
