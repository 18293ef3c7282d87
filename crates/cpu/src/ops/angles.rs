//! Rotation angles of a window's rows, which all layers of a pass share.

use kernels::Window;
use kernels::rope::{self, Rope, RopeShape};
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
    shape: RopeShape,
    rope: Rope,
}

impl Angles {
    /// `(cos, sin)` of every pair for every row of `window`, `[rows, dims / 2]`.
    pub(crate) fn of(&mut self, shape: RopeShape, window: &Window) -> &[(f32, f32)] {
        if !self.is_for(shape) {
            self.rope(shape);
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

    /// Rotates the leading features of a head for a position.
    pub(crate) fn rotate(&mut self, shape: RopeShape, pos: usize, head: &mut [f32]) {
        let mut one = std::mem::take(&mut self.one);
        one.clear();
        self.rope(shape).angles(pos, &mut one);
        rope::apply(&one, head);
        self.one = one;
    }

    fn is_for(&self, shape: RopeShape) -> bool {
        self.rope.as_ref().is_some_and(|made| made.shape == shape)
    }

    /// The frequencies; forgets the window's angles if they were of others.
    fn rope(&mut self, shape: RopeShape) -> &Rope {
        if !self.is_for(shape) {
            self.rope = None;
            self.runs.clear();
            self.rows.clear();
        }
        let make = || Made { shape, rope: Rope::new(shape) };
        &self.rope.get_or_insert_with(make).rope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::rope::RopeScaling;

    #[test]
    fn angles_are_of_what_is_asked_for_whatever_was_kept() {
        let window = |first_pos| {
            let mut window = Window::new();
            window.push(0, first_pos, 3);
            window
        };
        let mut kept = Angles::default();
        let (none, yarn) = (RopeScaling::None, RopeScaling::yarn(4.0, 64));
        for (dims, base, scaling, first_pos) in [
            (8, 1e4, none, 0),
            (8, 1e4, none, 5),
            (8, 1e4, yarn, 5),
            (8, 1e7, none, 5),
            (4, 1e7, none, 5),
        ] {
            let shape = RopeShape { dims, base, scaling };
            let fresh = Angles::default().of(shape, &window(first_pos)).to_vec();
            for _ in 0..2 {
                assert_eq!(kept.of(shape, &window(first_pos)), fresh, "{shape:?}");
                let other = RopeShape { dims: 2, base: 10.0, scaling };
                kept.rotate(other, 1, &mut [1.0; 2]);
            }
            assert_eq!(kept.of(shape, &window(first_pos)), fresh, "{shape:?}");
        }
    }
}
