//! How the hash constants of an n-gram table follow from a seed.
//!
//! A file carries its constants, and the file's are the ones used. The derivation makes the
//! constants of a new table, and lets one check that a file's are the usual ones.

use crate::error::Error;
use crate::sizes::{MAX_HEADS, MAX_NGRAM};

/// The golden-ratio increment of splitmix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Distance between the seeds of two PLE layers.
const LAYER_STRIDE: u64 = 10007;
/// Largest first prime: keeps trial division short.
const MAX_BASE: u64 = 1 << 32;

/// What the constants of a table are derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSeed {
    /// Seed of the multipliers (1234 in the released model).
    pub seed: u64,
    /// Vocabulary size; bounds the multipliers so that `token * multiplier` stays below 2^63.
    pub vocab: u64,
    /// Longest n-gram, 2 to [`MAX_NGRAM`].
    pub ngram: usize,
    /// Hash heads per n-gram size.
    pub heads_per_ngram: usize,
    /// The heads' sizes are the consecutive primes from here on.
    pub base: u64,
    /// Number of this PLE layer in the list of PLE layers.
    pub layer_number: usize,
}

/// The constants of one n-gram table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashConstants {
    /// One multiplier per history entry, the current token first.
    pub multipliers: Vec<u64>,
    /// First table row of each head: the running sum of `sizes`.
    pub offsets: Vec<u64>,
    /// Rows of each head.
    pub sizes: Vec<u64>,
}

impl HashSeed {
    /// Derives the constants.
    ///
    /// # Errors
    /// [`Error::Value`] if a field is outside the range that its comment gives.
    pub fn derive(&self) -> Result<HashConstants, Error> {
        let heads = self.check()?;
        let sizes = primes(self.base, heads * self.layer_number, heads);
        let mut end = 0;
        let offsets = sizes.iter().map(|size| {
            let start = end;
            end += size;
            start
        });
        Ok(HashConstants {
            multipliers: (0..self.ngram).map(|i| self.multiplier(i)).collect(),
            offsets: offsets.collect(),
            sizes,
        })
    }

    /// Checks every field; the number of heads.
    fn check(&self) -> Result<usize, Error> {
        let ngram = self.ngram as u64;
        Error::check_range("ngram", ngram, 2..=MAX_NGRAM as u64)?;
        Error::check_range("heads_per_ngram", self.heads_per_ngram as u64, 1..=MAX_HEADS as u64)?;
        Error::check_range("base", self.base, 2..=MAX_BASE)?;
        Error::check_range("vocab", self.vocab, 1..=1 << 32)?;
        Error::check_range("layer_number", self.layer_number as u64, 0..=63)?;
        Ok((self.ngram - 1) * self.heads_per_ngram)
    }

    /// The odd multiplier of history entry `i`.
    fn multiplier(&self, i: usize) -> u64 {
        let half = (i64::MAX as u64 / self.vocab / 2).max(1);
        let start = self.seed.wrapping_add(LAYER_STRIDE.wrapping_mul(self.layer_number as u64));
        let state = start.wrapping_add(GOLDEN.wrapping_mul(i as u64 + 1));
        2 * (mix64(state) % half) + 1
    }
}

/// One output step of splitmix64 from the state `v`.
fn mix64(v: u64) -> u64 {
    let mut z = v.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `count` consecutive primes at or above `base`, after skipping `skip` of them.
fn primes(base: u64, skip: usize, count: usize) -> Vec<u64> {
    (base..).filter(|n| is_prime(*n)).skip(skip).take(count).collect()
}

fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}
