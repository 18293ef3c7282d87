//! How much is checked: three lists of cases, all made in the same way and of every family and
//! format.

use crate::cases::{self, FULL, GDN, HC, PLE, QSA, Scale};
use crate::{OpCase, Projection};
use kernels::moe::MoeChoice;
use kernels::rope::RopeScaling;
use kernels::{GdnShape, HcShape, PleShape, QsaShape};

/// How many cases there are and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Small shapes in windows of 1 and 3 rows, for slow and emulated machines.
    Quick,
    /// Rows of weights as long as in the full-size model, but fewer of them: a kernel treats all
    /// of them alike, and what is left of a tile or a task comes in all sizes.
    Usual,
    /// The cases that the benchmarks time, in all their sizes.
    Full,
}

const EPS: f32 = 1e-6;

/// Sizes of which none is a multiple of a tile or a task.
const SMALL: Scale = Scale {
    shapes: &[(160, 75), (512, 75)],
    projections: &[
        (Projection::GateUp, 256, 75),
        (Projection::FusedGateUp, 256, 75),
        (Projection::Down, 96, 75),
        (Projection::Down, 256, 75),
    ],
    choice: (MoeChoice { experts: 16, used: 4 }, 1),
    gdn: GdnShape { key_heads: 2, value_heads: 6, head_dim: 24, conv_kernel: 4, eps: EPS },
    hc: (HcShape { streams: 4, width: 320, eps: EPS }, 64),
    qsa: QsaShape {
        heads: 4,
        kv_heads: 2,
        head_dim: 96,
        rope_dims: 16,
        rope_base: 1e7,
        rope_scaling: RopeScaling::None,
        index_heads: 2,
        index_dim: 24,
        budget: 32,
        block: 4,
        eps: EPS,
    },
    contexts: &[0, 150],
    ple: PleShape { streams: 4, width: 40, kernel: 4, dilation: 3, eps: EPS },
    vocab: 1234,
};

const USUAL: Scale = Scale {
    shapes: &[(160, 75), (640, 130), (2560, 320), (10240, 67)],
    projections: &[
        (Projection::GateUp, 1280, 75),
        (Projection::FusedGateUp, 1280, 75),
        (Projection::Down, 640, 130),
        (Projection::Down, 1280, 75),
    ],
    choice: (MoeChoice { experts: 16, used: 4 }, 1),
    gdn: GDN,
    hc: (HC, 320),
    qsa: QSA,
    contexts: &[1000],
    ple: PLE,
    vocab: 248_320,
};

impl Extent {
    /// Rows of the windows, unless others are asked for.
    pub fn rows(self) -> &'static [usize] {
        match self {
            Self::Quick => &[1, 3],
            Self::Usual => &[1, 3, 4, 9],
            Self::Full => &cases::ROWS,
        }
    }

    /// The cases whose name contains one of `filters` (all if there are none), in windows of so
    /// many rows.
    pub fn cases(self, rows: &[usize], filters: &[String]) -> Vec<OpCase> {
        let scale = match self {
            Self::Quick => &SMALL,
            Self::Usual => &USUAL,
            Self::Full => &FULL,
        };
        cases::retain(cases::of_scale(scale, rows), filters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight_types;
    use std::collections::HashSet;

    #[test]
    fn every_extent_has_every_family_with_every_format() {
        let kinds = |extent: Extent| -> HashSet<_> {
            let cases = extent.cases(extent.rows(), &[]);
            cases.iter().map(|case| (case.family(), case.format())).collect()
        };
        let full = kinds(Extent::Full);
        for extent in [Extent::Quick, Extent::Usual] {
            let missing: Vec<_> = full.difference(&kinds(extent)).cloned().collect();
            assert!(missing.is_empty(), "{extent:?}: {missing:?}");
        }
        let products = |family: &str| full.iter().filter(|(of, _)| of == family).count();
        assert_eq!(products("gemv"), weight_types().len());
        let names: HashSet<String> = cases::standard().iter().map(OpCase::name).collect();
        assert!(Extent::Full.cases(&[1], &[]).iter().all(|case| names.contains(&case.name())));
        assert_eq!(Extent::Quick.cases(&[1], &["gemv/F16/".to_owned()]).len(), 4);
    }
}
