//! What a parity run found: a line for each family, format and bound on each device, and all misses.

use crate::bound::Bound;
use crate::{Fault, OpCase, Place, Worst};
use kernels::tiles::Tile;

/// Everything that was checked.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// Names of the devices.
    pub devices: Vec<String>,
    /// In the order of the cases.
    pub lines: Vec<Line>,
    /// What is wrong.
    pub misses: Vec<Missed>,
}

/// The cases of one family, format and bound on one device.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Line {
    /// The operation, as `gemv`.
    pub family: String,
    /// Format of the weights, or of keys and values; none for operations on f32 alone.
    pub format: Option<&'static str>,
    /// How far a device may be off.
    pub bound: Bound,
    /// Name of the device.
    pub device: String,
    /// Cases that were checked.
    pub cases: usize,
    /// Tiles that were held against the built-in one.
    pub tiles: usize,
    /// Cases and tiles that failed.
    pub misses: usize,
    /// What came nearest to its bound of the cases that passed; none if all failed.
    pub worst: Option<Nearest>,
}

/// The value that came nearest to its bound.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Nearest {
    /// Its error relative to its bound, at most 1.
    pub share: f64,
    /// Name of the case.
    pub case: String,
    /// Where it is.
    pub place: Place,
}

/// A case or a tile that failed.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Missed {
    /// Name of the case.
    pub case: String,
    /// Name of the device.
    pub device: String,
    /// The tile, if it is that which is wrong.
    pub tile: Option<String>,
    /// What is wrong, in words.
    pub fault: String,
    /// The value that is wrong, if it is one value.
    pub place: Option<Place>,
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.case, self.device)?;
        if let Some(tile) = &self.tile {
            write!(f, ", tile {tile}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl Report {
    pub(crate) fn new(devices: Vec<String>) -> Self {
        Self { devices, lines: Vec::new(), misses: Vec::new() }
    }

    /// Cases that were checked, on all devices together.
    pub fn cases(&self) -> usize {
        self.lines.iter().map(|line| line.cases).sum()
    }

    /// Tiles that were held against the built-in one, on all devices together.
    pub fn tiles(&self) -> usize {
        self.lines.iter().map(|line| line.tiles).sum()
    }

    pub(crate) fn add_case(&mut self, case: &OpCase, device: &str, checked: Result<Worst, Fault>) {
        let line = self.line(case, device);
        line.cases += 1;
        match checked {
            Ok(Worst { share, place }) => {
                if line.worst.as_ref().is_none_or(|worst| share > worst.share) {
                    line.worst = Some(Nearest { share, case: case.name(), place });
                }
            }
            Err(fault) => {
                line.misses += 1;
                self.misses.push(missed(case, device, (None, &fault)));
            }
        }
    }

    pub(crate) fn add_tile(
        &mut self,
        case: &OpCase,
        device: &str,
        (tile, checked): (&Tile, Result<(), Fault>),
    ) {
        let line = self.line(case, device);
        line.tiles += 1;
        if let Err(fault) = checked {
            line.misses += 1;
            self.misses.push(missed(case, device, (Some(tile), &fault)));
        }
    }

    fn line(&mut self, case: &OpCase, device: &str) -> &mut Line {
        let (family, format, bound) = (case.family(), case.format(), case.bound());
        let is_it = |line: &Line| {
            line.family == family
                && (line.format, line.bound, line.device.as_str()) == (format, bound, device)
        };
        let place = self.lines.iter().position(is_it).unwrap_or(self.lines.len());
        if place == self.lines.len() {
            let device = device.to_owned();
            let (cases, tiles, misses, worst) = (0, 0, 0, None);
            self.lines.push(Line { family, format, bound, device, cases, tiles, misses, worst });
        }
        &mut self.lines[place]
    }
}

fn missed(case: &OpCase, device: &str, (tile, fault): (Option<&Tile>, &Fault)) -> Missed {
    Missed {
        case: case.name(),
        device: device.to_owned(),
        tile: tile.map(Tile::to_string),
        fault: fault.to_string(),
        place: fault.place().cloned(),
    }
}
