//! The servers that keep the logs of a cluster: NATS, or `PostgreSQL`.

use std::sync::Arc;

use tickwheel_cluster::log::{Log, LogError, Nats, NatsOptions, Postgres, PostgresOptions};
use tickwheel_cluster::{NatsTransport, PostgresTransport, Transport};

use crate::config::Cluster;

/// A connection to the servers of the logs.
pub(super) enum Servers {
    Nats(Nats),
    Postgres(Postgres),
}

impl Servers {
    /// Connects, after checking that the servers lose nothing that they acknowledge.
    pub(super) fn connect(cluster: &Cluster) -> Result<Self, LogError> {
        if let Some(url) = cluster.postgres_url() {
            let mut options = PostgresOptions::new(url);
            options.allow_lazy_sync = cluster.allow_lazy_sync;
            return Postgres::connect(options).map(Self::Postgres);
        }
        let mut options = NatsOptions::new(&cluster.servers);
        options.allow_lazy_sync = cluster.allow_lazy_sync;
        if !cluster.monitors.is_empty() {
            options.monitors.clone_from(&cluster.monitors);
        }
        options.credentials.clone_from(&cluster.nats.credentials);
        options.ca.clone_from(&cluster.nats.ca);
        options.certificate.clone_from(&cluster.nats.certificate);
        Nats::connect(options).map(Self::Nats)
    }

    /// Opens a log that exists.
    pub(super) fn open(&self, name: &str) -> Result<Arc<dyn Log>, LogError> {
        Ok(match self {
            Self::Nats(nats) => Arc::new(nats.open(name)?),
            Self::Postgres(postgres) => Arc::new(postgres.open(name)?),
        })
    }

    /// Creates a log.
    pub(super) fn create(&self, name: &str) -> Result<(), LogError> {
        match self {
            Self::Nats(nats) => nats.create(name),
            Self::Postgres(postgres) => postgres.create(name),
        }
    }

    /// Returns how a node sends messages to the others.
    pub(super) fn transport(
        &self,
        cluster: &str,
        node: &str,
    ) -> Result<Box<dyn Transport>, LogError> {
        Ok(match self {
            Self::Nats(nats) => Box::new(NatsTransport::connect(nats, cluster, node)?),
            Self::Postgres(postgres) => {
                Box::new(PostgresTransport::connect(postgres, cluster, node))
            }
        })
    }
}
