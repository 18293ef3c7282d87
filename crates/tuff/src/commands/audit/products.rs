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
            let known = store.get(&subject.shape().name(), rows);
            if known.is_some_and(|known| is_enough(known, plan)) {
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
    Ok(subjects.iter().map(|subject| product(subject, &rows, store)).collect())
}

/// Whether an entry of an earlier audit answers what is asked.
fn is_enough(known: &Found, plan: &Plan) -> bool {
    plan.effort.search == Search::Off || known.tried > 0
}

/// Bytes of a subject in a window, nearly: what its order goes by.
fn weight(subject: &Subject) -> u64 {
    subject.case(1, 0.0).cost().bytes * subject.uses as u64
}

fn product(subject: &Subject, rows: &[usize], store: &Store) -> Product {
    let shape = subject.shape().name();
    let found = rows.iter().filter_map(|rows| store.get(&shape, *rows).cloned()).collect();
    Product { shape, roles: subject.roles.clone(), uses: subject.uses, found }
}
