//! The answers of ZMS's Java handlers, for handlers that are ported.

use std::{fmt, str::FromStr, time::Duration};

use super::{IntoOutcome, Outcome};

macro_rules! answers {
    ($($(#[$doc:meta])* $variant:ident = $name:literal => $outcome:expr;)*) => {
        /// What a handler of ZMS's Java client answers, under the names that it has there. A ported handler may return it
        /// as it is, alone or in a `Result`; each answer stands for one [`Outcome`]:
        ///
        /// | ZMS | here |
        /// |---|---|
        /// | `SUCCEED` | [`Outcome::Done`] |
        /// | `RETRY`, `FAILURE` | [`Outcome::Retry`]: again after the back-off of the [`RetryPolicy`](super::RetryPolicy) |
        /// | `RETRY_1S`, `5S`, `10S`, `30S` | [`Outcome::RetryAfter`] that many seconds |
        /// | `RETRY_1M` to `RETRY_10M`, `20M`, `30M` | [`Outcome::RetryAfter`] that many minutes |
        /// | `RETRY_1H`, `RETRY_2H` | [`Outcome::RetryAfter`] one or two hours |
        ///
        /// Every answer but `SUCCEED` is a failure and counts as an attempt, and the retry policy says what comes after
        /// the last one. ZMS's client for Kafka took any answer for `SUCCEED`, so that a handler that never
        /// succeeded went unnoticed there: here its message comes back.
        ///
        /// ```
        /// use zms_sdk::consumer::{Delivery, Outcome, ZmsAnswer};
        ///
        /// fn handle(delivery: &Delivery) -> ZmsAnswer {
        ///     if delivery.payload().is_some() { ZmsAnswer::Succeed } else { ZmsAnswer::Retry30S }
        /// }
        ///
        /// let read: ZmsAnswer = "RETRY_10M".parse().unwrap();
        /// assert_eq!(Outcome::from(read), Outcome::RetryAfter(std::time::Duration::from_secs(600)));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ZmsAnswer {
            $($(#[$doc])* $variant,)*
        }

        impl ZmsAnswer {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in ZMS.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn outcome(self) -> Outcome {
                match self { $(Self::$variant => $outcome,)* }
            }
        }
    };
}

const fn seconds(seconds: u64) -> Outcome {
    Outcome::RetryAfter(Duration::from_secs(seconds))
}

const fn minutes(minutes: u64) -> Outcome {
    seconds(minutes * 60)
}

answers! {
    /// Handled.
    Succeed = "SUCCEED" => Outcome::Done;
    /// Failed. ZMS treats it as `RETRY`.
    Failure = "FAILURE" => Outcome::Retry;
    /// Failed; again after the usual back-off.
    Retry = "RETRY" => Outcome::Retry;
    /// Again after 1 second.
    Retry1S = "RETRY_1S" => seconds(1);
    /// Again after 5 seconds.
    Retry5S = "RETRY_5S" => seconds(5);
    /// Again after 10 seconds.
    Retry10S = "RETRY_10S" => seconds(10);
    /// Again after 30 seconds.
    Retry30S = "RETRY_30S" => seconds(30);
    /// Again after 1 minute.
    Retry1M = "RETRY_1M" => minutes(1);
    /// Again after 2 minutes.
    Retry2M = "RETRY_2M" => minutes(2);
    /// Again after 3 minutes.
    Retry3M = "RETRY_3M" => minutes(3);
    /// Again after 4 minutes.
    Retry4M = "RETRY_4M" => minutes(4);
    /// Again after 5 minutes.
    Retry5M = "RETRY_5M" => minutes(5);
    /// Again after 6 minutes.
    Retry6M = "RETRY_6M" => minutes(6);
    /// Again after 7 minutes.
    Retry7M = "RETRY_7M" => minutes(7);
    /// Again after 8 minutes.
    Retry8M = "RETRY_8M" => minutes(8);
    /// Again after 9 minutes.
    Retry9M = "RETRY_9M" => minutes(9);
    /// Again after 10 minutes.
    Retry10M = "RETRY_10M" => minutes(10);
    /// Again after 20 minutes.
    Retry20M = "RETRY_20M" => minutes(20);
    /// Again after 30 minutes.
    Retry30M = "RETRY_30M" => minutes(30);
    /// Again after 1 hour.
    Retry1H = "RETRY_1H" => minutes(60);
    /// Again after 2 hours.
    Retry2H = "RETRY_2H" => minutes(120);
}

impl From<ZmsAnswer> for Outcome {
    fn from(answer: ZmsAnswer) -> Self {
        answer.outcome()
    }
}

impl IntoOutcome for ZmsAnswer {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        let failed = self != Self::Succeed;
        (self.outcome(), failed.then(|| format!("the handler answered {self}")))
    }
}

impl fmt::Display for ZmsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is none of ZMS's answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no answer of ZMS; known are SUCCEED, FAILURE, RETRY and RETRY_<delay>, such as RETRY_10S")]
pub struct UnknownAnswer(String);

impl FromStr for ZmsAnswer {
    type Err = UnknownAnswer;

    /// Reads ZMS's name, in any case.
    fn from_str(name: &str) -> Result<Self, UnknownAnswer> {
        let found = Self::ALL.iter().find(|answer| answer.as_str().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownAnswer(name.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_the_one_in_its_name() {
        let failures: [ZmsAnswer; 2] = [ZmsAnswer::Failure, ZmsAnswer::Retry];
        for &answer in ZmsAnswer::ALL {
            let delay = answer.as_str().strip_prefix("RETRY_").map(|text| {
                let (number, unit) = text.split_at(text.len() - 1);
                let unit = match unit {
                    "S" => 1,
                    "M" => 60,
                    _ => 3600,
                };
                Duration::from_secs(number.parse::<u64>().unwrap() * unit)
            });
            let expected = match delay {
                Some(delay) => Outcome::RetryAfter(delay),
                None if failures.contains(&answer) => Outcome::Retry,
                None => Outcome::Done,
            };
            assert_eq!(Outcome::from(answer), expected, "{answer}");
        }
        assert_eq!(ZmsAnswer::ALL.len(), 21);
    }

    #[test]
    fn names_are_read_in_any_case_and_strangers_refused() {
        for &answer in ZmsAnswer::ALL {
            assert_eq!(answer.as_str().parse(), Ok(answer));
            assert_eq!(answer.as_str().to_lowercase().parse(), Ok(answer));
        }
        let error = "RETRY_11M".parse::<ZmsAnswer>().unwrap_err();
        assert!(error.to_string().contains("RETRY_11M"));
    }

    #[test]
    fn failures_say_what_was_answered() {
        assert_eq!(ZmsAnswer::Succeed.into_outcome(), (Outcome::Done, None));
        let (_, reason) = Ok::<_, String>(ZmsAnswer::Retry5S).into_outcome();
        assert_eq!(reason.as_deref(), Some("the handler answered RETRY_5S"));
    }
}
