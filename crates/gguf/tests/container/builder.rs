//! Builds container bytes without any check, so that every field can be wrong.

use gguf::{Error, Fault, Gguf, TensorType};

/// A file in the making. Starts as a well-formed one with one metadata pair.
#[derive(Debug, Clone)]
pub(crate) struct RawFile {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    /// Written in place of the true number.
    pub(crate) tensor_count: Option<u64>,
    /// Written in place of the true number.
    pub(crate) pair_count: Option<u64>,
    pub(crate) alignment: usize,
    pub(crate) pairs: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) data_bytes: usize,
}

/// A string as the container stores it.
pub(crate) fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// An array value: element tag, count, and the elements' bytes.
pub(crate) fn array(tag: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&tag.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

pub(crate) const U8: u32 = 0;
pub(crate) const U16: u32 = 2;
pub(crate) const U32: u32 = 4;
pub(crate) const I32: u32 = 5;
pub(crate) const BOOL: u32 = 7;
pub(crate) const STRING: u32 = 8;
pub(crate) const ARRAY: u32 = 9;
pub(crate) const U64: u32 = 10;

impl RawFile {
    pub(crate) fn new() -> RawFile {
        RawFile::bare().pair("general.architecture", STRING, &string("test"))
    }

    /// Without the metadata pair.
    pub(crate) fn bare() -> RawFile {
        RawFile {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            pair_count: None,
            alignment: 32,
            pairs: Vec::new(),
            tensors: Vec::new(),
            data_bytes: 0,
        }
    }

    pub(crate) fn pair(self, key: impl AsRef<[u8]>, tag: u32, value: &[u8]) -> RawFile {
        let bytes = [&string(key)[..], &tag.to_le_bytes(), value].concat();
        self.raw_pair(bytes)
    }

    pub(crate) fn raw_pair(mut self, bytes: Vec<u8>) -> RawFile {
        self.pairs.push(bytes);
        self
    }

    pub(crate) fn tensor(
        self,
        name: impl AsRef<[u8]>,
        dims: &[u64],
        id: u32,
        offset: u64,
    ) -> RawFile {
        let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let count = (dims.len() / 8) as u32;
        let bytes = [
            &string(name)[..],
            &count.to_le_bytes(),
            &dims,
            &id.to_le_bytes(),
            &offset.to_le_bytes(),
        ];
        self.raw_tensor(bytes.concat())
    }

    pub(crate) fn f32(self, name: &str, dims: &[u64], offset: u64) -> RawFile {
        self.tensor(name, dims, TensorType::F32.id(), offset)
    }

    pub(crate) fn raw_tensor(mut self, bytes: Vec<u8>) -> RawFile {
        self.tensors.push(bytes);
        self
    }

    /// Bytes of the data section.
    pub(crate) fn data(mut self, bytes: usize) -> RawFile {
        self.data_bytes = bytes;
        self
    }

    /// Header without padding.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.pair_count.unwrap_or(self.pairs.len() as u64).to_le_bytes());
        out.extend(self.pairs.concat());
        out.extend(self.tensors.concat());
        out
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.header();
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend((0..self.data_bytes).map(|i| i as u8));
        out
    }

    pub(crate) fn open(&self) -> Gguf {
        Gguf::from_bytes(&self.bytes()).unwrap()
    }

    pub(crate) fn fault(&self) -> Fault {
        fault(&self.bytes())
    }
}

/// The fault of bytes that must be refused, with a message fit for a terminal.
pub(crate) fn fault(bytes: &[u8]) -> Fault {
    let error = Gguf::from_bytes(bytes).unwrap_err();
    check_message(&error);
    match error {
        Error::Malformed { fault, .. } => *fault,
        other => panic!("not a fault of the container: {other}"),
    }
}

/// Every message is one readable line.
pub(crate) fn check_message(error: &Error) {
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.len() < 600, "{message:?}");
}

/// Asserts that the fault of a file has this variant, and shows it if not.
macro_rules! assert_fault {
    ($file:expr, $pattern:pat $(if $guard:expr)?) => {
        match $file.fault() {
            $pattern $(if $guard)? => {}
            other => panic!("{other:?}"),
        }
    };
}
pub(crate) use assert_fault;
