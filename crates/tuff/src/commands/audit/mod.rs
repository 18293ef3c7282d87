//! `tuff audit`: how fast every kernel of a model is on this machine, whether another tile does
//! better, and what that changes in a whole window.
//!
//! `products` times the products and keeps the tile table, `windows` whole windows, `backends` is
//! what differs from one to another; the report is `lab::audit::report`.

mod backends;
mod products;
mod windows;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args as ClapArgs, ValueEnum, value_parser};
use cpu::Cpu;
use engine::activations_of;
use gpu::Gpu;
use lab::Budget;
use lab::audit::report::{self, Effect, Report};
use lab::audit::{self, Effort, Gain, Search, Store, Subject, clock_drop, flash_next, of_model};
use lab::routes::Statistics;

use self::backends::Audited;
use crate::args::{Chosen, DeviceArgs, ModelArg};
use crate::commands::bench::{Counts, parse_counts};
use crate::commands::routes;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::output::OutputFile;
use crate::progress::{Progress, Show, Unit};
use crate::{interrupt, terminal, tiles, units};

const EXAMPLES: &str = "\
Examples:
  tuff audit -m model.gguf               measure, tune, and write the report to tuff-audit/
  tuff audit --shapes flash-next --time 600    without a model, for ten minutes at most
  tuff audit --quick --no-search         a first look in under a minute
  tuff audit -m model.gguf --backend gpu       the GPU, for tiles of its own

What was measured is kept for this device and not measured again, so an audit that was broken
off goes on where it stopped. The tile table is used by every command from then on (--tiles);
it changes speed and never a result.";

/// Shapes without a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shapes {
    /// Those of the full-size model, in the formats of its usual 3-bit files.
    FlashNext,
}

/// Arguments of `tuff audit`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Audit these shapes in place of a model's.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "model")]
    shapes: Option<Shapes>,
    /// Rows of the windows that decode and verify.
    #[arg(long, value_name = "ROWS,...", value_parser = parse_counts, default_value = "1,2,3,4,8")]
    rows: Counts,
    /// Rows of the windows of prompts.
    #[arg(long, value_name = "ROWS,...", value_parser = parse_counts, default_value = "128,512,1024")]
    prompt_rows: Counts,
    /// Tokens before the window, for attention.
    #[arg(long, value_name = "TOKENS,...", value_parser = parse_counts)]
    #[arg(default_value = "1000,4000,16000")]
    contexts: Counts,
    /// Share of experts that the rows of a window have in common, 0 to 1; see tuff routes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.4, value_parser = parse_share)]
    share: f64,
    /// The same from a file of tuff routes: as much as windows of 4 tokens of its text have.
    #[arg(long, value_name = "FILE", conflicts_with = "share")]
    share_from: Option<PathBuf>,
    /// Seconds that the measuring of products may take; what is left is measured next time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = value_parser!(u64).range(1..=86_400))]
    time: u64,
    /// Seconds of load under which the clock is watched; 0 leaves that out.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = value_parser!(u64).range(0..=3600))]
    drop: u64,
    /// Time the built-in tiles and try no others.
    #[arg(long)]
    no_search: bool,
    /// Measure everything anew.
    #[arg(long)]
    again: bool,
    /// Short measurements: T = 1, 4 and 128, no long load.
    #[arg(long)]
    quick: bool,
    /// Folder for the report: audit.md, audit.json and audit.html.
    #[arg(short, long, value_name = "FOLDER", default_value = "tuff-audit")]
    output: PathBuf,
    /// No progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    device: DeviceArgs,
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is no share from 0 to 1"))
}

/// What is measured and how long.
#[derive(Debug)]
pub(super) struct Plan {
    rows: Vec<usize>,
    prompt_rows: Vec<usize>,
    contexts: Vec<usize>,
    effort: Effort,
    time: Duration,
    drop: u64,
    again: bool,
    show: Show,
}

impl Plan {
    /// Rows of all windows.
    fn all_rows(&self) -> Vec<usize> {
        self.rows.iter().chain(&self.prompt_rows).copied().collect()
    }

    fn new(args: &Args) -> Result<Plan, Error> {
        let share = match &args.share_from {
            Some(path) => share_of(path)?,
            None => args.share,
        };
        let quick = args.quick;
        let pick = |counts: &Counts, few: &[usize]| {
            let all = counts.to_vec();
            if quick { all.into_iter().filter(|rows| few.contains(rows)).collect() } else { all }
        };
        let search = if args.no_search { Search::Off } else { Search::On };
        Ok(Plan {
            rows: pick(&args.rows, &[1, 4]),
            prompt_rows: pick(&args.prompt_rows, &[128]),
            contexts: pick(&args.contexts, &[4000]),
            effort: Effort {
                time: Duration::from_millis(if quick { 15 } else { 60 }),
                cold_bytes: if quick { 96 } else { 256 } << 20,
                share,
                least: 0.01,
                search,
            },
            time: Duration::from_secs(args.time),
            drop: if quick { 0 } else { args.drop },
            again: args.again,
            show: if args.quiet { Show::Never } else { Show::OnTerminal },
        })
    }
}

/// What the windows of a text have in common.
fn share_of(path: &Path) -> Result<f64, Error> {
    let routes = routes::read(path)?;
    let share = Statistics::of(&routes).share_of_four(routes.used);
    share.ok_or_else(|| {
        let path = path.display();
        Error::Refused(format!("{path}: the text is shorter than a window of 4 tokens"))
    })
}

/// Audits.
///
/// # Errors
/// An unusable model; folders that cannot be written; [`Error::Interrupted`] after Ctrl-C, with
/// what was measured kept.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let plan = Plan::new(args)?;
    std::fs::create_dir_all(&args.output).map_err(Error::file("make the folder", &args.output))?;
    let file = match args.shapes {
        None => Some(args.model.open()?),
        Some(Shapes::FlashNext) => None,
    };
    let _watch = interrupt::watch();
    let report = match args.device.backend() {
        Chosen::Cpu => audit::<Cpu>(args, &plan, file.as_ref())?,
        Chosen::Gpu => audit::<Gpu>(args, &plan, file.as_ref())?,
        Chosen::Reference => {
            let advice = "the reference backend has no tiles: audit the cpu or the gpu backend";
            return Err(Error::Refused(advice.to_owned()));
        }
    };
    write(&args.output, &report)?;
    terminal::print(&summary(&report, &args.output))
}

fn audit<B: Audited>(args: &Args, plan: &Plan, file: Option<&ModelFile>) -> Result<Report, Error> {
    let checkpoint = file.map(ModelFile::checkpoint).transpose()?;
    let mut subjects: Vec<Subject> = match &checkpoint {
        Some(checkpoint) => of_model(checkpoint, activations_of),
        None => flash_next(),
    };
    subjects.retain(B::is_tuned);
    let mut backend = B::open(&args.device)?;
    tracing::info!("measuring {}", backend.device_key());
    let device = audit::device(&mut backend).map_err(engine::Error::from)?;
    let lasting = lasting_load(&mut backend, plan)?;
    let folder = tiles::folder()?;
    let mut store = open(&folder, &device.key)?;
    let mut notes = Vec::new();
    let products = products::measure(&mut backend, &subjects, plan, (&mut store, &mut notes))?;
    let mut rows = plan.rows.clone();
    rows.extend(plan.prompt_rows.iter().take(1));
    let budget = Budget { time: plan.effort.time, cold_bytes: plan.effort.cold_bytes };
    let mut go_on = || !interrupt::requested();
    let others = audit::others(&mut backend, (&rows, &plan.contexts), &budget, &mut go_on)
        .map_err(engine::Error::from)?;
    interrupt::check()?;
    let name = backend.name().to_owned();
    // The windows have the device for themselves.
    drop(backend);
    let (mut windows, mut effects) = (Vec::new(), Vec::new());
    if let Some(checkpoint) = &checkpoint {
        effects = windows::effects::<B>(&args.device, checkpoint, (plan, &store), &products)?;
        let gain = |effect: &Effect| if effect.used { Gain::Yes } else { Gain::No };
        let gains: Vec<_> = effects.iter().map(|effect| (effect.rows, gain(effect))).collect();
        if let Err(error) = store.put_gains(&gains) {
            tracing::warn!("{error}");
        }
        windows = B::profiles(&args.device, checkpoint, plan)?;
        notes.extend(B::PROFILE_NOTE.filter(|_| !windows.is_empty()).map(str::to_owned));
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device,
        backend: name,
        drop: lasting,
        model: file.map(ModelFile::name),
        share: plan.effort.share,
        products,
        others,
        windows,
        effects,
        table: store.path().display().to_string(),
        notes,
    })
}

fn lasting_load<B: Audited>(backend: &mut B, plan: &Plan) -> Result<Option<audit::Drop>, Error> {
    if plan.drop == 0 {
        return Ok(None);
    }
    let mut progress = Progress::new(plan.show, "load", Unit::Seconds);
    let mut go_on = |seconds: f64| {
        progress.set(seconds as u64, plan.drop);
        !interrupt::requested()
    };
    let drop = clock_drop(backend, plan.drop as f64, &mut go_on).map_err(engine::Error::from)?;
    interrupt::check()?;
    Ok(drop)
}

/// What earlier audits found; a table that is of no use is begun anew.
fn open(folder: &Path, device: &str) -> Result<Store, Error> {
    match Store::load(folder, device) {
        Ok(store) => Ok(store),
        Err(error @ audit::StoreError::Unusable { .. }) => {
            tracing::warn!("{error}; it is begun anew");
            Ok(Store::new(folder, device))
        }
        Err(error) => Err(Error::Refused(error.to_string())),
    }
}

fn write(folder: &Path, report: &Report) -> Result<(), Error> {
    let json = serde_json::json!(report);
    let files = [
        ("audit.md", report::markdown(report)),
        ("audit.html", report::html(report)),
        ("audit.json", format!("{json:#}\n")),
    ];
    for (name, text) in files {
        let mut output = OutputFile::create(&folder.join(name))?;
        output.write_text(&text)?;
        output.finish()?;
    }
    Ok(())
}

/// What is said at the end.
fn summary(report: &Report, folder: &Path) -> String {
    let found = report.products.iter().flat_map(|product| &product.found);
    let better = found.clone().filter(|found| !found.tile.is_empty()).count();
    let measured = units::count(found.count(), "product");
    let mut text = format!("{measured} measured; another tile is better for {better} of them.\n",);
    for effect in &report.effects {
        text += &format!(
            "A window of {}: {:.2} ms with the built-in tiles, {:.2} ms with those found: {}.\n",
            effect.rows,
            effect.before * 1e3,
            effect.after * 1e3,
            if effect.used { "used" } else { "no gain, not used" }
        );
    }
    if report.model.is_none() && better > 0 {
        text += "None is used before the windows of a model were seen to gain: audit one, too.\n";
    }
    for note in &report.notes {
        text += &format!("{note}\n");
    }
    text += &format!("Report: {}\n", folder.join("audit.html").display());
    text
}

/// Time that is left.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    fn after(time: Duration) -> Deadline {
        Deadline(Instant::now() + time)
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}
