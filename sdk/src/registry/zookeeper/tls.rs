//! TLS to `ZooKeeper`.

use std::fmt;

use zookeeper_client::TlsOptions;

use crate::registry::port::RegistryError;

/// Certificates for TLS to `ZooKeeper`. Host names are always checked.
#[derive(Clone)]
pub struct ZooKeeperTls(TlsOptions);

impl ZooKeeperTls {
    /// Trusts servers whose certificate one of these authorities signed; PEM text.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] when the text holds no certificate.
    pub fn new(ca_pem: &str) -> Result<Self, RegistryError> {
        TlsOptions::new().with_pem_ca(ca_pem).map(Self).map_err(|_| no_pem("CA certificate"))
    }

    /// The client's certificate chain and private key, for servers that ask for one; PEM text. Default: none.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] when one of them cannot be read.
    pub fn identity(self, certificate_pem: &str, key_pem: &str) -> Result<Self, RegistryError> {
        let options = self.0.with_pem_identity(certificate_pem, key_pem);
        options.map(Self).map_err(|_| no_pem("client certificate or key"))
    }

    pub(super) fn options(&self) -> TlsOptions {
        self.0.clone()
    }
}

/// Without what the texts said: one of them is a private key.
fn no_pem(what: &str) -> RegistryError {
    RegistryError::Invalid { reason: format!("ZooKeeper's {what} is no valid PEM") }
}

impl fmt::Debug for ZooKeeperTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperTls").finish_non_exhaustive()
    }
}
