//! The rows of a window grouped by expert.

use crate::moe::MoeChoice;
use std::cmp::Ordering;

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
    order: Vec<u32>,
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

/// Larger logits first, NaN after everything, equal ones by rising index.
fn by_falling_logit(logits: &[f32], a: u32, b: u32) -> Ordering {
    let key = |i: u32| {
        let x = logits[i as usize];
        // Adding zero makes -0.0 equal to 0.0 under the total order.
        if x.is_nan() { f32::NEG_INFINITY } else { x + 0.0 }
    };
    key(b).total_cmp(&key(a)).then(a.cmp(&b))
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
        self.group();
    }

    fn choose(&mut self, logits: &[f32]) {
        let used = self.used;
        self.order.clear();
        self.order.extend(0..logits.len() as u32);
        let compare = |a: &u32, b: &u32| by_falling_logit(logits, *a, *b);
        if used < logits.len() {
            self.order.select_nth_unstable_by(used - 1, compare);
        }
        let chosen = &mut self.order[..used];
        chosen.sort_unstable_by(compare);
        let largest = logits[chosen[0] as usize];
        let first = self.weights.len();
        self.weights.extend(chosen.iter().map(|&e| (logits[e as usize] - largest).exp()));
        let total: f32 = self.weights[first..].iter().sum();
        // A NaN anywhere makes the softmax over all experts NaN, also if its expert was not chosen.
        let total = if logits.iter().any(|x| x.is_nan()) { f32::NAN } else { total };
        self.weights[first..].iter_mut().for_each(|w| *w /= total);
        self.experts.extend_from_slice(chosen);
    }

    fn group(&mut self) {
        let experts = &self.experts;
        self.pairs.clear();
        self.pairs.extend(0..experts.len() as u32);
        self.pairs.sort_unstable_by_key(|&pair| (experts[pair as usize], pair));
        self.groups.clear();
        for (i, &pair) in self.pairs.iter().enumerate() {
            let expert = experts[pair as usize] as usize;
            match self.groups.last_mut() {
                Some(group) if group.expert == expert => group.len += 1,
                _ => self.groups.push(Group { expert, first: i, len: 1 }),
            }
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
