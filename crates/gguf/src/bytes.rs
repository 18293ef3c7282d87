//! A cheap handle to some bytes of a model.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes that are kept alive by the handle: of a mapped file, or of a vector. Cloning copies
/// the handle only. Hot loops should take the slice once, before the loop.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// A handle to a range of the owner's bytes, which must stay where they are.
    ///
    /// # Panics
    /// If the range is not inside the owner's bytes.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Bytes {
        assert!(
            (*owner).as_ref().get(range.clone()).is_some(),
            "the range {range:?} is not inside the owner's {} bytes",
            (*owner).as_ref().len()
        );
        Bytes { owner, range }
    }

    /// A handle to a part of these bytes.
    ///
    /// # Panics
    /// If the range is not inside these bytes, as indexing a slice does.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.range.len(),
            "the range {range:?} is not inside {} bytes",
            self.range.len()
        );
        let base = self.range.start;
        Bytes { owner: self.owner.clone(), range: base + range.start..base + range.end }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let range = 0..bytes.len();
        Bytes { owner: Arc::new(bytes), range }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_slices() {
        let bytes = Bytes::from(vec![0, 1, 2, 3, 4, 5]);
        let inner = bytes.slice(1..5).slice(1..3);
        assert_eq!(&*inner, [2, 3]);
        assert_eq!(format!("{inner:?}"), "Bytes(2 bytes)");
        assert_eq!(inner.slice(2..2).len(), 0);
    }

    #[test]
    #[should_panic(expected = "not inside")]
    fn a_slice_cannot_reach_outside_its_parent() {
        Bytes::from(vec![0, 1, 2, 3]).slice(1..3).slice(0..3);
    }

    #[test]
    fn handles_go_to_other_threads() {
        fn check<T: Send + Sync + Clone + 'static>() {}
        check::<Bytes>();
        check::<crate::Gguf>();
    }
}
