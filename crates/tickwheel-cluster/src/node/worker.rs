//! The thread of a partition.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use bytes::Bytes;

use super::message::Message;
use super::seeding::Pieces;
use super::{Order, PartitionStatus, Shared, lock};
use crate::log::Position;
use crate::partition::{Partition, State};
use crate::peers::Peers;
use crate::replica::trim_point;

/// How long a standby waits for a record before it looks at everything else again.
const WAIT: Duration = Duration::from_millis(250);
/// How often an owner looks at everything else.
const OWNER_WAIT: Duration = Duration::from_millis(100);
/// How often local stores are synced. What is not synced is read from the log after a power failure.
const SYNC_INTERVAL: Duration = Duration::from_secs(10);
/// How often a seed is asked for.
const SEED_INTERVAL: Duration = Duration::from_secs(2);
/// Records that stay in the log though two replicas have them, for a standby that lags a little.
const KEPT_RECORDS: u64 = 10_000;
/// Records that make a trim worth its record.
const TRIM_STEP: u64 = 1_000;

pub(super) struct Worker<Q> {
    shared: Arc<Shared>,
    partition: Partition<Q>,
    pieces: Pieces,
    next_sync: Duration,
    next_seed: Duration,
    trimmed: u64,
    /// The state that was logged last.
    logged: Option<State>,
}

impl<Q> Worker<Q> {
    pub(super) fn new(shared: Arc<Shared>, partition: Partition<Q>, pieces: Pieces) -> Self {
        let now = shared.environment.elapsed();
        Self {
            shared,
            partition,
            pieces,
            next_sync: now + SYNC_INTERVAL,
            next_seed: now,
            trimmed: 0,
            logged: None,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopping() {
            self.obey();
            let peers = lock(&self.shared.peers).clone();
            self.partition.tick(&peers);
            self.drain_if_asked(&peers);
            self.relieve(&peers);
            self.seed_if_needed(&peers);
            self.sync_and_trim(&peers);
            self.report(&peers);
            self.wait();
        }
        if self.partition.queue().is_some() {
            let peers = lock(&self.shared.peers).clone();
            let to = self.successor(&peers);
            if let Err(error) = self.partition.hand_off(to.as_deref()) {
                tracing::warn!(%error, "the partition was not handed off");
            }
            self.report(&peers);
        }
    }

    /// The live node that should own the partition next, if there is one.
    fn successor(&self, peers: &Peers) -> Option<String> {
        let now = self.shared.environment.elapsed();
        let mut candidates = peers.candidates(self.partition.number(), now);
        candidates.retain(|name| *name != self.shared.name);
        candidates.into_iter().next()
    }

    /// Does what it was asked to do.
    fn obey(&mut self) {
        let number = self.partition.number();
        match self.shared.take_order(number) {
            Some(Order::HandOff(to)) => self.hand_off(to.as_deref()),
            Some(Order::Recover(answer)) => {
                let recovered = self.partition.recover();
                tracing::warn!(partition = number, ?recovered, "recovering was asked for");
                // The caller waits for it.
                let _ = answer.send(recovered);
            }
            Some(Order::Share { name, value, is_passed_on }) => {
                self.share(name, value, is_passed_on);
            }
            None => {}
        }
    }

    /// Changes a row that all nodes share, or asks the owner for that.
    fn share(&mut self, name: String, value: Option<Bytes>, is_passed_on: bool) {
        let number = self.partition.number();
        if self.partition.queue().is_some() {
            let put = self.partition.replica().lock().put_shared(&name, value.as_deref());
            if let Err(error) = put {
                tracing::warn!(partition = number, name, %error, "a shared row was not changed");
            }
        } else if !is_passed_on && let Some(owner) = self.shared.owner(number) {
            self.pieces.send(&owner.node, Message::Share { name, value });
        }
    }

    fn hand_off(&mut self, to: Option<&str>) {
        if self.partition.queue().is_some()
            && let Err(error) = self.partition.hand_off(to)
        {
            tracing::warn!(%error, "the partition was not handed off");
        }
    }

    /// Gives the partition away if the node drains and another node can take it.
    fn drain_if_asked(&mut self, peers: &Peers) {
        if !peers.is_draining() || self.partition.queue().is_none() {
            return;
        }
        if let Some(to) = self.successor(peers)
            && self.shared.may_drain(self.partition.number())
        {
            self.hand_off(Some(&to));
        }
    }

    /// Gives the partition away if the node owns more than its share.
    fn relieve(&mut self, peers: &Peers) {
        let (number, now) = (self.partition.number(), self.shared.environment.elapsed());
        if self.partition.queue().is_none() {
            return;
        }
        if let Some((moved, to)) = peers.relief(&self.shared.owned(), now)
            && moved == number
            && self.shared.may_relieve(now)
        {
            tracing::info!(partition = number, to, "another node owns fewer partitions");
            self.hand_off(Some(&to));
        }
    }

    fn seed_if_needed(&mut self, peers: &Peers) {
        let now = self.shared.environment.elapsed();
        if !matches!(self.partition.state(), State::NeedsSeed(_)) || now < self.next_seed {
            return;
        }
        self.next_seed = now + SEED_INTERVAL;
        let number = self.partition.number();
        let complete = peers
            .alive(now)
            .filter_map(|beat| Some((beat.replicas.get(&number)?, &beat.node)))
            .filter(|(beat, _)| beat.is_owner || beat.is_candidate);
        // A standby has time for it.
        let Some((_, node)) = complete.min_by_key(|(beat, _)| beat.is_owner) else { return };
        let shared = Arc::clone(&self.shared);
        let _turn = match shared.seeding.try_lock() {
            Err(TryLockError::WouldBlock) => return,
            turn => turn,
        };
        tracing::info!(partition = number, node, "seeding the replica");
        let chunks = self.pieces.fetch(number, &self.shared.name, node);
        match self.partition.seed(chunks) {
            Ok(()) => tracing::info!(partition = number, node, "the replica is seeded"),
            Err(error) => tracing::warn!(partition = number, node, %error, "no seed"),
        }
    }

    fn sync_and_trim(&mut self, peers: &Peers) {
        let now = self.shared.environment.elapsed();
        if now < self.next_sync {
            return;
        }
        self.next_sync = now + SYNC_INTERVAL;
        let is_owner = match self.partition.state() {
            State::Owner { .. } => true,
            State::Standby => false,
            State::NeedsSeed(_) | State::Halted(_) => return,
        };
        let mut replica = self.partition.replica().lock();
        let Ok(own) = replica.sync() else { return };
        if !is_owner {
            return;
        }
        let number = self.partition.number();
        let mut synced = vec![(own, self.shared.name.clone())];
        synced.extend(peers.alive(now).filter_map(|beat| {
            let replica = beat.replicas.get(&number)?;
            (replica.synced > Position::START).then(|| (replica.synced, beat.node.clone()))
        }));
        let positions: Vec<_> = synced.iter().map(|(position, _)| *position).collect();
        let Some(durable) = trim_point(&positions) else { return };
        let below = durable.0.saturating_sub(KEPT_RECORDS);
        if below < self.trimmed + TRIM_STEP {
            return;
        }
        let holders = synced.into_iter().filter(|(position, _)| *position >= durable);
        let holders = holders.map(|(_, name)| name).collect();
        match replica.trim(Position(below), holders) {
            Ok(()) => self.trimmed = below,
            Err(error) => tracing::warn!(partition = number, %error, "the log was not trimmed"),
        }
    }

    fn report(&mut self, peers: &Peers) {
        let (number, state) = (self.partition.number(), self.partition.state().clone());
        if self.logged.as_ref() != Some(&state) {
            match &state {
                State::Halted(why) => tracing::error!(partition = number, why, "halted"),
                state => tracing::info!(partition = number, ?state, "the partition"),
            }
            self.logged = Some(state.clone());
        }
        let beat = self.partition.beat(peers);
        let replica = self.partition.replica().lock();
        let tip = replica.applied().map(|applied| applied.tip.clone()).unwrap_or_default();
        let counters = replica.counters();
        drop(replica);
        let trouble = self.partition.trouble().map(str::to_owned);
        let status = PartitionStatus { state, tip, beat, trouble, counters };
        let now = self.shared.environment.elapsed();
        lock(&self.shared.reports).insert(number, (now, status));
    }

    fn wait(&self) {
        if !matches!(self.partition.state(), State::Standby) {
            self.shared.sleep(self.partition.number(), OWNER_WAIT);
            return;
        }
        let replica = self.partition.replica().lock();
        let (log, next) = (replica.log(), replica.next_position());
        drop(replica);
        if log.wait(next, WAIT).is_err() {
            self.shared.sleep(self.partition.number(), WAIT);
        }
    }
}
