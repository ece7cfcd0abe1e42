//! The ephemeral node by which operators and the Java console see this client.

use bytes::Bytes;

use super::{RoutingConfig, chance::random, subject::Subject};
use crate::registry::port::{Registry, RegistryError};

/// One entry's registration. Made once per session; locked across the call, so that a registration under way and the
/// leaving never cross.
#[derive(Debug)]
pub(super) struct Registration {
    /// `None`: an entry that is not registered (statistics, pings).
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
        let name =
            format!("{address}||{}||{}||{}", config.instance, env!("CARGO_PKG_VERSION"), random() % 100_000);
        let data = Bytes::from_static(br#"{"proto":0}"#);
        let node = Some((format!("{}/{name}", subject.path()), data));
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
