//! Rotary position embedding, "half-split" form, on the leading features of a head.
//!
//! The frequencies and the angle are rounded to f32 as in the reference model; sine and cosine are
//! evaluated in f64 so that every implementation gets the same values.

/// Frequencies for a number of rotated features.
#[derive(Clone, Debug)]
pub struct Rope {
    freqs: Vec<f32>,
}

impl Rope {
    /// `dims` features (even) with base `base`: `f_i = base^(-2i/dims)`.
    pub fn new(dims: usize, base: f32) -> Self {
        let freq = |i: usize| 1.0 / f64::from(base).powf((2 * i) as f64 / dims as f64);
        Self { freqs: (0..dims / 2).map(|i| freq(i) as f32).collect() }
    }

    /// Pairs that are rotated.
    pub fn pairs(&self) -> usize {
        self.freqs.len()
    }

    /// Appends `(cos, sin)` of every pair at `pos` to `out`.
    pub fn angles(&self, pos: usize, out: &mut Vec<(f32, f32)>) {
        out.extend(self.freqs.iter().map(|f| {
            let (sin, cos) = f64::from(pos as f32 * f).sin_cos();
            (cos as f32, sin as f32)
        }));
    }

    /// Rotates the leading features of `head` for position `pos`.
    pub fn rotate(&self, pos: usize, head: &mut [f32]) {
        let mut angles = Vec::with_capacity(self.pairs());
        self.angles(pos, &mut angles);
        apply(&angles, head);
    }
}

/// Rotates the leading `2 * angles.len()` features of `head`:
/// `(x_i, x_{i+h}) -> (x_i cos - x_{i+h} sin, x_{i+h} cos + x_i sin)`.
pub fn apply(angles: &[(f32, f32)], head: &mut [f32]) {
    let (low, high) = head[..2 * angles.len()].split_at_mut(angles.len());
    for ((a, b), &(cos, sin)) in low.iter_mut().zip(high).zip(angles) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
