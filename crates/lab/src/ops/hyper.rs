//! Reading from and injecting into the residual streams (family `hc`).

use super::{activations_name, copies};
use crate::blocks::{Rows, weight};
use crate::bound::{Bound, INT8_GROUP, Inexact, sizes};
use crate::case::{Call, F32_SHARE, Op};
use crate::compare::Expected;
use crate::memory::{Output, poisoned, upload, vector};
use crate::{Cost, Input, Random};
use gguf::TensorType;
use kernels::hc::HcRead;
use kernels::reference::Reference;
use kernels::scalar::silu;
use kernels::weight::WeightShape;
use kernels::{Activations, Backend, Error, Gemv, HcShape, HcWeights, Weight};

/// Which half of a hyper-connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HcStep {
    /// Norm, low-rank mix, write weights.
    Read,
    /// Weighted sum into the streams.
    Inject,
}

/// One half of a hyper-connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperConnection {
    /// Which.
    pub step: HcStep,
    /// Sizes of the residual.
    pub shape: HcShape,
    /// Rank of the mix.
    pub rank: usize,
    /// Format of the down and up matrices.
    pub ty: TensorType,
    /// Rows of the window (T).
    pub rows: usize,
    /// What the down and up matrices are loaded for; the write weights are always exact.
    pub activations: Activations,
}

/// Loaded weights of a read.
struct Loaded<B: Backend> {
    norm: B::Vector,
    down: B::Matrix,
    up: B::Matrix,
    inject: B::Matrix,
}

impl HyperConnection {
    fn wide(&self) -> usize {
        self.shape.streams * self.shape.width
    }

    fn matrix(&self, n_in: usize, n_out: usize) -> Result<Weight, Error> {
        weight(self.ty, WeightShape { n_in, n_out, experts: 1 }, Rows::Usual)
    }

    /// The same value for each 32, so that streams of one magnitude are exact in 8 bits.
    fn norm(&self) -> Vec<f32> {
        let groups = self.wide().div_ceil(INT8_GROUP);
        let values = Random::new(11).values(groups, 0.05).into_iter();
        let groups = values.map(|v| if v < 0.0 { v - 0.05 } else { v + 0.05 });
        groups.flat_map(|v| [v; INT8_GROUP]).take(self.wide()).collect()
    }

    fn load<B: Backend>(&self, backend: &mut B) -> Result<Loaded<B>, Error> {
        let (wide, rank) = (self.wide(), self.rank);
        let inject = WeightShape { n_in: wide, n_out: self.shape.streams, experts: 1 };
        let inject = weight(TensorType::F32, inject, Rows::Usual)?;
        Ok(Loaded {
            norm: vector(backend, &self.norm())?,
            down: backend.load_matrix(&self.matrix(wide, rank)?, self.activations)?,
            up: backend.load_matrix(&self.matrix(rank, wide)?, self.activations)?,
            inject: backend.load_matrix(&inject, Activations::F32)?,
        })
    }

    fn streams(&self, input: Input) -> Vec<f32> {
        let x = input.rows(self.rows, self.wide());
        match input {
            // One magnitude, so the normalised groups are exact in 8 bits.
            Input::EightBit => x.iter().map(|x| 1f32.copysign(*x)).collect(),
            _ => x,
        }
    }

    fn read<B: Backend>(
        &self,
        backend: &mut B,
        loaded: &Loaded<B>,
        x: &B::Buffer,
        out: HcRead<'_, B::Buffer>,
    ) {
        let Loaded { norm, down, up, inject } = loaded;
        let w = HcWeights::<B::Matrix, B::Vector> { norm, down, up, inject: Some(inject) };
        backend.hc_read(&self.shape, &w, x, self.rows, out);
    }

    /// What 8 bits may add to the error of `u`. With the slopes of silu (under 1.1) and of sigma
    /// (at most 1/4):
    ///
    /// ```text
    /// off(low)  = 1.1 / S * off(down . n)
    /// off(gate) = 1/4 * off(up . low)          low itself being off
    /// off(u)    = 1/S * sum over s of |n[s]| * off(gate[s])
    /// ```
    ///
    /// Two worst cases in a row are far from the usual error, so of the reads in 8 bits this sees
    /// only what is wrong by more than some percent; the read in f32 is held to [`F32_SHARE`].
    fn eight_bit_share(&self, input: Input) -> Result<Vec<f64>, Error> {
        let HcShape { streams, width, eps } = self.shape;
        let (wide, s) = (self.wide(), streams as f64);
        let (down, up) = (self.matrix(wide, self.rank)?, self.matrix(self.rank, wide)?);
        let down_sizes: Vec<_> = (0..self.rank).map(|row| sizes(&down, row)).collect();
        let up_sizes: Vec<_> = (0..wide).map(|row| sizes(&up, row)).collect();
        let norm = self.norm();
        let mut bounds = Vec::new();
        for x in self.streams(input).chunks_exact(wide) {
            let mut n = Vec::with_capacity(wide);
            for (x, norm) in x.chunks_exact(width).zip(norm.chunks_exact(width)) {
                let square: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                let scale = 1.0 / (square / width as f64 + f64::from(eps)).sqrt();
                n.extend(x.iter().zip(norm).map(|(x, w)| (f64::from(*x) * scale) as f32 * w));
            }
            let mut low = vec![0.0; self.rank];
            Reference.matmul(&down, &n, 1, &mut low);
            low.iter_mut().for_each(|v| *v = silu(*v / streams as f32));
            let seen = Inexact::new(&n, input.precision(self.activations));
            let off_low: Vec<f64> =
                down_sizes.iter().map(|sizes| 1.1 / s * seen.product_bound(sizes)).collect();
            let seen = Inexact::with_error(&low, &off_low, self.activations);
            let mut off = vec![0.0; width];
            for (i, (sizes, n)) in up_sizes.iter().zip(&n).enumerate() {
                off[i % width] += f64::from(n.abs()) * seen.product_bound(sizes) / 4.0 / s;
            }
            bounds.extend(off);
        }
        Ok(bounds)
    }
}

impl Op for HyperConnection {
    fn name(&self) -> String {
        let Self { ty, rank, rows, activations, shape, .. } = self;
        let (streams, width) = (shape.streams, shape.width);
        match self.step {
            HcStep::Read => {
                let (ty, activations) = (ty.name(), activations_name(*activations));
                format!("hc_read/{ty}/{streams}x{width}r{rank}/T{rows}/{activations}")
            }
            HcStep::Inject => format!("hc_inject/{streams}x{width}/T{rows}"),
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cost(&self) -> Cost {
        let (wide, rows) = (self.wide(), self.rows as u64);
        let per_row = self.rank / self.ty.block_elements() * self.ty.block_bytes();
        let down = self.wide() / self.ty.block_elements() * self.ty.block_bytes() * self.rank;
        match self.step {
            HcStep::Read => Cost {
                bytes: (down + per_row * wide + wide * self.shape.streams * 4) as u64,
                ops: 2 * rows * (wide * (2 * self.rank + self.shape.streams)) as u64,
            },
            HcStep::Inject => Cost { bytes: 8 * rows * wide as u64, ops: 2 * rows * wide as u64 },
        }
    }

    fn bound(&self) -> Bound {
        match (self.step, self.activations) {
            (HcStep::Read, Activations::Int8) => Bound::Share8,
            _ => Bound::Share,
        }
    }

    fn inputs(&self) -> &'static [Input] {
        match self.step {
            HcStep::Read => &[Input::Uniform, Input::EightBit],
            HcStep::Inject => Input::SCALED,
        }
    }

    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error> {
        let HcShape { streams, width, .. } = self.shape;
        let mut x = upload(backend, &self.streams(input))?;
        let rows = self.rows;
        match self.step {
            HcStep::Read => {
                let loaded = self.load(backend)?;
                let mut u = poisoned(backend, rows * width)?;
                let mut weights = poisoned(backend, rows * streams)?;
                let out = HcRead { u: &mut u, weights: &mut weights };
                self.read(backend, &loaded, &x, out);
                let u = Output::fetch(backend, &u, ("u", width, rows * width))?;
                let sizes = ("weights", streams, rows * streams);
                Ok(vec![u, Output::fetch(backend, &weights, sizes)?])
            }
            HcStep::Inject => {
                let weights = upload(backend, &Input::Uniform.rows(rows, streams))?;
                let y = upload(backend, &input.rows(rows, width))?;
                backend.hc_inject(&self.shape, &weights, &y, rows, &mut x);
                let mut values = vec![0.0; rows * self.wide()];
                backend.download(&x, &mut values)?;
                Ok(vec![Output::new("x", self.wide(), values)])
            }
        }
    }

    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let outputs = self.run(&mut Reference, input)?.into_iter();
        let mut expected: Vec<_> =
            outputs.map(|output| Expected::within(output, F32_SHARE)).collect();
        if self.step == HcStep::Read && self.activations == Activations::Int8 {
            let more = self.eight_bit_share(input)?;
            expected[0].bounds.iter_mut().zip(more).for_each(|(bound, more)| *bound += more);
        }
        Ok(expected)
    }

    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        let HcShape { streams, width, .. } = self.shape;
        let mut x = upload(backend, &self.streams(Input::Uniform))?;
        let mut u = upload(backend, &Input::Uniform.rows(self.rows, width))?;
        let mut weights = upload(backend, &Input::Uniform.rows(self.rows, streams))?;
        if self.step == HcStep::Inject {
            // Activations stay in the caches, as they do in a forward pass.
            return Ok(Box::new(move |backend, _| {
                backend.hc_inject(&self.shape, &weights, &u, self.rows, &mut x);
                Ok(())
            }));
        }
        let loaded = (0..copies(self.cost().bytes as usize, cold))
            .map(|_| self.load(backend))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(move |backend, i| {
            let out = HcRead { u: &mut u, weights: &mut weights };
            self.read(backend, &loaded[i % loaded.len()], &x, out);
            Ok(())
        }))
    }
}
