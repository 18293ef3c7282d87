//! What was found against what was expected.

use crate::Input;
use crate::memory::{Output, is_poison};

/// The expected values of one output and how far each may be off.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) output: Output,
    pub(crate) bounds: Vec<f64>,
}

impl Expected {
    /// Every value may be off by `share` of the largest magnitude of the output.
    pub(crate) fn within(output: Output, share: f64) -> Self {
        let largest = output.values.iter().filter(|x| x.is_finite());
        let largest = largest.fold(0f32, |m, x| m.max(x.abs()));
        let bounds = vec![share * f64::from(largest); output.values.len()];
        Self { output, bounds }
    }
}

/// The value that came nearest to its bound, or crossed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Its error relative to its bound: at most 1 for a pass.
    pub share: f64,
    /// Where it is.
    pub place: Place,
}

/// One value of an output.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Place {
    /// The activations.
    pub input: Input,
    /// Name of the output.
    pub output: &'static str,
    /// Row.
    pub row: usize,
    /// Column.
    pub column: usize,
    /// What the device gave.
    pub found: f32,
    /// What the reference gave.
    pub expected: f32,
    /// How far they may be apart.
    pub bound: f64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { input, output, row, column, found, expected, bound } = self;
        let input = input.name();
        write!(f, "{input} input, {output}[row {row}, {column}]: found {found:e}, ")?;
        write!(f, "expected {expected:e} within {bound:.3e}")
    }
}

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A value is further off than its bound.
    #[error("{place}: {share:.2} times the bound")]
    Value {
        /// Error relative to the bound.
        share: f64,
        /// Where.
        place: Place,
    },
    /// A value is NaN or infinite and should not be.
    #[error("{0}: not finite")]
    NotFinite(Place),
    /// A NaN or an infinity of the input does not show.
    #[error("{0}: a NaN or an infinity is hidden")]
    Hidden(Place),
    /// A value was not written, or is copied from a place that was not.
    #[error("{0}: never written")]
    Untouched(Place),
    /// The device wrote after the end of its output.
    #[error("{} input, {output}: value {past} after the last was written", input.name())]
    PastEnd {
        /// The activations.
        input: Input,
        /// Name of the output.
        output: &'static str,
        /// Which value after the last.
        past: usize,
    },
    /// An output has another length than the reference's.
    #[error("{} input, {output}: {found} values for {expected}", input.name())]
    Length {
        /// The activations.
        input: Input,
        /// Name of the output.
        output: &'static str,
        /// Length on the device.
        found: usize,
        /// Length on the reference.
        expected: usize,
    },
    /// A row has other bits when it is computed alone.
    #[error("{place}: bits differ from the row computed alone")]
    Company {
        /// The value in the window (found) and alone (expected).
        place: Place,
    },
    /// A tile gives other bits than the one built in.
    #[error("{place}: bits differ from those of the built-in tile")]
    Tile {
        /// The value with the tile (found) and with the built-in one (expected).
        place: Place,
    },
    /// The device refused.
    #[error("{0}")]
    Device(String),
}

impl Fault {
    /// The value that is wrong, if it is one value.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Value { place, .. } | Self::Company { place } | Self::Tile { place } => {
                Some(place)
            }
            Self::NotFinite(place) | Self::Hidden(place) | Self::Untouched(place) => Some(place),
            Self::PastEnd { .. } | Self::Length { .. } | Self::Device(_) => None,
        }
    }
}

impl From<kernels::Error> for Fault {
    fn from(error: kernels::Error) -> Self {
        Self::Device(error.to_string())
    }
}

/// Compares an output of a tile with that of the built-in tile, bit by bit.
pub(crate) fn same_bits(input: Input, found: &Output, expected: &Output) -> Result<(), Fault> {
    let output = expected.what;
    if found.values.len() != expected.values.len() {
        let (found, expected) = (found.values.len(), expected.values.len());
        return Err(Fault::Length { input, output, found, expected });
    }
    if let Some(past) = found.guard.iter().position(|x| !is_poison(*x)) {
        return Err(Fault::PastEnd { input, output, past });
    }
    for (i, (&found, &value)) in found.values.iter().zip(&expected.values).enumerate() {
        if found.to_bits() != value.to_bits() {
            let (row, column) = (i / expected.width, i % expected.width);
            let place = Place { input, output, row, column, found, expected: value, bound: 0.0 };
            return Err(Fault::Tile { place });
        }
    }
    Ok(())
}

/// Compares one output; `Ok` is the worst value, if there is any that is finite.
pub(crate) fn compare(
    input: Input,
    found: &Output,
    expected: &Expected,
) -> Result<Option<Worst>, Fault> {
    let Output { what, width, values, .. } = &expected.output;
    if found.values.len() != values.len() {
        let (found, expected) = (found.values.len(), values.len());
        return Err(Fault::Length { input, output: what, found, expected });
    }
    if let Some(past) = found.guard.iter().position(|x| !is_poison(*x)) {
        return Err(Fault::PastEnd { input, output: what, past });
    }
    let mut worst: Option<Worst> = None;
    for (i, ((&found, &expected), &bound)) in
        found.values.iter().zip(values).zip(&expected.bounds).enumerate()
    {
        let (row, column) = (i / width, i % width);
        let place = || Place { input, output: what, row, column, found, expected, bound };
        match (found.is_finite(), expected.is_finite()) {
            _ if is_poison(found) => return Err(Fault::Untouched(place())),
            (false, true) => return Err(Fault::NotFinite(place())),
            (true, false) => return Err(Fault::Hidden(place())),
            (false, false) => continue,
            (true, true) => {}
        }
        let off = (f64::from(found) - f64::from(expected)).abs();
        let share = if off == 0.0 { 0.0 } else { off / bound };
        if worst.as_ref().is_none_or(|worst| share > worst.share) {
            worst = Some(Worst { share, place: place() });
        }
    }
    match worst {
        // The worst one, not the first one: it tells more.
        Some(Worst { share, place }) if share > 1.0 => Err(Fault::Value { share, place }),
        worst => Ok(worst),
    }
}
