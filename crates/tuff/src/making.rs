//! What the commands that write model files share: the table of sizes, warnings, progress, and
//! what Ctrl-C does.

use gguf::TensorType;
use lab::transform::{
    self, Flow, Outcome, Progress as Step, Settings, Sizes, Source, Stage, Target, hazards,
};

use crate::args::WriteArgs;
use crate::columns::columns;
use crate::error::Error;
use crate::progress::{Progress, Show, Unit};
use crate::{interrupt, terminal, units};

/// Tensors named in a note before a count stands for the rest.
const NAMED: usize = 3;

/// Prints the table of sizes, and the warnings; before that, refuses an output that could not be
/// written.
///
/// # Errors
/// [`Error::Transform`], [`Error::Output`].
pub(crate) fn show(
    target: &Target,
    sizes: &Sizes,
    settings: &Settings,
    args: &WriteArgs,
) -> Result<(), Error> {
    if !args.dry_run {
        transform::check(target, settings)?;
    }
    if !args.quiet || args.dry_run {
        terminal::print(&(size_table(sizes) + "\n"))?;
    }
    for (hazard, names) in hazards(target) {
        terminal::note(&format!("warning: {hazard}: {}", some_of(&names)));
    }
    Ok(())
}

/// Says which tensors an importance matrix does not speak of.
pub(crate) fn note_unimportant(names: &[String]) {
    if !names.is_empty() {
        let tensors = units::count(names.len(), "tensor");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let named = some_of(&names);
        terminal::note(&format!("{tensors} not in the importance matrix: {named}"));
    }
}

/// Writes the files, unless only the plan is wanted.
///
/// # Errors
/// [`Error::Transform`]; [`Error::Interrupted`] after Ctrl-C.
pub(crate) fn write(
    target: &Target,
    source: &dyn Source,
    settings: &Settings,
    args: &WriteArgs,
) -> Result<(), Error> {
    if args.dry_run {
        return Ok(());
    }
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let written = {
        let _watch = interrupt::watch();
        let mut bar = Bar::new(show);
        transform::write(target, source, settings, &mut |step| bar.set(step))
    };
    match written {
        Ok(outcome) => {
            note_repair(outcome);
            if !args.quiet {
                terminal::note(&closing(target, outcome));
            }
            Ok(())
        }
        Err(transform::Error::Stopped { done, total }) => {
            let (done, total) = (units::bytes(done), units::bytes(total));
            terminal::note(&format!(
                "stopped with {done} of {total} done; the same command goes on from there"
            ));
            Err(Error::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

/// Two bars after each other: checking what is there, writing what is not.
struct Bar {
    show: Show,
    stage: Stage,
    progress: Progress,
}

impl Bar {
    fn new(show: Show) -> Bar {
        Bar { show, stage: Stage::Checking, progress: Progress::new(show, "checking", Unit::Bytes) }
    }

    fn set(&mut self, step: Step) -> Flow {
        if step.stage != self.stage {
            self.stage = step.stage;
            self.progress = Progress::new(self.show, "writing", Unit::Bytes);
        }
        self.progress.set(step.done, step.total);
        if interrupt::requested() { Flow::Stop } else { Flow::Continue }
    }
}

fn note_repair(outcome: Outcome) {
    if outcome.repaired > 0 {
        let bytes = units::bytes(outcome.repaired);
        terminal::note(&format!("{bytes} of the stopped run were damaged and were made again"));
    }
}

fn closing(target: &Target, outcome: Outcome) -> String {
    let paths: Vec<String> = target.paths().map(|path| path.display().to_string()).collect();
    let name = match paths.as_slice() {
        [first, .., last] => format!("{first} to {last}"),
        _ => paths.concat(),
    };
    let size = units::bytes(target.file_bytes());
    match outcome.resumed {
        0 => format!("{name}: {size}"),
        resumed => format!("{name}: {size}, {} of it by a stopped run", units::bytes(resumed)),
    }
}

fn size_table(sizes: &Sizes) -> String {
    let head = ["role", "count", "before", "after", "bytes before", "bytes after", "change"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &sizes.rows {
        rows.push(vec![
            row.name.clone(),
            row.tensors.to_string(),
            types(&row.before),
            types(&row.after),
            units::grouped(row.bytes_before),
            units::grouped(row.bytes_after),
            change(row.bytes_before, row.bytes_after),
        ]);
    }
    let (tensors, before, after) = sizes.total();
    rows.push(vec![
        "all".to_owned(),
        tensors.to_string(),
        String::new(),
        String::new(),
        units::grouped(before),
        units::grouped(after),
        change(before, after),
    ]);
    columns(&rows).join("\n")
}

/// `Q4_K`, or `Q4_K, Q8_0` where a role has several.
fn types(types: &[TensorType]) -> String {
    types.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", ")
}

/// What becomes of a size: empty where nothing does.
fn change(before: u64, after: u64) -> String {
    if before == after {
        return String::new();
    }
    format!("{:+.1} %", (after as f64 / before.max(1) as f64 - 1.0) * 100.0)
}

/// The first names, and how many more there are.
pub(crate) fn some_of(names: &[&str]) -> String {
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
