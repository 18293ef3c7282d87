//! Rotary position embedding, "half-split" form, on the leading features of a head, and YaRN, which
//! stretches it over more positions than a model was trained on.
//!
//! The frequencies and the angle are rounded to f32 as in the reference model; sine and cosine are
//! evaluated in f64 so that every implementation gets the same values.

use std::f64::consts::TAU;

/// What the angles of a head are made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeShape {
    /// Rotated features, an even number.
    pub dims: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// How positions beyond the model's own context are reached.
    pub scaling: RopeScaling,
}

/// How positions beyond the model's own context are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    None,
    /// YaRN: slow features turn `factor` times more slowly, fast ones as they did, with a ramp
    /// between; what is rotated grows by `0.1 ln(factor) + 1`.
    Yarn {
        /// How many times the original context positions may reach; at most 1 changes nothing.
        factor: f32,
        /// Positions that the model was made for.
        original_context: usize,
    },
}

/// Turns within the original context from which on a feature keeps its speed.
const BETA_FAST: f64 = 32.0;

/// Turns within the original context up to which a feature is slowed down by the whole factor.
const BETA_SLOW: f64 = 1.0;

impl RopeScaling {
    /// YaRN to `factor` times the `original_context`.
    pub fn yarn(factor: f32, original_context: usize) -> Self {
        Self::Yarn { factor, original_context }
    }

    /// Positions that a model made for `context` reaches.
    pub fn reach(self, context: usize) -> usize {
        match self {
            Self::Yarn { factor, .. } if factor > 1.0 => {
                (context as f64 * f64::from(factor)).floor() as usize
            }
            _ => context,
        }
    }

    /// By how much rotated features grow.
    fn magnitude(self) -> f64 {
        match self {
            Self::Yarn { factor, .. } if factor > 1.0 => 0.1 * f64::from(factor).ln() + 1.0,
            _ => 1.0,
        }
    }
}

/// Frequencies for a number of rotated features.
#[derive(Clone, Debug)]
pub struct Rope {
    freqs: Vec<f32>,
    magnitude: f64,
}

impl Rope {
    /// `f_i = base^(-2i/dims)`, under YaRN `f_i ((1 - r_i) + r_i / factor)` with a ramp `r_i` from
    /// 0 to 1.
    pub fn new(shape: RopeShape) -> Self {
        let RopeShape { dims, base, scaling } = shape;
        let freq = |i: usize| 1.0 / f64::from(base).powf((2 * i) as f64 / dims as f64);
        let slowed = |i: usize| match scaling {
            RopeScaling::Yarn { factor, original_context } if factor > 1.0 => {
                let ramp = ramp((dims, base), original_context, i);
                freq(i) * ((1.0 - ramp) + ramp / f64::from(factor))
            }
            _ => freq(i),
        };
        let freqs = (0..dims / 2).map(|i| slowed(i) as f32).collect();
        Self { freqs, magnitude: scaling.magnitude() }
    }

    /// Pairs that are rotated.
    pub fn pairs(&self) -> usize {
        self.freqs.len()
    }

    /// Appends `(cos, sin)` of every pair at `pos` to `out`, times the magnitude of the scaling.
    pub fn angles(&self, pos: usize, out: &mut Vec<(f32, f32)>) {
        out.extend(self.freqs.iter().map(|f| {
            let (sin, cos) = f64::from(pos as f32 * f).sin_cos();
            ((cos * self.magnitude) as f32, (sin * self.magnitude) as f32)
        }));
    }

    /// Rotates the leading features of `head` for position `pos`.
    pub fn rotate(&self, pos: usize, head: &mut [f32]) {
        let mut angles = Vec::with_capacity(self.pairs());
        self.angles(pos, &mut angles);
        apply(&angles, head);
    }
}

/// YaRN's ramp: 0 for pairs with more than [`BETA_FAST`] turns within the original context, 1 for
/// those with fewer than [`BETA_SLOW`], linear in the number of the pair between.
fn ramp((dims, base): (usize, f32), original_context: usize, pair: usize) -> f64 {
    let log_base = f64::from(base).ln();
    // The pair, as a real number, that makes so many turns.
    let turning = |turns: f64| {
        dims as f64 * (original_context as f64 / (turns * TAU)).ln() / (2.0 * log_base)
    };
    let low = turning(BETA_FAST).floor().max(0.0);
    let high = turning(BETA_SLOW).ceil().min(dims as f64 - 1.0);
    // The published definition avoids a division by zero like this.
    let width = if high == low { 0.001 } else { high - low };
    ((pair as f64 - low) / width).clamp(0.0, 1.0)
}

/// Rotates the leading `2 * angles.len()` features of `head`:
/// `(x_i, x_{i+h}) -> (x_i cos - x_{i+h} sin, x_{i+h} cos + x_i sin)`.
pub fn apply(angles: &[(f32, f32)], head: &mut [f32]) {
    let (low, high) = head[..2 * angles.len()].split_at_mut(angles.len());
    for ((a, b), &(cos, sin)) in low.iter_mut().zip(high).zip(angles) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yarn(dims: usize, base: f32, factor: f32, original_context: usize) -> Rope {
        Rope::new(RopeShape { dims, base, scaling: RopeScaling::yarn(factor, original_context) })
    }

    fn near(found: f32, expected: f64) -> bool {
        (f64::from(found) - expected).abs() <= 3e-7 * expected.abs().max(1e-2)
    }

    /// Frequencies by a script that follows the published definition.
    #[test]
    fn yarn_frequencies_of_the_full_size_model() {
        let expected = [
            1.0,
            0.60429639,
            0.365174127,
            0.220673407,
            0.133352143,
            0.0805842188,
            0.0486967525,
            0.0294272718,
            0.0177827941,
            0.0107460783,
            0.00649381632,
            0.00392418976,
            0.00237137371,
            0.00143301257,
            0.000865964323,
            0.000474239823,
            0.00025693506,
            0.000137349745,
            7.2173874e-05,
            3.70722498e-05,
            1.8449222e-05,
            8.75977007e-06,
            3.84981632e-06,
            2.3264301e-06,
            1.40585331e-06,
            8.49552082e-07,
            5.13381257e-07,
            3.1023444e-07,
            1.87473552e-07,
            1.13289591e-07,
            6.84604909e-08,
            4.13704275e-08,
        ];
        let rope = yarn(64, 1e7, 4.0, 262_144);
        assert_eq!(rope.freqs.len(), expected.len());
        for (found, expected) in rope.freqs.iter().zip(expected) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error <= 1e-7 * expected, "{found} for {expected}");
        }
        assert!((rope.magnitude - 1.138_629_436_111_989).abs() < 1e-12);
    }

    #[test]
    fn yarn_angles_grow_with_the_magnitude() {
        let rope = yarn(16, 1e4, 2.0, 512);
        let expected = [
            (-0.8972666263580322, 0.5816757082939148),
            (0.4952719509601593, -0.9477022886276245),
            (-0.6587570309638977, 0.8423022627830505),
            (0.3182530105113983, 1.0208569765090942),
            (-1.0013669729232788, -0.3750976622104645),
            (0.47854822874069214, 0.9562560319900513),
            (1.004485011100769, 0.36666569113731384),
            (1.0627717971801758, 0.11810996383428574),
        ];
        let mut found = Vec::new();
        rope.angles(700, &mut found);
        assert_eq!(found.len(), expected.len());
        for ((cos, sin), expected) in found.into_iter().zip(expected) {
            // An angle of 700 in f32 is known to 3e-5.
            let (a, b) = (f64::from(cos) - expected.0, f64::from(sin) - expected.1);
            assert!(a.abs() < 1e-4 && b.abs() < 1e-4, "{cos} {sin} for {expected:?}");
        }
        let mut start = Vec::new();
        rope.angles(0, &mut start);
        assert!(start.iter().all(|&(cos, sin)| near(cos, 1.0693147180559945) && sin == 0.0));
    }

    #[test]
    fn a_factor_of_one_is_no_scaling_to_the_bit() {
        for (dims, base) in [(64, 1e7), (16, 1e4), (2, 10.0)] {
            let plain = Rope::new(RopeShape { dims, base, scaling: RopeScaling::None });
            for context in [1, 512, 1 << 20] {
                let scaled = yarn(dims, base, 1.0, context);
                for pos in [0, 1, 5000, 1 << 20] {
                    let (mut a, mut b) = (Vec::new(), Vec::new());
                    plain.angles(pos, &mut a);
                    scaled.angles(pos, &mut b);
                    let bits = |x: &[(f32, f32)]| -> Vec<[u32; 2]> {
                        x.iter().map(|(c, s)| [c.to_bits(), s.to_bits()]).collect()
                    };
                    assert_eq!(bits(&a), bits(&b));
                }
            }
        }
    }

    #[test]
    fn contexts_grow_by_the_factor() {
        assert_eq!(RopeScaling::None.reach(4096), 4096);
        assert_eq!(RopeScaling::yarn(2.5, 4096).reach(4096), 10240);
        assert_eq!(RopeScaling::yarn(0.5, 4096).reach(4096), 4096);
    }
}
