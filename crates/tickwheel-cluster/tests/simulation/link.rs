//! A node's connection to the log, at which the simulation interrupts the node.
//!
//! Before and after each operation the world may let other nodes run, or crash this one. So every
//! order of log operations of different nodes can occur, though everything runs in one thread.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tickwheel_cluster::log::{
    AppendError, AppendId, Entry, Log, LogError, LogState, Position, SimulatedLog,
};

use crate::world::World;

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) node: usize,
    pub(crate) log: SimulatedLog,
    pub(crate) world: Weak<World>,
}

impl Link {
    fn interrupt(&self) {
        if let Some(world) = self.world.upgrade() {
            world.interrupt(self.node);
        }
    }
}

impl Log for Link {
    fn state(&self) -> Result<LogState, LogError> {
        self.interrupt();
        self.log.state()
    }

    fn append(
        &self,
        after: Position,
        id: AppendId,
        record: &Bytes,
    ) -> Result<Position, AppendError> {
        self.interrupt();
        let world = self.world.upgrade();
        let lie = world.as_ref().is_some_and(|world| world.lies_about_append());
        let answer = if lie { Ok(after.next()) } else { self.log.append(after, id, record) };
        if let (Ok(position), Some(world)) = (&answer, &world) {
            world.note_append(self.node, *position, id);
        }
        self.interrupt();
        answer
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Entry>, LogError> {
        self.interrupt();
        self.log.read(from, max_bytes)
    }

    fn wait(&self, from: Position, timeout: Duration) -> Result<(), LogError> {
        self.log.wait(from, timeout)
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.interrupt();
        self.log.trim(below)
    }

    fn max_record_bytes(&self) -> usize {
        self.log.max_record_bytes()
    }

    fn reopen(&self) -> Result<Arc<dyn Log>, LogError> {
        self.log.reopen()
    }

    fn replace(&self) -> Result<Arc<dyn Log>, LogError> {
        self.log.replace()
    }
}
