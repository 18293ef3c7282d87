//! `tuff bench`: how fast a model runs on this machine, and where the time goes.
//!
//! `plan` says what is run, `measure` runs it, `stats` draws the figures from the samples; `text`
//! and `json` write them down, `reads` what came from the disk, `limit` says in words what they
//! mean. `facts` is the head of both. `ab` compares two settings, `spec` compares draft modes on
//! texts; `serving` runs whole requests; `single` is the other half: single kernels without a
//! model.

mod ab;
mod facts;
mod json;
mod limit;
mod measure;
mod plan;
mod profiled;
mod reads;
mod serving;
mod single;
mod spec;
mod stats;
mod text;

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, ValueEnum, value_parser};
use engine::timed::Timed;
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;

use crate::args::{Chosen, DeviceArgs, ModelArg};
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::Show;
use crate::{interrupt, session, terminal};
use ab::AbArgs;
use facts::{Facts, Machine};
use measure::{Bench, Results};
use plan::Plan;
pub(crate) use plan::{Counts, parse_counts};
use profiled::Profiled;
use serving::ServingArgs;
use spec::{DraftArgs, SpecPlan};

const EXAMPLES: &str = "\
Examples:
  tuff bench -m model.gguf --json bench.json         the usual tests, for other programs, too
  tuff bench --spec                                  what drafts gain, on easy and hard texts
  tuff bench --ab \"--kv f16\" \"--kv q8_0\" -p 0        two settings against each other
  tuff bench --kernels gemv/IQ3_S,moe_down           single kernels, without a model

The tests of a round take turns, after a first round that does not count. Tokens are random
ids, but for --spec and --requests, which write texts.";

/// Longest sustained test: a day.
const MAX_SECONDS: u64 = 24 * 60 * 60;

/// Where JSON goes to standard output.
const STDOUT: &str = "-";

/// Of which tests the report shows where the time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Parts {
    /// Of every test.
    All,
    /// Of the last one of each kind: prompt, decode, verify.
    Main,
    /// Of none.
    None,
}

/// Arguments of `tuff bench`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("texts").multiple(true).args(["spec", "requests"]))]
pub(crate) struct Args {
    /// Prompts of so many tokens, computed in chunks; 0 leaves the test out. [default: 128,512; 0
    /// with --spec]
    #[arg(short, long, value_name = "TOKENS,...", value_parser = parse_counts)]
    prompt: Option<Counts>,
    /// Decoding of so many tokens, one after the other; 0 leaves the test out. [default: 64; 0 with
    /// --spec]
    #[arg(short = 'n', long, value_name = "TOKENS,...", value_parser = parse_counts)]
    decode: Option<Counts>,
    /// Windows of so many tokens with all their logits, as checking drafts needs them; 0 leaves
    /// the test out. [default: 1,2,3,4,8; 0 with --spec]
    #[arg(long, value_name = "TOKENS,...", value_parser = parse_counts)]
    verify: Option<Counts>,
    /// Decoding of so many sequences at once, one token of each in every window.
    #[arg(long, value_name = "SEQUENCES,...", value_parser = parse_counts)]
    slots: Option<Counts>,
    /// Tokens of text before those of decoding and verifying.
    #[arg(short, long, value_name = "TOKENS", default_value_t = 0)]
    depth: usize,
    /// Runs of each test that count.
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = value_parser!(u64).range(1..=1000))]
    repetitions: u64,
    /// Then decode for so many seconds, and compare the last tenth of them with the first.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[arg(value_parser = value_parser!(u64).range(0..=MAX_SECONDS))]
    sustained: u64,
    /// Seed of the token ids, and of the texts of --spec.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures as a JSON object; `-` is standard output, in place of the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Tests of which to show where the time goes; the JSON has all.
    #[arg(long, value_enum, value_name = "TESTS", default_value = "main")]
    parts: Parts,
    /// Time single kernels in place of a model: the cases whose name contains one of these, or
    /// `all`. A name is like gemv/IQ3_S/2560x10240/T4/int8.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["prompt", "decode", "verify", "slots", "depth", "sustained", "parts"])]
    #[arg(conflicts_with_all = ["spec", "requests", "follow_up"])]
    kernels: Vec<String>,
    /// No progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    drafts: DraftArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    ab: AbArgs,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Everything that was measured; at least one of the two.
struct Measurements {
    windows: Option<Results>,
    drafts: Option<spec::Results>,
}

/// Measures.
///
/// # Errors
/// An unusable model; tests that do not fit its context; [`Error::TextChanged`];
/// [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.serving.is_wanted() {
        return serving::run(args);
    }
    if args.ab.is_wanted() {
        return ab::run(args);
    }
    args.drafts.check()?;
    if !args.kernels.is_empty() {
        return single::run(args);
    }
    let file = args.model.open()?;
    let checkpoint = file.checkpoint_for(&args.drafts.drafting())?;
    let drafts = match args.drafts.is_wanted() {
        true => Some(SpecPlan::new(&args.drafts, (&file, &checkpoint), args.seed)?),
        false => None,
    };
    let plan = Plan::new(args, &args.device, &checkpoint.hp, drafts)?;
    let json_file = match &args.json {
        Some(path) if path.as_os_str() != STDOUT => Some(OutputFile::create(path)?),
        _ => None,
    };
    let (machine, measured) = match args.device.backend() {
        Chosen::Cpu => {
            let new = || Ok(args.device.new_cpu());
            let timed = |cpu| Timed::new(cpu);
            (Machine::cpu(&new()?), measure((new, timed), args, &plan, &checkpoint)?)
        }
        Chosen::Gpu => {
            let new = || args.device.new_gpu();
            let measured = measure((new, |gpu| gpu), args, &plan, &checkpoint)?;
            (Machine::gpu(), measured)
        }
        Chosen::Reference => {
            let timed = |reference| Timed::new(reference);
            (Machine::reference(), measure((|| Ok(Reference), timed), args, &plan, &checkpoint)?)
        }
    };
    let facts = Facts::new(&file, &checkpoint, machine);
    if let Some(mut output) = json_file {
        output.write_text(&format!("{:#}\n", json::report(&facts, &plan, &measured)))?;
        output.finish()?;
    }
    match &args.json {
        Some(path) if path.as_os_str() == STDOUT => {
            terminal::print(&format!("{:#}\n", json::report(&facts, &plan, &measured)))
        }
        _ => terminal::print(&report(&facts, &plan, &measured, args.parts)),
    }
}

/// The report for people.
fn report(facts: &Facts, plan: &Plan, measured: &Measurements, parts: Parts) -> String {
    let mut report = text::head(facts, plan, measured.windows.as_ref());
    if let Some(results) = &measured.windows {
        report += &text::report(results, parts);
    }
    if let (Some(plan), Some(results)) = (&plan.drafts, &measured.drafts) {
        report += &spec::text_report(plan, results);
    }
    report
}

/// Runs everything on one backend. Windows are timed operation by operation; drafts run on an
/// engine of their own without that, since looks at the clock weigh more in short windows.
fn measure<B: Backend, P: Profiled>(
    (backend, profiled): (impl Fn() -> Result<B, Error>, impl Fn(B) -> P),
    args: &Args,
    plan: &Plan,
    checkpoint: &Checkpoint,
) -> Result<Measurements, Error> {
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    // Read before anything is measured: a bad list is told at once.
    let vocab = session::read_draft_vocab(checkpoint, &args.drafts.drafting())?;
    let mut measured = Measurements { windows: None, drafts: None };
    if !plan.tests.is_empty() {
        let how = (&args.device, show);
        let engine = session::load(profiled(backend()?), checkpoint, plan.config, how)?;
        let _watch = interrupt::watch();
        tracing::info!("measuring");
        measured.windows =
            Some(Bench::new(engine, plan, show).run(args, &checkpoint.file.parts()[0])?);
    }
    if let Some(texts) = &plan.drafts {
        let config = args.drafts.drafting().extend(plan.config);
        let mut engine = session::load(backend()?, checkpoint, config, (&args.device, show))?;
        session::load_draft_vocab(&mut engine, checkpoint, vocab)?;
        let _watch = interrupt::watch();
        tracing::info!("comparing drafts");
        measured.drafts = Some(spec::measure(engine, texts, plan.repetitions, show)?);
    }
    Ok(measured)
}
