//! `tuff parity`: every kernel family on every backend against the reference, and every tile
//! against the one built in.

use std::path::PathBuf;

use clap::{Args as ClapArgs, value_parser};
use cpu::{Cpu, CpuOptions, Isa};
use lab::OpCase;
use lab::parity::{self, Extent, Line, Named, Nearest, Report, Tiles};
use serde_json::{Value, json};

use crate::args::{MAX_THREADS, parse_isa};
use crate::commands::bench::{Counts, parse_counts};
use crate::error::Error;
use crate::output::OutputFile;
use crate::progress::{Progress, Show, Unit};
use crate::table::{Side, table};
use crate::{interrupt, terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff parity                            all families on all instruction sets
  tuff parity --quick                    small shapes, for a slow or emulated machine
  tuff parity gemv/IQ3_S moe_down        what has one of these in its name
  tuff parity --full --rows 1,4 --isa avx2 gemv/Q4_K

The cases are those of tuff bench --kernels. A miss is named with its place and values, and ends
the command with exit code 1.";

/// Where JSON goes to standard output.
const STDOUT: &str = "-";

/// Arguments of `tuff parity`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Check the cases whose name contains one of these. A name is like
    /// gemv/IQ3_S/2560x320/T4/int8: operation, format, shape, rows, activations. [default: all]
    #[arg(value_name = "FAMILY")]
    families: Vec<String>,
    /// Rows of the windows. [default: 1,3,4,9; 1,3 with --quick; 1,2,3,4,8,32 with --full]
    #[arg(long, value_name = "ROWS,...", value_parser = parse_counts)]
    rows: Option<Counts>,
    /// Small shapes.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The shapes of the full-size model, as tuff bench --kernels times them. Takes hours with all
    /// instruction sets.
    #[arg(long)]
    full: bool,
    /// Leave the tiles out.
    #[arg(long)]
    no_tiles: bool,
    /// Instruction sets of the cpu backend. [default: all that this processor has]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_isa)]
    isa: Vec<Isa>,
    /// Threads of the cpu backend. [default: one per physical core]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Option<u64>,
    /// Write what was found as a JSON object; `-` is standard output, in place of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Args {
    fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Full,
            _ => Extent::Usual,
        }
    }

    fn cases(&self) -> Result<Vec<OpCase>, Error> {
        let extent = self.extent();
        let rows = self.rows.as_ref().map_or_else(|| extent.rows().to_vec(), Counts::to_vec);
        if let Some(rows) = rows.iter().find(|rows| **rows > MOST_ROWS) {
            let text = format!("--rows {rows}: windows are checked with up to {MOST_ROWS} rows");
            return Err(Error::Refused(text));
        }
        if rows.is_empty() {
            return Err(Error::Refused("--rows leaves nothing to check: give it 1 or more".into()));
        }
        let cases = extent.cases(&rows, &self.families);
        if cases.is_empty() {
            let like = extent.cases(&[1], &[]);
            let text = format!(
                "no case has {:?} in its name; names are like {}",
                self.families,
                like.first().map(OpCase::name).unwrap_or_default()
            );
            return Err(Error::Refused(text));
        }
        Ok(cases)
    }

    fn devices(&self) -> Vec<Named<Cpu>> {
        let sets = if self.isa.is_empty() { Isa::available() } else { self.isa.clone() };
        let threads = self.threads.map_or(0, |threads| threads as usize);
        let new = |isa: Isa| Named {
            name: format!("cpu {}", isa.name()),
            backend: Cpu::new(CpuOptions { threads, isa, ..CpuOptions::default() }),
        };
        sets.into_iter().map(new).collect()
    }
}

/// Longest window: a prompt's chunks are held against single rows elsewhere.
const MOST_ROWS: usize = 1024;

/// Checks, and writes table or JSON.
///
/// # Errors
/// [`Error::Parity`] after the report if anything missed; a filter that nothing fits;
/// [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let cases = args.cases()?;
    let file = match &args.json {
        Some(path) if path.as_os_str() != STDOUT => Some(OutputFile::create(path)?),
        _ => None,
    };
    let report = check(args, &cases)?;
    let json = || format!("{:#}\n", json_report(&report));
    if let Some(mut file) = file {
        file.write_text(&json())?;
        file.finish()?;
    }
    match &args.json {
        Some(path) if path.as_os_str() == STDOUT => terminal::print(&json())?,
        _ => terminal::print(&text_report(&report))?,
    }
    verdict(&report)
}

fn check(args: &Args, cases: &[OpCase]) -> Result<Report, Error> {
    let mut devices = args.devices();
    let tiles = if args.no_tiles { Tiles::BuiltIn } else { Tiles::All };
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let mut progress = Progress::new(show, "parity", Unit::Cases);
    let total = (cases.len() * devices.len()) as u64;
    let _watch = interrupt::watch();
    tracing::info!("checking {} on {} devices", units::count(cases.len(), "case"), devices.len());
    let mut go_on = |done: usize| {
        progress.set(done as u64, total);
        !interrupt::requested()
    };
    parity::run(&mut devices, cases, tiles, &mut go_on).ok_or(Error::Interrupted)
}

/// Whether all is right.
fn verdict(report: &Report) -> Result<(), Error> {
    match report.misses.first() {
        None => Ok(()),
        Some(first) => Err(Error::Parity {
            misses: report.misses.len(),
            checks: report.cases() + report.tiles(),
            first: first.to_string(),
        }),
    }
}

/// The lines of one family, format and bound, of all devices.
struct Row<'a> {
    head: &'a Line,
    cases: usize,
    tiles: usize,
    misses: usize,
    /// And the device that it was found on.
    worst: Option<(&'a Nearest, &'a str)>,
}

fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for line in &report.lines {
        let key = |line: &Line| (line.family.clone(), line.format, line.bound);
        let place = rows.iter().position(|row| key(row.head) == key(line));
        let place = place.unwrap_or_else(|| {
            rows.push(Row { head: line, cases: 0, tiles: 0, misses: 0, worst: None });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.cases += line.cases;
        row.tiles += line.tiles;
        row.misses += line.misses;
        let here = line.worst.as_ref().map(|worst| (worst, line.device.as_str()));
        if here.map(|(worst, _)| worst.share) > row.worst.map(|(worst, _)| worst.share) {
            row.worst = here;
        }
    }
    rows
}

/// The report for people.
fn text_report(report: &Report) -> String {
    let columns = [
        ("operation", Side::Left),
        ("format", Side::Left),
        ("bound", Side::Left),
        ("cases", Side::Right),
        ("tiles", Side::Right),
        ("misses", Side::Right),
        ("worst of bound", Side::Right),
        ("on", Side::Left),
    ];
    let cells = |row: &Row<'_>| {
        let (share, device) = match row.worst {
            Some((worst, device)) => (format!("{:.4}", worst.share), device.to_owned()),
            None => (String::new(), String::new()),
        };
        vec![
            row.head.family.clone(),
            row.head.format.unwrap_or_default().to_owned(),
            row.head.bound.name().to_owned(),
            row.cases.to_string(),
            row.tiles.to_string(),
            row.misses.to_string(),
            share,
            device,
        ]
    };
    let rows: Vec<Vec<String>> = rows(report).iter().map(cells).collect();
    let mut text = format!("tuff {}: {}\n\n", env!("CARGO_PKG_VERSION"), report.devices.join(", "));
    text += &table(&columns, &rows);
    text += "\nBounds, each on the error of one value:\n";
    for (name, statement) in bounds(report) {
        text += &format!("- {name}: {statement}\n");
    }
    text += "- tiles: the bits of the built-in tile\n\n";
    for miss in &report.misses {
        text += &format!("MISS {miss}\n");
    }
    text += &format!(
        "{} and {} checked, {}.\n",
        units::count(report.cases(), "case"),
        units::count(report.tiles(), "tile"),
        match report.misses.len() {
            0 => "all within their bounds".to_owned(),
            1 => "1 miss".to_owned(),
            misses => format!("{misses} misses"),
        }
    );
    text
}

/// Names and statements of the bounds that were used.
fn bounds(report: &Report) -> Vec<(&'static str, &'static str)> {
    let mut bounds = Vec::new();
    for line in &report.lines {
        let bound = (line.bound.name(), line.bound.statement());
        if !bounds.contains(&bound) {
            bounds.push(bound);
        }
    }
    bounds
}

/// The report as JSON; its fields are documented in `docs/cli.md`.
fn json_report(report: &Report) -> Value {
    let bounds = bounds(report).into_iter();
    let bounds = bounds.map(|(name, statement)| json!({"bound": name, "statement": statement}));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "devices": report.devices,
        "cases": report.cases(),
        "tiles": report.tiles(),
        "bounds": bounds.collect::<Vec<_>>(),
        "lines": report.lines,
        "misses": report.misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::parity::Missed;

    fn report(misses: Vec<Missed>) -> Report {
        let mut devices = [Named {
            name: "cpu portable".to_owned(),
            backend: Cpu::new(CpuOptions { threads: 1, isa: Isa::Portable, ..Default::default() }),
        }];
        let cases = Extent::Quick.cases(&[1], &["argmax".to_owned()]);
        let mut report = parity::run(&mut devices, &cases, Tiles::All, &mut |_| true).unwrap();
        report.misses.extend(misses);
        report
    }

    #[test]
    fn a_miss_is_named_and_fails() {
        assert!(verdict(&report(Vec::new())).is_ok());
        let miss = Missed {
            case: "gemv/Q8_0/64x7/T2/f32".to_owned(),
            device: "cpu portable".to_owned(),
            tile: Some("tasks=2".to_owned()),
            fault: "uniform input, y[row 0, 3]: found 1e0".to_owned(),
            place: None,
        };
        let report = report(vec![miss]);
        let named =
            "gemv/Q8_0/64x7/T2/f32 on cpu portable, tile tasks=2: uniform input, y[row 0, 3]";
        assert!(text_report(&report).contains(&format!("MISS {named}")));
        assert!(text_report(&report).ends_with("1 case and 0 tiles checked, 1 miss.\n"));
        let error = verdict(&report).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains(named), "{error}");
    }
}
