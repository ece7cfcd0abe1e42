//! The per-topic gate of sends: messages in flight and the hold bit in one atomic word.
//!
//! A send counts itself *before* it reads the route, and until its delivery report. Were it the other way round, this
//! would happen: a send reads "cluster A" and is descheduled; the topic is held, nothing is in flight, the move goes
//! on; the send wakes and hands its message to A, behind everybody's back. Count and hold bit share one word because
//! two words need more than acquire and release to agree: the send could miss the hold while the holder misses the
//! count.

#[cfg(loom)]
use ::loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// The hold bit; the bits below it count. Each message counted holds memory, so the count never gets there.
const HELD: usize = 1 << (usize::BITS - 1);

/// Counts the messages of a topic in flight and holds new ones back.
///
/// A send calls [`enter`](Self::enter), then reads the route, hands its message over, and calls
/// [`leave`](Self::leave) when the delivery report is there. Whoever changes the route calls [`hold`](Self::hold),
/// waits until [`in_flight`](Self::in_flight) is 0, changes it, sends what waited meanwhile under
/// [`enter_held`](Self::enter_held), and calls [`open`](Self::open).
#[derive(Debug)]
pub struct TopicGate {
    word: AtomicUsize,
}

impl TopicGate {
    /// A gate that holds, with nothing in flight: there is no route to read yet.
    pub fn held() -> Self {
        Self { word: AtomicUsize::new(HELD) }
    }

    /// Counts one message, unless the gate holds; whether it was counted. Only then read the route.
    #[must_use]
    pub fn enter(&self) -> bool {
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| (word & HELD == 0).then_some(word + 1))
            .is_ok()
    }

    /// Counts one message although the gate holds: one that waited, sent by whoever opens the gate.
    pub fn enter_held(&self) {
        self.word.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends one counted message; whether the gate holds, so that somebody may be waiting for this. Whoever holds
    /// either sees the count without this message, or is told of here.
    pub fn leave(&self) -> bool {
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before & !HELD, 0, "left more often than entered");
        before & HELD != 0
    }

    /// Holds new messages back; the number still in flight. While it holds, that number only falls, but for
    /// [`enter_held`](Self::enter_held).
    pub fn hold(&self) -> usize {
        self.word.fetch_or(HELD, Ordering::AcqRel) & !HELD
    }

    /// Lets new messages pass. What was written before, a new route above all, is seen by every message that enters.
    pub fn open(&self) {
        self.word.fetch_and(!HELD, Ordering::AcqRel);
    }

    /// Messages counted and not ended.
    pub fn in_flight(&self) -> usize {
        self.word.load(Ordering::Acquire) & !HELD
    }

    /// Whether new messages are held back.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Acquire) & HELD != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_new_gate_holds_until_opened() {
        let gate = TopicGate::held();
        assert!(gate.is_held());
        assert!(!gate.enter());
        gate.open();
        assert!(gate.enter());
        assert_eq!(gate.in_flight(), 1);
    }

    #[test]
    fn holding_turns_new_messages_away_and_tells_what_is_in_flight() {
        let gate = TopicGate::held();
        gate.open();
        assert!(gate.enter() && gate.enter());
        assert_eq!(gate.hold(), 2);
        assert!(!gate.enter());
        assert!(gate.leave() && gate.leave(), "who holds is told of each that ends");
        assert_eq!(gate.in_flight(), 0);
        assert!(gate.is_held());
    }

    #[test]
    fn held_messages_count_while_the_gate_holds() {
        let gate = TopicGate::held();
        gate.enter_held();
        assert_eq!(gate.in_flight(), 1);
        gate.open();
        assert!(!gate.leave());
    }
}

#[cfg(all(test, loom))]
mod loom {
    use ::loom::{
        sync::{Arc, atomic::AtomicBool},
        thread,
    };

    use super::*;

    /// A topic on cluster A that a holder wants to leave; `left` is set when it says that nothing can reach A.
    struct Topic {
        gate: TopicGate,
        on_b: AtomicBool,
        left: AtomicBool,
    }

    impl Topic {
        fn open_on_a() -> Arc<Self> {
            let gate = TopicGate::held();
            gate.open();
            Arc::new(Self { gate, on_b: AtomicBool::new(false), left: AtomicBool::new(false) })
        }

        fn produce(&self, on_b: bool) {
            assert!(on_b || !self.left.load(Ordering::SeqCst), "sent to A after A was left");
        }

        fn send(&self) {
            if self.gate.enter() {
                self.produce(self.on_b.load(Ordering::Relaxed));
                self.gate.leave();
            }
        }

        fn send_with_the_route_read_first(&self) {
            let on_b = self.on_b.load(Ordering::Relaxed);
            if self.gate.enter() {
                self.produce(on_b);
                self.gate.leave();
            }
        }

        fn switch(&self) {
            if self.gate.hold() == 0 || self.gate.in_flight() == 0 {
                self.left.store(true, Ordering::SeqCst);
                self.on_b.store(true, Ordering::Relaxed);
            }
            self.gate.open();
        }
    }

    fn model(send: fn(&Topic)) {
        ::loom::model(move || {
            let topic = Topic::open_on_a();
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    let topic = topic.clone();
                    thread::spawn(move || send(&topic))
                })
                .collect();
            topic.switch();
            for sender in senders {
                sender.join().unwrap();
            }
            assert_eq!(topic.gate.in_flight(), 0);
        });
    }

    #[test]
    fn nothing_reaches_the_old_cluster_after_it_was_left() {
        model(Topic::send);
    }

    #[test]
    #[should_panic(expected = "sent to A after A was left")]
    fn the_model_finds_a_route_read_before_the_count() {
        model(Topic::send_with_the_route_read_first);
    }

    #[test]
    fn the_holder_sees_that_a_message_ended_or_is_told() {
        ::loom::model(|| {
            let topic = Topic::open_on_a();
            assert!(topic.gate.enter());
            let other = {
                let topic = topic.clone();
                thread::spawn(move || topic.gate.leave())
            };
            let still_in_flight = topic.gate.hold() == 1;
            assert_eq!(other.join().unwrap(), still_in_flight);
        });
    }
}
