//! A backend that notes where the time goes: it hands every operation on to another backend and
//! adds up, per part of the model, the time it took and the bytes it had to move.
//!
//! The forward pass knows nothing of it, and an engine without it pays nothing. With it, each
//! operation costs two looks at the clock.

mod device;
mod families;
mod part;

pub use part::{Cost, Group, Part, Profile};

use kernels::Backend;
use kernels::host::{Plan, QsaState, Selection};
use part::Moved;
use std::time::Instant;

/// A backend whose operations are done when they return, and whose plans, selections and caches can
/// be looked at: how long they take and what they read is known on the host.
pub trait HostBackend:
    Backend<Vector = Vec<f32>, Plan = Plan, Selection = Selection, QsaState = QsaState>
{
}

impl<B> HostBackend for B where
    B: Backend<Vector = Vec<f32>, Plan = Plan, Selection = Selection, QsaState = QsaState>
{
}

/// The backend `B` with a record of what its operations took.
#[derive(Debug)]
pub struct Timed<B> {
    inner: B,
    profile: Profile,
}

/// A matrix that knows what it is for and how large it is.
#[derive(Debug)]
pub struct TimedMatrix<M> {
    inner: M,
    part: Part,
    row_bytes: usize,
    /// Bytes of one expert; of the whole matrix if there are none.
    expert_bytes: usize,
}

impl<B> Timed<B> {
    /// Starts with an empty record.
    pub fn new(inner: B) -> Self {
        Self { inner, profile: Profile::default() }
    }

    /// What was recorded since the last call.
    pub fn take_profile(&mut self) -> Profile {
        std::mem::take(&mut self.profile)
    }

    /// Does `call` and adds what it took to `part`.
    fn timed<T>(&mut self, part: Part, moved: Moved, call: impl FnOnce(&mut B) -> T) -> T {
        let started = Instant::now();
        let result = call(&mut self.inner);
        self.profile.add(part, started.elapsed(), moved);
        result
    }
}

/// Bytes of so many f32.
fn f32_bytes(values: usize) -> usize {
    values * size_of::<f32>()
}

impl Moved {
    fn weights(bytes: usize) -> Self {
        Self { weights: bytes, state: 0 }
    }

    fn nothing() -> Self {
        Self::default()
    }
}
