//! The products of a model, one after the other, and what earlier audits know of them.

use cpu::Cpu;
use lab::audit::report::Product;
use lab::audit::{Found, Search, Store, Subject, sweep};

use super::{Deadline, Plan};
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Unit};
use crate::units;

/// Measures what is not known yet, the products that take most of a window first, and saves each as
/// it comes.
///
/// # Errors
/// A fault of the device; [`Error::Interrupted`].
pub(super) fn measure(
    cpu: &mut Cpu,
    subjects: &[Subject],
    plan: &Plan,
    (store, notes): (&mut Store, &mut Vec<String>),
) -> Result<Vec<Product>, Error> {
    let deadline = Deadline::after(plan.time);
    let mut order: Vec<&Subject> = subjects.iter().collect();
    order.sort_by_key(|subject| std::cmp::Reverse(weight(subject)));
    let rows = plan.all_rows();
    let total = (rows.len() * order.len()) as u64;
    let mut progress = Progress::new(plan.show, "products", Unit::Runs);
    let (mut done, mut left) = (0, 0);
    let mut saving = true;
    for &rows in &rows {
        for subject in &order {
            interrupt::check()?;
            done += 1;
            progress.set(done, total);
            if !plan.again && known(store, subject, rows, plan).is_some() {
                continue;
            }
            if deadline.is_over() {
                left += 1;
                continue;
            }
            // A search that is begun is finished: half of one would pass for a whole one next time.
            let mut go_on = || !interrupt::requested();
            let found = sweep(cpu, subject, rows, &plan.effort, &mut go_on);
            let found = found.map_err(engine::Error::from)?;
            interrupt::check()?;
            if let Err(error) = store.put(found)
                && std::mem::take(&mut saving)
            {
                tracing::warn!("{error}; nothing is kept for next time");
            }
        }
    }
    if left > 0 {
        let text = format!(
            "{} not measured within --time; the next audit goes on with them",
            units::count(left, "product")
        );
        notes.push(text);
    }
    let product = |subject: &Subject| {
        let found = rows.iter().filter_map(|rows| known(store, subject, *rows, plan).cloned());
        let (shape, roles) = (subject.shape().name(), subject.roles.clone());
        Product { shape, roles, uses: subject.uses, found: found.collect() }
    };
    Ok(subjects.iter().map(product).collect())
}

/// The entry of an earlier audit, if it answers what is asked: of as many experts, compared for as
/// long, and with other tiles tried if they are to be.
fn known<'a>(store: &'a Store, subject: &Subject, rows: usize, plan: &Plan) -> Option<&'a Found> {
    let effort = &plan.effort;
    let cost = subject.case(rows, effort.share).cost();
    store.get(&subject.shape().name(), rows).filter(|known| {
        let same = (known.bytes, known.ops) == (cost.bytes, cost.ops);
        let searched = effort.search == Search::Off || known.tried > 0;
        same && searched && known.time >= effort.time.as_secs_f64()
    })
}

/// Bytes of a subject in a window, nearly: what its order goes by.
fn weight(subject: &Subject) -> u64 {
    subject.case(1, 0.0).cost().bytes * subject.uses as u64
}
