//! Parity: every kernel family of a device against the reference, and every tile against the one
//! built in.
//!
//! The cases are those that the benchmarks time ([`Extent`] says how many and how large). The
//! reference's answers to a case are computed once and held against all devices in turn. A tile
//! must give the bits of the built-in tile, which is itself held against the reference.

mod extent;
mod report;

pub use extent::Extent;
pub use report::{Line, Missed, Nearest, Report};

use crate::compare::same_bits;
use crate::{Fault, Input, OpCase};
use kernels::Error;
use kernels::tiles::{RowClass, Shape, Tile, Tunable};

/// A device and what it is called in the report.
#[derive(Debug)]
pub struct Named<B> {
    /// Name with what tells it from its like: `cpu avx2`.
    pub name: String,
    /// The device.
    pub backend: B,
}

/// Which tiles are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiles {
    /// Every value of every parameter of a product, the others as built in.
    All,
    /// Only the built-in one.
    BuiltIn,
}

/// Holds `devices` against the reference on all `cases`. Before each case on each device `go_on` is
/// told how many of these are done, and may end it; then there is no report.
///
/// A case that fails is a miss in the report and no error, and so is one that a device refuses.
pub fn run<B: Tunable>(
    devices: &mut [Named<B>],
    cases: &[OpCase],
    tiles: Tiles,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Report> {
    let names = devices.iter().map(|device| device.name.clone()).collect();
    let mut report = Report::new(names);
    let mut done = 0;
    for case in cases {
        let answers = case.answers();
        for device in &mut *devices {
            if !go_on(done) {
                return None;
            }
            let backend = &mut device.backend;
            let checked = match &answers {
                Ok(answers) => case.check_against(answers, backend),
                Err(error) => Err(Fault::Device(format!("the reference: {error}"))),
            };
            report.add_case(case, &device.name, checked);
            if tiles == Tiles::All {
                for (tile, checked) in check_tiles(case, backend) {
                    report.add_tile(case, &device.name, (&tile, checked));
                }
            }
            done += 1;
        }
    }
    Some(report)
}

/// Every tile of a case against the built-in one; nothing for an operation without tiles.
fn check_tiles<B: Tunable>(case: &OpCase, backend: &mut B) -> Vec<(Tile, Result<(), Fault>)> {
    let Some(shape) = case.shape() else { return Vec::new() };
    let tiles = tiles(backend, &shape, RowClass::of(case.rows()));
    let checked = compare_tiles(case, backend, tiles);
    // No tile is refused here that is not there.
    let _ = backend.force_tile(None);
    checked
}

fn tiles<B: Tunable>(backend: &B, shape: &Shape, rows: RowClass) -> Vec<Tile> {
    let parameters = backend.tile_parameters(shape, rows).into_iter();
    let each = parameters.flat_map(|(name, values)| values.into_iter().map(move |v| (name, v)));
    each.map(|(name, value)| Tile::new([(name, value)])).collect()
}

fn compare_tiles<B: Tunable>(
    case: &OpCase,
    backend: &mut B,
    tiles: Vec<Tile>,
) -> Vec<(Tile, Result<(), Fault>)> {
    let input = Input::Uniform;
    let mut outputs = |tile: &Tile| {
        let refused = |fault: kernels::tiles::NoSuchTile| Fault::Device(fault.to_string());
        backend.force_tile(Some(tile)).map_err(refused)?;
        case.outputs(backend, input).map_err(|error: Error| error.into())
    };
    let built_in = match outputs(&Tile::default()) {
        Ok(outputs) => outputs,
        Err(fault) => return vec![(Tile::default(), Err(fault))],
    };
    let mut check = |tile: &Tile| -> Result<(), Fault> {
        let found = outputs(tile)?;
        let mut pairs = found.iter().zip(&built_in);
        pairs.try_for_each(|(found, expected)| same_bits(input, found, expected))
    };
    tiles.into_iter().map(|tile| (tile.clone(), check(&tile))).collect()
}
