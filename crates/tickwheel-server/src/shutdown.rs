//! How the service is told to stop: once politely, twice at once.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// What is going on is finished, nothing new is begun.
    Ending,
    /// What is going on is dropped.
    Hurrying,
}

/// The signal to stop. Clones are the same signal.
///
/// ```
/// use tickwheel_server::Shutdown;
///
/// let shutdown = Shutdown::new();
/// assert!(!shutdown.has_begun());
/// shutdown.begin(); // stop accepting, answer what is in flight
/// shutdown.begin(); // hurry: drop what is in flight
/// assert!(shutdown.has_begun());
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown {
    stage: watch::Sender<Stage>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that has not been given.
    ///
    /// ```
    /// assert!(!tickwheel_server::Shutdown::new().has_begun());
    /// ```
    pub fn new() -> Self {
        Self { stage: watch::Sender::new(Stage::Running) }
    }

    /// A signal that SIGINT (Ctrl-C) and SIGTERM give; the second one hurries.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let shutdown = tickwheel_server::Shutdown::on_signals()?;
    /// assert!(!shutdown.has_begun());
    /// # Ok::<(), std::io::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// If signals cannot be listened to.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Self::new();
        let told = shutdown.clone();
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::spawn(async move {
                loop {
                    let name = tokio::select! {
                        _ = interrupt.recv() => "SIGINT",
                        _ = terminate.recv() => "SIGTERM",
                    };
                    tracing::info!(signal = name, hurry = told.has_begun(), "told to stop");
                    told.begin();
                }
            });
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                tracing::info!(signal = "Ctrl-C", hurry = told.has_begun(), "told to stop");
                told.begin();
            }
        });
        Ok(shutdown)
    }

    /// Gives the signal; the second time it hurries.
    ///
    /// ```
    /// let shutdown = tickwheel_server::Shutdown::new();
    /// shutdown.clone().begin();
    /// assert!(shutdown.has_begun());
    /// ```
    pub fn begin(&self) {
        self.stage.send_modify(|stage| {
            *stage = match stage {
                Stage::Running => Stage::Ending,
                Stage::Ending | Stage::Hurrying => Stage::Hurrying,
            };
        });
    }

    /// Whether it was given.
    ///
    /// ```
    /// assert!(!tickwheel_server::Shutdown::new().has_begun());
    /// ```
    pub fn has_begun(&self) -> bool {
        *self.stage.borrow() >= Stage::Ending
    }

    /// Waits until it is given.
    pub(crate) async fn begun(&self) {
        self.reached(Stage::Ending).await;
    }

    /// Waits until it is given twice.
    pub(crate) async fn hurried(&self) {
        self.reached(Stage::Hurrying).await;
    }

    async fn reached(&self, stage: Stage) {
        // An error would mean that the sender is gone, and this is one.
        let _ = self.stage.subscribe().wait_for(|&now| now >= stage).await;
    }
}
