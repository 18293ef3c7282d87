//! The rows of a window grouped by expert.

use super::order::{index, key, select};
use crate::moe::{MoeChoice, RoutingDials};
use crate::window::MAX_DEFERRED;

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
        self.choose_all(logits, choice);
        self.group(choice.experts, |_| true);
    }

    fn choose_all(&mut self, logits: &[f32], MoeChoice { experts, used }: MoeChoice) {
        assert!(0 < used && used <= experts, "{used} of {experts} experts");
        self.used = used;
        self.experts.clear();
        self.weights.clear();
        for row in logits.chunks_exact(experts) {
            self.choose(row);
        }
    }

    fn choose(&mut self, logits: &[f32]) {
        let used = self.used;
        self.keys.clear();
        self.keys.extend(logits.iter().zip(0..).map(|(&logit, e)| key(logit, e)));
        select(&mut self.keys, used);
        let chosen = &mut self.keys[..used];
        chosen.sort_unstable();
        let first = self.experts.len();
        self.experts.extend(chosen.iter().map(|&key| index(key)));
        self.weights.resize(first + used, 0.0);
        weigh(logits, &self.experts[first..], &mut self.weights[first..]);
    }

    /// As [`Plan::build`], with dials turned; `held[e]` tells which experts are in memory.
    pub fn build_dialled(
        &mut self,
        logits: &[f32],
        choice: MoeChoice,
        (dials, held): (&RoutingDials, &[bool]),
    ) {
        self.build(logits, choice);
        let MoeChoice { experts, used } = choice;
        let checks_drafts = (2..=MAX_DEFERRED).contains(&self.rows());
        let budget = dials.window_experts.filter(|_| checks_drafts).map(|most| most.max(used));
        let open = match budget.filter(|&budget| self.groups.len() > budget) {
            Some(budget) => most_probable(logits, experts, budget),
            None => vec![true; experts],
        };
        for (t, row) in logits.chunks_exact(experts).enumerate() {
            self.change_row(t, row, |_, other| open[other as usize], |e| !open[e as usize]);
        }
        if let Some(share) = dials.prefer_resident {
            let gap = share.ln();
            for (t, row) in logits.chunks_exact(experts).enumerate() {
                let near = |e: u32, other: u32| {
                    let (e, other) = (e as usize, other as usize);
                    open[other] && held[other] && row[other] >= row[e] + gap
                };
                self.change_row(t, row, near, |e| !held[e as usize]);
            }
        }
        self.group(experts, |_| true);
    }

    /// Puts in place of every choice `e` of a row that `goes`, the least likely of them first, the
    /// likeliest other expert that is not chosen and `may(e, other)`; if there is none, `e` stays.
    fn change_row(
        &mut self,
        t: usize,
        logits: &[f32],
        may: impl Fn(u32, u32) -> bool,
        goes: impl Fn(u32) -> bool,
    ) {
        let chosen = &mut self.experts[t * self.used..(t + 1) * self.used];
        let mut changed = false;
        for j in (0..chosen.len()).rev() {
            let e = chosen[j];
            if !goes(e) {
                continue;
            }
            let others = (0..logits.len() as u32).filter(|o| !chosen.contains(o) && may(e, *o));
            if let Some(other) = others.min_by_key(|&o| key(logits[o as usize], o)) {
                chosen[j] = other;
                changed = true;
            }
        }
        if !changed {
            return;
        }
        chosen.sort_by_key(|&e| key(logits[e as usize], e));
        weigh(logits, chosen, &mut self.weights[t * self.used..(t + 1) * self.used]);
    }

    /// Takes choices `[rows, used]` that were made elsewhere and groups the pairs of those experts
    /// that are `wanted`. The plan is for products alone: it has no weights.
    ///
    /// # Panics
    /// If a choice is none of the experts.
    pub fn group_some(
        &mut self,
        chosen: &[u32],
        MoeChoice { experts, used }: MoeChoice,
        wanted: impl Fn(usize) -> bool,
    ) {
        self.used = used;
        self.weights.clear();
        self.experts.clear();
        self.experts.extend_from_slice(chosen);
        self.group(experts, wanted);
    }

    /// Sorts the pairs of wanted experts by expert, and pairs of one expert by index, counting
    /// first.
    fn group(&mut self, experts: usize, wanted: impl Fn(usize) -> bool) {
        self.places.clear();
        self.places.resize(experts, 0);
        let chosen = self.experts.iter().map(|&e| e as usize).filter(|&e| wanted(e));
        chosen.for_each(|e| self.places[e] += 1);
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
        self.pairs.resize(first, 0);
        for (pair, &e) in self.experts.iter().enumerate().filter(|(_, e)| wanted(**e as usize)) {
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

/// The softmax over the logits of the chosen experts, the likeliest of which comes first. A NaN
/// anywhere makes the softmax over all experts NaN, also if its expert was not chosen.
fn weigh(logits: &[f32], chosen: &[u32], weights: &mut [f32]) {
    let largest = logits[chosen[0] as usize];
    for (weight, &e) in weights.iter_mut().zip(chosen) {
        *weight = (logits[e as usize] - largest).exp();
    }
    let total: f32 = weights.iter().sum();
    let total = if logits.iter().any(|x| x.is_nan()) { f32::NAN } else { total };
    weights.iter_mut().for_each(|w| *w /= total);
}

/// The `budget` experts of the largest probability, summed over the rows.
fn most_probable(logits: &[f32], experts: usize, budget: usize) -> Vec<bool> {
    let mut mass = vec![0.0_f32; experts];
    for row in logits.chunks_exact(experts) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = row.iter().map(|x| (x - largest).exp()).sum();
        for (mass, x) in mass.iter_mut().zip(row) {
            *mass += (x - largest).exp() / total;
        }
    }
    let mut keys: Vec<u64> = mass.iter().zip(0..).map(|(&mass, e)| key(mass, e)).collect();
    select(&mut keys, budget.min(experts));
    let mut open = vec![false; experts];
    keys[..budget.min(experts)].iter().for_each(|&key| open[index(key) as usize] = true);
    open
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
    fn pairs_of_experts_that_are_not_wanted_are_in_no_group() {
        let mut plan = Plan::default();
        let choice = MoeChoice { experts: 4, used: 2 };
        let groups = |plan: &Plan| -> Vec<(usize, Vec<u32>)> {
            plan.groups().iter().map(|g| (g.expert, plan.pairs_of(g).to_vec())).collect()
        };
        plan.group_some(&[1, 2, 0, 1, 3, 2], choice, |e| e % 2 == 1);
        assert_eq!(groups(&plan), [(1, vec![0, 3]), (3, vec![4])]);
        assert_eq!((plan.rows(), plan.used(), plan.weights().len()), (3, 2, 0));
        plan.group_some(&[1, 2, 0, 1], choice, |_| true);
        assert_eq!(groups(&plan), [(0, vec![2]), (1, vec![0, 3]), (2, vec![1])]);
        plan.group_some(&[1, 2, 0, 1], choice, |e| e == 3);
        assert!(plan.groups().is_empty() && plan.rows() == 2);
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

    fn dialled(logits: &[f32], held: &[bool], dials: RoutingDials) -> Plan {
        let mut plan = Plan::default();
        let choice = MoeChoice { experts: held.len(), used: 2 };
        plan.build_dialled(logits, choice, (&dials, held));
        plan
    }

    #[test]
    fn an_expert_in_memory_stands_in_for_one_that_is_nearly_as_likely() {
        let logits = [2.0, 1.0, 0.9, 0.5];
        let held = [true, false, false, true];
        let with = |share| RoutingDials { prefer_resident: Some(share), ..RoutingDials::default() };
        // exp(0.5 - 1.0) is 0.61.
        assert_eq!(dialled(&logits, &held, with(0.6)).experts(), [0, 3]);
        assert_eq!(dialled(&logits, &held, with(0.62)).experts(), [0, 1]);
        assert_eq!(dialled(&logits, &[true; 4], with(0.01)).experts(), [0, 1]);
        assert_eq!(dialled(&logits, &[false; 4], with(0.01)).experts(), [0, 1]);
        let plan = dialled(&logits, &held, with(0.5));
        let weight = 1.0 / (1.0 + (-1.5_f32).exp());
        assert!((plan.weights()[0] - weight).abs() < 1e-6 && plan.groups().len() == 2);
    }

    #[test]
    fn a_window_keeps_to_the_experts_that_its_rows_want_most() {
        let logits = [3.0, 2.0, 0.0, 0.0, 3.0, 0.0, 2.0, 0.5, 3.0, 2.0, 0.0, 0.0];
        let dials = RoutingDials { window_experts: Some(2), ..RoutingDials::default() };
        let plan = dialled(&logits, &[false; 4], dials);
        assert_eq!(plan.experts(), [0, 1, 0, 1, 0, 1]);
        assert_eq!(plan.groups().len(), 2);
        // A single row, and a budget that is not reached, change nothing.
        assert_eq!(dialled(&logits[4..8], &[false; 4], dials).experts(), [0, 2]);
        let dials = RoutingDials { window_experts: Some(3), ..RoutingDials::default() };
        assert_eq!(dialled(&logits, &[false; 4], dials).experts(), [0, 1, 0, 2, 0, 1]);
    }

    #[test]
    fn dials_choose_valid_experts_from_anything() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let dials = RoutingDials { prefer_resident: Some(0.5), window_experts: Some(2) };
        for row in [[nan; 4], [nan, inf, -inf, 1.0], [-inf; 4], [inf; 4]] {
            let logits = [row, row].concat();
            let plan = dialled(&logits, &[false, true, true, false], dials);
            for pair in plan.experts().chunks_exact(2) {
                assert!(pair[0] != pair[1] && pair.iter().all(|&e| e < 4), "{row:?}: {pair:?}");
            }
        }
    }
}
