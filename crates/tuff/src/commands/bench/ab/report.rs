//! The comparison as a table and as JSON; the fields are documented in `docs/cli.md`.

use serde_json::{Value, json};

use super::measure::{Compared, Contestant};
use crate::commands::bench::plan::Plan;
use crate::commands::bench::text::number;
use crate::table::{Side, table};
use crate::units;

/// From so many standard errors on, a difference is more than noise.
const SURE: f64 = 3.0;

/// Which setting is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Faster {
    A,
    B,
    /// The difference is within the noise.
    Neither,
}

impl Faster {
    fn name(self) -> Option<&'static str> {
        match self {
            Faster::A => Some("A"),
            Faster::B => Some("B"),
            Faster::Neither => None,
        }
    }
}

impl Compared {
    /// Speed of B over that of A.
    fn times_a(&self) -> f64 {
        1.0 / self.duel.ratio
    }

    /// Standard error of [`Compared::times_a`].
    fn error(&self) -> f64 {
        self.duel.noise / self.duel.ratio
    }

    fn faster(&self) -> Faster {
        let times = self.times_a();
        match SURE * self.error() {
            error if times > 1.0 + error => Faster::B,
            error if times < 1.0 - error => Faster::A,
            _ => Faster::Neither,
        }
    }
}

/// The report for people.
pub(super) fn text(model: &str, sides: &[Contestant<'_>; 2], compared: &[Compared]) -> String {
    let columns = [
        ("test", Side::Left),
        ("A tokens/s", Side::Right),
        ("B tokens/s", Side::Right),
        ("B x A", Side::Right),
        ("+-", Side::Right),
        ("faster", Side::Left),
        ("pairs", Side::Right),
        ("A MHz", Side::Right),
        ("B MHz", Side::Right),
    ];
    let mhz = |clock: Option<f64>| clock.map_or(String::new(), |mhz| format!("{mhz:.0}"));
    let row = |one: &Compared| {
        let speed = |seconds: f64| number(one.test.tokens() as f64 / seconds);
        vec![
            one.test.name(),
            speed(one.duel.first),
            speed(one.duel.second),
            format!("{:.3}", one.times_a()),
            format!("{:.3}", one.error()),
            one.faster().name().unwrap_or("-").to_owned(),
            one.duel.pairs.to_string(),
            mhz(one.mhz[0]),
            mhz(one.mhz[1]),
        ]
    };
    let rows: Vec<Vec<String>> = compared.iter().map(row).collect();
    format!(
        "tuff {}\n- model: {}\n- A: {}\n- B: {}\n\n{}\n\
         Medians of runs in turn; +- is the standard error of the ratio. A difference of less than \
         three of them\ncounts as noise (-).\n",
        env!("CARGO_PKG_VERSION"),
        model.escape_debug(),
        in_words(&sides[0]),
        in_words(&sides[1]),
        table(&columns, &rows),
    )
}

fn in_words(side: &Contestant<'_>) -> String {
    let threads = units::count(side.machine.threads, "thread");
    let options = match side.config.text.as_str() {
        "" => "as by default",
        text => text,
    };
    let chunk = units::count(side.plan.config.chunk, "token");
    format!("{options} ({}, {threads}, chunks of {chunk})", side.settings)
}

/// The report as JSON.
pub(super) fn json(
    model: &str,
    sides: &[Contestant<'_>; 2],
    plan: &Plan,
    compared: &[Compared],
) -> Value {
    let side = |side: &Contestant<'_>| {
        json!({
            "options": side.config.text,
            "backend": side.machine.backend,
            "isa": side.machine.isa,
            "threads": side.machine.threads,
            "chunk": side.plan.config.chunk,
            "kv": side.plan.config.kv.name(),
        })
    };
    let test = |one: &Compared| {
        json!({
            "test": one.test.kind.name(),
            "size": one.test.size,
            "depth": one.test.depth,
            "tokens": one.test.tokens(),
            "pairs": one.duel.pairs,
            "a_seconds": one.duel.first,
            "b_seconds": one.duel.second,
            "times_a": one.times_a(),
            "standard_error": one.error(),
            "faster": one.faster().name(),
            "a_mhz": one.mhz[0],
            "b_mhz": one.mhz[1],
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": model,
        "seed": plan.seed,
        "a": side(&sides[0]),
        "b": side(&sides[1]),
        "tests": compared.iter().map(test).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::plan::{Kind, Test};
    use lab::audit::Duel;

    #[test]
    fn a_difference_within_the_noise_is_none() {
        let of = |ratio, noise| {
            let duel = Duel { ratio, noise, first: 1.0, second: ratio, pairs: 7 };
            let test = Test { kind: Kind::Decode, size: 1, depth: 0 };
            Compared { test, duel, mhz: [None, None] }
        };
        assert_eq!(of(0.5, 0.01).times_a(), 2.0);
        assert_eq!(of(0.5, 0.01).faster(), Faster::B);
        assert_eq!(of(1.2, 0.01).faster(), Faster::A);
        assert_eq!(of(0.98, 0.01).faster(), Faster::Neither);
        assert_eq!(of(1.0, 0.0).faster(), Faster::Neither);
    }
}
