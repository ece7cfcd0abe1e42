//! Records as they come from a broker: many in one piece of memory.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use zms_core::flow::Load;

use crate::headers::{HeaderTable, Headers};

/// Records of one partition that follow one another in its log, in one piece of memory: a record costs no allocation of
/// its own.
///
/// The memory is given back with the last of them, so that they are few: no more than [`Records::FULL`] with the bytes
/// of all but the last one's headers, and a record whose key and payload are larger than that is alone.
#[derive(Debug)]
pub struct Records {
    partition: i32,
    entries: Vec<Entry>,
    bytes: Bytes,
    headers: Option<Arc<HeaderTable>>,
}

/// A record among others.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Timestamp in milliseconds since the Unix epoch, where the broker has one.
    pub timestamp_ms: Option<i64>,
    /// Key.
    pub key: Option<&'a [u8]>,
    /// Payload; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// Headers, in order.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// Bytes that count against limits: key, payload, names and values of headers.
    pub fn size(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.payload.map_or(0, <[u8]>::len) + self.headers.size()
    }
}

/// Where a record's parts are: its key, then its payload.
#[derive(Debug)]
struct Entry {
    offset: i64,
    timestamp_ms: Option<i64>,
    start: usize,
    key: Part,
    payload: Part,
    headers: Range<usize>,
}

/// The length of a part that may be absent, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part(usize);

impl Part {
    // No slice is that long.
    const ABSENT: Self = Self(usize::MAX);

    fn of(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::ABSENT, |bytes| Self(bytes.len()))
    }

    fn len(self) -> usize {
        if self == Self::ABSENT { 0 } else { self.0 }
    }
}

impl Entry {
    fn key(&self) -> Option<Range<usize>> {
        (self.key != Part::ABSENT).then(|| self.start..self.start + self.key.len())
    }

    fn payload(&self) -> Option<Range<usize>> {
        let start = self.start + self.key.len();
        (self.payload != Part::ABSENT).then(|| start..start + self.payload.len())
    }
}

impl Records {
    /// What lies together at most.
    pub const FULL: Load = Load { messages: 64, bytes: 64 << 10 };

    /// Their partition.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One of them.
    ///
    /// # Panics
    /// When `index` is not below the length; as the other methods with an index.
    pub fn get(&self, index: usize) -> Record<'_> {
        self.record(&self.entries[index])
    }

    /// The offset of one of them.
    pub fn offset(&self, index: usize) -> i64 {
        self.entries[index].offset
    }

    /// Bytes of one of them that count against limits: key, payload, names and values of headers.
    pub fn size(&self, index: usize) -> usize {
        self.entries[index].size(self.headers.as_deref())
    }

    /// The key of one of them.
    pub fn key(&self, index: usize) -> Option<&[u8]> {
        self.entries[index].key().map(|range| &self.bytes[range])
    }

    /// The payload of one of them.
    pub fn payload(&self, index: usize) -> Option<&[u8]> {
        self.entries[index].payload().map(|range| &self.bytes[range])
    }

    /// The key of one of them, to keep.
    pub fn key_bytes(&self, index: usize) -> Option<Bytes> {
        self.entries[index].key().map(|range| self.kept(range))
    }

    /// The payload of one of them, to keep.
    pub fn payload_bytes(&self, index: usize) -> Option<Bytes> {
        self.entries[index].payload().map(|range| self.kept(range))
    }

    /// One after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.entries.iter().map(|entry| self.record(entry))
    }

    /// Leaves out those whose offset, size and headers `keep` answers with `false`. Their bytes stay in memory as long
    /// as the others.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, usize, Headers<'_>) -> bool) {
        let table = self.headers.as_deref();
        self.entries.retain(|entry| keep(entry.offset, entry.size(table), entry.headers(table)));
    }

    /// Takes away those from `index` on. Both parts keep all bytes in memory.
    #[must_use]
    pub fn split_off(&mut self, index: usize) -> Self {
        Self {
            partition: self.partition,
            entries: self.entries.split_off(index),
            bytes: self.bytes.clone(),
            headers: self.headers.clone(),
        }
    }

    fn record(&self, entry: &Entry) -> Record<'_> {
        entry.record(self.partition, &self.bytes, self.headers.as_deref())
    }

    /// Shares the memory where that keeps little else alive, and copies otherwise.
    fn kept(&self, range: Range<usize>) -> Bytes {
        if range.len() >= self.bytes.len() / 2 {
            self.bytes.slice(range)
        } else {
            Bytes::copy_from_slice(&self.bytes[range])
        }
    }
}

impl Entry {
    fn size(&self, headers: Option<&HeaderTable>) -> usize {
        let headers = headers.map_or(0, |headers| headers.part(self.headers.clone()).size());
        self.key.len() + self.payload.len() + headers
    }

    fn record<'a>(&self, partition: i32, bytes: &'a [u8], headers: Option<&'a HeaderTable>) -> Record<'a> {
        Record {
            partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key().map(|range| &bytes[range]),
            payload: self.payload().map(|range| &bytes[range]),
            headers: self.headers(headers),
        }
    }

    fn headers<'a>(&self, table: Option<&'a HeaderTable>) -> Headers<'a> {
        table.map(|table| table.part(self.headers.clone())).unwrap_or_default()
    }
}

/// Puts [`Records`] together.
#[derive(Debug)]
pub struct RecordsBuilder {
    partition: i32,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    headers: HeaderTable,
}

impl RecordsBuilder {
    /// Begins with none, and room for this many with this many bytes of keys and payloads.
    pub fn with_capacity(partition: i32, room: Load) -> Self {
        Self {
            partition,
            entries: Vec::with_capacity(room.messages),
            bytes: Vec::with_capacity(room.bytes),
            headers: HeaderTable::default(),
        }
    }

    /// Whether a record of this size may follow on `load`, the records there are, within [`Records::FULL`].
    pub fn fits(load: Load, size: usize) -> bool {
        let Load { messages, bytes } = Records::FULL;
        load.messages == 0 || (load.messages < messages && load.bytes.saturating_add(size) <= bytes)
    }

    /// Adds a record.
    pub fn push(
        &mut self,
        offset: i64,
        timestamp_ms: Option<i64>,
        key: Option<&[u8]>,
        payload: Option<&[u8]>,
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(payload.unwrap_or_default());
        let headers = self.headers.len()..self.headers.len();
        let (key, payload) = (Part::of(key), Part::of(payload));
        self.entries.push(Entry { offset, timestamp_ms, start, key, payload, headers });
    }

    /// Adds a header to the record that was pushed last; without one, nothing.
    pub fn header(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(last) = self.entries.last_mut() {
            self.headers.push(name, value);
            last.headers.end = self.headers.len();
        }
    }

    /// What was pushed, headers included.
    pub fn load(&self) -> Load {
        Load { messages: self.entries.len(), bytes: self.bytes.len() + self.headers.size() }
    }

    /// The records pushed.
    pub fn build(self) -> Records {
        let Self { partition, entries, bytes, headers } = self;
        let headers = (headers.len() > 0).then(|| Arc::new(headers));
        Records { partition, entries, bytes: bytes.into(), headers }
    }
}

/// A record with memory of its own, for tests to compare.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRecord {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Bytes>,
    pub(crate) payload: Option<Bytes>,
    pub(crate) headers: Vec<crate::message::Header>,
}

#[cfg(test)]
impl From<Record<'_>> for OwnRecord {
    fn from(record: Record<'_>) -> Self {
        Self {
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(Bytes::copy_from_slice),
            payload: record.payload.map(Bytes::copy_from_slice),
            headers: record.headers.iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Records {
        let mut builder = RecordsBuilder::with_capacity(7, Load::default());
        builder.header("nobody's", None);
        builder.push(1, Some(10), Some(b"k"), Some(b"payload"));
        builder.header("h", Some(b"1"));
        builder.header("h", None);
        builder.push(3, None, None, None);
        builder.push(4, None, Some(b""), Some(b""));
        builder.header("h", Some(b""));
        builder.build()
    }

    fn offsets(records: &Records) -> Vec<i64> {
        records.iter().map(|record| record.offset).collect()
    }

    #[test]
    fn absent_and_empty_parts_differ() {
        let records = three();
        let parts: Vec<_> = records.iter().map(|record| (record.key, record.payload)).collect();
        let some = |bytes: &'static [u8]| Some(bytes);
        assert_eq!(parts, [(some(b"k"), some(b"payload")), (None, None), (some(b""), some(b""))]);
        assert_eq!(records.payload_bytes(1), None);
        assert_eq!(records.payload_bytes(2), Some(Bytes::new()));
    }

    #[test]
    fn each_record_has_its_own_headers() {
        let records = three();
        let names = |index: usize| -> Vec<_> {
            records.get(index).headers.iter().map(|header| (header.name, header.value)).collect()
        };
        assert_eq!(names(0), [("h", Some(&b"1"[..])), ("h", None)]);
        assert_eq!(names(1), []);
        assert_eq!(names(2), [("h", Some(&b""[..]))]);
        assert_eq!((0..3).map(|index| records.size(index)).collect::<Vec<_>>(), [1 + 7 + 1 + 1 + 1, 0, 1]);
    }

    #[test]
    fn without_headers_nothing_is_kept_for_them() {
        let mut builder = RecordsBuilder::with_capacity(0, Load { messages: 1, bytes: 1 });
        builder.push(0, None, None, Some(b"x"));
        let records = builder.build();
        assert!(records.headers.is_none());
        assert!(records.get(0).headers.is_empty());
    }

    #[test]
    fn both_parts_of_a_split_keep_their_bytes() {
        let mut first = three();
        let rest = first.split_off(1);
        assert_eq!((offsets(&first), offsets(&rest)), (vec![1], vec![3, 4]));
        assert_eq!(first.payload(0), Some(&b"payload"[..]));
        assert_eq!(rest.get(1).headers.len(), 1);
        assert_eq!((rest.partition(), rest.len()), (7, 2));
        assert!(first.split_off(1).is_empty());
    }

    #[test]
    fn what_is_not_retained_leaves_the_others_as_they_are() {
        let mut records = three();
        records.retain(|offset, size, _| (offset, size) != (3, 0));
        assert_eq!(offsets(&records), [1, 4]);
        assert_eq!(records.key(0), Some(&b"k"[..]));
        assert_eq!(records.get(1).headers.last("h").unwrap().value, Some(&b""[..]));
    }

    #[test]
    fn kept_bytes_share_memory_only_with_little_else() {
        let mut builder = RecordsBuilder::with_capacity(0, Load::default());
        builder.push(0, None, Some(b"key"), Some(b"a payload that is nearly everything"));
        let records = builder.build();
        let shared = records.payload_bytes(0).unwrap();
        assert_eq!(shared.as_ptr(), records.payload(0).unwrap().as_ptr());
        let copied = records.key_bytes(0).unwrap();
        assert_ne!(copied.as_ptr(), records.key(0).unwrap().as_ptr());
        drop(records);
        assert_eq!((&copied[..], &shared[..]), (&b"key"[..], &b"a payload that is nearly everything"[..]));
    }

    #[test]
    fn records_lie_together_up_to_either_limit_and_a_larger_one_alone() {
        let fits = |messages, bytes, size| RecordsBuilder::fits(Load { messages, bytes }, size);
        let Load { messages: most, bytes: full } = Records::FULL;
        assert!(fits(0, 0, usize::MAX));
        assert!(fits(1, 1, full - 1));
        assert!(!fits(1, 1, full));
        assert!(!fits(1, full + 1, usize::MAX));
        assert!(fits(most - 1, 0, 0));
        assert!(!fits(most, 0, 0));
    }
}
