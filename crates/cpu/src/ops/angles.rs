//! Rotation angles of a window's rows, which all layers of a pass share.

use kernels::Window;
use kernels::rope::{self, Rope};
use kernels::window::Run;

/// Angles as of the last use: kept while rotation and window stay the same.
#[derive(Debug, Default)]
pub(crate) struct Angles {
    rope: Option<Made>,
    runs: Vec<Run>,
    /// `(cos, sin)`, `[rows, pairs]`.
    rows: Vec<(f32, f32)>,
    /// Of a single position.
    one: Vec<(f32, f32)>,
}

/// Frequencies and what they were made from.
#[derive(Debug)]
struct Made {
    dims: usize,
    base: f32,
    rope: Rope,
}

impl Angles {
    /// `(cos, sin)` of every pair for every row of `window`, `[rows, dims / 2]`.
    pub(crate) fn of(&mut self, dims: usize, base: f32, window: &Window) -> &[(f32, f32)] {
        if !self.is_for(dims, base) {
            self.rope(dims, base);
        } else if self.runs == window.runs() {
            return &self.rows;
        }
        self.runs.clear();
        self.runs.extend_from_slice(window.runs());
        self.rows.clear();
        if let Some(Made { rope, .. }) = &self.rope {
            window.iter().for_each(|(_, _, pos)| rope.angles(pos, &mut self.rows));
        }
        &self.rows
    }

    /// Rotates the leading `dims` features of a head for a position.
    pub(crate) fn rotate(&mut self, dims: usize, base: f32, (pos, head): (usize, &mut [f32])) {
        let mut one = std::mem::take(&mut self.one);
        one.clear();
        self.rope(dims, base).angles(pos, &mut one);
        rope::apply(&one, head);
        self.one = one;
    }

    fn is_for(&self, dims: usize, base: f32) -> bool {
        let same = |made: &Made| made.dims == dims && made.base.to_bits() == base.to_bits();
        self.rope.as_ref().is_some_and(same)
    }

    /// The frequencies; forgets the window's angles if they were of others.
    fn rope(&mut self, dims: usize, base: f32) -> &Rope {
        if !self.is_for(dims, base) {
            self.rope = None;
            self.runs.clear();
            self.rows.clear();
        }
        let make = || Made { dims, base, rope: Rope::new(dims, base) };
        &self.rope.get_or_insert_with(make).rope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_are_of_what_is_asked_for_whatever_was_kept() {
        let window = |first_pos| {
            let mut window = Window::new();
            window.push(0, first_pos, 3);
            window
        };
        let mut kept = Angles::default();
        for (dims, base, first_pos) in [(8, 1e4, 0), (8, 1e4, 5), (8, 1e7, 5), (4, 1e7, 5)] {
            let fresh = Angles::default().of(dims, base, &window(first_pos)).to_vec();
            for _ in 0..2 {
                assert_eq!(kept.of(dims, base, &window(first_pos)), fresh, "{dims} {base}");
                kept.rotate(2, 10.0, (1, &mut [1.0; 2]));
            }
            assert_eq!(kept.of(dims, base, &window(first_pos)), fresh, "{dims} {base}");
        }
    }
}
