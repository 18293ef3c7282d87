//! The products of a model, one after the other, and what earlier audits know of them.

use kernels::tiles::{RowClass, Tunable};
use lab::audit::report::Product;
use lab::audit::{Found, Search, Store, Subject, sweep};

use super::backends::Audited;
use super::{Deadline, Plan};
use crate::error::Error;
use crate::interrupt;
use crate::progress::{Progress, Unit};
use crate::{terminal, units};

/// Measures what is not known yet, the products that take most of a window first, and saves each as
/// it comes. A product that the device has no kernel or no memory for is left out, with a note.
///
/// # Errors
/// A fault of the device; [`Error::Interrupted`].
pub(super) fn measure<B: Audited>(
    backend: &mut B,
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
            if !plan.again && known(backend, store, (subject, rows), plan).is_some() {
                continue;
            }
            if deadline.is_over() {
                left += 1;
                continue;
            }
            // A search that is begun is finished: half of one would pass for a whole one next time.
            let mut go_on = || !interrupt::requested();
            let found = sweep(backend, subject, rows, &plan.effort, &mut go_on);
            interrupt::check()?;
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    left_out(error, (subject, rows), (store, notes))?;
                    continue;
                }
            };
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
        let found =
            rows.iter().filter_map(|rows| known(backend, store, (subject, *rows), plan).cloned());
        let (shape, roles) = (subject.shape().name(), subject.roles.clone());
        Product { shape, roles, uses: subject.uses, found: found.collect() }
    };
    let products: Vec<Product> = subjects.iter().map(product).collect();
    let missed = products.iter().flat_map(|product| &product.found);
    notes.extend(missed.filter_map(|found| found.missed.as_ref()).map(|miss| {
        format!("no other tile was tried, since the built-in one is wrong: {miss} (--again)")
    }));
    Ok(products)
}

/// Notes why a product is left out, if that says nothing of the others.
///
/// # Errors
/// Any other fault of the device, which ends the audit; what was measured before is in the store.
fn left_out(
    error: kernels::Error,
    (subject, rows): (&Subject, usize),
    (store, notes): (&Store, &mut Vec<String>),
) -> Result<(), Error> {
    use kernels::Error::{OutOfMemory, UnsupportedFormat};
    if matches!(error, OutOfMemory { .. } | UnsupportedFormat { .. }) {
        notes.push(format!("{} at T = {rows} is left out: {error}", subject.shape().name()));
        return Ok(());
    }
    if !store.found().is_empty() {
        let path = store.path().display();
        terminal::note(&format!("what was measured is kept in {path}; the next audit goes on"));
    }
    Err(engine::Error::from(error).into())
}

/// The entry of an earlier audit, if it answers what is asked: of as many experts, compared for as
/// long, and with other tiles tried if they are to be and the device has any.
fn known<'a, B: Tunable>(
    backend: &B,
    store: &'a Store,
    (subject, rows): (&Subject, usize),
    plan: &Plan,
) -> Option<&'a Found> {
    let (effort, shape) = (&plan.effort, subject.shape());
    let cost = subject.case(rows, effort.share).cost();
    let is_tuned = || !backend.tile_parameters(&shape, RowClass::of(rows)).is_empty();
    store.get(&shape.name(), rows).filter(|known| {
        let same = (known.bytes, known.ops) == (cost.bytes, cost.ops);
        let tried = known.tried > 0 || known.missed.is_some();
        let searched = effort.search == Search::Off || tried || !is_tuned();
        same && searched && known.time >= effort.time.as_secs_f64()
    })
}

/// Bytes of a subject in a window, nearly: what its order goes by.
fn weight(subject: &Subject) -> u64 {
    subject.case(1, 0.0).cost().bytes * subject.uses as u64
}
