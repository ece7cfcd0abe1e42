//! JSON node data: an object whose fields are kept in their order, numbers digit by digit.

use serde_json::{Map, Value};

/// The JSON schema that this version writes, and the highest that it reads.
pub(super) const SCHEMA: u64 = 1;

/// The value at a path of object fields; `null` counts as missing.
pub(super) fn at<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = object.get(*first).filter(|value| !value.is_null())?;
    if rest.is_empty() { Some(value) } else { at(value.as_object()?, rest) }
}

/// Sets the value at a path, making objects on the way where there are none.
pub(super) fn set(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        object.insert((*first).to_owned(), value);
        return;
    }
    let inner = object.entry(*first).or_insert_with(|| Value::Object(Map::new()));
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    if let Some(inner) = inner.as_object_mut() {
        set(inner, rest, value);
    }
}

/// Removes the value at a path, and an object on the way that is empty then.
pub(super) fn remove(object: &mut Map<String, Value>, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    if !rest.is_empty() {
        let Some(inner) = object.get_mut(*first).and_then(Value::as_object_mut) else { return };
        remove(inner, rest);
        if !inner.is_empty() {
            return;
        }
    }
    object.shift_remove(*first);
}

/// What a value is, for errors that must not show it.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "is null",
        Value::Bool(_) => "is true or false",
        Value::Number(_) => "is a number",
        Value::String(_) => "is text",
        Value::Array(_) => "is an array",
        Value::Object(_) => "is an object",
    }
}
