//! Mixing of the n-gram features into the streams (family `ple`).

use super::{DEFERRED, copies, window, windows};
use crate::case::{Call, Op};
use crate::memory::{Output, upload, vector};
use crate::{Cost, Input, Random};
use kernels::ple::PleInput;
use kernels::{Backend, Error, PleShape, PleWeights, Window};

/// The mixing step over consecutive tokens of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ngram {
    /// Sizes of the layer.
    pub shape: PleShape,
    /// Rows of the window (T).
    pub rows: usize,
}

/// Slots of the states that are checked.
const SLOTS: usize = 2;

struct Vectors<V> {
    norm_key: V,
    norm_query: V,
    norm_conv: V,
    taps: V,
}

impl<V> Vectors<V> {
    fn weights(&self) -> PleWeights<'_, V> {
        let Self { norm_key, norm_query, norm_conv, taps } = self;
        PleWeights { norm_key, norm_query, norm_conv, taps }
    }
}

/// The activations of a window: key, value and the streams.
struct Rows<B> {
    key: B,
    value: B,
    x: B,
}

impl Ngram {
    fn vectors<B: Backend>(&self, backend: &mut B) -> Result<Vectors<B::Vector>, Error> {
        let wide = self.shape.channels();
        let mut random = Random::new(7);
        let mut values = |n, scale| vector(backend, &random.values(n, scale));
        Ok(Vectors {
            norm_key: values(wide, 1.0)?,
            norm_query: values(wide, 1.0)?,
            norm_conv: values(wide, 1.0)?,
            taps: values(wide * self.shape.kernel, 0.5)?,
        })
    }

    fn inputs_of<B: Backend>(
        &self,
        backend: &mut B,
        (rows, scale): (usize, f32),
        random: &mut Random,
    ) -> Result<Rows<B::Buffer>, Error> {
        let mut values = |n| upload(backend, &random.values(rows * n, scale));
        let wide = self.shape.channels();
        Ok(Rows { key: values(wide)?, value: values(self.shape.width)?, x: values(wide)? })
    }

    fn call<B: Backend>(
        &self,
        backend: &mut B,
        vectors: &Vectors<B::Vector>,
        window: &Window,
        (rows, state): (&mut Rows<B::Buffer>, &mut B::PleState),
    ) {
        let input = PleInput { key: &rows.key, value: &rows.value, state };
        backend.ple_mix(&self.shape, &vectors.weights(), window, input, &mut rows.x);
    }
}

impl Op for Ngram {
    fn name(&self) -> String {
        let PleShape { streams, width, kernel, dilation, .. } = self.shape;
        format!("ple_mix/{streams}x{width}c{kernel}d{dilation}/T{}", self.rows)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    /// The history read and written, and the small weights.
    fn cost(&self) -> Cost {
        let (wide, kernel) = (self.shape.channels(), self.shape.kernel);
        let bytes = 8 * self.shape.conv_len() + 4 * wide * (3 + kernel);
        let per_row = wide * (2 * kernel + 14);
        Cost { bytes: bytes as u64, ops: (self.rows * per_row) as u64 }
    }

    fn inputs(&self) -> &'static [Input] {
        Input::SCALED
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let vectors = self.vectors(backend)?;
        let mut random = Random::new(12);
        let mut state = backend.new_ple_state(&self.shape, SLOTS, DEFERRED)?;
        let wide = self.shape.channels();
        let mut results = Vec::new();
        for window in windows(self.rows) {
            let mut rows = self.inputs_of(backend, (window.rows(), input.scale()), &mut random)?;
            self.call(backend, &vectors, &window, (&mut rows, &mut state));
            let mut values = vec![0.0; window.rows() * wide];
            backend.download(&rows.x, &mut values)?;
            results.push(Output::new("x", wide, values));
        }
        for slot in 0..SLOTS {
            results.push(Output::new("history", wide, backend.export_ple(&state, slot)));
        }
        Ok(results)
    }

    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let vectors = self.vectors(backend)?;
        let slots = copies(4 * self.shape.conv_len(), cold);
        let mut state = backend.new_ple_state(&self.shape, slots, 0)?;
        let mut rows = self.inputs_of(backend, (self.rows, 1.0), &mut Random::new(12))?;
        Ok(Box::new(move |backend, i| {
            let window = window(&[(i % slots, i / slots * self.rows, self.rows)]);
            self.call(backend, &vectors, &window, (&mut rows, &mut state));
            Ok(())
        }))
    }
}
