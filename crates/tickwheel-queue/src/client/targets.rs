//! Operations on push targets. The queue stores them; a service delivers to them.

use bytes::Bytes;

use crate::client::answer::Answer;
use crate::client::queues::Queues;
use crate::client::response;
use crate::engine::Command;
use crate::model::target::StoredTarget;
use crate::runtime::reading::Read;

impl Queues {
    /// Puts a push target, which replaces the one of the same name. Its state stays. Definition and
    /// state have at most [`StoredTarget::MAX_BYTES`].
    ///
    /// All calls about targets require access to all queues.
    pub fn put_target(&self, name: impl Into<String>, definition: impl Into<Bytes>) -> Answer<()> {
        let (name, definition) = (name.into(), definition.into());
        self.send(Command::PutTarget { name, definition }, response::unit)
    }

    /// Stores the state of a target.
    pub fn put_target_state(&self, name: impl Into<String>, state: impl Into<Bytes>) -> Answer<()> {
        let (name, state) = (name.into(), state.into());
        self.send(Command::PutTargetState { name, state }, response::unit)
    }

    /// Removes a target that no queue names, with its state.
    pub fn remove_target(&self, name: impl Into<String>) -> Answer<()> {
        self.send(Command::RemoveTarget(name.into()), response::unit)
    }

    /// Returns a target; `None` if it does not exist.
    pub fn target(&self, name: impl Into<String>) -> Answer<Option<StoredTarget>> {
        self.read(Read::Targets(Some(name.into())), response::target)
    }

    /// Returns all targets by name, without damaged ones.
    pub fn targets(&self) -> Answer<Vec<StoredTarget>> {
        self.read(Read::Targets(None), response::targets)
    }
}
