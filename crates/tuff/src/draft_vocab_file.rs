//! Reading the file of a draft vocabulary.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use model::DraftVocab;

use crate::error::Error;

/// Reads a draft vocabulary for a model of `vocab` tokens.
///
/// # Errors
/// [`Error::File`]; [`Error::Refused`] for a file that is no list of the model's ids.
pub(crate) fn read(path: &Path, vocab: usize) -> Result<DraftVocab, Error> {
    // One id more than the model has tells that the list is too long: another file, such as a
    // model, may be far larger than memory.
    let most = (vocab as u64).saturating_add(1).saturating_mul(size_of::<i32>() as u64);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::file("read", path))?;
    file.take(most).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    DraftVocab::parse(&bytes, vocab)
        .map_err(|error| Error::Refused(format!("{}: {error}", path.display())))
}
