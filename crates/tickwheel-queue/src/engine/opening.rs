//! Opening the engine: reading counters, queues and leases from the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tickwheel::wheel::HierarchicalWheel;

use super::deliver::Tokens;
use super::group_rows::TouchedGroups;
use super::queue::Creators;
use super::{Engine, EngineOptions, Leased, Queue, Room, Timed};
use crate::model::access::Access;
use crate::model::id::{JobId, Secret};
use crate::model::stats::Tally;
use crate::model::time::Now;
use crate::store::records::{Counts, LeaseRow, QueueRow, Totals};
use crate::store::rows;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View, WriteBatch};

impl Engine {
    /// Reads the counters, the queues and the leases. Waiting jobs are read later, in pieces.
    pub(crate) fn open(
        view: &dyn View,
        options: EngineOptions,
        now: Now,
    ) -> Result<Self, StoreError> {
        let totals = match view.get(Table::Counters, rows::TOTALS)? {
            Some(bytes) => Totals::decode(bytes).map_err(StoreError::Damaged)?,
            None => Totals::default(),
        };
        let mut engine = Self {
            options,
            now,
            random: fastrand::Rng::with_seed(0),
            tokens: Tokens::default(),
            secret: Secret::random(),
            secret_is_stored: false,
            last_id: JobId::from_bytes([0; 16]),
            last_put: 0,
            totals,
            queues: Vec::new(),
            names: HashMap::new(),
            creators: Creators::default(),
            wheel: HierarchicalWheel::with_start(now.time().as_millis()),
            leases: HashMap::new(),
            schedules: BTreeMap::new(),
            targets: BTreeSet::new(),
            batch: WriteBatch::new(),
            dirty: Vec::new(),
            dirty_paces: Vec::new(),
            woken: Vec::new(),
            to_load: Vec::new(),
            groups_to_load: Vec::new(),
            touched_groups: TouchedGroups::default(),
            pending: 0,
            room: Room::ENDLESS,
            caller: Access::default(),
            idempotency_timer: None,
            keys_may_expire: false,
            unused_at: None,
            removed: Vec::new(),
            happened: None,
            tally: Tally::default(),
        };
        engine.read_secret(view)?;
        engine.read_queues(view)?;
        engine.read_leases(view)?;
        engine.read_group_settings(view)?;
        engine.read_paces(view)?;
        engine.read_schedules(view)?;
        engine.read_targets(view)?;
        engine.read_idempotency_keys(view)?;
        for number in 0..engine.queues.len() as u32 {
            let counts = &engine.queues[number as usize].counts;
            engine.pending += counts.waiting + counts.leased;
            engine.want_rows(number);
            engine.retention_changed(number);
        }
        Ok(engine)
    }

    /// Reads the stored secret. If it is missing or unreadable, a new one is stored with the first
    /// occurrence.
    fn read_secret(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let row = match view.get(Table::Index, rows::SECRET) {
            Err(StoreError::Damaged(why)) => {
                tracing::error!(why, "the secret for ids of occurrences is replaced");
                self.tally.damaged += 1;
                return Ok(());
            }
            row => row?,
        };
        if let Some(secret) = row.and_then(|row| Secret::decode(&row)) {
            (self.secret, self.secret_is_stored) = (secret, true);
        }
        Ok(())
    }

    fn read_queues(&mut self, view: &dyn View) -> Result<(), StoreError> {
        for row in view.scan(Table::Index, &[rows::QUEUE], &[rows::QUEUE + 1]) {
            let (key, value) = row?;
            let row = QueueRow::decode(value).map_err(StoreError::Damaged)?;
            let expected = self.queues.len() as u32;
            let number = rows::read_queue_key(&key);
            if number != Some(expected) {
                return Err(StoreError::Damaged(format!(
                    "queue {expected} is missing: the next one is {number:?}"
                )));
            }
            let key = rows::of_queue(rows::COUNTS, expected);
            let counts = view.get(Table::Counters, &key)?;
            let counts = counts.map(Counts::decode).transpose().map_err(StoreError::Damaged)?;
            let mut queue = Queue::new(row, counts.unwrap_or_default());
            queue.used = self.now.time();
            queue.is_removed = queue.name.is_empty();
            if !queue.is_removed {
                self.names.insert(Arc::clone(&queue.name), expected);
                if let Some(creator) = &queue.creator {
                    self.creators.count(creator);
                }
                self.expect_unused();
            }
            self.queues.push(queue);
        }
        Ok(())
    }

    fn read_leases(&mut self, view: &dyn View) -> Result<(), StoreError> {
        for row in Tolerant::new(view, Table::Index, &[rows::LEASE], &[rows::LEASE + 1]) {
            let Some((key, value)) = self.pass_damage(row)? else { continue };
            if let Err(why) = self.read_lease(&key, value) {
                tracing::error!(?key, why, "a damaged lease");
                self.tally.damaged += 1;
            }
        }
        Ok(())
    }

    /// Returns a row, or `None` for one that cannot be read.
    pub(super) fn pass_damage(
        &mut self,
        row: Result<(Bytes, Bytes), StoreError>,
    ) -> Result<Option<(Bytes, Bytes)>, StoreError> {
        match row {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::Damaged(why)) => {
                tracing::error!(why, "some rows are passed over");
                self.tally.damaged += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_lease(&mut self, key: &[u8], value: Bytes) -> Result<(), String> {
        let row = LeaseRow::decode(value)?;
        let named = rows::read_lease_key(key);
        let (queue, id) = named
            .filter(|(queue, _)| (*queue as usize) < self.queues.len())
            .ok_or("a key that names no queue")?;
        let timer = self.wheel.insert(row.until.as_millis(), Timed::Lease(id));
        self.leases.insert(id, Leased { queue, timer, row });
        Ok(())
    }
}
