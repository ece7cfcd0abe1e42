//! Handling by group name.
//!
//! A [`Subscription`] is a member of its consumer group on the cluster that the group's route names. One thread polls
//! that cluster and never waits for a handler; workers call the handler. [`Ordering`] says which messages are handled one
//! by one in order: those of a partition, those of a key, or none. A position is committed only when every message
//! delivered before it is done, dead-lettered (and that acknowledged) or skipped by policy, so that each message is
//! handled at least once.
//!
//! When the route names another cluster, the member handles what is left on the old one and then begins on the new
//! one at its first message that the group has not handled, never handling both at a time.

mod alone;
mod answer;
mod assignment;
mod batch;
mod burial;
mod closing;
mod commit;
mod conduct;
mod context;
mod control;
mod dead_letter;
mod delivery;
mod driver;
mod enrolment;
mod error;
mod health;
mod holdings;
mod inspect;
mod itinerary;
mod ledger;
mod logs;
mod member;
mod mode;
mod modes;
mod observer;
mod opening;
mod options;
mod outcome;
mod overrides;
mod pace;
mod pool;
mod retry;
mod seek;
mod start;
mod stats;
mod stop;
mod subscriber;
mod subscription;
mod supervision;
mod switch;
mod tags;
mod throttle;

pub use answer::{UnknownAnswer, ZmsAnswer};
pub use assignment::Trouble;
pub use batch::{Batch, IntoOutcomes, Outcomes};
pub use control::{SeekError, SeekTo};
pub use dead_letter::{Buried, BuryError, DeadLetters, Letter};
pub use delivery::Delivery;
pub(crate) use enrolment::{Ending, Enrolment, Membership, Pending, RegistryAway};
pub use error::{Fault, NotReady, ShutdownError, SubscribeError};
pub use health::{Cause, Failure, Health, LastingKind};
pub use inspect::{Inspection, OldestView, PartitionView, PauseReason, State};
pub use modes::AssignmentStrategy;
pub use outcome::{IntoOutcome, Outcome};
pub use overrides::check_overrides;
pub use pool::{Ordering, ResizeError};
pub use retry::{Exhausted, RetryPolicy};
pub use stats::Counts;
pub use subscriber::Subscriber;
pub use subscription::Subscription;
pub use supervision::Failures;
pub use zms_core::route::ConsumeFrom;
