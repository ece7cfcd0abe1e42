//! How to reach `ZooKeeper`.

use std::{fmt, time::Duration};

use zookeeper_client::{Client, Connector, Error, SessionInfo};

use crate::registry::{path::check_path, port::RegistryError};

/// `ZooKeeper` takes the session timeout as milliseconds in 31 bits.
const MAX_SESSION_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// How to reach `ZooKeeper`. All settings are fixed for the life of a [`super::ZooKeeper`]; they are checked when it is
/// started.
///
/// ```
/// use std::time::Duration;
/// use zms_sdk::registry::ZooKeeperOptions;
///
/// let options = ZooKeeperOptions::new("zk1:2181,zk2:2181,zk3:2181/prod")
///     .session_timeout(Duration::from_secs(20))
///     .digest("billing", "secret");
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Debug, Clone)]
pub struct ZooKeeperOptions {
    pub(super) connect: String,
    pub(super) session_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) connect_timeout: Duration,
    digest: Option<Digest>,
    #[cfg(feature = "zookeeper-tls")]
    tls: Option<super::ZooKeeperTls>,
}

impl ZooKeeperOptions {
    /// Options for the servers of a connect string: `host:port` separated by commas, the port 2181 when left out, IPv6
    /// addresses in brackets; behind the last one a chroot may follow, which then stands before every path. The chroot
    /// is created with the first node that is.
    ///
    /// Servers are tried in random order, so that clients spread over them. Some may be down or unknown to the name
    /// service.
    pub fn new(connect: impl Into<String>) -> Self {
        Self {
            connect: connect.into(),
            session_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            digest: None,
            #[cfg(feature = "zookeeper-tls")]
            tls: None,
        }
    }

    /// How long the servers keep the session, and with it this client's registrations, without a word from it.
    /// Default: 10 s. The servers bound it, by 2 to 20 of their ticks (4 s to 40 s by default).
    ///
    /// Longer: a pause of the process or the network is survived without a new registration, but a client that died
    /// stays listed for longer, and a migration waits for it. A server that went silent is given up after two fifths of
    /// it.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long one call may take until it answers [`RegistryError::Unavailable`]. Default: 5 s.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long [`super::ZooKeeper::connect`] waits for the first session. Default: 10 s. It does not bound anything
    /// later, and means nothing to [`super::ZooKeeper::start`].
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Authenticates every connection by `ZooKeeper`'s `digest` scheme. Default: none.
    ///
    /// It gives access to nodes whose ACL names this identity. The nodes that the SDK creates are open to everybody,
    /// as those of ZMS are. Without TLS the password crosses the network in plain text.
    #[must_use]
    pub fn digest(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.digest = Some(Digest { user: user.into(), password: password.into() });
        self
    }

    /// Encrypts every connection. Default: none.
    #[cfg(feature = "zookeeper-tls")]
    #[must_use]
    pub fn tls(mut self, tls: super::ZooKeeperTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The same options with the connect string in one form, or what is wrong with them.
    /// The servers, and the chroot if there is one, as given.
    pub fn connect_string(&self) -> &str {
        &self.connect
    }

    pub(super) fn checked(mut self) -> Result<Self, RegistryError> {
        self.connect = normalize(&self.connect)?;
        for (name, timeout, limit) in [
            ("session_timeout", self.session_timeout, MAX_SESSION_TIMEOUT),
            ("request_timeout", self.request_timeout, Duration::MAX),
            ("connect_timeout", self.connect_timeout, Duration::MAX),
        ] {
            if timeout < Duration::from_millis(1) || timeout > limit {
                return Err(invalid(format!("{name} of {timeout:?} is out of range")));
            }
        }
        Ok(self)
    }

    /// Tries each server once, to take up `session` or to begin a new one: when to try again is decided above.
    pub(super) async fn connect(&self, session: Option<&SessionInfo>) -> Result<Client, Error> {
        let mut connector = self.connector();
        if let Some(session) = session {
            connector = connector.with_session(session.clone());
        }
        #[cfg(feature = "zookeeper-tls")]
        if let Some(tls) = &self.tls {
            return connector.with_tls(tls.options()).secure_connect(&self.connect).await;
        }
        connector.connect(&self.connect).await
    }

    fn connector(&self) -> Connector {
        let connector = Client::connector().with_session_timeout(self.session_timeout).with_fail_eagerly();
        match &self.digest {
            Some(Digest { user, password }) => {
                connector.with_auth("digest", format!("{user}:{password}").as_bytes())
            }
            None => connector,
        }
    }
}

#[derive(Clone)]
struct Digest {
    user: String,
    password: String,
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").field("user", &self.user).finish_non_exhaustive()
    }
}

fn normalize(connect: &str) -> Result<String, RegistryError> {
    if connect.contains("://") {
        return Err(invalid(format!("connect string {connect:?}: write host:port, without a scheme")));
    }
    let (servers, chroot) = match connect.find('/') {
        Some(start) => (&connect[..start], connect[start..].trim().trim_end_matches('/')),
        None => (connect, ""),
    };
    if !chroot.is_empty() {
        check_path(chroot)?;
    }
    let servers = servers.split(',').map(|server| server_address(connect, server.trim()));
    Ok(servers.collect::<Result<Vec<_>, _>>()?.join(",") + chroot)
}

fn server_address(connect: &str, server: &str) -> Result<String, RegistryError> {
    let bracketed = server.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((address, port)) => (format!("[{address}]"), port.strip_prefix(':')),
        None => match server.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (server.to_owned(), None),
        },
    };
    let is_host = !matches!(host.as_str(), "" | "[]") && !host.contains(char::is_whitespace);
    match port.unwrap_or("2181").parse::<u16>() {
        Ok(port) if is_host && port > 0 => Ok(format!("{host}:{port}")),
        _ => Err(invalid(format!("connect string {connect:?}: {server:?} is not host:port"))),
    }
}

fn invalid(reason: String) -> RegistryError {
    RegistryError::Invalid { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_strings_take_several_servers_and_a_chroot() {
        let same = [
            ("zk1", "zk1:2181"),
            ("zk1:2182, zk2", "zk1:2182,zk2:2181"),
            ("zk1:2181,zk2:2181/prod", "zk1:2181,zk2:2181/prod"),
            ("zk1/", "zk1:2181"),
            ("zk1/prod/eu/", "zk1:2181/prod/eu"),
            ("[::1]:2181,[fe80::2]/a", "[::1]:2181,[fe80::2]:2181/a"),
        ];
        for (given, expected) in same {
            assert_eq!(normalize(given).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn malformed_connect_strings_are_refused_before_any_attempt() {
        for given in [
            "",
            ",",
            "zk1,",
            "zk1:",
            "zk1:0",
            "zk1:70000",
            "zk1:x",
            ":2181",
            "[]",
            "zk1//a",
            "a b",
            "tcp://zk1",
        ] {
            assert!(matches!(normalize(given), Err(RegistryError::Invalid { .. })), "{given:?}");
        }
    }

    #[test]
    fn zero_timeouts_are_refused() {
        let options = ZooKeeperOptions::new("zk1");
        for wrong in [
            options.clone().session_timeout(Duration::ZERO),
            options.clone().session_timeout(Duration::MAX),
            options.clone().request_timeout(Duration::ZERO),
            options.clone().connect_timeout(Duration::ZERO),
        ] {
            assert!(matches!(wrong.checked(), Err(RegistryError::Invalid { .. })));
        }
        assert!(options.checked().is_ok());
    }

    #[test]
    fn the_credential_does_not_appear_in_debug() {
        let options = ZooKeeperOptions::new("zk1").digest("billing", "s3cr3t");
        let text = format!("{options:?} {:?}", options.connector());
        assert!(text.contains("billing") && !text.contains("s3cr3t"), "{text}");
    }
}
