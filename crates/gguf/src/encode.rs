//! Metadata and tensor descriptions as bytes.

use crate::metadata::Metadata;
use crate::reader::MAGIC;
use crate::tensor::TensorInfo;
use crate::value::{Array, Value};

const VERSION: u32 = 3;

/// The header of a file, padded to the alignment: the data section follows directly.
pub(crate) fn header(metadata: &Metadata, tensors: &[TensorInfo], alignment: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        string(&mut out, key);
        out.extend(value.value_type().tag().to_le_bytes());
        put_value(&mut out, value);
    }
    for tensor in tensors {
        put_tensor(&mut out, tensor);
    }
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
    out
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.extend(v.to_le_bytes()),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Str(text) => string(out, text),
        Value::Array(array) => put_array(out, array),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend(array.element_type().tag().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::U8(items) => out.extend(items),
        Array::I8(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::U16(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::I16(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::U32(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::I32(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::F32(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::U64(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::I64(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::F64(items) => out.extend(items.iter().flat_map(|v| v.to_le_bytes())),
        Array::Bool(items) => out.extend(items.iter().map(|v| u8::from(*v))),
        Array::Str(items) => items.iter().for_each(|text| string(out, text)),
    }
}

fn put_tensor(out: &mut Vec<u8>, tensor: &TensorInfo) {
    string(out, &tensor.name);
    out.extend((tensor.dims.len() as u32).to_le_bytes());
    out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
    out.extend(tensor.ty.id().to_le_bytes());
    out.extend(tensor.offset.to_le_bytes());
}
