//! The ephemeral node by which operators and the Java console see this client.

use bytes::Bytes;
use zms_core::registration::{RegistrationData, RegistrationName, StartedAt};

use super::{RoutingConfig, chance::random, snapshot::now_ms, subject::Subject};
use crate::registry::port::{Registry, RegistryError};

/// One entry's registration. Made once per session; locked across the call, so that a registration under way and the
/// leaving never cross.
#[derive(Debug)]
pub(super) struct Registration {
    /// `None`: an entry that is not registered (statistics, pings, readers without a group).
    node: Option<(String, Bytes)>,
    /// The session epoch in which it was made.
    made_in: Option<u64>,
    /// A call was made whose effect may stand, whatever it answered.
    may_stand: bool,
    left: bool,
    complained: bool,
}

/// How a registration stands.
#[derive(Debug)]
pub(super) enum Standing {
    /// As it should; or there is none to make.
    Good,
    /// The entry's own node does not exist, so nothing can stand under it.
    NoParent,
    /// The registry refuses it. Traffic goes on without. The error, when it is the first in a row.
    Refused(Option<RegistryError>),
}

impl Registration {
    /// The registration of a client of `subject`; its name stays the same across sessions.
    pub(super) fn of(subject: &Subject, config: &RoutingConfig) -> Self {
        let address = config.addresses.first().map_or("127.0.0.1", String::as_str);
        let started_at = StartedAt::from_unix_ms(i64::try_from(now_ms()).unwrap_or_default());
        let version = env!("CARGO_PKG_VERSION");
        let name = RegistrationName::new(address, &config.instance, version, started_at, random());
        let data = RegistrationData { proto: 0, role: subject.role() };
        let node = (format!("{}/{name}", subject.path()), Bytes::from(data.to_json()));
        let node = (subject.is_visible() && is_registered(subject.name())).then_some(node);
        Self { node, made_in: None, may_stand: false, left: false, complained: false }
    }

    /// Makes sure that it stands in session `epoch`.
    ///
    /// # Errors
    /// When the registry did not answer: nothing read after it may be used.
    pub(super) async fn ensure(
        &mut self,
        registry: &dyn Registry,
        epoch: u64,
    ) -> Result<Standing, RegistryError> {
        let Some((path, data)) = self.node.as_ref().filter(|_| !self.left && self.made_in != Some(epoch))
        else {
            return Ok(Standing::Good);
        };
        self.may_stand = true;
        match registry.register(path, data.clone()).await {
            Ok(made_in) => {
                (self.made_in, self.complained) = (Some(made_in), false);
                Ok(Standing::Good)
            }
            Err(RegistryError::Missing { .. }) => Ok(Standing::NoParent),
            Err(error @ (RegistryError::Unavailable { .. } | RegistryError::Closed)) => Err(error),
            Err(error) => {
                let first = !std::mem::replace(&mut self.complained, true);
                Ok(Standing::Refused(first.then_some(error)))
            }
        }
    }

    /// The entry's node was deleted, and with it everything below: to be made again.
    pub(super) fn parent_was_deleted(&mut self) {
        self.made_in = None;
    }

    /// Removes it, for good.
    ///
    /// # Errors
    /// As the registry answers; while it is unavailable, try again.
    pub(super) async fn leave(&mut self, registry: &dyn Registry) -> Result<(), RegistryError> {
        self.left = true;
        if let Some((path, _)) = self.node.as_ref().filter(|_| self.may_stand) {
            registry.unregister(path).await?;
            self.may_stand = false;
        }
        Ok(())
    }

    /// The session in which it was last known to stand.
    pub(super) fn made_in(&self) -> Option<u64> {
        self.made_in
    }
}

/// ZMS's own statistics and pings are not registered, nor are those who read them.
fn is_registered(name: &str) -> bool {
    const NOT_REGISTERED: [&str; 6] = [
        "statistic_topic_producerinfo",
        "statistic_topic_consumerinfo",
        "statistic_topic_kafka_producerinfo",
        "statistic_topic_kafka_consumerinfo",
        "statistic_ping_topic",
        "statistic_ping_consumer",
    ];
    !NOT_REGISTERED.contains(&name) && !name.starts_with("statistic_consumer_")
}

#[cfg(test)]
mod tests {
    use zms_core::name::GroupName;

    use super::*;
    use crate::registry::MemoryRegistry;

    #[test]
    fn statistics_and_pings_are_not_registered() {
        assert!(is_registered("orders") && is_registered("statistic_orders"));
        for name in ["statistic_topic_producerinfo", "statistic_ping_consumer", "statistic_consumer_x"] {
            assert!(!is_registered(name), "{name}");
        }
    }

    #[tokio::test]
    async fn one_who_left_is_never_registered_again() {
        let registry = MemoryRegistry::new();
        registry.create("/zms/consumergroup/g", Bytes::new()).await.unwrap();
        let subject = Subject::group(GroupName::new("g").unwrap());
        let mut registration = Registration::of(&subject, &RoutingConfig::new("memory", "tests"));
        assert!(matches!(registration.ensure(&registry, 1).await, Ok(Standing::Good)));
        assert_eq!(registry.children("/zms/consumergroup/g").await.unwrap().unwrap().len(), 1);
        registration.leave(&registry).await.unwrap();
        // A round that was about to register when the lease was given back.
        assert!(matches!(registration.ensure(&registry, 2).await, Ok(Standing::Good)));
        assert_eq!(registry.children("/zms/consumergroup/g").await.unwrap().unwrap(), Vec::<String>::new());
    }
}
