//! `tuff bench --kernels`: single kernels by the cases that are also their parity tests.

use kernels::Backend;
use kernels::reference::Reference;
use kernels::tiles::Tunable;
use lab::report::{Report, heading};
use lab::{Budget, OpCase, cases};

use super::{Args, STDOUT};
use crate::args::Chosen;
use crate::error::Error;
use crate::output::OutputFile;
use crate::{interrupt, terminal};

/// Every case.
const ALL: &str = "all";

/// Times the cases and writes table or JSON.
///
/// # Errors
/// When no case has such a name, memory is short, or [`Error::Interrupted`] after Ctrl-C.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let all = args.kernels.iter().any(|name| name == ALL);
    let cases = cases::matching(if all { &[] } else { &args.kernels });
    if cases.is_empty() {
        return Err(Error::Refused(format!(
            "no kernel has {:?} in its name; names are like {}",
            args.kernels,
            cases::matching(&[]).first().map(OpCase::name).unwrap_or_default()
        )));
    }
    let mut cpu = args.device.new_cpu();
    let read = cpu.read_bandwidth().map_err(engine::Error::from)?.bytes_per_second / 1e9;
    let report = match args.device.backend() {
        Chosen::Gpu => {
            let mut gpu = args.device.new_gpu()?;
            let copy = gpu.speeds().map_err(engine::Error::from)?.copy / 1e9;
            let title = gpu.title().to_owned();
            measure(gpu, &format!("{title}, against its copying"), &cases, copy, args)?
        }
        Chosen::Cpu => {
            let device = format!("cpu, {}, {} threads", cpu.isa().name(), cpu.threads());
            measure(cpu, &device, &cases, read, args)?
        }
        Chosen::Reference => measure(Reference, "reference, 1 thread", &cases, read, args)?,
    };
    let Some(path) = &args.json else { return Ok(()) };
    let text = format!("{:#}\n", serde_json::json!(report));
    if path.as_os_str() == STDOUT {
        return terminal::print(&text);
    }
    let mut output = OutputFile::create(path)?;
    output.write_text(&text)?;
    output.finish()
}

/// One case after the other; lines of the table are printed as they come.
fn measure<B: Backend>(
    mut backend: B,
    device: &str,
    cases: &[OpCase],
    read: f64,
    args: &Args,
) -> Result<Report, Error> {
    let table = args.json.as_ref().is_none_or(|path| path.as_os_str() != STDOUT);
    if table {
        terminal::print(&heading(device, read))?;
    }
    let _watch = interrupt::watch();
    let mut all = Report { device: device.to_owned(), read_gb_per_s: read, lines: Vec::new() };
    for case in cases {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let first = all.lines.len();
        all.measure(&mut backend, case, &Budget::default()).map_err(engine::Error::from)?;
        for line in all.lines[first..].iter().filter(|_| table) {
            terminal::print(&format!("{}\n", line.markdown()))?;
        }
    }
    Ok(all)
}
