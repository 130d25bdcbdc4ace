//! The faults, with their beginnings and ends.

use std::time::Duration;

use tickwheel_test_servers::Link;

use crate::nodes::Nodes;

const SLOW: Link = Link::Slow(Duration::from_millis(150));

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NodeKilled,
    NodeStopped,
    /// The links of a node to all NATS servers are cut.
    NodeCutOff,
    /// The links of a node to all NATS servers are slow.
    NodeSlow,
    /// Other nodes cannot reach a node over HTTP.
    NodeUnreachable,
    /// A clock is off by 300 ms, which the cluster tolerates.
    ClockSlightlyOff,
    /// A clock is off by 5 s, which the cluster does not tolerate.
    ClockFarOff,
    DiskFull,
    DataWiped,
    ServerKilled,
    ServerStopped,
    /// The links of a NATS server to the other ones are cut. Nodes still reach it.
    ServerCutOff,
    ServerSlow,
    /// Two of three NATS servers are killed.
    QuorumKilled,
    /// All nodes are restarted in turn.
    RollingRestart,
}

/// A fault that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The node or the NATS server that it hits.
    pub(crate) index: usize,
}

/// The victim of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Node,
    Server,
    All,
}

impl Kind {
    pub(crate) const ALL: [Self; 15] = [
        Self::NodeKilled,
        Self::NodeStopped,
        Self::NodeCutOff,
        Self::NodeSlow,
        Self::NodeUnreachable,
        Self::ClockSlightlyOff,
        Self::ClockFarOff,
        Self::DiskFull,
        Self::DataWiped,
        Self::ServerKilled,
        Self::ServerStopped,
        Self::ServerCutOff,
        Self::ServerSlow,
        Self::QuorumKilled,
        Self::RollingRestart,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeKilled => "node killed",
            Self::NodeStopped => "node stopped",
            Self::NodeCutOff => "node cut off from NATS",
            Self::NodeSlow => "slow links of a node to NATS",
            Self::NodeUnreachable => "node unreachable for others",
            Self::ClockSlightlyOff => "clock off by 300 ms",
            Self::ClockFarOff => "clock off by 5 s",
            Self::DiskFull => "disk full",
            Self::DataWiped => "data directory wiped",
            Self::ServerKilled => "NATS server killed",
            Self::ServerStopped => "NATS server stopped",
            Self::ServerCutOff => "NATS server cut off from others",
            Self::ServerSlow => "slow links between NATS servers",
            Self::QuorumKilled => "two NATS servers killed",
            Self::RollingRestart => "rolling restart",
        }
    }

    fn scope(self) -> Scope {
        match self {
            Self::NodeKilled
            | Self::NodeStopped
            | Self::NodeCutOff
            | Self::NodeSlow
            | Self::NodeUnreachable
            | Self::ClockSlightlyOff
            | Self::ClockFarOff
            | Self::DiskFull
            | Self::DataWiped => Scope::Node,
            Self::ServerKilled | Self::ServerStopped | Self::ServerCutOff | Self::ServerSlow => {
                Scope::Server
            }
            Self::QuorumKilled | Self::RollingRestart => Scope::All,
        }
    }

    /// Chooses the victim of a fault. Every second fault of nodes hits the owner.
    pub(crate) fn aim(self, nodes: &Nodes, random: &mut fastrand::Rng) -> Fault {
        let any = random.usize(..3);
        let index = match self.scope() {
            Scope::Node if random.bool() => nodes.owner().unwrap_or(any),
            _ => any,
        };
        Fault { kind: self, index }
    }
}

impl Fault {
    /// Returns `true` if both faults can last at the same time.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        let (own, its) = (self.kind.scope(), other.kind.scope());
        own != Scope::All && its != Scope::All && (own != its || self.index != other.index)
    }

    pub(crate) fn begin(self, nodes: &mut Nodes, random: &mut fastrand::Rng) {
        let index = self.index;
        let ahead = |length_ms: i64, random: &mut fastrand::Rng| {
            if random.bool() { length_ms } else { -length_ms }
        };
        match self.kind {
            Kind::NodeKilled => nodes.nodes[index].kill(),
            Kind::NodeStopped => nodes.nodes[index].process().pause().expect("it runs"),
            Kind::NodeCutOff => nodes.nodes[index].set_links(Link::Cut),
            Kind::NodeSlow => nodes.nodes[index].set_links(SLOW),
            Kind::NodeUnreachable => nodes.nodes[index].set_address_link(Link::Cut),
            Kind::ClockSlightlyOff => nodes.nodes[index].set_clock(ahead(300, random)),
            Kind::ClockFarOff => nodes.nodes[index].set_clock(ahead(5_000, random)),
            Kind::DiskFull => nodes.nodes[index].fill_disk(),
            Kind::DataWiped => nodes.nodes[index].wipe(),
            Kind::ServerKilled => nodes.nats.kill(index).expect("it can be killed"),
            Kind::ServerStopped => {
                nodes.nats.servers[index].process().pause().expect("it runs");
            }
            Kind::ServerCutOff => nodes.nats.set_link(index, Link::Cut),
            Kind::ServerSlow => nodes.nats.set_link(index, SLOW),
            Kind::QuorumKilled => {
                for killed in others(index) {
                    nodes.nats.kill(killed).expect("it can be killed");
                }
            }
            Kind::RollingRestart => {
                for node in &mut nodes.nodes {
                    node.restart();
                    node.await_service();
                }
            }
        }
    }

    pub(crate) fn end(self, nodes: &mut Nodes) {
        let index = self.index;
        match self.kind {
            Kind::NodeKilled | Kind::DataWiped => nodes.nodes[index].launch(),
            Kind::NodeStopped => nodes.nodes[index].process().resume().expect("it is stopped"),
            Kind::NodeCutOff | Kind::NodeSlow => nodes.nodes[index].set_links(Link::Works),
            Kind::NodeUnreachable => nodes.nodes[index].set_address_link(Link::Works),
            Kind::ClockSlightlyOff | Kind::ClockFarOff => nodes.nodes[index].set_clock(0),
            Kind::DiskFull => nodes.nodes[index].grow_disk(),
            Kind::ServerKilled => nodes.nats.restart(index).expect("it starts again"),
            Kind::ServerStopped => {
                nodes.nats.servers[index].process().resume().expect("it is stopped");
            }
            Kind::ServerCutOff | Kind::ServerSlow => nodes.nats.set_link(index, Link::Works),
            Kind::QuorumKilled => {
                for killed in others(index) {
                    nodes.nats.restart(killed).expect("it starts again");
                }
            }
            Kind::RollingRestart => {}
        }
    }
}

fn others(index: usize) -> impl Iterator<Item = usize> {
    (0..3).filter(move |other| *other != index)
}
