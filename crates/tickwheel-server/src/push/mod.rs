//! Push delivery: the server calls HTTP targets with the jobs of queues.
//!
//! | file | what it knows |
//! |---|---|
//! | `definition` | what a target is |
//! | `url`, `request`, `signature` | the request of one attempt |
//! | `response`, `responses` | what an answer means, and the last answers |
//! | `why` | why a request failed, for people and for programs |
//! | `allow`, `connection` | which addresses may be dialled, and dialling them |
//! | `exchange` | HTTP on one connection |
//! | `window` | the rate: how many requests a target gets in any window |
//! | `health` | holds, probes and the ramp after them |
//! | `charge` | the memory of jobs on their way |
//! | `permit` | the right to send one request |
//! | `control` | what a target has under way, and what it may get next |
//! | `deliverer` | the task of one target, and its lanes |
//! | `settlement` | reporting outcomes to the queue |
//! | `test` | one request by hand, with everything about it |
//! | `watch` | streams of what happens to targets |
//!
//! [`Push`] holds all targets. Definitions and states are rows of the queue's store.

pub(crate) mod allow;
mod charge;
mod connection;
mod control;
mod definition;
mod deliverer;
mod exchange;
mod health;
mod permit;
mod request;
mod response;
mod responses;
mod settlement;
mod signature;
mod test;
mod url;
pub(crate) mod watch;
mod why;
mod window;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use tickwheel_queue::{Error, Queues};
use tokio::sync::{broadcast, watch as watching};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::rustls::ClientConfig;

pub(crate) use self::connection::tls_client_for_the_web;
use self::connection::{Connector, system_resolver};
pub(crate) use self::definition::trusting as tls_client_trusting;
use self::definition::{Definition, HIDDEN, StoredDefinition, is_credential};
use self::deliverer::{Deliverer, Source};
use self::signature::Secret;
use crate::api::{
    Code, RotateRequest, SecretInfo, Target, TargetCounts, TargetPatch, TargetSettings, TargetState,
};
use crate::config::Config;
use crate::http::memory::Memory;
use crate::problem::Failure;
use crate::telemetry::Telemetry;

/// How long old secrets also sign after a new one was added: by default, and at most.
const KEEP_OLD: Duration = Duration::from_secs(24 * 3_600);
const MAX_KEEP_OLD: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a stop waits for the commit of the last outcomes after the grace. Closing the queue
/// commits them as well.
const MAX_LAST_REPORT: Duration = Duration::from_millis(250);
/// Changes of states that are kept for a slow listener.
const MAX_CHANGES: usize = 256;
/// Secrets that sign at the same time.
const MAX_SECRETS: usize = 8;

/// A monotonic clock in milliseconds since 1970. Setting the wall clock does not change it.
#[derive(Clone, Copy, Debug)]
struct SteadyClock {
    began: Instant,
    began_ms: u64,
}

impl SteadyClock {
    fn new() -> Self {
        Self { began: Instant::now(), began_ms: wall_clock_ms() }
    }

    fn now_ms(self) -> u64 {
        self.began_ms + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }
}

fn wall_clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns random bits for jitter and span ids (`SplitMix64`). They may be predictable, so the system
/// is asked only for the seed.
fn random() -> u64 {
    static STATE: OnceLock<AtomicU64> = OnceLock::new();
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let seed = || AtomicU64::new(getrandom::u64().unwrap_or_else(|_| wall_clock_ms()));
    let mut bits = STATE.get_or_init(seed).fetch_add(STEP, Ordering::Relaxed);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// All targets, and the tasks that deliver to them.
pub(crate) struct Push {
    queues: Queues,
    connector: Arc<Connector>,
    memory: Memory,
    telemetry: Telemetry,
    web: Arc<ClientConfig>,
    clock: SteadyClock,
    running: RwLock<BTreeMap<String, Running>>,
    /// The names of targets whose state has changed.
    changes: broadcast::Sender<String>,
    /// Held during a change, so that the stored definitions and the running ones agree.
    changing: tokio::sync::Mutex<()>,
}

/// A target with its task.
struct Running {
    deliverer: Arc<Deliverer>,
    stored: StoredDefinition,
    stop: watching::Sender<bool>,
    task: JoinHandle<()>,
}

impl Push {
    /// Reads all targets and starts their deliveries. Jobs on their way to a target are charged to
    /// `memory`.
    pub(crate) async fn open(
        queues: Queues,
        config: &Config,
        memory: Memory,
        telemetry: Telemetry,
    ) -> Result<Arc<Self>, Error> {
        let web = tls_client_for_the_web().map_err(Error::Unavailable)?;
        let allow = config.push.allow.clone();
        let connector = Connector::new(allow, system_resolver(), config.push.connections);
        let push = Arc::new(Self {
            queues,
            connector: Arc::new(connector),
            memory,
            telemetry,
            web,
            clock: SteadyClock::new(),
            running: RwLock::default(),
            changes: broadcast::channel(MAX_CHANGES).0,
            changing: tokio::sync::Mutex::default(),
        });
        for target in push.queues.targets().await? {
            let definition = StoredDefinition::decode(&target.definition).and_then(|stored| {
                let definition = Definition::new(&stored, &push.web);
                definition.map(|it| (stored, it)).map_err(|failure| failure.problem.detail.clone())
            });
            match definition {
                Ok((stored, definition)) => {
                    push.run(&target.name, stored, definition, &target.state);
                }
                Err(why) => {
                    let target = &target.name;
                    tracing::error!(target, why, "a target cannot be read, and gets nothing");
                }
            }
        }
        push.read_queues().await?;
        Ok(push)
    }

    /// Stops all deliveries and waits for the requests in flight, at most until `grace` is ready. Then
    /// reports the outcomes that are known.
    pub(crate) async fn stop(&self, grace: impl Future<Output = ()>) {
        let mut running = {
            let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        for target in running.values() {
            target.stop.send_replace(true);
        }
        let all = async {
            for target in running.values_mut() {
                let _ = (&mut target.task).await;
            }
        };
        tokio::select! {
            () = all => return,
            () = grace => {}
        }
        let mut reporting = JoinSet::new();
        for (_, target) in running {
            target.task.abort();
            if !target.task.is_finished() {
                let _ = target.task.await;
            }
            reporting.spawn(target.deliverer.settle_rest());
        }
        let reported = async { while reporting.join_next().await.is_some() {} };
        if tokio::time::timeout(MAX_LAST_REPORT, reported).await.is_err() {
            tracing::warn!("the commit of the last outcomes of push delivery takes long");
        }
    }

    fn run(&self, name: &str, stored: StoredDefinition, definition: Definition, state: &[u8]) {
        let deliverer = Deliverer::new(
            name.to_owned(),
            &self.queues,
            Arc::clone(&self.connector),
            self.memory.clone(),
            self.telemetry.clone(),
            self.clock,
            definition,
            state,
            self.changes.clone(),
        );
        let (stop, stopped) = watching::channel(false);
        let task = tokio::spawn(Arc::clone(&deliverer).run(stopped));
        let running = Running { deliverer, stored, stop, task };
        let mut all = self.running.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), running);
        drop(all);
        self.announce(name);
    }

    /// Notifies listeners of a change of a target.
    fn announce(&self, name: &str) {
        // There may be no listener.
        let _ = self.changes.send(name.to_owned());
    }

    fn with<T>(&self, name: &str, look: impl FnOnce(&Running) -> T) -> Result<T, Failure> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        let found = running.get(name).map(look);
        found.ok_or_else(|| Error::NoSuchTarget(name.to_owned()).into())
    }

    /// Reads again which queues name which target, after the settings of queues have changed.
    pub(crate) async fn queues_changed(&self) {
        let _one_at_a_time = self.changing.lock().await;
        if let Err(error) = self.read_queues().await {
            tracing::error!(%error, "the queues of targets cannot be read");
        }
    }

    /// Tells each target which queues name it.
    async fn read_queues(&self) -> Result<(), Error> {
        let mut sources: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        for queue in self.queues.queues().await? {
            if let Some(target) = queue.settings.target {
                let source = Source { queue: queue.name, lease: queue.settings.lease };
                sources.entry(target).or_default().push(source);
            }
        }
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        for (name, target) in &*running {
            let mut sources = sources.remove(name).unwrap_or_default();
            sources.sort_by(|one, other| one.queue.cmp(&other.queue));
            if target.deliverer.sources()[..] != sources[..] {
                target.deliverer.set_sources(sources.into());
            }
        }
        Ok(())
    }

    /// Returns all targets, by name, without their last answers.
    pub(crate) fn list(&self) -> Vec<Target> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|(name, target)| target.shown(name)).collect()
    }

    /// Returns all targets, by name, with their last answers.
    pub(crate) fn list_with_responses(&self) -> Vec<Target> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|(name, target)| target.shown_with_responses(name)).collect()
    }

    /// Returns a target with its last answers.
    pub(crate) fn show(&self, name: &str) -> Result<Target, Failure> {
        self.with(name, |target| target.shown_with_responses(name))
    }

    /// Adds a target, or replaces its settings. Returns it, and whether it is new. A new one comes
    /// with its secret.
    pub(crate) async fn put(
        &self,
        name: &str,
        settings: TargetSettings,
    ) -> Result<(Target, bool), Failure> {
        let _one_at_a_time = self.changing.lock().await;
        if let Ok(mut stored) = self.with(name, |target| target.stored.clone()) {
            stored.settings = settings;
            self.change(name, stored).await?;
            return Ok((self.show(name)?, false));
        }
        let secret = new_secret()?;
        let text = secret.reveal().to_owned();
        let stored = StoredDefinition::new(settings, secret);
        let definition = Definition::new(&stored, &self.web)?;
        self.queues.put_target(name, stored.encode()).await?;
        self.run(name, stored, definition, &[]);
        Ok((Target { secret: Some(text), ..self.show(name)? }, true))
    }

    pub(crate) async fn patch(&self, name: &str, patch: TargetPatch) -> Result<Target, Failure> {
        let _one_at_a_time = self.changing.lock().await;
        let mut stored = self.with(name, |target| target.stored.clone())?;
        stored.settings = patch.apply(stored.settings);
        self.change(name, stored).await?;
        self.show(name)
    }

    /// Adds a signing secret. The old secrets also sign until they expire.
    pub(crate) async fn rotate(
        &self,
        name: &str,
        request: &RotateRequest,
    ) -> Result<Target, Failure> {
        let keep = request.keep_old.map_or(KEEP_OLD, |keep| keep.0);
        if keep > MAX_KEEP_OLD {
            let why = format!("keep_old must be at most 30 days, got {keep:?}");
            return Err(Failure::field(Code::InvalidField, "/keep_old", why));
        }
        let _one_at_a_time = self.changing.lock().await;
        let mut stored = self.with(name, |target| target.stored.clone())?;
        let now = wall_clock_ms();
        let expires = now + u64::try_from(keep.as_millis()).unwrap_or_default();
        stored.secrets.retain(|secret| secret.signs_at(now));
        for secret in &mut stored.secrets {
            secret.expires_ms = Some(secret.expires_ms.map_or(expires, |it| it.min(expires)));
        }
        stored.secrets.truncate(MAX_SECRETS - 1);
        let secret = new_secret()?;
        let text = secret.reveal().to_owned();
        stored.secrets.insert(0, secret);
        self.change(name, stored).await?;
        Ok(Target { secret: Some(text), ..self.show(name)? })
    }

    /// Pauses or resumes deliveries. Resuming also ends a hold or a stop.
    pub(crate) async fn set_paused(&self, name: &str, paused: bool) -> Result<Target, Failure> {
        let _one_at_a_time = self.changing.lock().await;
        let mut stored = self.with(name, |target| target.stored.clone())?;
        if stored.paused != paused {
            stored.paused = paused;
            self.change(name, stored).await?;
        }
        if !paused {
            let deliverer = self.with(name, |target| Arc::clone(&target.deliverer))?;
            deliverer.resume().await?;
        }
        self.announce(name);
        self.show(name)
    }

    /// Removes a target that no queue names.
    pub(crate) async fn remove(&self, name: &str) -> Result<Target, Failure> {
        let _one_at_a_time = self.changing.lock().await;
        let shown = self.show(name)?;
        self.queues.remove_target(name).await?;
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = running.remove(name) {
            // Requests in flight end by themselves.
            target.stop.send_replace(true);
        }
        drop(running);
        self.announce(name);
        Ok(shown)
    }

    /// Stores a changed definition, and applies it.
    async fn change(&self, name: &str, stored: StoredDefinition) -> Result<(), Failure> {
        let definition = Definition::new(&stored, &self.web)?;
        self.queues.put_target(name, stored.encode()).await?;
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = running.get_mut(name) {
            target.deliverer.redefine(definition);
            target.stored = stored;
        }
        Ok(())
    }
}

fn new_secret() -> Result<Secret, Failure> {
    Secret::random(wall_clock_ms()).map_err(|why| Failure::new(Code::Unavailable, why))
}

impl Running {
    fn shown_with_responses(&self, name: &str) -> Target {
        Target { responses: self.deliverer.responses.list(), ..self.shown(name) }
    }

    fn shown(&self, name: &str) -> Target {
        let (state, why, next_probe_ms, in_flight) = self.deliverer.look(|health, in_flight| {
            (health.state(), health.why().cloned(), health.next_probe_ms(), u64::from(in_flight))
        });
        let is_paused = self.stored.paused;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.deliverer.counts;
        let now = wall_clock_ms();
        Target {
            name: name.to_owned(),
            settings: without_credentials(self.stored.settings.clone()),
            state: if is_paused { TargetState::Paused } else { state },
            reason: why.as_ref().map(|why| why.text.clone()),
            cause: why.and_then(|why| why.cause),
            next_probe: next_probe_ms.map(crate::api::rfc3339),
            next_probe_ms,
            queues: self.deliverer.sources().iter().map(|it| it.queue.clone()).collect(),
            in_flight,
            counts: TargetCounts {
                delivered: load(&counts.delivered),
                failed: load(&counts.failed),
                held: load(&counts.held),
            },
            responses: Vec::new(),
            secrets: self
                .stored
                .secrets
                .iter()
                .filter(|secret| secret.signs_at(now))
                .map(|secret| SecretInfo {
                    created: crate::api::rfc3339(secret.created_ms),
                    created_ms: secret.created_ms,
                    expires: secret.expires_ms.map(crate::api::rfc3339),
                    expires_ms: secret.expires_ms,
                })
                .collect(),
            secret: None,
        }
    }
}

fn without_credentials(mut settings: TargetSettings) -> TargetSettings {
    for (name, value) in &mut settings.headers {
        if is_credential(name) {
            HIDDEN.clone_into(value);
        }
    }
    settings
}
