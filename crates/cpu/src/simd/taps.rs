//! The taps of a convolution, turned so that those of many channels lie side by side.

use super::Kernels;
use super::dispatch::Loop;
use super::math_lanes::MathLanes;

struct Transpose<'a> {
    taps: &'a [f32],
    kernel: usize,
    out: &'a mut [f32],
}

impl Loop for Transpose<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<L: MathLanes>(self) {
        let Self { taps, kernel, out } = self;
        assert_eq!(taps.len(), out.len());
        let channels = taps.len() / kernel;
        let mut c = 0;
        if kernel == 4 {
            while c + L::WIDTH <= channels {
                // SAFETY: channels `c..c + WIDTH` have `4 * WIDTH` taps, and each row of `out` a
                // place for every channel.
                unsafe {
                    let turned = L::deinterleave(taps.as_ptr().add(4 * c));
                    for (k, row) in turned.into_iter().enumerate() {
                        L::store(out.as_mut_ptr().add(k * channels + c), row);
                    }
                }
                c += L::WIDTH;
            }
        }
        for c in c..channels {
            for k in 0..kernel {
                out[k * channels + c] = taps[c * kernel + k];
            }
        }
    }
}

impl Kernels {
    /// `out[k][c] = taps[c][k]`: `taps` is `[channels, kernel]`.
    pub(crate) fn transpose_taps(&self, taps: &[f32], kernel: usize, out: &mut [f32]) {
        self.run(Transpose { taps, kernel, out });
    }
}
