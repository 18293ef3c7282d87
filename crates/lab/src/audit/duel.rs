//! Two tiles against each other: calls in turn, so that what else happens on the machine hits both
//! alike.

use crate::case::Call;
use crate::timing::Clock;
use kernels::Error;
use kernels::tiles::{Tile, Tunable};
use std::time::{Duration, Instant};

/// Least number of pairs that a verdict rests on.
const PAIRS: usize = 7;

/// Most pairs: more say nothing new.
const MOST_PAIRS: usize = 400;

/// One of the two that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is there.
    First,
    /// What might be better.
    Second,
}

/// How the second did against the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duel {
    /// Median time of the second over that of the first, in the same pairs: below 1 it is faster.
    pub ratio: f64,
    /// Standard error of the ratio, from the spread of the pairs.
    pub noise: f64,
    /// Median seconds of the first.
    pub first: f64,
    /// Median seconds of the second.
    pub second: f64,
    /// Pairs that counted.
    pub pairs: usize,
}

impl Duel {
    /// Whether the second is faster, by at least `least` and by more than noise explains.
    pub fn is_won(&self, least: f64) -> bool {
        self.ratio < 1.0 - least.max(3.0 * self.noise)
    }
}

/// Lets two sides run in turn for about `time`; `run` gives the seconds that a side took. The first
/// run of each does not count.
///
/// # Errors
/// Those of `run`.
pub fn compare<E>(time: Duration, mut run: impl FnMut(Side) -> Result<f64, E>) -> Result<Duel, E> {
    let both = [Side::First, Side::Second];
    for side in both {
        run(side)?;
    }
    let started = Instant::now();
    let mut pairs = Vec::new();
    while pairs.len() < PAIRS || started.elapsed() < time && pairs.len() < MOST_PAIRS {
        // Who comes first changes, as the first of two may find the memory busier.
        let swapped = pairs.len() % 2 == 1;
        let order = if swapped { [Side::Second, Side::First] } else { both };
        let (a, b) = (run(order[0])?, run(order[1])?);
        pairs.push(if swapped { (b, a) } else { (a, b) });
    }
    Ok(verdict(&pairs))
}

/// Times calls with `tiles` in turn for about `time`.
///
/// # Errors
/// A fault of the device.
pub(crate) fn duel<B: Tunable>(
    backend: &mut B,
    call: &mut Call<'_, B>,
    tiles: [&Tile; 2],
    time: Duration,
) -> Result<Duel, Error> {
    let mut clock = Clock::start(backend, call)?;
    compare(time, |side| {
        let tile = tiles[usize::from(side == Side::Second)];
        backend.force_tile(Some(tile))?;
        clock.time(backend, call)
    })
}

fn verdict(pairs: &[(f64, f64)]) -> Duel {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
    let middle = median(ratios.clone());
    // The middle four fifths, which a few slow calls do not move, span 2.563 standard deviations of
    // normal values, and 1.2533 standard errors of a mean are one of a median.
    let noise = spread(ratios) / 2.563 * 1.2533 / (pairs.len() as f64).sqrt();
    let first = median(pairs.iter().map(|(a, _)| *a).collect());
    let second = median(pairs.iter().map(|(_, b)| *b).collect());
    Duel { ratio: middle.exp(), noise, first, second, pairs: pairs.len() }
}

/// From the value that a tenth lies below to the one that a tenth lies above.
fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let tenth = values.len() / 10;
    values[values.len() - 1 - tenth] - values[tenth]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_win_beyond_the_noise_counts() {
        let pair = |i: usize, ratio: f64| {
            let base = 1.0 + 0.1 * (i % 7) as f64;
            (base, base * ratio * (1.0 + 0.02 * ((i % 5) as f64 - 2.0)))
        };
        let of = |ratio| verdict(&(0..50).map(|i| pair(i, ratio)).collect::<Vec<_>>());
        assert!(of(0.9).is_won(0.01) && !of(1.0).is_won(0.01) && !of(1.1).is_won(0.01));
        assert!((of(0.9).ratio - 0.9).abs() < 0.01 && of(0.9).noise > 0.0);
        assert!(!of(0.99).is_won(0.02), "less than asked for");
        let wild: Vec<(f64, f64)> =
            (0..9).map(|i| (1.0, if i % 2 == 0 { 0.5 } else { 1.6 })).collect();
        assert!(!verdict(&wild).is_won(0.01), "a spread as large as the win");
    }
}
