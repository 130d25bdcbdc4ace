//! Groups of a queue.

use tickwheel_queue as queue;

use super::IntoWire;
use super::queue::pacing_of;
use crate::api::{Group, GroupPage, GroupPatch};
use crate::problem::Failure;

impl IntoWire for queue::GroupInfo {
    type Wire = Group;

    fn into_wire(self) -> Group {
        let queue::GroupSettings { pacing, paused } = self.settings;
        Group {
            name: self.name,
            paused,
            pacing: pacing.map(IntoWire::into_wire),
            waiting: self.waiting,
            running: self.running,
            held: self.held,
        }
    }
}

impl IntoWire for queue::GroupPage {
    type Wire = GroupPage;

    fn into_wire(self) -> GroupPage {
        let groups = self.groups.into_iter().map(IntoWire::into_wire).collect();
        GroupPage { groups, next: self.next }
    }
}

/// Returns the change of a group's settings that a request asks for.
pub(crate) fn group_patch_of(patch: &GroupPatch) -> Result<queue::GroupPatch, Failure> {
    let pacing = match &patch.pacing {
        Some(Some(pacing)) => Some(Some(pacing_of(pacing, "/pacing")?)),
        Some(None) => Some(None),
        None => None,
    };
    Ok(queue::GroupPatch { pacing, paused: patch.paused })
}
