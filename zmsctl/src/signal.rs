//! The operator's wish to end: Ctrl-C, or SIGTERM from a supervisor.

use crate::failure::Failure;

/// Watches for the wish to end. From its making on, these signals no longer kill the process.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Interrupt {
    #[cfg(unix)]
    pub(crate) fn watch() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let watch =
            |kind| signal(kind).map_err(|error| Failure::Other(format!("cannot watch for signals: {error}")));
        Ok(Self { interrupt: watch(SignalKind::interrupt())?, terminate: watch(SignalKind::terminate())? })
    }

    /// Ends at the next signal. Dropping the future loses none.
    #[cfg(unix)]
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(crate) fn watch() -> Result<Self, Failure> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    pub(crate) async fn received(&mut self) {
        // Without a handler the system ends the process by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
