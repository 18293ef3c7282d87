//! A and B side by side.

use super::predictor::{Predictor, check_finite, steps};
use super::{Cut, Error, Score, Side, Watch};
use crate::divergence::Divergence;
use engine::Want;

/// Scores every position of `tokens` that `cut` says, exactly; `watch` is told how many tokens of
/// the passages are done.
///
/// # Errors
/// [`Error`]: a text that cannot be cut, vocabularies of different sizes, faults of an engine,
/// logits that are not finite, [`Error::Stopped`].
pub fn compare(
    [a, b]: [&mut dyn Predictor; 2],
    tokens: &[u32],
    cut: &Cut,
    watch: &mut Watch<'_>,
) -> Result<Vec<Score>, Error> {
    let vocab = a.vocab();
    check_vocab(vocab, b.vocab())?;
    let steps = steps(cut, a.chunk().min(b.chunk()), vocab);
    let (mut scores, mut logits) = (Vec::new(), [Vec::new(), Vec::new()]);
    for n in 0..cut.passages(tokens.len())? {
        let passage = &tokens[cut.tokens(n)];
        a.begin()?;
        b.begin()?;
        for step in &steps {
            let [of_a, of_b] = &mut logits;
            let fed = &passage[step.start..][..step.len];
            a.feed(fed, step.want, of_a)?;
            b.feed(fed, step.want, of_b)?;
            if step.want == Want::All {
                let rows = of_a.chunks_exact(vocab).zip(of_b.chunks_exact(vocab));
                for (position, (expected, found)) in (step.start..).zip(rows) {
                    check_finite(expected, Side::A, (n, position))?;
                    check_finite(found, Side::B, (n, position))?;
                    scores.push(Score::exact(found, expected, passage[position + 1]));
                }
            }
            tell(watch, n * cut.ctx + step.start + step.len)?;
        }
    }
    Ok(scores)
}

/// Whether as many tokens are known to both.
pub(crate) fn check_vocab(a: usize, b: usize) -> Result<(), Error> {
    if a == b { Ok(()) } else { Err(Error::Vocabulary { a, b }) }
}

/// Tells `watch`, and whether to go on.
pub(crate) fn tell(watch: &mut Watch<'_>, tokens: usize) -> Result<(), Error> {
    if watch(tokens).is_break() { Err(Error::Stopped) } else { Ok(()) }
}

impl Score {
    fn exact(found: &[f32], expected: &[f32], next: u32) -> Self {
        let Divergence { kl, same_top, surprise, .. } = Divergence::of(found, expected, Some(next));
        // A divergence is not negative; a sum of rounded terms can be, by some 1e-16.
        let kl = kl.max(0.0);
        Self { kl, low: kl, high: kl, same_top, surprise: surprise.unwrap_or_default() }
    }
}
