//! The search for a better tile: one parameter after the other, each value in turn against the best
//! so far.

use super::duel::duel;
use super::subject::Subject;
use crate::{Input, OpCase};
use kernels::Error;
use kernels::tiles::{RowClass, Shape, Tile, Tunable};
use std::time::Duration;

/// How much an entry is worth.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time of each comparison; the last one, which gives the figures, takes four times as long.
    pub time: Duration,
    /// Bytes of weights that calls take turns over, more than the caches hold.
    pub cold_bytes: usize,
    /// Experts that the rows of a window have in common, 0 to 1.
    pub share: f64,
    /// Least gain that is worth an entry in the table.
    pub least: f64,
    /// Whether other tiles are tried at all.
    pub search: Search,
}

/// What is done beyond timing the tile in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Nothing.
    Off,
    /// Others are tried.
    On,
}

/// What was found of a product at a number of rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// [`kernels::tiles::Shape::name`].
    pub shape: String,
    /// Rows of the window.
    pub rows: usize,
    /// Bytes that a call moves.
    pub bytes: u64,
    /// Multiplications and additions of a call.
    pub ops: u64,
    /// Median seconds with the built-in tile.
    pub built_in: f64,
    /// Median seconds with the best tile; as above if that is the built-in one.
    pub best: f64,
    /// Time with the best tile over that with the built-in one, from calls in turn.
    pub ratio: f64,
    /// Standard error of the ratio.
    pub noise: f64,
    /// The best tile's parameters; none if nothing beats the built-in tile.
    pub tile: Vec<(String, u32)>,
    /// Tiles that were compared, the built-in one left out.
    pub tried: usize,
    /// Why no tile was tried: where even the built-in one is not as the reference.
    pub missed: Option<String>,
    /// Seconds of each comparison.
    pub time: f64,
}

impl Found {
    /// The best tile.
    pub fn tile(&self) -> Tile {
        Tile::new(self.tile.iter().map(|(name, value)| (name.clone(), *value)))
    }

    /// The class of windows that it holds for.
    pub fn class(&self) -> RowClass {
        RowClass::of(self.rows)
    }

    /// Bytes a second, with the best tile.
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / self.best
    }
}

/// Times a product with the built-in tile and looks for a better one. Before any other is tried the
/// built-in one is held against the reference ([`Subject::held_case`]), and a tile is only tried if
/// its result has the bits of the built-in one's. Between comparisons `go_on` is asked whether there
/// is time left; without, what was found so far is the result.
///
/// # Errors
/// A fault of the device, or a format that it has no kernel for. Whatever happens, no tile stays
/// forced.
pub fn sweep<B: Tunable>(
    backend: &mut B,
    subject: &Subject,
    rows: usize,
    effort: &Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Found, Error> {
    let result = search(backend, subject, rows, effort, go_on);
    backend.force_tile(None)?;
    result
}

fn search<B: Tunable>(
    backend: &mut B,
    subject: &Subject,
    rows: usize,
    effort: &Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Found, Error> {
    let case = subject.case(rows, effort.share);
    let (built_in, shape) = (Tile::default(), subject.shape());
    let candidates = match effort.search {
        Search::On => candidates(backend, &shape, rows),
        Search::Off => Vec::new(),
    };
    let held = match candidates[..] {
        [] => Ok(Vec::new()),
        _ => hold(backend, (subject, &case), (rows, effort.share))?,
    };
    let mut call = case.prepared(backend, effort.cold_bytes)?;
    let (mut best, mut tried) = (built_in.clone(), 0);
    for (name, value) in candidates.into_iter().filter(|_| held.is_ok()) {
        if !go_on() {
            break;
        }
        let candidate = best.clone().with(name, value);
        if !is_right(backend, &case, &candidate, held.as_ref().map_or(&[], Vec::as_slice))? {
            continue;
        }
        tried += 1;
        let duel = duel(backend, &mut call, [&best, &candidate], effort.time)?;
        if duel.is_won(effort.least) {
            best = candidate;
        }
    }
    // The best of many is partly luck: what counts is a comparison of its own.
    let last = duel(backend, &mut call, [&built_in, &best], 4 * effort.time)?;
    let won = !best.is_built_in() && last.is_won(effort.least);
    let tile = if won { best } else { built_in };
    let cost = case.cost();
    Ok(Found {
        shape: shape.name(),
        rows,
        bytes: cost.bytes,
        ops: cost.ops,
        built_in: last.first,
        best: if won { last.second } else { last.first },
        ratio: if won { last.ratio } else { 1.0 },
        noise: last.noise,
        tile: tile.parameters().map(|(name, value)| (name.to_owned(), value)).collect(),
        tried,
        missed: held.err(),
        time: effort.time.as_secs_f64(),
    })
}

/// What is tried one after the other.
fn candidates<B: Tunable>(backend: &B, shape: &Shape, rows: usize) -> Vec<(&'static str, u32)> {
    let parameters = backend.tile_parameters(shape, RowClass::of(rows)).into_iter();
    parameters.flat_map(|(name, values)| values.into_iter().map(move |v| (name, v))).collect()
}

/// The bits that the built-in tile gives, if it gives the reference's values; else what it misses.
fn hold<B: Tunable>(
    backend: &mut B,
    (subject, case): (&Subject, &OpCase),
    (rows, share): (usize, f64),
) -> Result<Result<Vec<u32>, String>, Error> {
    backend.force_tile(Some(&Tile::default()))?;
    if let Err(miss) = subject.held_case(rows, share).check(backend) {
        return Ok(Err(miss.to_string()));
    }
    case.bits(backend, Input::Uniform).map(Ok)
}

/// Whether the device has a kernel for `tile` and gives these bits with it.
fn is_right<B: Tunable>(
    backend: &mut B,
    case: &OpCase,
    tile: &Tile,
    bits: &[u32],
) -> Result<bool, Error> {
    if backend.force_tile(Some(tile)).is_err() {
        return Ok(false);
    }
    match case.bits(backend, Input::Uniform) {
        Ok(found) => Ok(found == bits),
        // A driver may refuse what another one takes.
        Err(Error::KernelBuild { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
