//! How unevenly the experts of a layer are used.

use super::Routes;

/// Shares of a layer's experts whose load is told for every layer.
pub const HOTTEST: [f64; 3] = [0.01, 0.1, 0.25];

/// Shares of a layer's experts, for the coverage curve.
pub const SHARES: [f64; 12] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerUse {
    /// Share of all routings that go to the hottest experts, by [`HOTTEST`].
    pub hottest: [f64; HOTTEST.len()],
    /// Entropy of an expert drawn from all routings, in bits; `log2(experts)` if all are alike.
    pub entropy: f64,
    /// Experts that are never used.
    pub unused: usize,
}

/// A point of the coverage curve, averaged over layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Experts of each layer that are kept.
    pub experts: usize,
    /// Share of the routings that go to the hottest so many of the same text.
    pub same: f64,
    /// Share of the routings of the second half that go to the hottest so many of the first half.
    pub ahead: f64,
}

/// Experts that make this share of `experts`: rounded up, so at least one.
pub(crate) fn count(experts: usize, share: f64) -> usize {
    ((experts as f64 * share - 1e-9).ceil() as usize).clamp(1, experts)
}

/// How often each expert of a layer is used by these tokens.
fn loads(routes: &Routes, layer: usize, tokens: std::ops::Range<usize>) -> Vec<u64> {
    let mut loads = vec![0; routes.experts];
    for token in tokens {
        routes.chosen(token, layer).iter().for_each(|&expert| loads[usize::from(expert)] += 1);
    }
    loads
}

/// Experts, the most used first, and of equally used ones the lower.
fn by_load(loads: &[u64]) -> Vec<usize> {
    let mut experts: Vec<usize> = (0..loads.len()).collect();
    experts.sort_by_key(|&expert| std::cmp::Reverse(loads[expert]));
    experts
}

/// Share of `loads` that these experts have.
fn share(loads: &[u64], experts: &[usize]) -> f64 {
    let all: u64 = loads.iter().sum();
    experts.iter().map(|&expert| loads[expert]).sum::<u64>() as f64 / all as f64
}

impl LayerUse {
    pub(crate) fn of(routes: &Routes, layer: usize) -> Self {
        let loads = loads(routes, layer, 0..routes.tokens.len());
        let order = by_load(&loads);
        let all: u64 = loads.iter().sum();
        let term = |&load: &u64| {
            let p = load as f64 / all as f64;
            if load == 0 { 0.0 } else { -p * p.log2() }
        };
        Self {
            hottest: HOTTEST.map(|part| share(&loads, &order[..count(routes.experts, part)])),
            entropy: loads.iter().map(term).sum(),
            unused: loads.iter().filter(|&&load| load == 0).count(),
        }
    }
}

/// The coverage curve: a point for each of [`SHARES`], those of equally many experts once.
pub(crate) fn coverage(routes: &Routes) -> Vec<Coverage> {
    let (tokens, half) = (routes.tokens.len(), routes.tokens.len() / 2);
    let mut counts = SHARES.map(|share| count(routes.experts, share)).to_vec();
    counts.dedup();
    let mut curve: Vec<Coverage> =
        counts.iter().map(|&experts| Coverage { experts, same: 0.0, ahead: 0.0 }).collect();
    for layer in 0..routes.layers {
        let all = loads(routes, layer, 0..tokens);
        let (first, second) = (loads(routes, layer, 0..half), loads(routes, layer, half..tokens));
        let (of_all, of_first) = (by_load(&all), by_load(&first));
        for point in &mut curve {
            point.same += share(&all, &of_all[..point.experts]) / routes.layers as f64;
            point.ahead += share(&second, &of_first[..point.experts]) / routes.layers as f64;
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::super::toy;
    use super::*;

    #[test]
    fn shares_are_rounded_up_to_whole_experts() {
        assert_eq!([0.01, 0.1, 0.25, 1.0].map(|share| count(16, share)), [1, 2, 4, 16]);
        assert_eq!([0.01, 0.1, 0.25].map(|share| count(512, share)), [6, 52, 128]);
        assert_eq!(count(10, 0.3), 3);
    }

    #[test]
    fn loads_by_hand() {
        // Layer 0: expert 0 in all four tokens, 1 to 4 once each. Layer 1: 0 and 1, always.
        let chosen = [[0, 1], [0, 2], [0, 3], [0, 4]].map(|first| [first, [0, 1]]);
        let routes = toy::routes(&chosen, 4);
        let found = LayerUse::of(&routes, 0);
        assert_eq!((found.hottest, found.unused), ([0.5, 0.5, 0.625], 3));
        // Half of the time 1 bit, half of the time 3 bits.
        assert!((found.entropy - 2.0).abs() < 1e-12);
        assert_eq!(LayerUse::of(&routes, 1).entropy, 1.0);

        let curve = coverage(&routes);
        let point = |experts| *curve.iter().find(|point| point.experts == experts).unwrap();
        assert_eq!(point(1).same, (0.5 + 0.5) / 2.0);
        // The first half knows 0, 1, 2 of layer 0; the second uses 0, 3, 0, 4.
        assert_eq!(point(3).ahead, (0.5 + 1.0) / 2.0);
        assert_eq!(point(8).same, 1.0);
    }
}
