//! One connection of a session, and the port's requests on it.

use bytes::Bytes;
use zms_core::route::ChangeId;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriter, Stat};

use super::{
    error::{translate, unavailable},
    watches::Watches,
};
use crate::registry::{
    path::{check_data, check_path, check_version, parent},
    port::{Node, Op, RegistryError},
};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// How often a step that others interfered with is decided anew before the caller is asked to.
const ATTEMPTS: u32 = 8;

/// A connection that was established; requests on it fail once it is lost. No request has a time limit here.
pub(super) struct Link {
    client: Client,
    epoch: u64,
    watches: Watches,
}

impl Link {
    pub(super) fn new(client: Client, epoch: u64, watches: Watches) -> Self {
        Self { client, epoch, watches }
    }

    pub(super) async fn read(&self, path: &str) -> Result<Option<Node>, RegistryError> {
        check_path(path)?;
        match self.client.get_data(path).await {
            Ok((data, stat)) => Ok(Some(node(data, &stat))),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(translate(path, error)),
        }
    }

    pub(super) async fn watch(&self, path: &str) -> Result<Option<Node>, RegistryError> {
        check_path(path)?;
        for _ in 0..ATTEMPTS {
            if self.watches.is_armed(path) {
                return self.read(path).await;
            }
            let permit = self.watches.permit().await?;
            match self.client.get_and_watch_data(path).await {
                Ok((data, stat, watcher)) => {
                    permit.hand_over(path, watcher);
                    return Ok(Some(node(data, &stat)));
                }
                Err(Error::NoNode) => {}
                Err(error) => return Err(translate(path, error)),
            }
            let found = self.client.check_and_watch_stat(path).await;
            let (stat, watcher) = found.map_err(|error| translate(path, error))?;
            if stat.is_none() {
                permit.hand_over(path, watcher);
                return Ok(None);
            }
            // Created between the two reads.
        }
        Err(unavailable(format!("{path} comes and goes too fast to be read")))
    }

    pub(super) async fn children(&self, path: &str) -> Result<Option<Vec<String>>, RegistryError> {
        check_path(path)?;
        match self.client.list_children(path).await {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(Some(names))
            }
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(translate(path, error)),
        }
    }

    pub(super) async fn create(&self, path: &str, data: &[u8]) -> Result<(), RegistryError> {
        check_path(path)?;
        check_data(path, data)?;
        let mut outcome = self.client.create(path, data, &PERSISTENT).await;
        if outcome == Err(Error::NoNode) {
            self.create_parents(path).await?;
            outcome = self.client.create(path, data, &PERSISTENT).await;
        }
        outcome.map(drop).map_err(|error| translate_creation(path, error))
    }

    pub(super) async fn set(&self, path: &str, data: &[u8], version: i32) -> Result<i32, RegistryError> {
        check_path(path)?;
        check_data(path, data)?;
        check_version(path, version)?;
        let stat = self.client.set_data(path, data, Some(version)).await;
        stat.map(|stat| stat.version).map_err(|error| translate(path, error))
    }

    pub(super) async fn delete(&self, path: &str, version: i32) -> Result<(), RegistryError> {
        check_path(path)?;
        check_version(path, version)?;
        self.client.delete(path, Some(version)).await.map_err(|error| translate(path, error))
    }

    pub(super) async fn commit(&self, ops: &[Op]) -> Result<(), RegistryError> {
        let mut writer = self.client.new_multi_writer();
        for op in ops {
            add(&mut writer, op)?;
        }
        match writer.commit().await {
            Ok(_) => Ok(()),
            Err(MultiWriteError::RequestFailed { source }) => Err(translate("a multi", source)),
            Err(MultiWriteError::OperationFailed { index, source }) => Err(match ops.get(index) {
                Some(Op::Create { path, .. }) => translate_creation(path, source),
                Some(Op::Check { path, .. } | Op::Set { path, .. } | Op::Delete { path, .. }) => {
                    translate(path, source)
                }
                None => unavailable(source.to_string()),
            }),
        }
    }

    /// See [`crate::registry::port::Registry::register`]. A node that an earlier session left is replaced in one
    /// transaction: taking it for ours would lose it when the server ends that session.
    pub(super) async fn register(&self, path: &str, data: &[u8]) -> Result<u64, RegistryError> {
        check_path(path)?;
        check_data(path, data)?;
        for _ in 0..ATTEMPTS {
            match self.client.create(path, data, &EPHEMERAL).await {
                Ok(_) => return Ok(self.epoch),
                Err(Error::NodeExists) => {}
                Err(error) => return Err(translate_creation(path, error)),
            }
            let outcome = match self.client.get_data(path).await {
                Ok((_, stat)) if stat.ephemeral_owner == 0 => {
                    return Err(RegistryError::Exists { path: path.to_owned() });
                }
                Ok((found, stat)) if stat.ephemeral_owner == self.session_id() => {
                    if found == data {
                        return Ok(self.epoch);
                    }
                    self.client.set_data(path, data, Some(stat.version)).await.map(drop)
                }
                Ok((_, stat)) => self.replace_ephemeral(path, data, stat.version).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => return Ok(self.epoch),
                // Somebody was faster, most likely the server ending the earlier session: look again.
                Err(Error::NoNode | Error::BadVersion | Error::NodeExists) => {}
                Err(error) => return Err(translate(path, error)),
            }
        }
        Err(RegistryError::Conflict { path: path.to_owned() })
    }

    pub(super) async fn unregister(&self, path: &str) -> Result<(), RegistryError> {
        check_path(path)?;
        let stat = self.client.check_stat(path).await.map_err(|error| translate(path, error))?;
        let Some(stat) = stat else { return Ok(()) };
        if stat.ephemeral_owner == 0 {
            return Err(RegistryError::Invalid { reason: format!("{path} is not ephemeral") });
        }
        match self.client.delete(path, None).await {
            Ok(()) | Err(Error::NoNode) => Ok(()),
            Err(error) => Err(translate(path, error)),
        }
    }

    /// Also creates the chroot, which is but a parent of everything.
    async fn create_parents(&self, path: &str) -> Result<(), RegistryError> {
        let parents = parent(path);
        let made = match parents {
            Some(parents) => self.client.mkdir(parents, &PERSISTENT).await,
            None => Err(Error::NoNode),
        };
        if made != Err(Error::NoNode) {
            return made.map_err(|error| translate(path, error));
        }
        let chroot = self.client.path();
        let whole = self.client.clone().chroot("/").unwrap_or_else(|client| client);
        whole.mkdir(chroot, &PERSISTENT).await.map_err(|error| translate(chroot, error))?;
        match parents {
            Some(parents) => {
                self.client.mkdir(parents, &PERSISTENT).await.map_err(|error| translate(parents, error))
            }
            None => Ok(()),
        }
    }

    async fn replace_ephemeral(&self, path: &str, data: &[u8], version: i32) -> Result<(), Error> {
        let mut writer = self.client.new_multi_writer();
        writer.add_delete(path, Some(version))?;
        writer.add_create(path, data, &EPHEMERAL)?;
        writer.commit().await?;
        Ok(())
    }

    fn session_id(&self) -> i64 {
        self.client.session_id().0
    }
}

fn add(writer: &mut MultiWriter<'_>, op: &Op) -> Result<(), RegistryError> {
    let (path, added) = match op {
        Op::Check { path, version } => {
            check_version(path, *version)?;
            (path, writer.add_check_version(path, *version))
        }
        Op::Create { path, data } => {
            check_data(path, data)?;
            (path, writer.add_create(path, data, &PERSISTENT))
        }
        Op::Set { path, data, version } => {
            check_data(path, data)?;
            check_version(path, *version)?;
            (path, writer.add_set_data(path, data, Some(*version)))
        }
        Op::Delete { path, version } => {
            check_version(path, *version)?;
            (path, writer.add_delete(path, Some(*version)))
        }
    };
    added.map_err(|error| translate(path, error))
}

/// When a node to create is "missing", its parent is meant.
fn translate_creation(path: &str, error: Error) -> RegistryError {
    let path = if error == Error::NoNode { parent(path).unwrap_or("/") } else { path };
    translate(path, error)
}

fn node(data: Vec<u8>, stat: &Stat) -> Node {
    Node { data: Bytes::from(data), version: stat.version, changed: ChangeId(stat.mzxid) }
}
