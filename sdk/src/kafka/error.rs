//! librdkafka's errors in the port's words.

use std::time::{Duration, Instant};

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    util::Timeout,
};

use crate::engine::port::{EngineError, FailureKind};

/// The kind of a failure, as far as decisions depend on it.
pub(super) fn kind_of(code: RDKafkaErrorCode) -> FailureKind {
    use RDKafkaErrorCode as Code;
    match code {
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::WaitingForCoordinator
        | Code::RequestTimedOut
        | Code::BrokerNotAvailable
        | Code::NetworkException => FailureKind::Unreachable,
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::OffsetMetadataTooLarge => FailureKind::TooLarge,
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition => {
            FailureKind::UnknownTopic
        }
        Code::Authentication
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::DelegationTokenAuthorizationFailed
        | Code::DelegationTokenExpired
        | Code::TransactionalIdAuthorizationFailed => FailureKind::Denied,
        Code::InconsistentGroupProtocol
        | Code::InvalidSessionTimeout
        | Code::InvalidGroupId
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedAssignor
        | Code::GroupMaxSizeReached
        | Code::SecurityDisabled => FailureKind::Unsuited,
        Code::PolicyViolation | Code::InvalidRecord | Code::InvalidTimestamp | Code::InvalidTopic => {
            FailureKind::Rejected
        }
        Code::QueueFull => FailureKind::QueueFull,
        Code::PurgeQueue | Code::PurgeInflight | Code::DestroyBroker => FailureKind::Purged,
        Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::RebalanceInProgress
        | Code::AssignmentLost
        | Code::PollExceeded
        | Code::StaleMemberEpoch
        | Code::FencedMemberEpoch => FailureKind::Superseded,
        Code::FencedInstanceId => FailureKind::Fenced,
        Code::Fatal | Code::Fenced => FailureKind::Fatal,
        _ => FailureKind::Other,
    }
}

/// A failure with librdkafka's words and code.
pub(super) fn coded(code: RDKafkaErrorCode) -> EngineError {
    EngineError { kind: kind_of(code), reason: code.to_string() }
}

/// A failure for good, of which the client has told the cause.
pub(super) fn fatal(code: RDKafkaErrorCode, words: &str) -> EngineError {
    let kind = if kind_of(code) == FailureKind::Fenced { FailureKind::Fenced } else { FailureKind::Fatal };
    EngineError { kind, reason: format!("{code}: {words}") }
}

/// Any error of the client library.
pub(super) fn translated(error: &KafkaError) -> EngineError {
    let kind = match error {
        KafkaError::MessageConsumptionFatal(_) => FailureKind::Fatal,
        KafkaError::AdminOp(code) => kind_of(*code),
        other => other.rdkafka_error_code().map_or(FailureKind::Other, kind_of),
    };
    EngineError { kind, reason: error.to_string() }
}

/// A failure in our own words.
pub(super) fn failure(kind: FailureKind, reason: impl Into<String>) -> EngineError {
    EngineError { kind, reason: reason.into() }
}

/// No limit is longer: librdkafka counts milliseconds in 32 bits and reads a negative number as "for ever".
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A limit that librdkafka can take.
pub(super) fn timeout(limit: Duration) -> Timeout {
    Timeout::After(limit.min(LONGEST))
}

/// When a limit that begins now ends.
pub(super) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_beyond_32_bits_of_milliseconds_stays_a_limit() {
        assert_eq!(timeout(Duration::MAX), Timeout::After(LONGEST));
        assert_eq!(timeout(Duration::from_millis(7)), Timeout::After(Duration::from_millis(7)));
    }

    #[test]
    fn what_no_retry_mends_is_lasting_and_what_passes_is_not() {
        use RDKafkaErrorCode as Code;
        for lasting in [
            Code::Authentication,
            Code::SaslAuthenticationFailed,
            Code::TopicAuthorizationFailed,
            Code::GroupAuthorizationFailed,
            Code::ClusterAuthorizationFailed,
            Code::UnsupportedVersion,
            Code::UnsupportedSASLMechanism,
            Code::InvalidSessionTimeout,
            Code::InconsistentGroupProtocol,
            Code::FencedInstanceId,
            Code::Fatal,
        ] {
            assert!(kind_of(lasting).is_lasting(), "{lasting:?}");
        }
        for passing in [
            Code::AllBrokersDown,
            Code::BrokerTransportFailure,
            Code::UnknownTopicOrPartition,
            Code::NotCoordinator,
            Code::CoordinatorLoadInProgress,
            Code::IllegalGeneration,
            Code::FencedMemberEpoch,
            Code::UnreleasedInstanceId,
            Code::PollExceeded,
            Code::RequestTimedOut,
        ] {
            assert!(!kind_of(passing).is_lasting(), "{passing:?}");
        }
    }

    #[test]
    fn a_fatal_consumer_error_is_fatal_whatever_its_code() {
        let error = KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::UnknownMemberId);
        assert_eq!(translated(&error).kind, FailureKind::Fatal);
    }
}
