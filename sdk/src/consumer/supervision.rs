//! What is wrong now, and whom it was told.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch;
use zms_core::name::ClusterName;

use super::health::{Failure, LastingKind};
use crate::engine::port::{EngineError, FailureKind};

/// Failures that are kept for receivers.
const KEPT: usize = 16;
/// A failure that comes back sooner than this has not been away: a client that dies shortly after each opening must not
/// tell of each.
const AWAY: Duration = Duration::from_secs(60);
/// How long a topic may be unknown: brokers tell so for some seconds after its creation.
const UNKNOWN: Duration = Duration::from_secs(30);

/// Shared by the poll thread, which reports, and handles, which look.
#[derive(Debug)]
pub(super) struct Supervision {
    // Short: a few fields are changed or copied.
    present: Mutex<Present>,
    told: watch::Sender<Told>,
}

/// What handles are told, as a latest value.
#[derive(Debug, Default)]
struct Told {
    failures: VecDeque<Failure>,
    /// There will be no more.
    over: bool,
}

/// What is wrong now.
#[derive(Debug, Clone, Default)]
pub(super) struct Present {
    /// A failure that lasts.
    pub(super) failure: Option<Failure>,
    /// An error that may pass, and when it came first.
    pub(super) error: Option<(String, SystemTime)>,
    count: u64,
    /// Failures told since all was last well for some time.
    episode: Vec<Failure>,
    well_since: Option<Instant>,
}

impl Default for Supervision {
    fn default() -> Self {
        Self { present: Mutex::default(), told: watch::Sender::new(Told::default()) }
    }
}

impl Supervision {
    fn lock(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn present(&self) -> Present {
        self.lock().clone()
    }

    /// Nothing works, for this reason.
    pub(super) fn fail(&self, kind: LastingKind, cluster: &ClusterName, reason: &str, now: Instant) {
        let news = self.lock().fail((kind, cluster, reason), now);
        let Some(failure) = news else { return };
        self.told.send_modify(|told| {
            told.failures.push_back(failure);
            if told.failures.len() > KEPT {
                told.failures.pop_front();
            }
        });
    }

    /// The client that is open reports this now, since then; `None`: it works.
    pub(super) fn watch(&self, cluster: &ClusterName, error: Option<(&EngineError, Instant)>, now: Instant) {
        let Some((error, since)) = error else { return self.lock().recover(now) };
        match lasting(error.kind, now.saturating_duration_since(since)) {
            Some(kind) => self.fail(kind, cluster, &error.reason, now),
            None => self.lock().trouble(&error.reason),
        }
    }

    /// There will be no more news.
    pub(super) fn end(&self) {
        self.told.send_modify(|told| told.over = true);
    }

    pub(super) fn failures(&self) -> Failures {
        Failures { told: self.told.subscribe(), next: 0 }
    }
}

fn lasting(kind: FailureKind, lasts: Duration) -> Option<LastingKind> {
    match kind {
        FailureKind::Denied => Some(LastingKind::Denied),
        FailureKind::Unsuited => Some(LastingKind::Unsuited),
        FailureKind::UnknownTopic if lasts >= UNKNOWN => Some(LastingKind::UnknownTopic),
        _ => None,
    }
}

impl Present {
    /// Takes a failure in; the failure, when it is to be told.
    fn fail(&mut self, what: (LastingKind, &ClusterName, &str), now: Instant) -> Option<Failure> {
        if self.failure.as_ref().is_some_and(|present| is_same(present, what)) {
            return None;
        }
        if self.well_since.take().is_some_and(|since| now.saturating_duration_since(since) >= AWAY) {
            self.episode.clear();
        }
        self.error = None;
        if let Some(known) = self.episode.iter().find(|known| is_same(known, what)) {
            self.failure = Some(known.clone());
            return None;
        }
        self.count += 1;
        let (kind, cluster, reason) = what;
        let (cluster, reason) = (cluster.clone(), reason.to_owned());
        let failure = Failure { number: self.count, kind, cluster, reason, since: SystemTime::now() };
        if self.episode.len() == KEPT {
            self.episode.remove(0);
        }
        self.episode.push(failure.clone());
        self.failure = Some(failure.clone());
        Some(failure)
    }

    fn trouble(&mut self, reason: &str) {
        self.failure = None;
        match &mut self.error {
            Some((present, _)) if present == reason => {}
            Some((present, _)) => reason.clone_into(present),
            None => self.error = Some((reason.to_owned(), SystemTime::now())),
        }
    }

    fn recover(&mut self, now: Instant) {
        self.failure = None;
        self.error = None;
        self.well_since.get_or_insert(now);
    }
}

/// Numbers aside: ports, broker numbers and times in a client's words differ from one report to the next.
fn is_same(known: &Failure, (kind, cluster, reason): (LastingKind, &ClusterName, &str)) -> bool {
    let words = |text: &'_ str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    known.kind == kind
        && known.cluster == *cluster
        && (known.reason == reason || words(&known.reason) == words(reason))
}

/// The lasting failures of a subscription, one after the other: see
/// [`Subscription::failures`](super::Subscription::failures).
#[derive(Debug)]
pub struct Failures {
    told: watch::Receiver<Told>,
    next: u64,
}

impl Failures {
    /// Waits for the next failure; `None` when the subscription has ended and there is none left.
    ///
    /// Dropping the future loses nothing: what it did not return is returned by the next call.
    pub async fn next(&mut self) -> Option<Failure> {
        loop {
            let (news, over) = {
                let told = self.told.borrow_and_update();
                (told.failures.iter().find(|failure| failure.number >= self.next).cloned(), told.over)
            };
            if let Some(failure) = news {
                self.next = failure.number + 1;
                return Some(failure);
            }
            if over || self.told.changed().await.is_err() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn cluster() -> ClusterName {
        ClusterName::new("a").unwrap()
    }

    fn told(failures: &mut Failures) -> Vec<String> {
        std::iter::from_fn(|| failures.next().now_or_never().flatten())
            .map(|failure| failure.reason)
            .collect()
    }

    #[test]
    fn what_repeats_is_told_once_until_it_changes_or_was_away_for_long() {
        let supervision = Supervision::default();
        let mut failures = supervision.failures();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let fail = |reason: &str, seconds| {
            supervision.fail(LastingKind::Fatal, &cluster(), reason, at(seconds));
        };
        fail("broken (after 5ms)", 0);
        fail("broken (after 17ms)", 1);
        assert_eq!(told(&mut failures), ["broken (after 5ms)"]);
        fail("otherwise broken", 2);
        fail("broken (after 5ms)", 3);
        assert_eq!(told(&mut failures), ["otherwise broken"], "two that take turns are two");
        supervision.watch(&cluster(), None, at(4));
        assert_eq!(supervision.present().failure, None);
        fail("broken (after 5ms)", 10);
        assert_eq!(supervision.present().failure.unwrap().number, 1, "back too soon to be another one");
        supervision.watch(&cluster(), None, at(11));
        fail("broken (after 5ms)", 80);
        assert_eq!(told(&mut failures), ["broken (after 5ms)"]);
        assert_eq!(supervision.present().failure.unwrap().number, 3);
    }

    #[test]
    fn what_may_pass_is_trouble_and_what_stays_a_failure() {
        let supervision = Supervision::default();
        let mut failures = supervision.failures();
        let start = Instant::now();
        let report = |kind, seconds| {
            let error = EngineError { kind, reason: format!("{kind:?}") };
            let now = start + Duration::from_secs(seconds);
            supervision.watch(&cluster(), Some((&error, start)), now);
            let present = supervision.present();
            (present.failure.map(|failure| failure.kind), present.error.map(|(reason, _)| reason))
        };
        assert_eq!(report(FailureKind::Unreachable, 0), (None, Some("Unreachable".to_owned())));
        assert_eq!(report(FailureKind::UnknownTopic, 5), (None, Some("UnknownTopic".to_owned())));
        assert_eq!(report(FailureKind::UnknownTopic, 31), (Some(LastingKind::UnknownTopic), None));
        assert_eq!(report(FailureKind::Denied, 32), (Some(LastingKind::Denied), None));
        assert_eq!(told(&mut failures), ["UnknownTopic", "Denied"]);
        supervision.watch(&cluster(), None, start);
        assert_eq!((supervision.present().failure, supervision.present().error), (None, None));
    }

    #[test]
    fn a_slow_receiver_misses_the_oldest_and_sees_by_the_number_how_many() {
        let supervision = Supervision::default();
        for letter in ('a'..).take(20) {
            supervision.fail(LastingKind::Refused, &cluster(), &letter.to_string(), Instant::now());
        }
        supervision.end();
        let mut late = supervision.failures();
        let first = late.next().now_or_never().unwrap().unwrap();
        assert_eq!((first.number, first.reason.as_str()), (5, "e"));
        assert_eq!(told(&mut late).len(), KEPT - 1);
        assert_eq!(late.next().now_or_never(), Some(None), "it is over");
    }
}
