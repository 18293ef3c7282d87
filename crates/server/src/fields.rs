//! The fields of a JSON object, taken out one by one. What is left at the end is unknown.

use crate::ApiError;
use serde_json::{Map, Value};

/// An object whose fields are being read. `null` is as good as nothing.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Where the object is, as in `messages[2].`; empty for the body.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Of the value of the field `name`.
    ///
    /// # Errors
    /// If it is no object.
    pub(crate) fn of(value: Value, name: &str) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => {
                let path = if name.is_empty() { String::new() } else { format!("{name}.") };
                Ok(Self { path, map })
            }
            other if name.is_empty() => {
                let message = format!("the body must be a JSON object, found {}", kind(&other));
                Err(ApiError::new(crate::error::ErrorKind::Invalid, message))
            }
            other => Err(wrong_kind(name, "an object", &other)),
        }
    }

    /// The full name of a field.
    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// A field, whatever it is.
    pub(crate) fn value(&mut self, field: &str) -> Option<Value> {
        self.map.shift_remove(field).filter(|value| !value.is_null())
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.map.get(field).is_some_and(|value| !value.is_null())
    }

    /// A field that must be there.
    pub(crate) fn required(&mut self, field: &str) -> Result<Value, ApiError> {
        let name = self.name(field);
        self.value(field).ok_or_else(|| {
            let code = Some("missing_required_parameter");
            ApiError { code, ..ApiError::field(&name, format!("the field {name} is missing")) }
        })
    }

    fn read<T>(
        &mut self,
        field: &str,
        wanted: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.value(field) else { return Ok(None) };
        let name = self.name(field);
        read(&value).map(Some).ok_or_else(|| wrong_kind(&name, wanted, &value))
    }

    pub(crate) fn boolean(&mut self, field: &str) -> Result<Option<bool>, ApiError> {
        self.read(field, "true or false", Value::as_bool)
    }

    pub(crate) fn text(&mut self, field: &str) -> Result<Option<String>, ApiError> {
        self.read(field, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn number(&mut self, field: &str) -> Result<Option<f32>, ApiError> {
        self.read(field, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    pub(crate) fn integer(&mut self, field: &str) -> Result<Option<i64>, ApiError> {
        self.read(field, "an integer", whole)
    }

    /// A number of things, at most `most`.
    pub(crate) fn count(&mut self, field: &str, most: usize) -> Result<Option<usize>, ApiError> {
        let name = self.name(field);
        let Some(value) = self.integer(field)? else { return Ok(None) };
        match usize::try_from(value) {
            Ok(count) if count <= most => Ok(Some(count)),
            _ => {
                let range = match most {
                    usize::MAX => "0 or more".to_owned(),
                    most => format!("from 0 to {most}"),
                };
                let message = format!("{name} is {value}; it must be {range}");
                Err(ApiError::field(name, message))
            }
        }
    }

    pub(crate) fn array(&mut self, field: &str) -> Result<Option<Vec<Value>>, ApiError> {
        let name = self.name(field);
        match self.value(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong_kind(&name, "an array", &other)),
        }
    }

    pub(crate) fn object(&mut self, field: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        let name = self.name(field);
        match self.value(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(wrong_kind(&name, "an object", &other)),
        }
    }

    /// Drops fields that change nothing a client could miss.
    pub(crate) fn ignore(&mut self, fields: &[&str]) {
        for field in fields {
            self.map.shift_remove(*field);
        }
    }

    /// That nothing is left.
    ///
    /// # Errors
    /// Names the first field that is.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        let Self { path, map } = self;
        match map.into_iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((field, _)) => {
                let name = format!("{path}{}", short(&field));
                let message = format!("the field {name} is not supported here; leave it out");
                let code = Some("unknown_parameter");
                Err(ApiError { code, ..ApiError::field(name, message) })
            }
        }
    }
}

/// An integer; 5.0 is one as well, as some clients write it.
fn whole(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15);
    value.as_i64().or_else(|| float().map(|x| x as i64))
}

/// Names come from strangers and go into messages.
fn short(name: &str) -> String {
    name.chars().take(100).collect()
}

/// A field that is of another kind.
pub(crate) fn wrong_kind(name: &str, wanted: &str, found: &Value) -> ApiError {
    let message = format!("{name} must be {wanted}, found {}", kind(found));
    ApiError { code: Some("invalid_type"), ..ApiError::field(name, message) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        Fields::of(value, "").unwrap()
    }

    #[test]
    fn fields_are_named_when_they_are_wrong() {
        let mut all = fields(json!({"n": "x", "t": 5.0, "u": 1.5, "big": 1e300, "none": null}));
        assert_eq!(all.integer("t").unwrap(), Some(5));
        assert_eq!(all.text("none").unwrap(), None);
        for error in [all.integer("n").unwrap_err(), all.integer("u").unwrap_err()] {
            assert!(error.message.contains("must be an integer, found"), "{error}");
        }
        assert_eq!(all.integer("big").unwrap_err().param.as_deref(), Some("big"));
        assert_eq!(all.required("prompt").unwrap_err().param.as_deref(), Some("prompt"));
        assert!(all.finish().is_ok());
        let mut nested = Fields::of(json!({"deep": 1, "extra": 2}), "messages[3]").unwrap();
        let error = nested.text("deep").unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[3].deep"));
        assert_eq!(nested.finish().unwrap_err().param.as_deref(), Some("messages[3].extra"));
        assert!(Fields::of(json!([1]), "").is_err());
    }

    #[test]
    fn counts_have_limits() {
        for value in [-1, 11] {
            let error = fields(json!({"n": value})).count("n", 10).unwrap_err();
            assert!(error.message.contains("from 0 to 10"), "{error}");
        }
        assert_eq!(fields(json!({"n": 10})).count("n", 10).unwrap(), Some(10));
    }
}
