//! The case: an operation with its sizes, which knows its inputs, what to expect, the error that is
//! allowed, and how many bytes and operations it takes.

use crate::bound::Bound;
use crate::compare::{Expected, Fault, Worst, compare};
use crate::memory::Output;
use crate::ops::{
    Attention, DeltaRule, DraftInput, Experts, HcStep, HyperConnection, Matmul, Ngram, Sampling,
};
use crate::timing::{Budget, Measured, measure};
use crate::{Cost, Input};
use kernels::reference::Reference;
use kernels::tiles::{Product, Shape};
use kernels::{Backend, Error};

/// f32 sums of up to some thousand terms against f64 sums, through a few operations in a row: each
/// leaves a relative error of some 1e-7 to 1e-6, of the largest magnitude of the output where terms
/// cancel.
pub(crate) const F32_SHARE: f64 = 2e-5;

/// One call of a prepared operation; the argument counts the calls, so that weights can take turns.
pub(crate) type Call<'a, B> = Box<dyn FnMut(&mut B, usize) -> Result<(), Error> + 'a>;

/// What each operation says of itself.
pub(crate) trait Op {
    fn name(&self) -> String;

    /// Rows of the window.
    fn rows(&self) -> usize;

    /// Bytes and operations of one call.
    fn cost(&self) -> Cost;

    /// How far a device may be off, in words.
    fn bound(&self) -> Bound {
        Bound::Share
    }

    /// What it is checked with.
    fn inputs(&self) -> &'static [Input];

    /// Runs it on poisoned outputs.
    fn run<B: Backend>(&self, backend: &mut B, input: Input) -> Result<Vec<Output>, Error>;

    /// What the reference gives, and how far a device may be off.
    fn expected(&self, input: Input) -> Result<Vec<Expected>, Error> {
        let outputs = self.run(&mut Reference, input)?;
        Ok(outputs.into_iter().map(|output| Expected::within(output, F32_SHARE)).collect())
    }

    /// Checks beyond those of the values.
    fn check_more<B: Backend>(&self, _backend: &mut B) -> Result<(), Fault> {
        Ok(())
    }

    /// Makes the calls that are timed. They take turns over at least `cold` bytes of weights or
    /// states.
    fn prepare<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error>;
}

/// A kernel with its sizes: parity test and benchmark in one.
#[derive(Clone, Debug)]
pub enum OpCase {
    /// Matrix times rows.
    Matmul(Matmul),
    /// A projection of the routed experts.
    Experts(Experts),
    /// A step of a Gated DeltaNet layer.
    DeltaRule(DeltaRule),
    /// Reading from or injecting into the residual streams.
    HyperConnection(HyperConnection),
    /// Sparse or dense attention.
    Attention(Attention),
    /// Mixing of the n-gram features.
    Ngram(Ngram),
    /// Input of the drafting block.
    DraftInput(DraftInput),
    /// Best token.
    Sampling(Sampling),
}

/// Does `$do` with the operation inside the case.
macro_rules! each {
    ($case:expr, $op:ident => $do:expr) => {
        match $case {
            OpCase::Matmul($op) => $do,
            OpCase::Experts($op) => $do,
            OpCase::DeltaRule($op) => $do,
            OpCase::HyperConnection($op) => $do,
            OpCase::Attention($op) => $do,
            OpCase::Ngram($op) => $do,
            OpCase::DraftInput($op) => $do,
            OpCase::Sampling($op) => $do,
        }
    };
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{case} on {device}: {fault}")]
pub struct Miss {
    /// Name of the case.
    pub case: String,
    /// Name of the device.
    pub device: &'static str,
    /// What is wrong.
    pub fault: Box<Fault>,
}

impl OpCase {
    /// Family, format, shape, rows and activations, as in `gemv/IQ3_S/2560x10240/T4/int8`.
    pub fn name(&self) -> String {
        each!(self, op => op.name())
    }

    /// Rows of the window (T).
    pub fn rows(&self) -> usize {
        each!(self, op => op.rows())
    }

    /// Bytes and operations of one call.
    pub fn cost(&self) -> Cost {
        each!(self, op => op.cost())
    }

    /// The operation: what the name begins with, `gemv`.
    pub fn family(&self) -> String {
        self.name().split('/').next().unwrap_or_default().to_owned()
    }

    /// Format of the weights, or of keys and values; none for operations on f32 alone.
    pub fn format(&self) -> Option<&'static str> {
        match self {
            Self::Matmul(op) => Some(op.ty.name()),
            Self::Experts(op) => Some(op.ty.name()),
            Self::HyperConnection(op) if op.step == HcStep::Read => Some(op.ty.name()),
            Self::Attention(op) => Some(op.kv.name()),
            Self::HyperConnection(_)
            | Self::DeltaRule(_)
            | Self::Ngram(_)
            | Self::DraftInput(_)
            | Self::Sampling(_) => None,
        }
    }

    /// How far a device may be off.
    pub fn bound(&self) -> Bound {
        each!(self, op => op.bound())
    }

    /// What a tile of the operation is chosen by, for those that have tiles.
    pub fn shape(&self) -> Option<Shape> {
        let (product, ty, activations, n_in, n_out) = match self {
            Self::Matmul(op) => (Product::Matrix, op.ty, op.activations, op.n_in, op.n_out),
            Self::Experts(op) => (Product::Experts, op.ty, op.activations, op.n_in, op.n_out),
            _ => return None,
        };
        Some(Shape { product, ty, activations, n_in, n_out })
    }

    /// Holds the device against the reference on every kind of input.
    ///
    /// # Errors
    /// [`Miss`], naming the worst value of the first output that is wrong, or the error of a device
    /// that refuses the case.
    pub fn check<B: Backend>(&self, backend: &mut B) -> Result<Worst, Miss> {
        let checked = self.answers().map_err(Fault::from);
        checked.and_then(|answers| self.check_against(&answers, backend)).map_err(|fault| Miss {
            case: self.name(),
            device: backend.name(),
            fault: Box::new(fault),
        })
    }

    /// What the reference gives on every kind of input.
    ///
    /// # Errors
    /// Memory that is short, or sizes that do not fit together.
    pub(crate) fn answers(&self) -> Result<Answers, Error> {
        each!(self, op => answers(op))
    }

    /// As [`OpCase::check`], with what the reference gives.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check_against<B: Backend>(
        &self,
        answers: &Answers,
        backend: &mut B,
    ) -> Result<Worst, Fault> {
        each!(self, op => check(op, answers, backend))
    }

    /// Everything that it gives.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn outputs<B: Backend>(
        &self,
        backend: &mut B,
        input: Input,
    ) -> Result<Vec<Output>, Error> {
        each!(self, op => op.run(backend, input))
    }

    /// The bits of everything that it gives, for a comparison of two ways to compute it.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn bits<B: Backend>(
        &self,
        backend: &mut B,
        input: Input,
    ) -> Result<Vec<u32>, Error> {
        let outputs = self.outputs(backend, input)?;
        Ok(outputs.iter().flat_map(|out| &out.values).map(|value| value.to_bits()).collect())
    }

    /// Calls to be timed, which take turns over at least `cold` bytes of weights or states.
    ///
    /// # Errors
    /// As for [`OpCase::bench`].
    pub(crate) fn prepared<'a, B: Backend + 'a>(
        &'a self,
        backend: &mut B,
        cold: usize,
    ) -> Result<Call<'a, B>, Error> {
        each!(self, op => op.prepare(backend, cold))
    }

    /// Times the operation.
    ///
    /// # Errors
    /// Those of the device: a format without a kernel, or memory that is short.
    pub fn bench<B: Backend>(&self, backend: &mut B, budget: &Budget) -> Result<Measured, Error> {
        each!(self, op => {
            let mut call = op.prepare(backend, budget.cold_bytes)?;
            measure(backend, budget, op.cost(), &mut call)
        })
    }
}

/// What the reference gives on every kind of input, made once for any number of devices.
#[derive(Debug)]
pub(crate) struct Answers(Vec<(Input, Vec<Expected>)>);

fn answers<O: Op>(op: &O) -> Result<Answers, Error> {
    let answer = |&input: &Input| Ok((input, op.expected(input)?));
    Ok(Answers(op.inputs().iter().map(answer).collect::<Result<_, Error>>()?))
}

fn check<O: Op, B: Backend>(op: &O, answers: &Answers, backend: &mut B) -> Result<Worst, Fault> {
    let mut worst: Option<Worst> = None;
    for (input, expected) in &answers.0 {
        let found = op.run(backend, *input)?;
        for (found, expected) in found.iter().zip(expected) {
            let here = compare(*input, found, expected)?;
            if here.as_ref().map(|w| w.share) > worst.as_ref().map(|w| w.share) {
                worst = here;
            }
        }
    }
    op.check_more(backend)?;
    worst.ok_or_else(|| Fault::Device("the case has no finite value to compare".to_owned()))
}
