//! Clients that are connected now, by what they registered.

use zms_core::registration::{RegistrationData, RegistrationName};

/// A client that is registered below a topic (a producer) or a group (a consumer).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveClient {
    /// The node's name.
    pub node: String,
    /// The client's address.
    pub ip: Option<String>,
    /// The name of the instance.
    pub instance: Option<String>,
    /// The version of its SDK.
    pub version: Option<String>,
    /// When it was started: its local time, ISO 8601.
    pub started: Option<String>,
    /// The migration protocol that it speaks, 0 if none; `None` for a client of ZMS's own SDK.
    pub proto: Option<u32>,
    /// What it says of itself; clients of ZMS's own SDK say nothing.
    pub data: Option<serde_json::Value>,
}

impl LiveClient {
    /// Reads a name of the form `<ip>||<instance>||<version>||<started>||<random>`; parts that are missing stay `None`.
    pub(super) fn new(node: String, data: &[u8]) -> Self {
        let name = RegistrationName::parse(&node);
        let part = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        Self {
            ip: part(name.ip),
            instance: part(name.instance),
            version: part(name.version),
            started: part(name.started_at),
            proto: RegistrationData::parse(data).map(|data| data.proto),
            data: serde_json::from_slice(data).ok(),
            node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_into_its_parts() {
        let client = LiveClient::new("10.0.0.1||pod-1||2.1.0||2024-05-01T10:00:00||4711".to_owned(), b"");
        assert_eq!(client.ip.as_deref(), Some("10.0.0.1"));
        assert_eq!(client.instance.as_deref(), Some("pod-1"));
        assert_eq!(client.version.as_deref(), Some("2.1.0"));
        assert_eq!(client.started.as_deref(), Some("2024-05-01T10:00:00"));
        assert_eq!((client.proto, client.data), (None, None));
    }

    #[test]
    fn an_odd_name_is_shown_as_far_as_it_goes() {
        let client = LiveClient::new("10.0.0.1||||x".to_owned(), br#"{"proto":1,"role":"member"}"#);
        assert_eq!((client.instance, client.version.as_deref(), client.started), (None, Some("x"), None));
        assert_eq!(client.proto, Some(1));
        assert_eq!(client.data, Some(serde_json::json!({ "proto": 1, "role": "member" })));
    }
}
