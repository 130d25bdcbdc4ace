//! The service of an owner: opened by a takeover, closed when ownership ends.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use tickwheel_cluster::{Layout, Opener};
use tickwheel_queue::OpenError;
use tokio::runtime::Handle;

use crate::app::{self, App, Common};
use crate::idempotency::OldMarkers;
use crate::server::{Service, queue_builder};
use crate::shutdown::Shutdown;

/// How long requests in flight may take after ownership has ended, and how often that is checked.
const GRACE: Duration = Duration::from_millis(250);
const GRACE_STEP: Duration = Duration::from_millis(5);

/// The service of this node for a partition, while it is the owner.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<RwLock<Option<Arc<Serving>>>>);

/// The routes of an owner's service, which answer requests.
pub(super) struct Serving {
    pub(super) router: Router,
    /// Begins when ownership ends, and hurries after the grace period.
    pub(super) ended: Shutdown,
}

impl Slot {
    pub(super) fn get(&self) -> Option<Arc<Serving>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, serving: Option<Arc<Serving>>) -> Option<Arc<Serving>> {
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, serving)
    }
}

/// The queue of an owner, with the service around it. Dropping it closes both.
pub(super) struct Owned {
    slot: Slot,
    runtime: Handle,
    service: Option<Service>,
}

/// Returns the function that opens the service of an owner. The partition's thread calls it.
pub(super) fn opener(
    common: Arc<Common>,
    routes: Router<App>,
    slot: Slot,
    layout: &Layout,
    partition: u32,
) -> Opener<Owned> {
    let runtime = Handle::current();
    let placement = (layout.partitions() > 1).then(|| layout.placement(partition));
    // This node may come to own all partitions, which share the memory of one server.
    let near = common.config().near / layout.partitions() as usize;
    Box::new(move |disk, floor| {
        let mut builder = queue_builder(common.config()).time_floor(floor).near(near.max(1));
        if let Some(placement) = placement {
            builder = builder.placement(placement);
        }
        let queues = builder.open_disk(disk)?;
        let failed = |error: tickwheel_queue::Error| OpenError::Setting(error.to_string());
        let now = app::begun(std::time::SystemTime::now());
        let markers = OldMarkers::find(&queues, now).map_err(failed)?;
        let ended = Shutdown::new();
        let (routes, number) = (routes.clone(), Some(partition));
        let opening = Service::open(&common, routes, queues, markers, ended.clone(), number);
        let service = runtime.block_on(opening).map_err(failed)?;
        let serving = Serving { router: service.router(), ended };
        slot.set(Some(Arc::new(serving)));
        Ok(Owned { slot: slot.clone(), runtime: runtime.clone(), service: Some(service) })
    })
}

impl Drop for Owned {
    fn drop(&mut self) {
        let serving = self.slot.set(None);
        let Some(service) = self.service.take() else { return };
        let closing = async {
            if let Some(serving) = serving {
                // Long polls and streams end at once, other requests soon. The second call drops
                // those that are left.
                serving.ended.begin();
                let in_flight = async {
                    while Arc::strong_count(&serving) > 1 {
                        tokio::time::sleep(GRACE_STEP).await;
                    }
                };
                let _ = tokio::time::timeout(GRACE, in_flight).await;
                serving.ended.begin();
            }
            service.close(std::future::ready(())).await;
        };
        self.runtime.block_on(closing);
    }
}
