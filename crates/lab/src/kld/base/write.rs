//! Writing base files, passage by passage, and going on with one.

use super::read::Base;
use super::{Header, KIND};
use crate::binary::{Checksum, FileError, SumWriter};
use crate::kld::compare::{check_vocab, tell};
use crate::kld::kept::{Kept, Tail};
use crate::kld::predictor::{Predictor, check_finite, steps};
use crate::kld::softmax::Softmax;
use crate::kld::{Error, Side, Watch};
use engine::Want;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// A base file that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// Passages that were there before.
    pub found: usize,
    /// Passages in all.
    pub passages: usize,
    /// Size of the file.
    pub bytes: u64,
}

/// Writes what `a` predicts of the text in `header`, or goes on with a file that was begun for the
/// same. `watch` is told how many tokens of the passages are done.
///
/// # Errors
/// [`Error`]; what was written stays, to go on with. A file of anything else is left alone:
/// [`Error::OtherBase`].
pub fn build(
    path: &Path,
    header: &Header,
    a: &mut dyn Predictor,
    watch: &mut Watch<'_>,
) -> Result<Built, Error> {
    check_vocab(header.vocab, a.vocab())?;
    let (file, found, sum) = open(path, header)?;
    let mut writer = SumWriter::resume(BufWriter::with_capacity(1 << 20, file), sum);
    let mut passage = Passage { header, row: Softmax::default(), logits: Vec::new() };
    for n in found..header.passages() {
        passage.write(n, a, &mut writer, watch)?;
    }
    let bytes = std::fs::metadata(path).map_err(FileError::from)?.len();
    Ok(Built { found, passages: header.passages(), bytes })
}

/// A passage that is being computed, and the memory for it.
struct Passage<'a> {
    header: &'a Header,
    row: Softmax,
    logits: Vec<f32>,
}

impl Passage<'_> {
    fn write(
        &mut self,
        n: usize,
        a: &mut dyn Predictor,
        writer: &mut SumWriter<impl Write>,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let (cut, vocab) = (self.header.cut(), self.header.vocab);
        let tokens = &self.header.tokens[cut.tokens(n)];
        writer.u32(n as u32).map_err(FileError::from)?;
        a.begin()?;
        for step in steps(&cut, a.chunk(), vocab) {
            a.feed(&tokens[step.start..][..step.len], step.want, &mut self.logits)?;
            if step.want == Want::All {
                for (at, logits) in (step.start..).zip(self.logits.chunks_exact(vocab)) {
                    check_finite(logits, Side::A, (n, at))?;
                    self.row.set(logits);
                    let number = (n * cut.ctx + at) as u64;
                    let kept = Kept::of(&self.row, tokens[at + 1], &self.header.keep, number);
                    position(writer, &kept).map_err(FileError::from)?;
                }
            }
            tell(watch, n * cut.ctx + step.start + step.len)?;
        }
        Ok(writer.seal().map_err(FileError::from)?)
    }
}

/// Opens the file where the next passage goes; how many are there, and the checksum so far.
fn open(path: &Path, header: &Header) -> Result<(File, usize, Checksum), Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(FileError::from)?;
    let head = head(header).map_err(FileError::from)?;
    if is_begun(&mut file, &head).map_err(FileError::from)? {
        start(&mut file, &head).map_err(FileError::from)?;
        let mut sum = Checksum::new();
        sum.add(&head);
        return Ok((file, 0, sum));
    }
    let mut base = Base::read(path)?;
    if let Some(what) = difference(header, base.header()) {
        return Err(Error::OtherBase { what });
    }
    let whole = base.whole()?;
    file.set_len(whole.end).map_err(FileError::from)?;
    file.seek(SeekFrom::End(0)).map_err(FileError::from)?;
    Ok((file, whole.passages, whole.sum))
}

/// Whether a file holds nothing, or nothing but the beginning of this header.
fn is_begun(file: &mut File, head: &[u8]) -> io::Result<bool> {
    let len = file.metadata()?.len();
    if len >= head.len() as u64 {
        return Ok(false);
    }
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    Ok(head.starts_with(&found))
}

fn start(file: &mut File, head: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(head)
}

/// What of two headers differs, in words.
fn difference(a: &Header, b: &Header) -> Option<&'static str> {
    if (a.vocab, a.vocabulary) != (b.vocab, b.vocabulary) {
        Some("vocabulary")
    } else if (a.model, &a.about) != (b.model, &b.about) {
        Some("model, or one with other settings")
    } else if (a.ctx, a.skip, &a.tokens) != (b.ctx, b.skip, &b.tokens) {
        Some("text, or one cut into other passages")
    } else if a.keep != b.keep {
        Some("share of the vocabulary")
    } else {
        None
    }
}

fn head(header: &Header) -> io::Result<Vec<u8>> {
    let mut writer = SumWriter::begin(Vec::new(), &KIND)?;
    writer.u32(header.vocab as u32)?;
    writer.u64(header.vocabulary)?;
    writer.u64(header.model)?;
    writer.u32(header.ctx as u32)?;
    writer.u32(header.skip as u32)?;
    writer.f64(header.keep.tail)?;
    writer.u32(header.keep.draws)?;
    writer.text(&header.about)?;
    writer.u32(header.passages() as u32)?;
    header.tokens.iter().try_for_each(|&token| writer.u32(token))?;
    writer.seal()?;
    Ok(writer.into_inner())
}

fn position(writer: &mut SumWriter<impl Write>, kept: &Kept) -> io::Result<()> {
    writer.f32(kept.scale.largest)?;
    writer.f64(kept.scale.ln_total)?;
    writer.f32(kept.next)?;
    writer.u32(kept.tokens.len() as u32)?;
    let mut next = 0;
    for &(id, _) in &kept.tokens {
        writer.varint(id - next)?;
        next = id + 1;
    }
    kept.tokens.iter().try_for_each(|&(_, logit)| writer.f32(logit))?;
    let Some(Tail { mass, p_ln_p, drawn }) = &kept.tail else { return writer.f64(0.0) };
    writer.f64(*mass)?;
    writer.f64(*p_ln_p)?;
    drawn.iter().try_for_each(|&(id, logit)| {
        writer.u32(id)?;
        writer.f32(logit)
    })
}
