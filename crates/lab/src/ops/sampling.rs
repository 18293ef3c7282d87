//! The best token of each row (family `head`).

use super::copies;
use crate::bound::Bound;
use crate::case::{Call, Op};
use crate::compare::Expected;
use crate::memory::{Output, upload};
use crate::{Cost, Input, Random};
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
