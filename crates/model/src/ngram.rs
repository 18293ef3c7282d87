//! The n-gram hash: which rows of the n-gram table a token reads.
//!
//! Row indices depend on the token and on the `ngram - 1` ids before it, nothing else. They are
//! pure functions of the ids at given positions, so a rewind, a reused prefix or a restored
//! session needs no state of its own here: look the ids up again by position.

use crate::hparams::PleParams;
use crate::sizes::MAX_NGRAM;

/// The ids that a token's hash sees: its own first, then the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    ids: [u32; MAX_NGRAM],
    len: usize,
}

impl Context {
    /// The ids, the current token first; as many as the longest n-gram has.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.len]
    }
}

/// The context of `token`, which follows the ids of `before` (oldest first, the last one is the
/// position just before the token). Only the last `ngram - 1` of them matter.
///
/// Walking back, a position before the start of the sequence or one that holds the end id makes
/// that entry and all earlier ones the end id. The token's own id cuts nothing.
#[must_use]
pub fn context(p: &PleParams, before: &[u32], token: u32) -> Context {
    let len = p.ngram.min(MAX_NGRAM);
    let mut ids = [p.eos; MAX_NGRAM];
    ids[0] = token;
    let known = before.iter().rev().take_while(|id| **id != p.eos);
    for (slot, id) in ids[..len].iter_mut().skip(1).zip(known) {
        *slot = *id;
    }
    Context { ids, len }
}

/// The context of the token at `position` of `tokens`, a sequence that starts at position 0; None
/// if there is no such position.
#[must_use]
pub fn context_at(p: &PleParams, tokens: &[u32], position: usize) -> Option<Context> {
    Some(context(p, tokens.get(..position)?, *tokens.get(position)?))
}

/// Replaces `out` by the table row of each head for one token, in head order.
///
/// With `c` the context and `m` the multipliers, the n-gram hash is the exclusive or of
/// `c[i] * m[i]` for `i < n`, in wrapping unsigned 64-bit; the row is `offset + hash % size`.
///
/// # Panics
/// If a head's size is zero; [`crate::HyperParams::from_metadata`] lets no such file through.
pub fn rows(p: &PleParams, context: &Context, out: &mut Vec<u64>) {
    out.clear();
    let products = context.ids().iter().zip(&p.multipliers);
    let mut products = products.map(|(id, m)| u64::from(*id).wrapping_mul(*m));
    let mut hash = products.next().unwrap_or(0);
    let group = p.heads_per_ngram.max(1);
    let groups = p.offsets.chunks(group).zip(p.sizes.chunks(group));
    for (product, (offsets, sizes)) in products.zip(groups) {
        hash ^= product;
        out.extend(offsets.iter().zip(sizes).map(|(offset, size)| offset + hash % size));
    }
}
