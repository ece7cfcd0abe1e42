//! Headers of messages that were read, as views into the memory that the messages share.

use std::{fmt, ops::Range, slice};

use bytes::Bytes;

use crate::message::Header;

/// One header of a message that was read.
///
/// [`Header`]`::from` makes one of its own out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderRef<'a> {
    /// The header's name. Bytes that are no UTF-8 became U+FFFD.
    pub name: &'a str,
    /// Its value; absent and empty differ.
    pub value: Option<&'a [u8]>,
}

impl From<HeaderRef<'_>> for Header {
    fn from(header: HeaderRef<'_>) -> Self {
        Self { name: header.name.to_owned(), value: header.value.map(Bytes::copy_from_slice) }
    }
}

/// The headers of a message that was read, in order. Names may repeat.
///
/// ```
/// # fn handle(delivery: &zms_sdk::Delivery) {
/// for header in delivery.headers() {
///     println!("{} has {} bytes", header.name, header.value.unwrap_or_default().len());
/// }
/// # }
/// ```
#[derive(Clone, Copy, Default)]
pub struct Headers<'a> {
    table: Option<&'a HeaderTable>,
    entries: &'a [Entry],
}

impl<'a> Headers<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last header of this name: the one that counts where a name repeats.
    pub fn last(&self, name: &str) -> Option<HeaderRef<'a>> {
        self.iter().rev().find(|header| header.name == name)
    }

    /// One after the other.
    pub fn iter(&self) -> HeadersIter<'a> {
        HeadersIter { table: self.table, entries: self.entries.iter() }
    }

    /// Bytes of names and values.
    pub(crate) fn size(&self) -> usize {
        self.iter().map(|header| header.name.len() + header.value.map_or(0, <[u8]>::len)).sum()
    }
}

impl fmt::Debug for Headers<'_> {
    /// Values are left out: they are the service's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|header| header.name)).finish()
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = HeaderRef<'a>;
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Headers<'a> {
    type Item = HeaderRef<'a>;
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

/// Goes through [`Headers`].
#[derive(Debug, Clone)]
pub struct HeadersIter<'a> {
    table: Option<&'a HeaderTable>,
    entries: slice::Iter<'a, Entry>,
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<HeaderRef<'a>> {
        Some(self.table?.header(self.entries.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl DoubleEndedIterator for HeadersIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.table?.header(self.entries.next_back()?))
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}

/// The headers of many messages. Empty, it takes no memory of its own.
#[derive(Debug, Default)]
pub(crate) struct HeaderTable {
    names: String,
    values: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: Range<usize>,
    value: Option<Range<usize>>,
}

impl HeaderTable {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of names and values.
    pub(crate) fn size(&self) -> usize {
        self.names.len() + self.values.len()
    }

    pub(crate) fn push(&mut self, name: &str, value: Option<&[u8]>) {
        let start = self.names.len();
        self.names.push_str(name);
        let value = value.map(|value| {
            let start = self.values.len();
            self.values.extend_from_slice(value);
            start..self.values.len()
        });
        self.entries.push(Entry { name: start..self.names.len(), value });
    }

    /// Those of one message, which were pushed one after the other.
    pub(crate) fn part(&self, range: Range<usize>) -> Headers<'_> {
        Headers { table: Some(self), entries: &self.entries[range] }
    }

    fn header(&self, entry: &Entry) -> HeaderRef<'_> {
        let value = entry.value.clone().map(|range| &self.values[range]);
        HeaderRef { name: &self.names[entry.name.clone()], value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_and_absent_values_keep_their_order() {
        let mut table = HeaderTable::default();
        table.push("another message's", Some(b"x"));
        for (name, value) in [("a", Some(&b"1"[..])), ("b", None), ("a", Some(b"")), ("", Some(b"2"))] {
            table.push(name, value);
        }
        let headers = table.part(1..5);
        let seen: Vec<_> = headers.iter().map(|header| (header.name, header.value)).collect();
        assert_eq!(seen, [("a", Some(&b"1"[..])), ("b", None), ("a", Some(b"")), ("", Some(b"2"))]);
        assert_eq!(headers.last("a").unwrap().value, Some(&b""[..]));
        assert_eq!(headers.last("b").unwrap().value, None);
        assert_eq!(headers.last("another message's"), None);
        assert_eq!((headers.len(), headers.size()), (4, 5));
    }

    #[test]
    fn none_are_empty() {
        let headers = Headers::default();
        assert!(headers.is_empty());
        assert_eq!(headers.iter().next(), None);
        assert!(HeaderTable::default().part(0..0).is_empty());
    }

    #[test]
    fn values_are_not_shown() {
        let mut table = HeaderTable::default();
        table.push("token", Some(b"secret"));
        assert_eq!(format!("{:?}", table.part(0..1)), r#"["token"]"#);
    }
}
