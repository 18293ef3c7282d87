//! Reading base files, and comparing with them.

use super::{Header, KIND, MOST_DRAWS};
use crate::binary::{Checksum, FileError, SumReader};
use crate::kld::compare::{check_vocab, tell};
use crate::kld::kept::{Kept, Tail};
use crate::kld::predictor::{Predictor, check_finite, steps};
use crate::kld::softmax::{Scale, Softmax};
use crate::kld::{Cut, Error, Keep, Score, Side, Watch};
use engine::Want;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// A base file, read up to the end of its header.
#[derive(Debug)]
pub struct Base {
    path: PathBuf,
    header: Header,
    reader: SumReader<BufReader<File>>,
}

/// The whole passages of a file.
pub(crate) struct Whole {
    pub(crate) passages: usize,
    /// Where the last of them ends.
    pub(crate) end: u64,
    /// Of all bytes up to there.
    pub(crate) sum: Checksum,
}

impl Base {
    /// Opens a complete base file: all of it is checked.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Incomplete`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut base = Self::read(path)?;
        let (mut done, all) = (0, base.header.passages());
        while done < all && base.reader.left() > 0 {
            match base.check_passage(done) {
                Ok(()) => done += 1,
                Err(FileError::Cut { .. }) => break,
                Err(other) => return Err(other.into()),
            }
        }
        if done < all {
            return Err(Error::Incomplete { done, all });
        }
        base.reader.check_end()?;
        Self::read(path)
    }

    /// Opens a file that need not be complete.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(FileError::from)?;
        let len = file.metadata().map_err(FileError::from)?.len();
        let mut reader = SumReader::begin(BufReader::with_capacity(1 << 20, file), len, &KIND)?;
        let header = header(&mut reader)?;
        Ok(Self { path: path.to_owned(), header, reader })
    }

    /// What it is of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads passages as long as they are whole.
    pub(crate) fn whole(&mut self) -> Result<Whole, Error> {
        let here = |base: &Self, passages| Whole {
            passages,
            end: base.reader.at(),
            sum: base.reader.sum(),
        };
        let mut whole = here(self, 0);
        while whole.passages < self.header.passages() {
            match self.check_passage(whole.passages) {
                Ok(()) => whole = here(self, whole.passages + 1),
                Err(FileError::Io(error)) => return Err(FileError::Io(error).into()),
                // Cut or damaged from here on: computed again.
                Err(_) => break,
            }
        }
        Ok(whole)
    }

    fn check_passage(&mut self, n: usize) -> Result<(), FileError> {
        self.begin_passage(n)?;
        for _ in self.header.cut().scored() {
            self.position()?;
        }
        self.end_passage()
    }

    fn begin_passage(&mut self, n: usize) -> Result<(), FileError> {
        let what = "the number of a passage";
        let found = self.reader.u32(what)?;
        if found as usize == n { Ok(()) } else { Err(self.reader.bad(what, &found)) }
    }

    fn end_passage(&mut self) -> Result<(), FileError> {
        self.reader.check_seal("a passage")
    }

    fn position(&mut self) -> Result<Kept, FileError> {
        let (reader, vocab) = (&mut self.reader, self.header.vocab);
        let largest = reader.f32("the largest logit")?;
        let what = "the sum over a vocabulary";
        let ln_total = reader.f64(what)?;
        if ln_total < 0.0 {
            return Err(reader.bad(what, &ln_total));
        }
        let next = reader.f32("the logit of the next token")?;
        let tokens = tokens(reader, vocab)?;
        if !tokens.iter().any(|(_, logit)| *logit == largest) {
            return Err(reader.bad("the largest logit", &largest));
        }
        let tail = tail(reader, vocab, self.header.keep.draws)?;
        Ok(Kept { scale: Scale { largest, ln_total }, next, tokens, tail })
    }
}

/// The tokens that are kept one by one.
fn tokens(reader: &mut SumReader<impl Read>, vocab: usize) -> Result<Vec<(u32, f32)>, FileError> {
    let what = "the number of kept tokens";
    let count = reader.u32(what)? as usize;
    if count == 0 || count > vocab {
        return Err(reader.bad(what, &count));
    }
    // Each has at least a byte of its id and four of its logit.
    reader.expect(5 * count as u64, "the kept tokens")?;
    let (mut tokens, mut next) = (Vec::with_capacity(count), 0u64);
    for _ in 0..count {
        let id = next + u64::from(reader.varint("a token id")?);
        if id >= vocab as u64 {
            return Err(reader.bad("a token id", &id));
        }
        tokens.push((id as u32, 0.0));
        next = id + 1;
    }
    for (_, logit) in &mut tokens {
        *logit = reader.f32("a logit")?;
    }
    Ok(tokens)
}

fn tail(
    reader: &mut SumReader<impl Read>,
    vocab: usize,
    draws: u32,
) -> Result<Option<Tail>, FileError> {
    let what = "the mass of a tail";
    let mass = reader.f64(what)?;
    if mass == 0.0 {
        return Ok(None);
    }
    // Rounding may take it a little over 1.
    if !(0.0..1.000001).contains(&mass) {
        return Err(reader.bad(what, &mass));
    }
    let p_ln_p = reader.f64("the sum of p ln p")?;
    let mut drawn = Vec::with_capacity(draws as usize);
    for _ in 0..draws {
        let id = reader.u32("a drawn token")?;
        if id as usize >= vocab {
            return Err(reader.bad("a drawn token", &id));
        }
        drawn.push((id, reader.f32("the logit of a drawn token")?));
    }
    Ok(Some(Tail { mass, p_ln_p, drawn }))
}

fn header(reader: &mut SumReader<impl Read>) -> Result<Header, FileError> {
    let vocab = reader.u32("the vocabulary's size")?;
    let vocabulary = reader.u64("the fingerprint of a vocabulary")?;
    let model = reader.u64("the fingerprint of a model")?;
    let (ctx, skip) = (reader.u32("a passage's length")?, reader.u32("what is not scored")?);
    let tail = reader.f64("the share of tails")?;
    let draws = reader.u32("the number of draws")?;
    if draws > MOST_DRAWS {
        return Err(reader.bad("the number of draws", &draws));
    }
    let about = reader.text("the description of a model")?;
    let passages = reader.u32("the number of passages")?;
    let cut = Cut { ctx: ctx as usize, skip: skip as usize, most: None };
    let count = u64::from(passages) * u64::from(ctx);
    if passages == 0 || cut.passages(usize::try_from(count).unwrap_or(0)).is_err() {
        return Err(reader.bad("the number of passages or their length", &passages));
    }
    reader.expect(count.saturating_mul(4), "the text")?;
    let mut tokens = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let token = reader.u32("a token of the text")?;
        if token >= vocab {
            return Err(reader.bad("a token of the text", &token));
        }
        tokens.push(token);
    }
    reader.check_seal("the header")?;
    let (vocab, ctx, skip) = (vocab as usize, ctx as usize, skip as usize);
    let keep = Keep { tail, draws };
    Ok(Header { vocab, vocabulary, model, about, ctx, skip, keep, tokens })
}

/// Scores every position of a base file by what `b`, with a vocabulary of this fingerprint,
/// predicts there; `watch` is told how many tokens of the passages are done.
///
/// # Errors
/// [`Error`].
pub fn compare(
    mut base: Base,
    b: &mut dyn Predictor,
    vocabulary: u64,
    watch: &mut Watch<'_>,
) -> Result<Vec<Score>, Error> {
    let (cut, vocab) = (base.header.cut(), base.header.vocab);
    check_vocab(vocab, b.vocab())?;
    if vocabulary != base.header.vocabulary {
        return Err(Error::Vocabulary { a: vocab, b: b.vocab() });
    }
    let steps = steps(&cut, b.chunk(), vocab);
    let (mut scores, mut logits, mut row) = (Vec::new(), Vec::new(), Softmax::default());
    for n in 0..base.header.passages() {
        let tokens = base.header.tokens[cut.tokens(n)].to_vec();
        base.begin_passage(n)?;
        b.begin()?;
        for step in &steps {
            b.feed(&tokens[step.start..][..step.len], step.want, &mut logits)?;
            if step.want == Want::All {
                for (at, logits) in (step.start..).zip(logits.chunks_exact(vocab)) {
                    check_finite(logits, Side::B, (n, at))?;
                    row.set(logits);
                    scores.push(base.position()?.compare(&row, tokens[at + 1]));
                }
            }
            tell(watch, n * cut.ctx + step.start + step.len)?;
        }
        base.end_passage()?;
    }
    Ok(scores)
}
