//! The best token of each row (family `head`).

use super::copies;
use crate::bound::Bound;
use crate::case::{Call, Op};
use crate::compare::{Expected, Fault};
use crate::memory::{Output, upload};
use crate::{Cost, Input, Random};
use kernels::head::Best;
use kernels::reference::Reference;
use kernels::{Backend, Error};

/// Argmax over the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Logits per row.
    pub vocab: usize,
    /// Rows of the window (T).
    pub rows: usize,
}

impl Sampling {
    /// Logits whose largest value stands early, late, twice, or is no number, row by row.
    fn logits(&self, input: Input) -> Vec<f32> {
        let mut logits = Random::new(13).values(self.rows * self.vocab, 5.0);
        let last = self.vocab - 1;
        for (t, row) in logits.chunks_exact_mut(self.vocab).enumerate() {
            match (input, t % 4) {
                (Input::NotFinite, 0) => row[last] = f32::NAN,
                (Input::NotFinite, 1) => row[last / 2] = f32::INFINITY,
                (Input::NotFinite, 2) => row.fill(f32::NEG_INFINITY),
                (Input::NotFinite, _) => row[0] = f32::NAN,
                (_, 0) => row[last] = 7.0,
                (_, 1) => [row[last / 3], row[last]] = [7.0; 2],
                (_, 2) => row.fill(-0.0),
                (_, _) => row[0] = 5.0,
            }
        }
        logits
    }
}

/// Whether a list keeps the contract of [`Best`].
fn is_best(best: &Best, row: &[f32]) -> bool {
    let Best { tokens, logits } = best;
    let mut rest = row.to_vec();
    let same = |(token, logit): (&u32, &f32)| {
        let found = rest.get_mut(*token as usize);
        let bits = found.map(|found| std::mem::replace(found, f32::NEG_INFINITY).to_bits());
        bits == Some(logit.to_bits())
    };
    let are_its = tokens.len() == logits.len() && tokens.iter().zip(logits).all(same);
    let least = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let is_all = tokens.len() == row.len();
    let are_less = is_all || rest.iter().all(|value| *value < least);
    let are_numbers = row.iter().all(|value| !value.is_nan() && *value < f32::INFINITY);
    are_its && tokens.is_sorted_by(|a, b| a < b) && are_less && are_numbers
}

impl Op for Sampling {
    fn name(&self) -> String {
        format!("argmax/{}/T{}", self.vocab, self.rows)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let values = (self.rows * self.vocab) as u64;
        Cost { bytes: 4 * values, ops: values }
    }

    fn bound(&self) -> Bound {
        Bound::Exact
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Uniform, Input::NotFinite]
    }

    /// The chosen index of each row, -1 where there is none.
    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let logits = upload(backend, &self.logits(input))?;
        let best = backend.argmax(&logits, self.rows, self.vocab);
        // Exact: a vocabulary has less than 2^24 tokens.
        let index = |best: &Option<u32>| best.map_or(-1.0, |index| index as f32);
        Ok(vec![Output::new("best", 1, best.iter().map(index).collect())])
    }

    /// Nothing but the same index will do.
    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let outputs = self.run(&mut Reference, input)?.into_iter();
        Ok(outputs.map(|output| Expected::within(output, 0.0)).collect())
    }

    /// Lists of the largest logits, where the device makes any, have what they should.
    fn check_more<B: Backend>(&self, backend: &mut B) -> Result<(), Fault> {
        for &input in self.inputs() {
            let values = self.logits(input);
            let logits = upload(backend, &values)?;
            let lists = backend.best(&logits, self.rows, self.vocab)?;
            for (t, (best, row)) in lists.iter().zip(values.chunks_exact(self.vocab)).enumerate() {
                if best.as_ref().is_some_and(|best| !is_best(best, row)) {
                    let name = input.name();
                    let what = format!("{name} input: the largest logits of row {t} are others");
                    return Err(Fault::Device(what));
                }
            }
        }
        Ok(())
    }

    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let values = self.logits(Input::Uniform);
        let logits = (0..copies(4 * values.len(), cold))
            .map(|_| upload(backend, &values))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(move |backend, i| {
            std::hint::black_box(backend.argmax(&logits[i % logits.len()], self.rows, self.vocab));
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lacks_no_large_logit_and_makes_none_up() {
        let row = [1.0, 5.0, -2.0, 5.0, 3.0];
        let best = |tokens: &[u32], logits: &[f32]| {
            is_best(&Best { tokens: tokens.to_vec(), logits: logits.to_vec() }, &row)
        };
        assert!(best(&[1, 3], &[5.0, 5.0]) && best(&[1, 3, 4], &[5.0, 5.0, 3.0]));
        assert!(best(&[0, 1, 2, 3, 4], &row));
        assert!(!best(&[1], &[5.0]) && !best(&[1, 3, 0], &[5.0, 5.0, 1.0]), "one is left out");
        assert!(!best(&[3, 1], &[5.0, 5.0]) && !best(&[1, 3], &[5.0]) && !best(&[9], &[5.0]));
        assert!(!best(&[1, 3], &[5.0, 6.0]) && !best(&[1, 1, 3], &[5.0, 5.0, 5.0]));
        let bad = [f32::NAN, 1.0, 0.0];
        assert!(!is_best(&Best { tokens: vec![1], logits: vec![1.0] }, &bad));
    }
}
