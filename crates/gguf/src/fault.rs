//! What can be wrong inside one file. Each fault says where it is, the numbers involved, and
//! where it helps what to do; the path is added by [`crate::Error::Malformed`].

use std::fmt::{self, Write};

use crate::{TensorType, TypeIdError};

/// A file's names may be long or hold control characters; messages stay on one line.
const MAX_QUOTED_CHARS: usize = 80;

/// Shows a text in quotes, control characters escaped, cut after 80 characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MAX_QUOTED_CHARS) {
            c.escape_debug().try_for_each(|c| f.write_char(c))?;
        }
        f.write_str(if chars.next().is_some() { "...\"" } else { "\"" })
    }
}

/// One fault of a GGUF file. Positions (`at`) are bytes from the start of the file; tensor
/// offsets are relative to the data section, as in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The fields are the numbers that the messages name.
pub enum Fault {
    /// A field needs more bytes than the file has left.
    #[error(
        "truncated: {what} at byte {at} needs {need} bytes, {left} are left; the file is cut short \
         or damaged, fetch it again"
    )]
    Truncated { what: String, at: u64, need: u64, left: u64 },
    /// The file does not start with the magic bytes.
    #[error("not a GGUF file: it starts with {found}")]
    NotGguf { found: String },
    /// Version 1, which has other field widths.
    #[error("GGUF version 1 is obsolete (32-bit counts); convert the model again to version 3")]
    ObsoleteVersion,
    /// A version without a known layout.
    #[error("GGUF version {version} is not supported; versions 2 and 3 are")]
    UnsupportedVersion { version: u32 },
    /// The version field is byte-swapped.
    #[error(
        "big-endian GGUF file (version field {version:#010x}); only little-endian files are \
         supported, convert the model for a little-endian machine"
    )]
    ForeignByteOrder { version: u32 },
    /// A count in the header is larger than the rest of the file can hold.
    #[error(
        "{what} count {count} at byte {at} is impossible: each needs at least {least} bytes and \
         {left} are left"
    )]
    Count { what: &'static str, count: u64, at: u64, least: u64, left: u64 },

    /// A metadata key without characters.
    #[error("metadata key {index} at byte {at} is empty")]
    EmptyKey { index: u64, at: u64 },
    /// A metadata key over the limit of the format.
    #[error("metadata key {index} at byte {at} has {len} bytes, more than the limit of 65535")]
    LongKey { index: u64, at: u64, len: u64 },
    /// A metadata key that occurs twice.
    #[error("metadata key {} occurs twice, as entries {first} and {second}", Quoted(.key))]
    DuplicateKey { key: String, first: usize, second: usize },
    /// A key or string that is not UTF-8.
    #[error("{what} is not UTF-8: first bad byte at {at}")]
    NotUtf8 { what: String, at: u64 },
    /// A value type tag that does not exist.
    #[error("metadata key {} has the unknown value type {tag} at byte {at}", Quoted(.key))]
    ValueType { key: String, tag: u32, at: u64 },
    /// An array element type tag that does not exist.
    #[error("metadata key {} is an array of unknown type {tag} at byte {at}", Quoted(.key))]
    ElementType { key: String, tag: u32, at: u64 },
    /// An array of arrays.
    #[error("metadata key {} is an array of arrays at byte {at}: not supported", Quoted(.key))]
    NestedArray { key: String, at: u64 },
    /// An array longer than the rest of the file.
    #[error(
        "metadata key {} at byte {at}: an array of {count} elements of at least {least} bytes \
         cannot be in the {left} bytes left",
        Quoted(.key)
    )]
    ArrayCount { key: String, at: u64, count: u64, least: u64, left: u64 },
    /// A bool that is neither 0 nor 1.
    #[error("metadata key {} at byte {at}: bool with the value {value}", Quoted(.key))]
    Bool { key: String, at: u64, value: u8 },
    /// `general.alignment` is not a u32, or not a power of two.
    #[error("general.alignment is {found}, which is not a u32 that is a power of two")]
    Alignment { found: String },

    /// A tensor without a name.
    #[error("tensor {index} at byte {at} has an empty name")]
    EmptyTensorName { index: u64, at: u64 },
    /// A tensor name over the limit of the format.
    #[error("the name of tensor {index} at byte {at} has {len} bytes, more than the limit of 63")]
    LongTensorName { index: u64, at: u64, len: u64 },
    /// A NUL byte in a tensor name.
    #[error("the name of tensor {index}, {}, holds a NUL character", Quoted(.tensor))]
    NulInTensorName { index: u64, tensor: String },
    /// Two tensors of one name in one file.
    #[error("tensor {} occurs twice, as entries {first} and {second}", Quoted(.tensor))]
    DuplicateTensor { tensor: String, first: usize, second: usize },
    /// More dimensions than the format allows.
    #[error("tensor {} has {count} dimensions at byte {at}, at most 4 can be", Quoted(.tensor))]
    DimensionCount { tensor: String, count: u64, at: u64 },
    /// A dimension of zero.
    #[error("tensor {}: dimension {dimension} of {dims:?} is zero", Quoted(.tensor))]
    ZeroDimension { tensor: String, dimension: usize, dims: Vec<u64> },
    /// The number of elements does not fit 63 bits.
    #[error("tensor {}: dimensions {dims:?} have more than 2^63 - 1 elements", Quoted(.tensor))]
    ElementCount { tensor: String, dims: Vec<u64> },
    /// The number of bytes does not fit 63 bits.
    #[error("tensor {}: {ty} with dimensions {dims:?} has over 2^63 - 1 bytes", Quoted(.tensor))]
    ByteCount { tensor: String, ty: TensorType, dims: Vec<u64> },
    /// A type id without a supported type.
    #[error("tensor {}: {source}", Quoted(.tensor))]
    TypeId { tensor: String, source: TypeIdError },
    /// A type that exists for activations only.
    #[error("tensor {} has type {ty}, which is for activations only", Quoted(.tensor))]
    ActivationType { tensor: String, ty: TensorType },
    /// A row that does not end with a block.
    #[error(
        "tensor {}: row length {row} is not a multiple of the {} elements of a {ty} block",
        Quoted(.tensor),
        .ty.block_elements()
    )]
    RowLength { tensor: String, row: u64, ty: TensorType },

    /// The data section would start after the end of the file.
    #[error(
        "the tensor data should start at byte {data_start} (alignment {alignment}), the file ends \
         at byte {file_bytes}; it is cut short or damaged, fetch it again"
    )]
    DataStart { data_start: u64, alignment: u64, file_bytes: u64 },
    /// An offset that breaks the file's alignment.
    #[error("tensor {}: offset {offset} is not a multiple of {alignment}", Quoted(.tensor))]
    Misaligned { tensor: String, offset: u64, alignment: u64 },
    /// A position at which elements of this type cannot be read.
    #[error(
        "tensor {}: its data at byte {at} is not aligned to the {} bytes of {ty}",
        Quoted(.tensor),
        .ty.natural_alignment()
    )]
    Unnatural { tensor: String, ty: TensorType, at: u64 },
    /// Tensor data that is not, or not wholly, in the file.
    #[error(
        "tensor {}: {bytes} bytes at offset {offset} of the data (which starts at byte \
         {data_start}) pass the end of the file at byte {file_bytes}; it is cut short or damaged, \
         fetch it again",
        Quoted(.tensor)
    )]
    PastEnd { tensor: String, offset: u64, bytes: u64, data_start: u64, file_bytes: u64 },
    /// Two tensors share bytes.
    #[error(
        "tensors {} and {} overlap: offset {first_offset} with {first_bytes} bytes, and offset \
         {second_offset}",
        Quoted(.first),
        Quoted(.second)
    )]
    Overlap {
        first: String,
        first_offset: u64,
        first_bytes: u64,
        second: String,
        second_offset: u64,
    },
    /// A fork's files give the id of `Q2_0` to another layout.
    #[error(
        "a fork's 2-bit layout: the {count} tensors of type id 42 (first {}) are stored as \
         128-element blocks of 34 bytes, but id 42 is Q2_0, 64-element blocks of 18 bytes; the \
         128-element layout is not supported, use a file made with upstream tools",
        Quoted(.tensor)
    )]
    ForkGroup128 { tensor: String, count: usize },
}

#[cfg(test)]
mod tests {
    use super::Quoted;

    #[test]
    fn quotes_stay_on_one_line_and_short() {
        assert_eq!(Quoted("a\n\u{1b}[31mb").to_string(), r#""a\n\u{1b}[31mb""#);
        assert_eq!(Quoted("mod\u{e8}les").to_string(), "\"mod\u{e8}les\"");
        assert_eq!(Quoted(&"x".repeat(80)).to_string().len(), 80 + 2);
        assert_eq!(Quoted(&"x".repeat(81)).to_string().len(), 80 + 3 + 2);
    }
}
