//! Which experts were wanted how often, kept from one run to the next.
//!
//! Little-endian: `TUFFHOT1`, fingerprint of the model (8 bytes), number of experts (4), uses of
//! each expert of each layer (4 each), XXH3 of everything before (8). A file that is damaged or
//! belongs to another model is of no use and of no harm: which experts are read early changes no
//! result.

use crate::StoreError;
use gguf::TempFile;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"TUFFHOT1";

/// Experts of the largest models, with room: what a file of a stranger may ask memory for.
const MAX_EXPERTS: usize = 1 << 22;

/// Uses of all experts of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Tells models apart.
    pub model: u64,
    /// By layer and expert.
    pub uses: Vec<u32>,
}

impl Profile {
    /// Experts that were used at all, those used most first.
    pub fn hottest(&self) -> impl Iterator<Item = u32> {
        let mut used: Vec<u32> =
            (0..).zip(&self.uses).filter(|(_, n)| **n > 0).map(|(e, _)| e).collect();
        used.sort_by_key(|&e| std::cmp::Reverse(self.uses[e as usize]));
        used.into_iter()
    }

    /// Adds an earlier run's uses, at half their weight, so that the latest text counts most. Those
    /// of another model are left out.
    pub fn add_earlier(&mut self, earlier: &Self) {
        if earlier.model == self.model && earlier.uses.len() == self.uses.len() {
            for (uses, before) in self.uses.iter_mut().zip(&earlier.uses) {
                *uses = uses.saturating_add(before / 2);
            }
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`StoreError::Profile`] when it cannot be read, or is none.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        let fault = |what: String| StoreError::Profile { path: path.to_owned(), what };
        let mut bytes = Vec::new();
        let most = (MAGIC.len() + 20 + 4 * MAX_EXPERTS) as u64;
        let file = File::open(path).map_err(|error| fault(error.to_string()))?;
        file.take(most).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
        Self::parse(&bytes).ok_or_else(|| fault("it is damaged, or no list of hot experts".into()))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        if sum != xxh3_64(body).to_le_bytes() {
            return None;
        }
        let rest = body.strip_prefix(MAGIC)?;
        let (model, rest) = rest.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let uses: Vec<u32> =
            rest.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        let whole =
            rest.len() == 4 * uses.len() && uses.len() == u32::from_le_bytes(*count) as usize;
        whole.then_some(Self { model: u64::from_le_bytes(*model), uses })
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError::Profile`]; what was there stays as it was.
    pub fn save(&self, path: &Path) -> Result<(), StoreError> {
        let fault = |error: &dyn fmt::Display| StoreError::Profile {
            path: path.to_owned(),
            what: format!("it cannot be written: {error}"),
        };
        let mut bytes = Vec::with_capacity(28 + 4 * self.uses.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.model.to_le_bytes());
        bytes.extend_from_slice(&(self.uses.len() as u32).to_le_bytes());
        self.uses.iter().for_each(|uses| bytes.extend_from_slice(&uses.to_le_bytes()));
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        let (unfinished, mut file) = TempFile::create(path).map_err(|e| fault(&e))?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(|e| fault(&e))?;
        drop(file);
        unfinished.commit().map_err(|e| fault(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn profile() -> Profile {
        Profile { model: 7, uses: vec![0, 5, 1, 5, 9, 0] }
    }

    #[test]
    fn hottest_first_and_unused_not_at_all() {
        assert_eq!(profile().hottest().collect::<Vec<_>>(), [4, 1, 3, 2]);
    }

    #[test]
    fn a_file_gives_what_was_saved_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.hot");
        profile().save(&path).unwrap();
        assert_eq!(Profile::load(&path).unwrap(), profile());
        let good = fs::read(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        for cut in 0..good.len() {
            assert!(Profile::parse(&good[..cut]).is_none(), "{cut}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            assert!(Profile::parse(&bad).is_none(), "{place}");
        }
        assert!(Profile::load(&folder.path().join("none")).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_said_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("model.hot");
        let error = profile().save(&path).unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn earlier_runs_count_half_and_other_models_nothing() {
        let mut now = profile();
        now.add_earlier(&Profile { model: 7, uses: vec![8, 0, 0, 0, 0, 3] });
        assert_eq!(now.uses, [4, 5, 1, 5, 9, 1]);
        now.add_earlier(&Profile { model: 8, uses: vec![8; 6] });
        now.add_earlier(&Profile { model: 7, uses: vec![8; 5] });
        assert_eq!(now.uses, [4, 5, 1, 5, 9, 1]);
    }
}
