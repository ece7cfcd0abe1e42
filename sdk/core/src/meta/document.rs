//! A node's data with everything in it, known or not: read and set field by field, written in the format found.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    error::{MetaError, shown},
    json,
    properties::Properties,
};

/// The largest node data accepted, in bytes. `ZooKeeper`'s own limit is about 1 MiB.
pub const MAX_SIZE: usize = 256 * 1024;

/// How a node's data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A JSON object. Java services of ZMS cannot read it.
    #[default]
    Json,
    /// Java's `.properties` text, as ZMS writes it.
    Properties,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Properties => "properties",
        })
    }
}

/// Where a field stands in either format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The key; of a table, what its keys begin with.
    pub(crate) properties: &'static str,
    /// The path of fields.
    pub(crate) json: &'static [&'static str],
}

/// A node's data.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Document {
    path: String,
    /// The data as read; `None` once something was changed.
    pub(super) original: Option<Bytes>,
    pub(super) body: Body,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Body {
    Json(Map<String, Value>),
    Properties(Properties),
}

impl Document {
    /// Reads a node's data; `None` if it is empty or blank: its writer has created the node and not yet filled it.
    pub(crate) fn parse(path: &str, data: &[u8]) -> Result<Option<Self>, MetaError> {
        if data.len() > MAX_SIZE {
            return Err(MetaError::TooLarge { path: path.to_owned(), size: data.len(), limit: MAX_SIZE });
        }
        let body = match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => return Ok(None),
            Some(b'{') => Body::Json(parse_json(path, data)?),
            Some(_) => Body::Properties(parse_properties(path, data)?),
        };
        Ok(Some(Self { path: path.to_owned(), original: Some(Bytes::copy_from_slice(data)), body }))
    }

    /// An empty document for a node to be created.
    pub(crate) fn new(path: &str, format: Format) -> Self {
        let body = match format {
            Format::Json => Body::Json(Map::from_iter([("schema".to_owned(), json::SCHEMA.into())])),
            Format::Properties => Body::Properties(Properties::default()),
        };
        Self { path: path.to_owned(), original: None, body }
    }

    pub(crate) fn format(&self) -> Format {
        match self.body {
            Body::Json(_) => Format::Json,
            Body::Properties(_) => Format::Properties,
        }
    }

    /// Refuses `.properties` text where only JSON is written.
    pub(crate) fn require_json(&self) -> Result<(), MetaError> {
        match self.body {
            Body::Json(_) => Ok(()),
            Body::Properties(_) => Err(MetaError::Syntax {
                path: self.path.clone(),
                format: Format::Json,
                reason: "it does not begin with '{'".to_owned(),
            }),
        }
    }

    /// Refuses a JSON document of a schema that this version does not know.
    pub(crate) fn check_schema(&self) -> Result<(), MetaError> {
        match self.schema()? {
            Some(schema) if schema != json::SCHEMA => {
                let path = self.path.clone();
                Err(MetaError::Schema { path, found: schema.to_string(), supported: json::SCHEMA })
            }
            _ => Ok(()),
        }
    }

    /// The schema of a JSON document; `.properties` have none.
    pub(crate) fn schema(&self) -> Result<Option<u64>, MetaError> {
        let Body::Json(object) = &self.body else { return Ok(None) };
        match object.get("schema") {
            None => Err(self.missing_field("schema", &format!("the number {}", json::SCHEMA))),
            Some(value) => match value.as_u64() {
                None | Some(0) => Err(self.invalid_field("schema", "is not a positive number", "1")),
                schema => Ok(schema),
            },
        }
    }

    /// A text without white space around it; `None` if missing or empty.
    pub(crate) fn text(&self, key: &Key) -> Result<Option<String>, MetaError> {
        let text = match &self.body {
            Body::Properties(properties) => properties.value(key.properties),
            Body::Json(object) => match json::at(object, key.json) {
                None => None,
                Some(Value::String(text)) => Some(text.as_str()),
                Some(other) => return Err(self.invalid(key, json::kind(other), "a text")),
            },
        };
        Ok(text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned))
    }

    /// A text that `parse` turns into something; `accepted` says what it takes.
    pub(crate) fn parsed<T>(
        &self,
        key: &Key,
        accepted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, MetaError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        parse(&text).map(Some).ok_or_else(|| self.invalid(key, &shown(&text), accepted))
    }

    /// A yes or no; missing is no.
    pub(crate) fn flag(&self, key: &Key) -> Result<bool, MetaError> {
        if let Body::Json(object) = &self.body {
            return match json::at(object, key.json) {
                None => Ok(false),
                Some(Value::Bool(flag)) => Ok(*flag),
                Some(other) => Err(self.invalid(key, json::kind(other), "true or false")),
            };
        }
        let flag = self.parsed(key, "true or false", |text| text.to_ascii_lowercase().parse().ok())?;
        Ok(flag.unwrap_or(false))
    }

    /// A whole number; missing is 0.
    pub(crate) fn number(&self, key: &Key) -> Result<u64, MetaError> {
        let Body::Json(object) = &self.body else {
            return Ok(self.parsed(key, "a whole number", |text| text.parse().ok())?.unwrap_or(0));
        };
        let Some(value) = json::at(object, key.json) else { return Ok(0) };
        value.as_u64().ok_or_else(|| self.invalid(key, json::kind(value), "a whole number"))
    }

    /// Texts: a JSON array, or separated by commas or white space. Empty ones are left out.
    pub(crate) fn list(&self, key: &Key) -> Result<Vec<String>, MetaError> {
        let Body::Json(object) = &self.body else {
            let text = self.text(key)?.unwrap_or_default();
            let entries = text.split(|char: char| char == ',' || char.is_whitespace());
            return Ok(entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect());
        };
        let invalid = |value| self.invalid(key, json::kind(value), "an array of texts");
        let Some(value) = json::at(object, key.json) else { return Ok(Vec::new()) };
        let entries = value.as_array().ok_or_else(|| invalid(value))?;
        let entries = entries.iter().map(|entry| Ok(entry.as_str().ok_or_else(|| invalid(entry))?.trim()));
        let entries: Vec<&str> = entries.collect::<Result<_, MetaError>>()?;
        Ok(entries.into_iter().filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
    }

    /// Names with their values as text. Values are never part of the error.
    pub(crate) fn table(&self, key: &Key) -> Result<BTreeMap<String, String>, MetaError> {
        let object = match &self.body {
            Body::Json(object) => object,
            Body::Properties(properties) => {
                let entries = properties.pairs().filter_map(|(name, value)| {
                    let name = name.strip_prefix(key.properties).filter(|name| !name.is_empty())?;
                    Some((name.to_owned(), value.to_owned()))
                });
                return Ok(entries.collect());
            }
        };
        let Some(value) = json::at(object, key.json) else { return Ok(BTreeMap::new()) };
        let accepted = "an object of texts, numbers, true and false";
        let entries = value.as_object().ok_or_else(|| self.invalid(key, json::kind(value), accepted))?;
        let mut table = BTreeMap::new();
        for (name, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
            let text = scalar(value).ok_or_else(|| {
                self.invalid_field(&format!("{}.{name}", self.field(key)), json::kind(value), "a text")
            })?;
            table.insert(name.clone(), text);
        }
        Ok(table)
    }

    /// The data to write: byte for byte what was read if nothing was changed.
    pub(crate) fn encode(&self) -> Bytes {
        if let Some(original) = &self.original {
            return original.clone();
        }
        match &self.body {
            // Display of a JSON value cannot fail, unlike `to_vec` by its signature.
            Body::Json(object) => Value::Object(object.clone()).to_string().into(),
            Body::Properties(properties) => properties.encode().into(),
        }
    }

    /// A required field that is missing or empty.
    pub(crate) fn missing(&self, key: &Key, accepted: &str) -> MetaError {
        self.missing_field(&self.field(key), accepted)
    }

    /// The field's name as this document spells it.
    fn field(&self, key: &Key) -> String {
        match self.format() {
            Format::Json => key.json.join("."),
            Format::Properties => key.properties.trim_end_matches('.').to_owned(),
        }
    }

    fn invalid(&self, key: &Key, found: &str, accepted: &str) -> MetaError {
        self.invalid_field(&self.field(key), found, accepted)
    }

    fn invalid_field(&self, field: &str, found: &str, accepted: &str) -> MetaError {
        MetaError::Invalid {
            path: self.path.clone(),
            field: field.to_owned(),
            found: found.to_owned(),
            accepted: accepted.to_owned(),
        }
    }

    fn missing_field(&self, field: &str, accepted: &str) -> MetaError {
        MetaError::Missing { path: self.path.clone(), field: field.to_owned(), accepted: accepted.to_owned() }
    }
}

impl fmt::Debug for Document {
    /// The content is left out: a careless registry may hold a secret in plain text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("path", &self.path)
            .field("format", &self.format())
            .finish_non_exhaustive()
    }
}

fn parse_json(path: &str, data: &[u8]) -> Result<Map<String, Value>, MetaError> {
    serde_json::from_slice(data).map_err(|error| MetaError::Syntax {
        path: path.to_owned(),
        format: Format::Json,
        reason: error.to_string(),
    })
}

fn parse_properties(path: &str, data: &[u8]) -> Result<Properties, MetaError> {
    Properties::parse(data).map_err(|malformed| MetaError::Syntax {
        path: path.to_owned(),
        format: Format::Properties,
        reason: format!("line {}: \\u is not followed by four hexadecimal digits", malformed.line),
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
