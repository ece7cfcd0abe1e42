//! A set of offsets.

use std::ops::Range;

/// Offsets that are done, as ranges in ascending order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoneSet(Vec<Range<i64>>);

impl DoneSet {
    /// Adds the offsets of `range`. What is not above all those there already is left out.
    pub fn push(&mut self, range: Range<i64>) {
        let end = self.end().unwrap_or(i64::MIN);
        let range = range.start.max(end)..range.end;
        match self.0.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }

    /// Whether it has this offset.
    pub fn contains(&self, offset: i64) -> bool {
        let index = self.0.partition_point(|range| range.end <= offset);
        self.0.get(index).is_some_and(|range| range.start <= offset)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The offset behind the highest one.
    pub fn end(&self) -> Option<i64> {
        self.0.last().map(|range| range.end)
    }

    /// Its ranges, in ascending order.
    pub fn ranges(&self) -> &[Range<i64>] {
        &self.0
    }
}

impl FromIterator<i64> for DoneSet {
    /// Collects offsets in ascending order; one that is not above those before it is left out.
    fn from_iter<I: IntoIterator<Item = i64>>(offsets: I) -> Self {
        let mut set = Self::default();
        for offset in offsets {
            set.push(offset..offset.saturating_add(1));
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is what comes out")]
    fn ranges_that_touch_become_one_and_what_is_not_above_is_left_out() {
        let mut set = DoneSet::default();
        set.push(3..5);
        set.push(5..7);
        set.push(4..6);
        assert_eq!(set.ranges(), [3..7]);
        set.push(6..9);
        set.push(12..12);
        assert_eq!((set.ranges(), set.end()), (&[3..9][..], Some(9)));
    }

    #[test]
    fn it_has_exactly_what_was_put_in() {
        let offsets = [2, 3, 7, 9, 10];
        let set: DoneSet = offsets.into_iter().collect();
        assert_eq!((0..15).filter(|offset| set.contains(*offset)).collect::<Vec<_>>(), offsets);
        assert!(DoneSet::default().is_empty() && !DoneSet::default().contains(0));
    }
}
