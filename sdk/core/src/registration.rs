//! Names and data of the znodes by which live clients are seen, in ZMS's form.
//!
//! A client registers as an ephemeral child of its topic or group. The name is ZMS's, so that its console lists ours
//! beside its own; the data is ours, and ZMS's clients have none.

use std::fmt;

use serde_json::{Value, json};

/// Between the parts of a name.
const SEPARATOR: &str = "||";
/// Random numbers of names are below this.
const NUMBERS: u64 = 100_000;
/// Data above this is not read: what a client says about itself is small.
const MAX_DATA: usize = 64 * 1024;

/// The name of a client's node: `<ip>||<instance>||<sdk version>||<local date-time>||<number>`.
///
/// ```
/// use zms_core::registration::{RegistrationName, StartedAt};
///
/// let name = RegistrationName::new("10.1.1.1", "billing-7", "0.1.0", StartedAt::from_unix_ms(0), 123_456_789);
/// assert_eq!(name.to_string(), "10.1.1.1||billing-7||0.1.0||1970-01-01T00:00:00.000||56789");
/// assert_eq!(RegistrationName::parse(&name.to_string()), name);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationName {
    /// The client's address.
    pub ip: String,
    /// What the client calls itself; not unique.
    pub instance: String,
    /// The version of its SDK.
    pub version: String,
    /// When it started, as it wrote it: an ISO date-time of its own clock and zone.
    pub started_at: String,
    /// Tells clients with equal parts before it apart; none in a foreign name that has no number there.
    pub number: Option<u32>,
}

impl RegistrationName {
    /// The name of a client that starts at `started_at`, with any random number as `random`. Characters that a path or
    /// the form of the name cannot hold become `_`.
    pub fn new(ip: &str, instance: &str, version: &str, started_at: StartedAt, random: u64) -> Self {
        Self {
            ip: clean(ip),
            instance: clean(instance),
            version: clean(version),
            started_at: started_at.to_string(),
            number: u32::try_from(random % NUMBERS).ok(),
        }
    }

    /// Reads any child's name. Parts that are missing are empty; of too many, those in the middle belong to the
    /// instance.
    pub fn parse(name: &str) -> Self {
        let parts: Vec<&str> = name.split(SEPARATOR).collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let tail = parts.len().max(5) - 3;
        let instance = parts.get(1..tail.min(parts.len())).unwrap_or_default().join(SEPARATOR);
        Self {
            ip: part(0).to_owned(),
            instance,
            version: part(tail).to_owned(),
            started_at: part(tail + 1).to_owned(),
            number: part(tail + 2).parse().ok(),
        }
    }
}

impl fmt::Display for RegistrationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.ip, &self.instance, &self.version, &self.started_at] {
            write!(f, "{part}{SEPARATOR}")?;
        }
        self.number.map_or(Ok(()), |number| write!(f, "{number}"))
    }
}

fn clean(part: &str) -> String {
    let is_bad = |c: char| {
        matches!(c, '/' | '|' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
            || c.is_control()
            || c.is_whitespace()
    };
    part.chars().map(|c| if is_bad(c) { '_' } else { c }).collect()
}

/// A date-time for a name; shown as `2026-01-31T23:59:59.999`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedAt {
    ms: i64,
}

impl StartedAt {
    /// A moment in milliseconds since the Unix epoch. A name shows local time: add the zone's offset where it is known.
    pub fn from_unix_ms(ms: i64) -> Self {
        Self { ms }
    }
}

impl fmt::Display for StartedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: i64 = 24 * 60 * 60 * 1000;
        let (year, month, day) = civil(self.ms.div_euclid(DAY));
        let ms = self.ms.rem_euclid(DAY);
        let (seconds, millis) = (ms / 1000, ms % 1000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
    }
}

/// Year, month and day of a day since 1970-01-01. Years are counted from March, so that the leap day is the last of its
/// year, in cycles of 400 years.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468; // since 0000-03-01
    let (cycle, of_cycle) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// What a client's node says about it: JSON, for clients of this SDK only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationData {
    /// The migration protocol that the client speaks; 0: none.
    pub proto: u32,
    /// What it does with the topic.
    pub role: Role,
}

/// What a registered client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It sends.
    Producer,
    /// It is a member of the group.
    Member,
    /// Something that this version does not know.
    Other,
}

impl RegistrationData {
    /// The node's data.
    ///
    /// ```
    /// use zms_core::registration::{RegistrationData, Role};
    ///
    /// let data = RegistrationData { proto: 0, role: Role::Producer };
    /// assert_eq!(data.to_json(), r#"{"proto":0,"role":"producer"}"#);
    /// assert_eq!(RegistrationData::parse(data.to_json().as_bytes()), Some(data));
    /// assert_eq!(RegistrationData::parse(b""), None);
    /// ```
    pub fn to_json(&self) -> String {
        let role = match self.role {
            Role::Producer => "producer",
            Role::Member => "member",
            Role::Other => "other",
        };
        json!({ "proto": self.proto, "role": role }).to_string()
    }

    /// Reads a node's data; unknown fields are ignored. `None` for a client that is not of this SDK: it has no data, or
    /// data that makes no sense.
    pub fn parse(data: &[u8]) -> Option<Self> {
        if data.len() > MAX_DATA {
            return None;
        }
        let fields: Value = serde_json::from_slice(data).ok()?;
        let proto = fields.get("proto")?.as_u64()?;
        let role = match fields.get("role")?.as_str()? {
            "producer" => Role::Producer,
            "member" => Role::Member,
            _ => Role::Other,
        };
        Some(Self { proto: u32::try_from(proto).ok()?, role })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn date_times_are_those_of_the_calendar() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000"),
            (-1, "1969-12-31T23:59:59.999"),
            (951_782_400_000, "2000-02-29T00:00:00.000"),
            (1_709_164_800_123, "2024-02-29T00:00:00.123"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000"),
            (1_767_225_599_999, "2025-12-31T23:59:59.999"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000"),
        ] {
            assert_eq!(StartedAt::from_unix_ms(ms).to_string(), expected);
        }
    }

    #[test]
    fn names_of_zms_are_read() {
        let name = RegistrationName::parse("10.1.1.1||billing||1.1.2||2021-03-04T05:06:07.890||42");
        assert_eq!(name.ip, "10.1.1.1");
        assert_eq!(name.instance, "billing");
        assert_eq!(name.version, "1.1.2");
        assert_eq!(name.started_at, "2021-03-04T05:06:07.890");
        assert_eq!(name.number, Some(42));
    }

    #[test]
    fn foreign_names_are_read_as_far_as_they_go() {
        let name = RegistrationName::parse("10.1.1.1||billing||1.1.2");
        assert_eq!((&name.ip[..], &name.instance[..], &name.version[..]), ("10.1.1.1", "billing", "1.1.2"));
        assert_eq!((&name.started_at[..], name.number), ("", None));

        let name = RegistrationName::parse("10.1.1.1||a||b||1||t||7");
        assert_eq!((&name.instance[..], &name.version[..], name.number), ("a||b", "1", Some(7)));

        assert_eq!(RegistrationName::parse("lock-0000").ip, "lock-0000");
        assert_eq!(RegistrationName::parse("").ip, "");
        assert_eq!(RegistrationName::parse("a||b||c||d||x").number, None);
    }

    #[test]
    fn data_of_later_versions_is_understood_and_nonsense_is_not() {
        let parse = |text: &str| RegistrationData::parse(text.as_bytes());
        let later = r#"{"role":"member","ack":{"id":"x","round":3},"proto":2}"#;
        assert_eq!(parse(later), Some(RegistrationData { proto: 2, role: Role::Member }));
        let other = r#"{"proto":1,"role":"mirror"}"#;
        assert_eq!(parse(other), Some(RegistrationData { proto: 1, role: Role::Other }));
        for nonsense in
            ["", "{}", "[]", "null", r#"{"proto":-1,"role":"member"}"#, r#"{"proto":"1"}"#, "{\"proto"]
        {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
        let padded = format!("{}{later}", " ".repeat(MAX_DATA));
        assert_eq!(parse(&padded), None);
    }

    proptest! {
        #[test]
        fn a_name_is_one_path_segment_and_reads_as_it_was_made(
            ip in any::<String>(), instance in any::<String>(), ms in -1i64 << 40..1 << 45, random in any::<u64>(),
        ) {
            let name = RegistrationName::new(&ip, &instance, "0.1.0", StartedAt::from_unix_ms(ms), random);
            let text = name.to_string();
            prop_assert!(!text.contains('/') && !text.chars().any(char::is_control));
            prop_assert!(name.number.is_some_and(|number| number < 100_000));
            prop_assert_eq!(RegistrationName::parse(&text), name);
        }

        #[test]
        fn any_name_and_any_data_is_read_without_a_panic(
            name in any::<String>(), parts in "(a|[|]|[|][|]){0,12}", data in any::<Vec<u8>>(),
        ) {
            RegistrationName::parse(&name);
            RegistrationName::parse(&parts);
            let _ = RegistrationData::parse(&data);
        }
    }
}
