//! The container's header: from untrusted bytes to metadata and checked tensor descriptions.
//!
//! The order of checks is that of `docs/formats.md` section 5.1. All arithmetic is checked,
//! every count is compared with the bytes left before anything is allocated for it, and nothing
//! after the tensor list is read, so opening a file touches only its first pages.
//!
//! Where the format text leaves the behaviour open, this reader decides:
//!
//! | case | decision |
//! |---|---|
//! | key over 65535 bytes | refused: the limit of the format text |
//! | string value not UTF-8 | refused, with the position of the bad byte |
//! | array of arrays | refused, as by the reference reader; no recursion exists |
//! | bool other than 0 and 1 | refused |
//! | alignment below 8 (the format text wants a multiple) | accepted if a power of two |
//! | tensor name empty, or with a NUL | refused |
//! | dimension of zero | refused |
//! | no dimensions | a scalar: one element |
//! | holes between tensors, offsets in another order than the list | accepted |
//! | F32 and other plain types at a position not aligned to their size | refused |
//! | bytes after the last tensor, padding that is not zero | accepted |
//! | last tensor's padding absent | accepted |
//! | no tensors, data section absent | accepted |
//! | infinite or NaN scales inside blocks | not looked at here: no tensor data is touched |
//!
//! Facts about the model rather than the container (heads of zero, tokenizer arrays of
//! differing lengths) are for the crate that gives the metadata its meaning.

use crate::cursor::Cursor;
use crate::fault::{Fault, Quoted};
use crate::layout::{self, Section};
use crate::metadata::Metadata;
use crate::tensor::{self, MAX_DIMS, TensorInfo};
use crate::value::{Array, Value, ValueType};
use crate::{TensorType, TypeIdError};

pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
pub(crate) const DEFAULT_ALIGNMENT: u32 = 32;
const MAX_KEY_BYTES: u64 = 65_535;

/// Length field, one character, type tag, one byte.
const LEAST_PAIR_BYTES: u64 = 8 + 1 + 4 + 1;
/// Length field, one character, number of dimensions, type id, offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 1 + 4 + 4 + 8;
/// Collections start no larger than this, whatever the file promises, and grow as items are read.
const FIRST_CAPACITY: u64 = 4096;

/// What one file says about itself, checked.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorInfo>,
    /// Indices of `tensors`, sorted by name.
    pub(crate) by_name: Vec<usize>,
    pub(crate) section: Section,
}

/// Reads and checks the header of a whole file.
pub(crate) fn parse(file: &[u8]) -> Result<Header, Fault> {
    check_magic(file)?;
    let mut cursor = Cursor::new(file);
    cursor.array::<4>(&"magic bytes")?;
    let version = check_version(cursor.u32(&"version")?)?;
    let at = cursor.at();
    let tensor_count = cursor.u64(&"tensor count")?;
    let pair_count = cursor.u64(&"metadata count")?;
    check_count("tensor", tensor_count, at, LEAST_TENSOR_BYTES, cursor.left())?;
    check_count("metadata", pair_count, at + 8, LEAST_PAIR_BYTES, cursor.left())?;

    let metadata = read_metadata(&mut cursor, pair_count)?;
    let alignment = alignment(&metadata)?;
    let tensors = read_tensors(&mut cursor, tensor_count)?;
    let by_name = tensor::check_unique(&tensors)?;
    let section = Section::after(cursor.at(), alignment, file.len() as u64);
    layout::check(&tensors, &section)?;
    Ok(Header { version, metadata, tensors, by_name, section })
}

fn check_magic(file: &[u8]) -> Result<(), Fault> {
    let start = &file[..file.len().min(MAGIC.len())];
    if MAGIC.starts_with(start) {
        return Ok(()); // A file of fewer than four bytes is found to be truncated.
    }
    let known = match start {
        b"lmgg" | b"fmgg" | b"tjgg" | b"algg" | b"GGML" | b"GGMF" | b"GGJT" | b"GGLA" => {
            " (a predecessor of GGUF; convert the model again)"
        }
        b"FUGG" => " (the magic bytes in reverse)",
        b"PK\x03\x04" => " (a ZIP archive; unpack it)",
        b"\x1f\x8b\x08\x00" | b"\x1f\x8b\x08\x08" => " (a gzip archive; unpack it)",
        b"vers" => " (perhaps a Git LFS pointer; fetch the file that it stands for)",
        b"<!DO" | b"<!do" | b"<htm" => " (a web page; the download went wrong)",
        _ => "",
    };
    Err(Fault::NotGguf { found: format!("\"{}\"{known}", start.escape_ascii()) })
}

fn check_version(version: u32) -> Result<u32, Fault> {
    match version {
        2 | 3 => Ok(version),
        1 => Err(Fault::ObsoleteVersion),
        0 => Err(Fault::UnsupportedVersion { version }),
        swapped if swapped & 0xffff == 0 => Err(Fault::ForeignByteOrder { version }),
        _ => Err(Fault::UnsupportedVersion { version }),
    }
}

fn check_count(
    what: &'static str,
    count: u64,
    at: u64,
    least: u64,
    left: u64,
) -> Result<(), Fault> {
    if count > left / least {
        return Err(Fault::Count { what, count, at, least, left });
    }
    Ok(())
}

fn first_capacity(count: u64) -> usize {
    count.min(FIRST_CAPACITY) as usize
}

fn read_metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<Metadata, Fault> {
    let mut entries = Vec::with_capacity(first_capacity(count));
    for index in 0..count {
        let at = cursor.at();
        let len = cursor.u64(&format_args!("length of metadata key {index}"))?;
        check_key_length(index, at, len)?;
        let key = cursor.text(len, &format_args!("metadata key {index}"))?;
        entries.push((key.to_owned(), read_value(cursor, key)?));
    }
    Metadata::from_entries(entries)
}

/// Refuses keys that the format does not allow.
pub(crate) fn check_key_length(index: u64, at: u64, len: u64) -> Result<(), Fault> {
    match len {
        0 => Err(Fault::EmptyKey { index, at }),
        1..=MAX_KEY_BYTES => Ok(()),
        _ => Err(Fault::LongKey { index, at, len }),
    }
}

fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Fault> {
    let at = cursor.at();
    let what = format_args!("value of metadata key {}", Quoted(key));
    let tag = cursor.u32(&what)?;
    let Some(value_type) = ValueType::from_tag(tag) else {
        return Err(Fault::ValueType { key: key.to_owned(), tag, at });
    };
    Ok(match value_type {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(&what)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(&what)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(&what)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(&what)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(&what)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(&what)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(&what)?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(&what)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(&what)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(&what)?)),
        ValueType::Bool => {
            let [byte] = cursor.array(&what)?;
            Value::Bool(bool_of(byte, key, at + 4)?)
        }
        ValueType::Str => Value::Str(cursor.string(&what)?.to_owned()),
        ValueType::Array => Value::Array(read_array(cursor, key)?),
    })
}

fn bool_of(byte: u8, key: &str, at: u64) -> Result<bool, Fault> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Fault::Bool { key: key.to_owned(), at, value }),
    }
}

fn read_array(cursor: &mut Cursor<'_>, key: &str) -> Result<Array, Fault> {
    let at = cursor.at();
    let what = format_args!("array of metadata key {}", Quoted(key));
    let tag = cursor.u32(&what)?;
    let Some(element) = ValueType::from_tag(tag) else {
        return Err(Fault::ElementType { key: key.to_owned(), tag, at });
    };
    if element == ValueType::Array {
        return Err(Fault::NestedArray { key: key.to_owned(), at });
    }
    let count = cursor.u64(&what)?;
    let (least, left) = (element.least_bytes(), cursor.left());
    if count > left / least {
        return Err(Fault::ArrayCount { key: key.to_owned(), at, count, least, left });
    }
    if element == ValueType::Str {
        return read_strings(cursor, key, count);
    }
    let at = cursor.at();
    let bytes = cursor.take(count * least, &what)?;
    Ok(match element {
        ValueType::U8 => Array::U8(bytes.to_vec()),
        ValueType::I8 => Array::I8(numbers(bytes, i8::from_le_bytes)),
        ValueType::U16 => Array::U16(numbers(bytes, u16::from_le_bytes)),
        ValueType::I16 => Array::I16(numbers(bytes, i16::from_le_bytes)),
        ValueType::U32 => Array::U32(numbers(bytes, u32::from_le_bytes)),
        ValueType::I32 => Array::I32(numbers(bytes, i32::from_le_bytes)),
        ValueType::F32 => Array::F32(numbers(bytes, f32::from_le_bytes)),
        ValueType::U64 => Array::U64(numbers(bytes, u64::from_le_bytes)),
        ValueType::I64 => Array::I64(numbers(bytes, i64::from_le_bytes)),
        ValueType::F64 => Array::F64(numbers(bytes, f64::from_le_bytes)),
        ValueType::Bool => {
            let bools = (at..).zip(bytes).map(|(at, &byte)| bool_of(byte, key, at));
            Array::Bool(bools.collect::<Result<_, _>>()?)
        }
        ValueType::Str | ValueType::Array => {
            return Err(Fault::ElementType { key: key.to_owned(), tag, at });
        }
    })
}

fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| number(*chunk)).collect()
}

fn read_strings(cursor: &mut Cursor<'_>, key: &str, count: u64) -> Result<Array, Fault> {
    let mut strings = Vec::with_capacity(first_capacity(count));
    for index in 0..count {
        let what = format_args!("string {index} of metadata key {}", Quoted(key));
        strings.push(cursor.string(&what)?.to_owned());
    }
    Ok(Array::Str(strings))
}

fn read_tensors(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<TensorInfo>, Fault> {
    let mut tensors = Vec::with_capacity(first_capacity(count));
    for index in 0..count {
        tensors.push(read_tensor(cursor, index)?);
    }
    Ok(tensors)
}

fn read_tensor(cursor: &mut Cursor<'_>, index: u64) -> Result<TensorInfo, Fault> {
    let at = cursor.at();
    let name = cursor.string(&format_args!("name of tensor {index}"))?;
    tensor::check_name(index, at, name)?;
    let at = cursor.at();
    let count = cursor.u32(&format_args!("number of dimensions of tensor {}", Quoted(name)))?;
    if count > MAX_DIMS {
        let (tensor, count) = (name.to_owned(), u64::from(count));
        return Err(Fault::DimensionCount { tensor, count, at });
    }
    let mut slots = [0; MAX_DIMS as usize];
    let dims = &mut slots[..count as usize];
    for (i, dim) in dims.iter_mut().enumerate() {
        *dim = cursor.u64(&format_args!("dimension {i} of tensor {}", Quoted(name)))?;
    }
    let id = cursor.u32(&format_args!("type of tensor {}", Quoted(name)))?;
    let ty = TensorType::from_id(id).map_err(|source| type_fault(name, source))?;
    let offset = cursor.u64(&format_args!("offset of tensor {}", Quoted(name)))?;
    Ok(TensorInfo { offset, ..TensorInfo::new(name, dims, ty)? })
}

fn type_fault(name: &str, source: TypeIdError) -> Fault {
    Fault::TypeId { tensor: name.to_owned(), source }
}

/// The alignment that the metadata asks for.
pub(crate) fn alignment(metadata: &Metadata) -> Result<u32, Fault> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(alignment)) if alignment.is_power_of_two() => Ok(*alignment),
        Some(other) => Err(Fault::Alignment { found: other.describe() }),
    }
}
