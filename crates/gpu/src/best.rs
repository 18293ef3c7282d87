//! The largest logits of each row, so that not all of them go to the host.
//!
//! A row is cut into pieces. The `LEAST`-th largest of the pieces' largest values is a value that at
//! least so many reach; all that do are listed. What is not in the list is less than all that is.

use crate::buffer::GpuBuffer;
use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::params::params;
use crate::recorder::Call;
use crate::scratch::Scratch;
use crate::shader::{Shader, read, write};
use kernels::head::Best;
use kernels::{Device, Error};

/// Threads of a workgroup, and bins of a digit.
const THREADS: u32 = 256;

/// Pieces of a row at most.
const MOST_PIECES: usize = 4096;

/// Values that are listed at least.
const LEAST: usize = 128;

/// Values that are listed at most.
const MOST: usize = 2 * LEAST;

/// Words of a row's list: how many, then token and bits of each.
const WORDS: usize = 1 + 2 * MOST;

params! {
    /// What both steps are told.
    BestParams {
        /// Values of a row.
        width: u32,
        /// Pieces of a row.
        pieces: u32,
        /// Values that are listed at least.
        count: u32,
    }
}

/// A step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BestStep {
    /// The largest value of each piece.
    Maxima,
    /// The list.
    List,
}

impl BestStep {
    /// The shader.
    pub(crate) fn shader(self) -> Shader {
        let order = include_str!("../shaders/order.wgsl");
        match self {
            Self::Maxima => {
                let bindings = vec![write("maxima", "u32"), read("x", "u32")];
                let sources = [order, include_str!("../shaders/best_maxima.wgsl")];
                let constants = [("THREADS", THREADS)];
                Shader::new::<BestParams>("best_maxima", &constants, bindings, &sources)
            }
            Self::List => {
                let bindings = vec![write("best", "u32"), read("maxima", "u32"), read("x", "u32")];
                let sums = include_str!("../shaders/sum_up_to.wgsl");
                let sources = [order, sums, include_str!("../shaders/best_list.wgsl")];
                let constants = [("THREADS", THREADS), ("MOST", MOST as u32)];
                Shader::new::<BestParams>("best_list", &constants, bindings, &sources)
            }
        }
    }
}

impl Gpu {
    /// See [`kernels::Head::best`].
    pub(crate) fn best_of_rows(
        &mut self,
        logits: &GpuBuffer,
        rows: usize,
        width: usize,
    ) -> Result<Vec<Option<Best>>, Error> {
        assert!(logits.len() >= rows * width, "{rows} rows of {width} logits");
        // That many of the pieces are looked for.
        if width <= LEAST {
            return Ok(vec![None; rows]);
        }
        let pieces = width.min(MOST_PIECES);
        let maxima = self.scratch(Scratch::Maxima, rows * pieces);
        let lists = self.scratch(Scratch::Best, rows * WORDS);
        let (Some(maxima), Some(lists)) = (maxima, lists) else { return Ok(vec![None; rows]) };
        let params = BestParams { width: width as u32, pieces: pieces as u32, count: LEAST as u32 };
        let buffers = [maxima.all(), logits.all()];
        let grid = [params.pieces.div_ceil(THREADS), rows as u32, 1];
        let kernel = Kernel::Best(BestStep::Maxima);
        self.recorder.dispatch(&Call { kernel, buffers: &buffers, constants: None, grid }, &params);
        let buffers = [lists.all(), maxima.all(), logits.all()];
        let kernel = Kernel::Best(BestStep::List);
        let grid = [rows as u32, 1, 1];
        self.recorder.dispatch(&Call { kernel, buffers: &buffers, constants: None, grid }, &params);
        let mut words = vec![0.0; rows * WORDS];
        self.download(&lists, &mut words)?;
        let words: &[u32] = bytemuck::cast_slice(&words);
        Ok(words.chunks_exact(WORDS).map(list).collect())
    }
}

/// The list of a row; `None` where the device has none.
fn list(words: &[u32]) -> Option<Best> {
    let count = usize::try_from(words[0]).ok().filter(|count| *count <= MOST)?;
    let mut pairs = words[1..][..2 * count].as_chunks::<2>().0.to_vec();
    pairs.sort_unstable();
    let tokens = pairs.iter().map(|[token, _]| *token).collect();
    let logits = pairs.iter().map(|[_, bits]| f32::from_bits(*bits)).collect();
    Some(Best { tokens, logits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gpu;
    use kernels::Head;

    /// Values that look random, of `steps` different ones.
    fn row(width: usize, seed: u32, steps: u32) -> Vec<f32> {
        let mut x = seed;
        let mut value = || {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((x >> 8) % steps) as f32 / steps as f32 * 20.0 - 12.0
        };
        (0..width).map(|_| value()).collect()
    }

    fn check(best: &Best, row: &[f32]) {
        assert!(best.tokens.len() >= LEAST && best.tokens.is_sorted_by(|a, b| a < b));
        let mut left = row.to_vec();
        for (&token, logit) in best.tokens.iter().zip(&best.logits) {
            assert_eq!(logit.to_bits(), row[token as usize].to_bits());
            left[token as usize] = f32::NEG_INFINITY;
        }
        let least = best.logits.iter().copied().fold(f32::INFINITY, f32::min);
        let all = best.tokens.len() == row.len();
        assert!(all || left.iter().all(|x| *x < least), "one is left out");
    }

    #[test]
    fn the_largest_logits_are_listed_and_no_other_is_as_large() {
        let Some(mut gpu) = gpu() else { return };
        for width in [129, 256, 300, 4096, 5000, 8192, 248_320] {
            let mut rows: Vec<Vec<f32>> =
                (0..4).map(|seed| row(width, seed, 1 << 24)).chain([row(width, 9, 60)]).collect();
            // Large ones side by side and a stride apart, denormal ones, and such as are ruled out.
            rows[1][width - 100..].iter_mut().for_each(|x| *x += 50.0);
            rows[2].iter_mut().step_by(2).for_each(|x| *x = f32::NEG_INFINITY);
            rows[3].iter_mut().for_each(|x| *x *= 1e-39);
            let values = rows.concat();
            let mut logits = gpu.alloc(values.len()).unwrap();
            gpu.upload(&values, &mut logits);
            let found = gpu.best(&logits, rows.len(), width).unwrap();
            for (i, (best, row)) in found.iter().zip(&rows).enumerate() {
                // Of many equal ones there may be more than there is room for.
                assert!(best.is_some() || i == 4, "row {i} of {width}");
                best.iter().for_each(|best| check(best, row));
            }
        }
    }

    #[test]
    fn rows_that_no_token_is_drawn_from_have_no_list() {
        let Some(mut gpu) = gpu() else { return };
        let width = 1000;
        let mut rows: Vec<Vec<f32>> = (0..5).map(|seed| row(width, seed, 1 << 24)).collect();
        (rows[0][7], rows[1][999], rows[2][500]) = (f32::NAN, f32::INFINITY, -f32::NAN);
        rows[3].fill(1.5);
        let values = rows.concat();
        let mut logits = gpu.alloc(values.len()).unwrap();
        gpu.upload(&values, &mut logits);
        let found = gpu.best(&logits, rows.len(), width).unwrap();
        let is_listed: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(is_listed, [false, false, false, false, true]);
        assert!(gpu.best(&logits, 2, LEAST).unwrap().iter().all(Option::is_none), "all of them");
    }
}
