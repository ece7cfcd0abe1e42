//! How public views are written by serde: names for programs, times in milliseconds.

use std::{
    fmt::Display,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serializer;

pub(crate) fn millis<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole(*duration))
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn some_millis<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => to.serialize_some(&whole(*duration)),
        None => to.serialize_none(),
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// Milliseconds since the Unix epoch.
#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn some_time<S: Serializer>(at: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => to.serialize_some(&whole(at.duration_since(UNIX_EPOCH).unwrap_or_default())),
        None => to.serialize_none(),
    }
}

pub(crate) fn text<T: Display, S: Serializer>(shown: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(shown)
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn some_text<T: Display, S: Serializer>(shown: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match shown {
        Some(shown) => to.serialize_some(&format_args!("{shown}")),
        None => to.serialize_none(),
    }
}

/// JSON's numbers are exact up to 53 bits in many programs.
#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn some_hash<S: Serializer>(hash: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match hash {
        Some(hash) => to.serialize_some(&format_args!("{hash:016x}")),
        None => to.serialize_none(),
    }
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
