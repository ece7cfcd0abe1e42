//! Changes of a document. Setting a field to the value that it has changes nothing, so that its spelling survives.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    document::{Body, Document, Key},
    json,
};

impl Document {
    pub(crate) fn set_text(&mut self, key: &Key, text: Option<&str>) {
        if self.text(key).is_ok_and(|found| found.as_deref() == text) {
            return;
        }
        self.write(key, text, |text| Value::from(text));
    }

    pub(crate) fn set_flag(&mut self, key: &Key, flag: bool) {
        if self.flag(key).is_ok_and(|found| found == flag) {
            return;
        }
        self.write(key, Some(if flag { "true" } else { "false" }), |_| Value::Bool(flag));
    }

    pub(crate) fn set_list(&mut self, key: &Key, list: &[String]) {
        if self.list(key).is_ok_and(|found| found == list) {
            return;
        }
        let text = list.join(",");
        self.write(key, (!list.is_empty()).then_some(&text), |_| Value::from(list.to_vec()));
    }

    pub(crate) fn set_table(&mut self, key: &Key, table: &BTreeMap<String, String>) {
        let found = self.table(key).unwrap_or_default();
        for name in found.keys().filter(|name| !table.contains_key(*name)) {
            self.write_entry(key, name, None);
        }
        for (name, value) in table.iter().filter(|(name, value)| found.get(*name) != Some(value)) {
            self.write_entry(key, name, Some(value));
        }
    }

    fn write(&mut self, key: &Key, text: Option<&str>, json_value: impl FnOnce(&str) -> Value) {
        self.original = None;
        match (&mut self.body, text) {
            (Body::Json(object), Some(text)) => json::set(object, key.json, json_value(text)),
            (Body::Json(object), None) => json::remove(object, key.json),
            (Body::Properties(properties), Some(text)) => properties.set(key.properties, text),
            (Body::Properties(properties), None) => properties.remove(key.properties),
        }
    }

    fn write_entry(&mut self, key: &Key, name: &str, value: Option<&str>) {
        self.original = None;
        let path: Vec<&str> = key.json.iter().copied().chain([name]).collect();
        let flat = format!("{}{name}", key.properties);
        match (&mut self.body, value) {
            (Body::Json(object), Some(value)) => json::set(object, &path, Value::from(value)),
            (Body::Json(object), None) => json::remove(object, &path),
            (Body::Properties(properties), Some(value)) => properties.set(&flat, value),
            (Body::Properties(properties), None) => properties.remove(&flat),
        }
    }
}
