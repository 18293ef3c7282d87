//! The distribution that a row of logits stands for.

/// A row of logits with what its softmax needs. Everything is in f64, from f32 logits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Softmax {
    logits: Vec<f32>,
    /// `exp(logit - largest)`.
    exps: Vec<f64>,
    largest: f32,
    total: f64,
    ln_total: f64,
}

impl Softmax {
    /// Takes in a row `[vocab]` of finite logits, in place of the one before.
    pub(crate) fn set(&mut self, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let largest = f64::from(self.largest);
        self.exps.clear();
        self.exps.extend(logits.iter().map(|&x| (f64::from(x) - largest).exp()));
        self.total = self.exps.iter().sum();
        self.ln_total = self.total.ln();
    }

    pub(crate) fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The largest logit, and the logarithm of the sum of `exp(logit - largest)`.
    pub(crate) fn scale(&self) -> Scale {
        Scale { largest: self.largest, ln_total: self.ln_total }
    }

    /// Probability of a token.
    pub(crate) fn p(&self, id: usize) -> f64 {
        self.exps[id] / self.total
    }

    /// Logarithm of the probability of a token.
    pub(crate) fn ln_p(&self, id: usize) -> f64 {
        self.scale().ln_p(self.logits[id])
    }

    /// The first of the likeliest tokens.
    pub(crate) fn top(&self) -> usize {
        self.logits.iter().position(|&x| x == self.largest).unwrap_or(0)
    }

    /// Probability of all tokens but `kept`, which rise: added up in the order of ids, so that the
    /// same row gives the same bits.
    pub(crate) fn mass_without(&self, kept: impl Iterator<Item = usize>) -> f64 {
        self.tail(kept).map(|id| self.exps[id]).sum::<f64>() / self.total
    }

    /// All tokens but `kept`, which rise.
    pub(crate) fn tail(&self, kept: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
        let mut kept = kept.peekable();
        (0..self.logits.len()).filter(move |id| kept.next_if_eq(id).is_none())
    }
}

/// What turns a logit into the logarithm of a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) largest: f32,
    pub(crate) ln_total: f64,
}

impl Scale {
    /// Logarithm of the probability of a token with this logit.
    pub(crate) fn ln_p(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.largest) - self.ln_total
    }
}
