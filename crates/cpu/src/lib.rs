//! The kernel families on CPU.
//!
//! [`Cpu`] is a [`kernels::Backend`]: weights stay in the mapped file, or are copied in the order of
//! reading ([`Interleave`]), and are decoded a few rows at a time, once per window, into what stays
//! in the cache: signed bytes where activations may be brought to 8 bits ([`int8`]), f32 elsewhere
//! ([`simd`]). All cores take part through one [`pool::Pool`]. The instruction set is chosen at run
//! time ([`Isa::detect`]).
//!
//! Why a row's bits depend on nothing else in the window: every sum runs in an order fixed by the
//! row length and the instruction set, work is split between threads by output value only, and rows
//! of tokens never share an accumulator.

mod allocator;
mod bandwidth;
mod cores;
mod device;
mod int8;
mod interleaved;
mod isa;
mod ops;
pub mod pool;
mod share;
mod simd;
mod tiles;

pub use allocator::LineAllocator;
pub use bandwidth::Bandwidth;
pub use device::{Cpu, CpuMatrix, CpuOptions};
pub use interleaved::Interleave;
pub use isa::Isa;
