//! What the doctor found.

use serde_json::{Value, json};

use crate::text::visible;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Something does not work, or will not when it is needed.
    Error,
    /// Something works now and may stop, or does something else than it says.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One finding: about what, what was found, what that means, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// `registry`, or the kind and name of an entry: `topic orders`.
    pub(super) subject: String,
    pub(super) found: String,
    pub(super) meaning: String,
    pub(super) action: String,
}

impl Finding {
    pub(super) fn error(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Severity::Error, subject, found)
    }

    pub(super) fn warning(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Severity::Warning, subject, found)
    }

    pub(super) fn note(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Severity::Note, subject, found)
    }

    fn new(severity: Severity, subject: impl Into<String>, found: impl Into<String>) -> Self {
        let (meaning, action) = (String::new(), String::new());
        Self { severity, subject: subject.into(), found: found.into(), meaning, action }
    }

    pub(super) fn means(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    pub(super) fn todo(mut self, action: impl Into<String>) -> Self {
        self.action = action.into();
        self
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "subject": self.subject,
            "found": self.found,
            "meaning": self.meaning,
            "action": self.action,
        })
    }

    pub(super) fn text(&self) -> String {
        let shown = [&self.subject, &self.found, &self.meaning, &self.action].map(|text| visible(text));
        let [subject, found, meaning, action] = shown;
        let severity = self.severity.as_str();
        format!("{severity:<8} {subject}: {found}\n         {meaning}\n         do: {action}\n")
    }
}
