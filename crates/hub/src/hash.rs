//! The checksum of a file, while it comes.

use crate::remote::{Checksum, RemoteFile};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A checksum of what has come so far.
pub(crate) enum Hash {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl Hash {
    /// Of nothing yet, of the kind that the file is held against; `None` if it is held against
    /// none.
    pub(crate) fn of(file: &RemoteFile) -> Option<Self> {
        match file.checksum {
            Checksum::Sha256 => Some(Self::Sha256(Sha256::new())),
            Checksum::GitBlob => {
                let head = format!("blob {}\0", file.size);
                Some(Self::GitBlob(Sha1::new().chain_update(head)))
            }
            Checksum::Missing => None,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::GitBlob(hash) => hash.update(bytes),
        }
    }

    /// In hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::GitBlob(hash) => hex(&hash.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
