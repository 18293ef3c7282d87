//! The metadata of a file: key-value pairs in file order, with getters that accept any integer
//! width and check the range.

use crate::error::{Error, Origin};
use crate::fault::Fault;
use crate::value::{Array, Value};

/// Key-value pairs, in order, each key once.
///
/// The `get_*` methods return `None` for an absent key, and an error naming the key for a value
/// of the wrong kind ([`Error::WrongType`]) or range ([`Error::OutOfRange`]).
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    origin: Origin,
    entries: Vec<(String, Value)>,
    /// Indices into `entries`, sorted by key. A sorted index costs a hostile file with millions
    /// of keys far less memory than a hash map would.
    order: Vec<usize>,
}

impl Metadata {
    /// Without entries.
    pub fn new() -> Metadata {
        Metadata::default()
    }

    pub(crate) fn from_entries(entries: Vec<(String, Value)>) -> Result<Metadata, Fault> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_unstable_by(|&a, &b| (&entries[a].0, a).cmp(&(&entries[b].0, b)));
        let same = order.windows(2).find(|pair| entries[pair[0]].0 == entries[pair[1]].0);
        if let Some(&[first, second]) = same {
            let key = entries[first].0.clone();
            return Err(Fault::DuplicateKey { key, first, second });
        }
        Ok(Metadata { origin: Origin::default(), entries, order })
    }

    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.order.binary_search_by(|&i| self.entries[i].0.as_str().cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let place = self.find(key).ok()?;
        Some(&self.entries[self.order[place]].1)
    }

    /// Sets a key: a new one is appended, a known one keeps its place. Returns the old value.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.find(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[self.order[place]].1, value)),
            Err(place) => {
                self.order.insert(place, self.entries.len());
                self.entries.push((key, value));
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.find(key).ok()?;
        let removed = self.order.remove(place);
        for index in &mut self.order {
            *index -= usize::from(*index > removed);
        }
        Some(self.entries.remove(removed).1)
    }

    /// The pairs in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without pairs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An integer of any width that fits 32 bits.
    pub fn get_u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.integer(key, "an integer (u32)")
    }

    /// An integer of any width that is not negative.
    pub fn get_u64(&self, key: &str) -> Result<Option<u64>, Error> {
        self.integer(key, "an integer (u64)")
    }

    /// An integer of any width that fits 32 bits with sign.
    pub fn get_i32(&self, key: &str) -> Result<Option<i32>, Error> {
        self.integer(key, "an integer (i32)")
    }

    /// An integer of any width that fits 64 bits with sign.
    pub fn get_i64(&self, key: &str) -> Result<Option<i64>, Error> {
        self.integer(key, "an integer (i64)")
    }

    /// A float of either width, rounded to 32 bits, or an integer that is exact as one. A finite
    /// number that becomes infinite is out of range; NaN and infinities of the file pass.
    pub fn get_f32(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let (narrow, fits) = match value {
            Value::F32(v) => (*v, true),
            Value::F64(v) => (*v as f32, !v.is_finite() || (*v as f32).is_finite()),
            other => match other.as_integer() {
                Some(v) => (v as f32, v as f32 as i128 == v),
                None => return Err(Error::wrong_type(&self.origin, key, "a number", value)),
            },
        };
        if fits { Ok(Some(narrow)) } else { Err(self.out_of_range(key, "f32", value.describe())) }
    }

    /// A bool.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(Error::wrong_type(&self.origin, key, "a bool", other)),
        }
    }

    /// A string.
    pub fn get_str(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => Err(Error::wrong_type(&self.origin, key, "a string", other)),
        }
    }

    /// An array of integers of any width, none negative.
    pub fn get_u64_array(&self, key: &str) -> Result<Option<Vec<u64>>, Error> {
        self.integers(key, "an array of integers (u64)")
    }

    /// An array of integers of any width that fit 32 bits.
    pub fn get_u32_array(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        self.integers(key, "an array of integers (u32)")
    }

    /// An array of integers of any width that fit 64 bits with sign.
    pub fn get_i64_array(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        self.integers(key, "an array of integers (i64)")
    }

    /// An array of integers of any width that fit 32 bits with sign.
    pub fn get_i32_array(&self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        self.integers(key, "an array of integers (i32)")
    }

    /// An array of floats of either width; elements as in [`Metadata::get_f32`].
    pub fn get_f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        const WANTED: &str = "an array of floats";
        let Some(array) = self.array(key, WANTED)? else { return Ok(None) };
        match array {
            Array::F32(items) => Ok(Some(items.clone())),
            Array::F64(items) => {
                if let Some(v) = items.iter().find(|v| v.is_finite() && (**v as f32).is_infinite())
                {
                    return Err(self.out_of_range(key, WANTED, format!("f64 {v}")));
                }
                Ok(Some(items.iter().map(|&v| v as f32).collect()))
            }
            other if other.is_empty() => Ok(Some(Vec::new())),
            _ => Err(self.wrong_array(key, WANTED)),
        }
    }

    /// An array of bools.
    pub fn get_bool_array(&self, key: &str) -> Result<Option<&[bool]>, Error> {
        const WANTED: &str = "an array of bools";
        match self.array(key, WANTED)? {
            None => Ok(None),
            Some(Array::Bool(items)) => Ok(Some(items)),
            Some(other) if other.is_empty() => Ok(Some(&[])),
            Some(_) => Err(self.wrong_array(key, WANTED)),
        }
    }

    /// An array of strings.
    pub fn get_str_array(&self, key: &str) -> Result<Option<&[String]>, Error> {
        const WANTED: &str = "an array of strings";
        match self.array(key, WANTED)? {
            None => Ok(None),
            Some(Array::Str(items)) => Ok(Some(items)),
            // An empty array has whatever element type its writer chose.
            Some(other) if other.is_empty() => Ok(Some(&[])),
            Some(_) => Err(self.wrong_array(key, WANTED)),
        }
    }

    /// Where the metadata came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn integer<T>(&self, key: &str, wanted: &'static str) -> Result<Option<T>, Error>
    where
        T: TryFrom<i128>,
    {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Some(integer) = value.as_integer() else {
            return Err(Error::wrong_type(&self.origin, key, wanted, value));
        };
        match T::try_from(integer) {
            Ok(fitting) => Ok(Some(fitting)),
            Err(_) => Err(self.out_of_range(key, wanted, value.describe())),
        }
    }

    fn array(&self, key: &str, wanted: &'static str) -> Result<Option<&Array>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(Error::wrong_type(&self.origin, key, wanted, other)),
        }
    }

    fn integers<T>(&self, key: &str, wanted: &'static str) -> Result<Option<Vec<T>>, Error>
    where
        T: TryFrom<i128>,
    {
        let Some(array) = self.array(key, wanted)? else { return Ok(None) };
        let Some(integers) = array.integers() else {
            return if array.is_empty() {
                Ok(Some(Vec::new()))
            } else {
                Err(self.wrong_array(key, wanted))
            };
        };
        let mut items = Vec::with_capacity(array.len());
        for (i, integer) in integers.enumerate() {
            match T::try_from(integer) {
                Ok(fitting) => items.push(fitting),
                Err(_) => {
                    let found = format!("element {i}, {integer},");
                    return Err(self.out_of_range(key, wanted, found));
                }
            }
        }
        Ok(Some(items))
    }

    fn wrong_array(&self, key: &str, wanted: &'static str) -> Error {
        let found = self.get(key).map(Value::describe).unwrap_or_default();
        Error::WrongType { origin: self.origin.clone(), key: key.to_owned(), wanted, found }
    }

    fn out_of_range(&self, key: &str, wanted: &'static str, found: String) -> Error {
        Error::OutOfRange { origin: self.origin.clone(), key: key.to_owned(), wanted, found }
    }
}

/// Equal pairs in equal order, wherever they came from.
impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        self.entries == other.entries
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Metadata {
        let mut metadata = Metadata::new();
        for (key, value) in pairs {
            metadata.insert(key, value);
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_width_are_accepted_and_range_checked() {
        let m: Metadata = [
            ("u8", Value::U8(7)),
            ("i64", Value::I64(7)),
            ("big", Value::U64(1 << 32)),
            ("minus", Value::I32(-1)),
            ("text", Value::from("7")),
            ("flag", Value::Bool(true)),
        ]
        .into_iter()
        .collect();
        assert_eq!(m.get_u32("u8").unwrap(), Some(7));
        assert_eq!(m.get_u32("i64").unwrap(), Some(7));
        assert_eq!(m.get_u64("big").unwrap(), Some(1 << 32));
        assert_eq!(m.get_i32("minus").unwrap(), Some(-1));
        assert_eq!(m.get_u32("absent").unwrap(), None);
        assert!(matches!(m.get_u32("big"), Err(Error::OutOfRange { .. })));
        assert!(matches!(m.get_u64("minus"), Err(Error::OutOfRange { .. })));
        assert!(matches!(m.get_u32("text"), Err(Error::WrongType { .. })));
        assert!(matches!(m.get_u32("flag"), Err(Error::WrongType { .. })));
        let message = m.get_u64("minus").unwrap_err().to_string();
        assert!(message.contains("minus") && message.contains("i32 -1"), "{message}");
    }

    #[test]
    fn floats_narrow_only_where_they_stay_finite() {
        let m: Metadata = [
            ("f32", Value::F32(0.5)),
            ("f64", Value::F64(1e-6)),
            ("wide", Value::F64(1e300)),
            ("inf", Value::F64(f64::INFINITY)),
            ("int", Value::U32(10_000_000)),
            ("odd", Value::U32((1 << 24) + 1)),
        ]
        .into_iter()
        .collect();
        assert_eq!(m.get_f32("f32").unwrap(), Some(0.5));
        assert_eq!(m.get_f32("f64").unwrap(), Some(1e-6));
        assert!(matches!(m.get_f32("wide"), Err(Error::OutOfRange { .. })));
        assert_eq!(m.get_f32("inf").unwrap(), Some(f32::INFINITY));
        assert_eq!(m.get_f32("int").unwrap(), Some(1e7));
        assert!(matches!(m.get_f32("odd"), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn arrays_convert_as_a_whole_or_not_at_all() {
        let m: Metadata = [
            ("i32", Value::from(vec![1i32, -2])),
            ("u8", Value::from(vec![1u8, 2])),
            ("strings", Value::from(vec!["a".to_owned()])),
            ("empty", Value::from(Vec::<i32>::new())),
            ("doubles", Value::from(vec![0.5f64, 1e300])),
        ]
        .into_iter()
        .collect();
        assert_eq!(m.get_u64_array("u8").unwrap(), Some(vec![1, 2]));
        assert_eq!(m.get_i64_array("i32").unwrap(), Some(vec![1, -2]));
        assert!(matches!(m.get_u64_array("i32"), Err(Error::OutOfRange { .. })));
        assert!(matches!(m.get_u64_array("strings"), Err(Error::WrongType { .. })));
        assert_eq!(m.get_str_array("strings").unwrap().unwrap(), ["a"]);
        assert_eq!(m.get_str_array("empty").unwrap(), Some(&[][..]));
        assert!(matches!(m.get_str_array("u8"), Err(Error::WrongType { .. })));
        assert!(matches!(m.get_f32_array("doubles"), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn insert_and_remove_keep_order_and_index() {
        let mut m = Metadata::new();
        for key in ["z", "a", "m"] {
            assert_eq!(m.insert(key, 1u32), None);
        }
        assert_eq!(m.insert("a", 2u32), Some(Value::U32(1)));
        assert_eq!(m.remove("z"), Some(Value::U32(1)));
        assert_eq!(m.remove("z"), None);
        assert_eq!(m.iter().map(|(k, _)| k).collect::<Vec<_>>(), ["a", "m"]);
        assert_eq!(m.get("m"), Some(&Value::U32(1)));
        assert_eq!(m.get("a"), Some(&Value::U32(2)));
    }
}
