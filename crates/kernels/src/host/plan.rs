//! The rows of a window grouped by expert.

use super::order::{index, key, select};
use crate::moe::MoeChoice;

/// Choices of a window: per row `used` experts with their weights, and the pairs sorted by expert.
///
/// Pair `t * used + j` is the j-th choice of row `t`.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    used: usize,
    experts: Vec<u32>,
    weights: Vec<f32>,
    pairs: Vec<u32>,
    groups: Vec<Group>,
    /// Keys of the row being chosen from.
    keys: Vec<u64>,
    /// First place of each expert's next pair.
    places: Vec<u32>,
}

/// The pairs of one expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Expert index.
    pub expert: usize,
    /// First of its pairs in [`Plan::pairs_of`]'s order.
    first: usize,
    /// Number of its pairs, at least 1.
    len: usize,
}

impl Plan {
    /// Chooses from `logits` `[rows, experts]`; see [`crate::Moe::moe_plan`].
    pub fn build(&mut self, logits: &[f32], choice: MoeChoice) {
        let MoeChoice { experts, used } = choice;
        assert!(0 < used && used <= experts, "{used} of {experts} experts");
        self.used = used;
        self.experts.clear();
        self.weights.clear();
        for row in logits.chunks_exact(experts) {
            self.choose(row);
        }
        self.group(experts);
    }

    fn choose(&mut self, logits: &[f32]) {
        let used = self.used;
        self.keys.clear();
        self.keys.extend(logits.iter().zip(0..).map(|(&logit, e)| key(logit, e)));
        select(&mut self.keys, used);
        let chosen = &mut self.keys[..used];
        chosen.sort_unstable();
        let logit = |key: u64| logits[index(key) as usize];
        let largest = logit(chosen[0]);
        let first = self.weights.len();
        self.weights.extend(chosen.iter().map(|&key| (logit(key) - largest).exp()));
        let total: f32 = self.weights[first..].iter().sum();
        // A NaN anywhere makes the softmax over all experts NaN, also if its expert was not chosen.
        let total = if logits.iter().any(|x| x.is_nan()) { f32::NAN } else { total };
        self.weights[first..].iter_mut().for_each(|w| *w /= total);
        self.experts.extend(chosen.iter().map(|&key| index(key)));
    }

    /// Sorts the pairs by expert, and pairs of one expert by index, counting first.
    fn group(&mut self, experts: usize) {
        self.places.clear();
        self.places.resize(experts, 0);
        self.experts.iter().for_each(|&e| self.places[e as usize] += 1);
        self.groups.clear();
        let mut first = 0;
        for (expert, place) in self.places.iter_mut().enumerate() {
            let len = std::mem::replace(place, first as u32) as usize;
            if len > 0 {
                self.groups.push(Group { expert, first, len });
            }
            first += len;
        }
        self.pairs.clear();
        self.pairs.resize(self.experts.len(), 0);
        for (pair, &e) in self.experts.iter().enumerate() {
            let place = &mut self.places[e as usize];
            self.pairs[*place as usize] = pair as u32;
            *place += 1;
        }
    }

    /// Experts per row.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.experts.len().checked_div(self.used).unwrap_or(0)
    }

    /// Chosen experts `[rows, used]`.
    pub fn experts(&self) -> &[u32] {
        &self.experts
    }

    /// Weights of the choices `[rows, used]`; each row sums to 1.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Experts in use, by rising index.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Pairs of `group`, by rising index.
    pub fn pairs_of(&self, group: &Group) -> &[u32] {
        &self.pairs[group.first..][..group.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_go_to_the_lower_expert_and_weights_sum_to_one() {
        let mut plan = Plan::default();
        plan.build(&[1.0, 3.0, 3.0, 2.0, 0.0, 0.0, 0.0, 0.0], MoeChoice { experts: 4, used: 2 });
        assert_eq!(plan.experts(), [1, 2, 0, 1]);
        assert_eq!(plan.weights(), [0.5, 0.5, 0.5, 0.5]);
        let groups: Vec<_> =
            plan.groups().iter().map(|g| (g.expert, plan.pairs_of(g).to_vec())).collect();
        assert_eq!(groups, [(0, vec![2]), (1, vec![0, 3]), (2, vec![1])]);
    }

    #[test]
    fn non_finite_logits_choose_valid_experts() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for row in [[nan; 4], [nan, inf, -inf, 1.0], [-inf; 4], [inf; 4]] {
            let mut plan = Plan::default();
            plan.build(&row, MoeChoice { experts: 4, used: 3 });
            let mut chosen = plan.experts().to_vec();
            chosen.sort_unstable();
            chosen.dedup();
            assert!(chosen.len() == 3 && chosen.iter().all(|&e| e < 4), "{row:?}: {chosen:?}");
        }
    }
}
