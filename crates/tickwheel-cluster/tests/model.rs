//! The ownership protocol as a small model, checked in every order of events.
//!
//! Three nodes and one log. A node appends after the last record that it has read, and gives up
//! what it owns if it cannot find out what became of its append. Requests arrive in any order, late,
//! twice or never, and answers may be lost; a node may read an old end of the log, give up, or
//! crash. A breadth-first search visits every reachable state up to a length of the log and checks
//! the invariants in each. The same search must find a violation once a rule is taken away.

use std::collections::{BTreeSet, HashSet, VecDeque};

const NODES: usize = 3;
const MAX_LOG: usize = 3;
const MAX_REQUESTS: usize = 2;

/// Which rules the nodes and the log keep.
#[derive(Clone, Copy)]
struct Rules {
    /// The log appends a record only at the position that the request names.
    conditional: bool,
    /// A takeover follows the last record that its node has applied, not the end of the log.
    reads_all: bool,
    /// A put whose append was not settled is reported as unknown, not as refused.
    reports_unknown: bool,
}

const ALL_RULES: Rules = Rules { conditional: true, reads_all: true, reports_unknown: true };

/// A record: the takeover of an epoch by a node, or a put in that epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    epoch: u8,
    node: u8,
    /// The number of the put; `None` for a takeover.
    put: Option<u8>,
}

/// An append under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Request {
    after: usize,
    record: Record,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// What it has applied.
    applied: Vec<Record>,
    /// The epoch that it owns.
    owned: Option<u8>,
    /// Its append that is not settled.
    pending: Option<Request>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    log: Vec<Record>,
    nodes: [Node; NODES],
    /// Requests that may still arrive.
    network: BTreeSet<Request>,
    /// Puts whose clients were told that they are done, and those told that they are not.
    acknowledged: BTreeSet<u8>,
    refused: BTreeSet<u8>,
    puts: u8,
}

impl World {
    /// All worlds that can follow.
    fn successors(&self, rules: Rules) -> Vec<Self> {
        let mut next = Vec::new();
        for node in 0..NODES {
            self.reads(node, &mut next);
            self.sends(node, rules, &mut next);
            self.ends(node, rules, &mut next);
        }
        for request in &self.network {
            // It arrives, and may arrive again; or it is lost.
            let mut world = self.clone();
            world.arrive(*request, rules);
            next.push(world);
            let mut world = self.clone();
            world.network.remove(request);
            next.push(world);
        }
        next
    }

    /// A standby applies some of what follows; the read may be out of date.
    fn reads(&self, node: usize, next: &mut Vec<Self>) {
        let Node { applied, owned, pending } = &self.nodes[node];
        if owned.is_some() || pending.is_some() {
            return;
        }
        for end in applied.len() + 1..=self.log.len() {
            let mut world = self.clone();
            world.nodes[node].applied = self.log[..end].to_vec();
            next.push(world);
        }
    }

    /// A node tries to take over, or an owner puts a job.
    fn sends(&self, node: usize, rules: Rules, next: &mut Vec<Self>) {
        let Node { applied, owned, pending } = &self.nodes[node];
        if pending.is_some() || applied.len() >= MAX_LOG || self.network.len() >= MAX_REQUESTS {
            return;
        }
        let last = applied.iter().map(|record| record.epoch).max().unwrap_or(0);
        let name = node as u8;
        let record = match owned {
            None => Record { epoch: last + 1, node: name, put: None },
            Some(epoch) => Record { epoch: *epoch, node: name, put: Some(self.puts) },
        };
        let mut world = self.clone();
        world.puts += u8::from(record.put.is_some());
        let is_blind = !rules.reads_all && owned.is_none();
        let after = if is_blind { self.log.len() } else { applied.len() };
        let request = Request { after, record };
        world.nodes[node].pending = Some(request);
        world.network.insert(request);
        next.push(world);
    }

    /// A node stops waiting for an answer, or crashes. The request may still arrive.
    fn ends(&self, node: usize, rules: Rules, next: &mut Vec<Self>) {
        let Some(Request { record, .. }) = self.nodes[node].pending else {
            if self.nodes[node].owned.is_some() {
                let mut world = self.clone();
                world.nodes[node].owned = None;
                next.push(world);
            }
            return;
        };
        let mut world = self.clone();
        world.nodes[node].pending = None;
        world.nodes[node].owned = None;
        if let Some(put) = record.put
            && !rules.reports_unknown
        {
            world.refused.insert(put);
        }
        next.push(world);
    }

    /// A request arrives at the log. Its answer reaches the sender if that still waits for it.
    fn arrive(&mut self, request: Request, rules: Rules) {
        let Request { after, record } = request;
        let is_repeated = self.log.get(after) == Some(&record);
        let is_accepted = is_repeated || !rules.conditional || self.log.len() == after;
        if is_accepted && !is_repeated && self.log.len() < MAX_LOG {
            self.log.push(record);
        }
        let node = &mut self.nodes[usize::from(record.node)];
        if node.pending != Some(request) {
            return;
        }
        node.pending = None;
        if !is_accepted {
            node.owned = None;
            return;
        }
        node.applied.push(record);
        match record.put {
            None => node.owned = Some(record.epoch),
            Some(put) => drop(self.acknowledged.insert(put)),
        }
    }

    /// What is wrong with this world.
    fn violation(&self) -> Option<String> {
        let puts: BTreeSet<_> = self.log.iter().filter_map(|record| record.put).collect();
        if let Some(lost) = self.acknowledged.iter().find(|put| !puts.contains(put)) {
            return Some(format!("put {lost} was acknowledged and is lost"));
        }
        if let Some(put) = self.refused.iter().find(|put| puts.contains(put)) {
            return Some(format!("put {put} was refused and took effect"));
        }
        let mut epoch = 0;
        for record in &self.log {
            let expected = if record.put.is_some() { epoch } else { epoch + 1 };
            if record.epoch != expected {
                return Some(format!("{record:?} in epoch {epoch}"));
            }
            epoch = record.epoch;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            if !self.log.starts_with(&node.applied) {
                return Some(format!("node {number} has applied {:?}", node.applied));
            }
        }
        None
    }
}

/// Visits every reachable world; returns how many there are, or the first violation.
fn explore(rules: Rules) -> Result<usize, String> {
    let mut known = HashSet::from([World::default()]);
    let mut waiting = VecDeque::from([World::default()]);
    while let Some(world) = waiting.pop_front() {
        if let Some(violation) = world.violation() {
            return Err(format!("{violation}, in {world:#?}"));
        }
        for next in world.successors(rules) {
            if known.insert(next.clone()) {
                waiting.push_back(next);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn no_order_of_events_breaks_the_protocol() {
    let worlds = explore(ALL_RULES).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{worlds} worlds");
    assert!(worlds > 10_000, "the search is too small: {worlds} worlds");
}

#[test]
fn appends_without_a_condition_are_unsafe() {
    let found = explore(Rules { conditional: false, ..ALL_RULES });
    assert!(found.is_err());
}

#[test]
fn a_takeover_without_reading_everything_is_unsafe() {
    let found = explore(Rules { reads_all: false, ..ALL_RULES });
    assert!(found.is_err());
}

#[test]
fn reporting_an_unsettled_put_as_refused_is_unsafe() {
    let found = explore(Rules { reports_unknown: false, ..ALL_RULES });
    assert!(found.is_err_and(|violation| violation.contains("was refused and took effect")));
}
