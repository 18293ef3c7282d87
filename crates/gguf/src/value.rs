//! Metadata values: the thirteen kinds that the container knows, as Rust enums.

use std::fmt;

/// The kind of a value, as the 32-bit tag in the file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ValueType {
    /// Unsigned 8-bit integer.
    U8 = 0,
    /// Signed 8-bit integer.
    I8 = 1,
    /// Unsigned 16-bit integer.
    U16 = 2,
    /// Signed 16-bit integer.
    I16 = 3,
    /// Unsigned 32-bit integer.
    U32 = 4,
    /// Signed 32-bit integer.
    I32 = 5,
    /// 32-bit float.
    F32 = 6,
    /// One byte, 0 or 1.
    Bool = 7,
    /// A string with a 64-bit length in bytes.
    Str = 8,
    /// A tag, a 64-bit count and that many elements.
    Array = 9,
    /// Unsigned 64-bit integer.
    U64 = 10,
    /// Signed 64-bit integer.
    I64 = 11,
    /// 64-bit float.
    F64 = 12,
}

impl ValueType {
    /// The kind with this tag, if there is one.
    pub const fn from_tag(tag: u32) -> Option<ValueType> {
        Some(match tag {
            0 => ValueType::U8,
            1 => ValueType::I8,
            2 => ValueType::U16,
            3 => ValueType::I16,
            4 => ValueType::U32,
            5 => ValueType::I32,
            6 => ValueType::F32,
            7 => ValueType::Bool,
            8 => ValueType::Str,
            9 => ValueType::Array,
            10 => ValueType::U64,
            11 => ValueType::I64,
            12 => ValueType::F64,
            _ => return None,
        })
    }

    /// The tag in a file.
    pub const fn tag(self) -> u32 {
        self as u32
    }

    /// The fewest bytes that one value takes in a file: its size for the numbers, the length
    /// field for a string, tag and count for an array.
    pub const fn least_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::Str => 8,
            ValueType::Array => 12,
        }
    }

    /// The name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::Str => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A metadata array. Arrays of arrays do not exist here: the reader refuses them.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Str(Vec<String>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// The kind of this value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value of any of the eight integer kinds; `None` for the others.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::Str(_) | Value::Array(_) => {
                return None;
            }
        })
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&Array> {
        if let Value::Array(array) = self { Some(array) } else { None }
    }

    /// Kind and value in a few words, for messages: strings are cut, arrays only counted.
    pub fn describe(&self) -> String {
        match self {
            Value::Str(text) => format!("string {}", crate::fault::Quoted(text)),
            Value::Array(array) => {
                format!("array of {} {}", array.len(), array.element_type())
            }
            Value::Bool(v) => format!("bool {v}"),
            Value::F32(v) => format!("f32 {v}"),
            Value::F64(v) => format!("f64 {v}"),
            integer => match integer.as_integer() {
                Some(v) => format!("{} {v}", integer.value_type()),
                None => integer.value_type().to_string(),
            },
        }
    }
}

/// Evaluates an expression for the vector in whichever variant an [`Array`] holds.
macro_rules! each_array {
    ($array:expr, $items:ident => $body:expr) => {
        match $array {
            Array::U8($items) => $body,
            Array::I8($items) => $body,
            Array::U16($items) => $body,
            Array::I16($items) => $body,
            Array::U32($items) => $body,
            Array::I32($items) => $body,
            Array::F32($items) => $body,
            Array::Bool($items) => $body,
            Array::Str($items) => $body,
            Array::U64($items) => $body,
            Array::I64($items) => $body,
            Array::F64($items) => $body,
        }
    };
}

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        each_array!(self, items => items.len())
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kind of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::Str(_) => ValueType::Str,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// The elements of any of the eight integer kinds; `None` for the others.
    pub fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        Some(match self {
            Array::U8(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::I8(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::U16(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::I16(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::U32(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::I32(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::U64(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::I64(v) => Box::new(v.iter().map(|&x| x.into())),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::Str(_) => return None,
        })
    }
}

macro_rules! value_from {
    ($($kind:ident: $rust:ty),* $(,)?) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Value {
                Value::$kind(value)
            }
        }

        impl From<Vec<$rust>> for Value {
            fn from(items: Vec<$rust>) -> Value {
                Value::Array(Array::$kind(items))
            }
        }
    )*};
}

value_from! {
    U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, F32: f32, Bool: bool, Str: String,
    U64: u64, I64: i64, F64: f64,
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.to_owned())
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_go_both_ways() {
        for tag in 0..13 {
            assert_eq!(ValueType::from_tag(tag).unwrap().tag(), tag);
        }
        assert_eq!(ValueType::from_tag(13), None);
        assert_eq!(ValueType::from_tag(u32::MAX), None);
    }

    #[test]
    fn descriptions_are_short() {
        assert_eq!(Value::from("a\nb").describe(), r#"string "a\nb""#);
        assert_eq!(Value::from(vec![1u32, 2]).describe(), "array of 2 u32");
        assert_eq!(Value::from(-3i8).describe(), "i8 -3");
        assert_eq!(Value::from(true).describe(), "bool true");
        assert!(Value::from("x".repeat(10_000)).describe().len() < 200);
    }
}
