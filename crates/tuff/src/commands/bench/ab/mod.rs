//! `tuff bench --ab`: two settings of the same model against each other.
//!
//! Runs of a test alternate between two engines, so that other work on the machine and a clock that
//! drops hit both alike. `config` reads the settings, `measure` compares, `clock` asks the system
//! how fast its processors run, `report` writes it down.

mod clock;
mod config;
mod measure;
mod report;

use std::time::Duration;

use clap::{Args as ClapArgs, value_parser};

use super::plan::Plan;
use super::{Args, STDOUT};
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::Show;
use crate::{interrupt, terminal};
use config::{Config, parse_config};
use measure::{Compared, Contestant};

/// Two settings.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Two settings")]
pub(crate) struct AbArgs {
    /// Compare two settings of the model in the tests above: their runs alternate. Each is a list
    /// of engine options in quotes; what it leaves out is as by default.
    #[arg(long, value_names = ["A", "B"], num_args = 2, allow_hyphen_values = true)]
    #[arg(value_parser = parse_config)]
    #[arg(conflicts_with_all = ["kernels", "spec", "requests", "follow_up", "sustained"])]
    #[arg(conflicts_with_all = ["parts", "repetitions", "backend", "threads", "isa", "tiles"])]
    #[arg(conflicts_with_all = ["activations", "kv", "rope_scaling", "rope_scale", "chunk"])]
    ab: Vec<Config>,
    /// Seconds that each test of --ab takes, at least; seven runs of both are made in any case.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, requires = "ab")]
    #[arg(value_parser = value_parser!(u64).range(0..=86_400))]
    ab_time: u64,
}

impl AbArgs {
    /// Whether two settings are to be compared.
    pub(super) fn is_wanted(&self) -> bool {
        !self.ab.is_empty()
    }
}

/// Measures and writes table or JSON.
///
/// # Errors
/// As for [`super::run`].
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let [a, b] = &args.ab.ab[..] else {
        return Err(Error::Refused("--ab takes two settings".to_owned()));
    };
    let file = args.model.open()?;
    let checkpoint = file.checkpoint()?;
    let plan_of = |config: &Config| Plan::new(args, &config.device, &checkpoint.hp, None);
    let (plan_a, plan_b) = (plan_of(a)?, plan_of(b)?);
    let json_file = match &args.json {
        Some(path) if path.as_os_str() != STDOUT => Some(OutputFile::create(path)?),
        _ => None,
    };
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let mut sides = [
        Contestant::new(a, &plan_a, &checkpoint, show)?,
        Contestant::new(b, &plan_b, &checkpoint, show)?,
    ];
    let _watch = interrupt::watch();
    tracing::info!("comparing");
    let time = Duration::from_secs(args.ab.ab_time);
    let compared: Vec<Compared> = measure::run(&mut sides, &plan_a.tests, time, show)?;
    let name = file.name();
    let json = || format!("{:#}\n", report::json(&name, &sides, &plan_a, &compared));
    if let Some(mut output) = json_file {
        output.write_text(&json())?;
        output.finish()?;
    }
    match &args.json {
        Some(path) if path.as_os_str() == STDOUT => terminal::print(&json()),
        _ => terminal::print(&report::text(&name, &sides, &compared)),
    }
}
