//! The cache positions that each row of a window attends.

use super::order::{index, key, select};
use std::ops::Range;

/// Selected positions of a window's rows.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    block: usize,
    rows: Vec<RowSelection>,
    blocks: Vec<u32>,
    /// Keys of the row being chosen from.
    keys: Vec<u64>,
}

#[derive(Clone, Debug)]
struct RowSelection {
    /// Position of the row; it sees `0..=pos`.
    pos: usize,
    picked: Picked,
}

#[derive(Clone, Debug)]
enum Picked {
    /// All positions that the row sees.
    Everything,
    /// These of the selection's block numbers, and the tail.
    Blocks(Range<usize>),
    /// A score was NaN: there is nothing to choose by.
    Nothing,
}

impl Selection {
    /// Starts a new window over blocks of `block` tokens (0: dense).
    pub fn start(&mut self, block: usize) {
        self.block = block;
        self.rows.clear();
        self.blocks.clear();
    }

    /// Adds a row at `pos` that attends everything up to itself.
    pub fn push_all(&mut self, pos: usize) {
        self.rows.push(RowSelection { pos, picked: Picked::Everything });
    }

    /// Adds a row at `pos` with the `keep` best of the scored blocks and the tail after them; equal
    /// scores go to the lower block. A NaN score leaves the row without positions.
    pub fn push_best(&mut self, pos: usize, scores: &[f32], keep: usize) {
        if scores.len() <= keep {
            return self.push_all(pos);
        }
        if scores.iter().any(|s| s.is_nan()) {
            return self.rows.push(RowSelection { pos, picked: Picked::Nothing });
        }
        let start = self.blocks.len();
        if keep > 0 {
            self.keys.clear();
            self.keys.extend(scores.iter().zip(0..).map(|(&score, b)| key(score, b)));
            select(&mut self.keys, keep);
            self.blocks.extend(self.keys[..keep].iter().map(|&key| index(key)));
            self.blocks[start..].sort_unstable();
        }
        let picked = Picked::Blocks(start..self.blocks.len());
        self.rows.push(RowSelection { pos, picked });
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Positions of row `row` as rising, non-empty ranges.
    pub fn ranges(&self, row: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let RowSelection { pos, ref picked } = self.rows[row];
        let seen = pos + 1;
        let (picked, tail) = match picked {
            Picked::Everything => (&[][..], 0),
            Picked::Blocks(range) => (&self.blocks[range.clone()], seen - seen % self.block),
            Picked::Nothing => (&[][..], seen),
        };
        let size = self.block;
        let picked = picked.iter().map(move |&b| b as usize * size..(b as usize + 1) * size);
        picked.chain((tail < seen).then_some(tail..seen))
    }

    /// Number of positions of row `row`.
    pub fn count(&self, row: usize) -> usize {
        self.ranges(row).map(|r| r.len()).sum()
    }

    /// Complete blocks that row `row` attends, rising; empty for a dense layer.
    pub fn blocks(&self, row: usize) -> Vec<u32> {
        let RowSelection { pos, ref picked } = self.rows[row];
        match picked {
            Picked::Everything => {
                (0..(pos + 1).checked_div(self.block).unwrap_or(0) as u32).collect()
            }
            Picked::Blocks(range) => self.blocks[range.clone()].to_vec(),
            Picked::Nothing => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(pos: usize, scores: &[f32], keep: usize) -> Selection {
        let mut selection = Selection::default();
        selection.start(4);
        selection.push_best(pos, scores, keep);
        selection
    }

    #[test]
    fn fault_043_equal_scores_keep_exactly_k_lowest_blocks() {
        for scores in [vec![0.0; 31_000], vec![1.0; 31_000], vec![f32::INFINITY; 31_000]] {
            let selection = select(4 * 31_000 - 1, &scores, 512);
            assert_eq!(selection.blocks(0), (0..512).collect::<Vec<u32>>());
        }
        let concentrated: Vec<f32> = (0..31_000).map(|b| 1.0 + (b % 7) as f32 * 1e-7).collect();
        let selection = select(4 * 31_000 - 1, &concentrated, 512);
        assert_eq!(selection.blocks(0).len(), 512);
        assert_eq!(selection.count(0), 2048);
    }

    #[test]
    fn fault_046_valid_count_is_carried() {
        for (pos, count) in [(0, 1), (2, 3), (3, 4), (4, 5), (2046, 2047), (2050, 2051)] {
            let scores = vec![0.5; (pos + 1) / 4];
            assert_eq!(select(pos, &scores, 512).count(0), count, "position {pos}");
        }
        // One block over the budget: 512 blocks of 4, and the tail.
        assert_eq!(select(2051, &vec![0.5; 513], 512).count(0), 2048);
        assert_eq!(select(2052, &vec![0.5; 513], 512).count(0), 2049);
    }

    #[test]
    fn fault_133_a_nan_score_is_no_choice() {
        let selection = select(11, &[1.0, f32::NAN, 2.0], 1);
        assert_eq!(selection.count(0), 0);
        // Within the budget nothing is chosen by score.
        assert_eq!(select(11, &[1.0, f32::NAN, 2.0], 3).count(0), 12);
    }

    #[test]
    fn the_row_s_own_block_may_lose() {
        let selection = select(7, &[1.0, 0.5], 1);
        assert_eq!(selection.ranges(0).collect::<Vec<_>>(), vec![0..4]);
    }

    #[test]
    fn fault_044_positions_past_the_square_root_of_two_to_the_31() {
        let scores: Vec<f32> = (0..65_536).map(|b| b as f32).collect();
        let selection = select(262_143, &scores, 2);
        assert_eq!(
            selection.ranges(0).collect::<Vec<_>>(),
            vec![262_136..262_140, 262_140..262_144]
        );
    }
}
