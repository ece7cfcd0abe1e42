//! What a command answers: a table for people, JSON for programs.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value};
use zms_sdk::admin::Entry;

use crate::{failure::Failure, text::visible};

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Output {
    #[default]
    Table,
    Json,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum View {
    /// One object.
    One(Value),
    /// A list of objects with the columns to show.
    Many { columns: &'static [&'static str], rows: Vec<Value> },
    /// A report: an object for programs, its own text for people, and the failure that it comes to.
    Report { value: Value, text: String, failure: Option<Failure> },
    /// Everything was printed on the way.
    Printed,
}

/// The field of a row that says why its node cannot be read.
const PROBLEM: &str = "problem";

impl View {
    /// Entries of the registry, shown by `json`; what cannot be read has a `problem`.
    pub(crate) fn entries<M>(
        columns: &'static [&'static str],
        entries: &[Entry<M>],
        json: impl Fn(&str, &M) -> Value,
    ) -> Self {
        let row = |entry: &Entry<M>| match &entry.meta {
            Ok(Some(meta)) => json(&entry.name, meta),
            Ok(None) => serde_json::json!({ "name": entry.name, PROBLEM: "the node is empty" }),
            Err(error) => serde_json::json!({ "name": entry.name, PROBLEM: error.to_string() }),
        };
        Self::Many { columns, rows: entries.iter().map(row).collect() }
    }

    /// What was removed.
    pub(crate) fn removed(what: &str, name: &str) -> Self {
        Self::One(serde_json::json!({ "removed": what, "name": name }))
    }

    pub(crate) fn render(&self, output: Output) -> String {
        match (self, output) {
            (Self::Printed, _) => String::new(),
            (Self::Report { text, .. }, Output::Table) => text.clone(),
            (Self::One(value) | Self::Report { value, .. }, Output::Json) => format!("{value:#}\n"),
            (Self::Many { rows, .. }, Output::Json) => format!("{:#}\n", Value::Array(rows.clone())),
            (Self::One(value), Output::Table) => fields(value),
            (Self::Many { columns, rows }, Output::Table) => list(columns, rows),
        }
    }

    /// A list with unreadable entries is a failure after it was printed, and a report may be one.
    pub(crate) fn outcome(self) -> Result<(), Failure> {
        let rows = match self {
            Self::One(_) | Self::Printed => return Ok(()),
            Self::Report { failure, .. } => return failure.map_or(Ok(()), Err),
            Self::Many { rows, .. } => rows,
        };
        match rows.iter().filter(|row| row.get(PROBLEM).is_some()).count() {
            0 => Ok(()),
            problems => Err(Failure::Unreadable(problems)),
        }
    }
}

fn list(columns: &[&str], rows: &[Value]) -> String {
    let has_problems = rows.iter().any(|row| row.get(PROBLEM).is_some());
    let columns: Vec<&str> = columns.iter().copied().chain(has_problems.then_some(PROBLEM)).collect();
    let mut table = plain_table();
    table.set_header(columns.iter().map(|column| column.to_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|column| row.get(*column).map_or_else(String::new, cell)));
    }
    flush_left(&mut table);
    format!("{}\n", table.trim_fmt())
}

/// An object for people: a line for each of its fields.
pub(crate) fn fields(value: &Value) -> String {
    let mut table = plain_table();
    for (name, value) in value.as_object().unwrap_or(&Map::new()) {
        table.add_row([name.clone(), cell(value)]);
    }
    flush_left(&mut table);
    format!("{}\n", table.trim_fmt())
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn flush_left(table: &mut Table) {
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
