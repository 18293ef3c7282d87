//! Runs a loop that is written over [`MathLanes`] with the instruction set of a [`Kernels`].
//!
//! The loop is compiled once per instruction set, inside a function that enables it. So a new loop
//! is one type with one method, and nothing is listed anywhere.

use super::{Kernels, MathLanes, lanes};
use crate::Isa;

/// A loop over any vector type, with its operands.
pub(crate) trait Loop {
    type Out;

    /// Runs it. Implementations are `#[inline(always)]`, else they would be compiled without the
    /// instruction set.
    ///
    /// # Safety
    /// The instruction set of `L` must be enabled in the caller.
    unsafe fn run<L: MathLanes>(self) -> Self::Out;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<T: Loop>(work: T) -> T::Out {
    // SAFETY: the instruction set is enabled on this function.
    unsafe { work.run::<lanes::Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<T: Loop>(work: T) -> T::Out {
    // SAFETY: the instruction set is enabled on this function.
    unsafe { work.run::<lanes::Avx512>() }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon<T: Loop>(work: T) -> T::Out {
    // SAFETY: the instruction set is enabled on this function.
    unsafe { work.run::<lanes::Neon>() }
}

impl Kernels {
    /// Runs a loop.
    #[inline]
    pub(crate) fn run<T: Loop>(&self, work: T) -> T::Out {
        // SAFETY: the processor has the instruction set of this table.
        unsafe {
            match self.isa {
                Isa::Portable => work.run::<lanes::Portable>(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::AvxVnni => avx2(work),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni => avx512(work),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot | Isa::NeonI8mm => neon(work),
            }
        }
    }
}
