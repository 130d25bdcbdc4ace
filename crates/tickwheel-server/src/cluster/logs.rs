//! The logs of a cluster: one for each partition, and one with the layout of the partitions.
//!
//! The layout is the first record of its log, and the logs of the partitions are created after it.
//! The log of an only partition has the cluster's name; the logs of several partitions have other
//! names. Earlier versions recorded no layout and had one partition. So a log with the cluster's
//! name in a cluster without a layout was created by an earlier version.
//!
//! A node keeps a copy of the layout beside its replicas. It refuses to start with a log that
//! contradicts the copy. After all logs were lost, the layout is recorded again from the copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tickwheel_cluster::log::{Log, LogError};
use tickwheel_cluster::{Layout, LayoutError};

use super::servers::Servers;
use crate::config::Cluster;

/// The file with the copy of the layout, in the data directory.
const COPY: &str = "partitions.json";
/// The directory of an only partition, and the parent of the directories of several.
const ONLY: &str = "queue";
const SEVERAL: &str = "partitions";

/// Opens the logs of all partitions. Creates missing logs if the configuration allows it.
pub(super) fn open(
    servers: &Servers,
    cluster: &Cluster,
    data: &Path,
) -> Result<(Layout, Vec<Arc<dyn Log>>), LayoutError> {
    let known = copy_of(data)?;
    let contradiction = |known: &Layout, recorded: u32| {
        LayoutError::Contradiction(format!(
            "the data directory {} belongs to a cluster with {} partitions, and the log says \
             {recorded}: use the directory or the `--cluster-name` that belongs here",
            data.display(),
            known.partitions(),
        ))
    };
    let layout =
        agree(servers, cluster, known.as_ref()).map_err(|error| match (error, &known) {
            (LayoutError::Differs { recorded, .. }, Some(known))
                if recorded != known.partitions() =>
            {
                contradiction(known, recorded)
            }
            (error, _) => error,
        })?;
    match known {
        Some(known) if known != layout => return Err(contradiction(&known, layout.partitions())),
        Some(_) => {}
        None => keep_copy(data, &layout)?,
    }
    let open = |partition| open_or_create(servers, &log_name(cluster, &layout, partition), cluster);
    let logs = (0..layout.partitions()).map(open).collect::<Result<_, _>>()?;
    Ok((layout, logs))
}

/// Returns where a node keeps its replica of a partition.
pub(super) fn directory(data: &Path, layout: &Layout, partition: u32) -> PathBuf {
    match layout.partitions() {
        1 => data.join(ONLY),
        _ => data.join(SEVERAL).join(partition.to_string()),
    }
}

/// Returns the stores in a data directory: those of partitions, or the only one.
pub(crate) fn stores_in(data: &Path) -> Vec<PathBuf> {
    let Ok(Some(layout)) = copy_of(data) else { return vec![data.join(ONLY)] };
    (0..layout.partitions()).map(|number| directory(data, &layout, number)).collect()
}

fn log_name(cluster: &Cluster, layout: &Layout, partition: u32) -> String {
    match layout.partitions() {
        1 => cluster.name.clone(),
        _ => of_several(cluster, partition),
    }
}

fn of_several(cluster: &Cluster, partition: u32) -> String {
    format!("{}-p{partition}", cluster.name)
}

/// Returns the layout that all nodes agree on. Records it if the cluster is new.
fn agree(
    servers: &Servers,
    cluster: &Cluster,
    known: Option<&Layout>,
) -> Result<Layout, LayoutError> {
    let wanted = cluster.partitions;
    let expected = known.map(Layout::partitions).or(wanted);
    if let (Some(wanted), Some(recorded)) = (wanted, expected)
        && wanted != recorded
    {
        return Err(LayoutError::Differs { wanted, recorded });
    }
    let name = format!("{}-layout", cluster.name);
    if let Some(log) = existing(servers, &name)? {
        return Layout::agree(&*log, expected, cluster.create);
    }
    if existing(servers, &cluster.name)?.is_some() {
        // An earlier version created the cluster.
        return match expected {
            Some(expected) if expected != 1 => {
                Err(LayoutError::Differs { wanted: expected, recorded: 1 })
            }
            _ => Layout::even(1),
        };
    }
    if !cluster.create {
        return Err(LogError::Missing(cluster.name.clone()).into());
    }
    if known.is_none() && existing(servers, &of_several(cluster, 0))?.is_some() {
        let why = format!(
            "the cluster has logs of partitions, and the log {name:?} that says how many is lost: \
             start a node that has its data directory with --cluster-create first"
        );
        return Err(LayoutError::Contradiction(why));
    }
    let log = open_or_create(servers, &name, cluster)?;
    Layout::agree(&*log, expected, true)
}

/// Opens a log, if there is one.
fn existing(servers: &Servers, name: &str) -> Result<Option<Arc<dyn Log>>, LogError> {
    match servers.open(name) {
        Ok(log) => Ok(Some(log)),
        Err(LogError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a log. Creates it if it is missing and the configuration allows it.
fn open_or_create(
    servers: &Servers,
    name: &str,
    cluster: &Cluster,
) -> Result<Arc<dyn Log>, LogError> {
    match servers.open(name) {
        Err(LogError::Missing(_)) if cluster.create => match servers.create(name) {
            // Another node was faster.
            Ok(()) | Err(LogError::Exists(_)) => servers.open(name),
            Err(error) => Err(error),
        },
        opened => opened,
    }
}

/// Returns the layout that this node's data belongs to, if it has any.
fn copy_of(data: &Path) -> Result<Option<Layout>, LayoutError> {
    let path = data.join(COPY);
    match std::fs::read(&path) {
        Ok(copy) => Layout::decode(&copy).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // An earlier version created the directory.
            data.join(ONLY).exists().then(|| Layout::even(1)).transpose()
        }
        Err(error) => Err(LayoutError::Record(format!("{}: {error}", path.display()))),
    }
}

fn keep_copy(data: &Path, layout: &Layout) -> Result<(), LayoutError> {
    let (path, new) = (data.join(COPY), data.join("partitions.json.new"));
    let write = || -> std::io::Result<()> {
        use std::io::Write;
        let mut file = std::fs::File::create(&new)?;
        file.write_all(&layout.encode())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    };
    write().map_err(|error| LayoutError::Record(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_the_layout_of_its_data() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        assert_eq!(copy_of(data), Ok(None));
        assert_eq!(stores_in(data), [data.join("queue")]);
        let layout = Layout::even(3).unwrap();
        keep_copy(data, &layout).unwrap();
        assert_eq!(copy_of(data), Ok(Some(layout.clone())));
        assert_eq!(directory(data, &layout, 2), data.join("partitions").join("2"));
        assert_eq!(stores_in(data).len(), 3);
        std::fs::write(data.join(COPY), "{").unwrap();
        assert!(matches!(copy_of(data), Err(LayoutError::Record(_))));
    }

    #[test]
    fn data_without_a_layout_is_that_of_one_partition() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::even(1).unwrap();
        let replica = directory(folder.path(), &layout, 0);
        std::fs::create_dir(&replica).unwrap();
        assert_eq!(copy_of(folder.path()), Ok(Some(layout)));
    }
}
