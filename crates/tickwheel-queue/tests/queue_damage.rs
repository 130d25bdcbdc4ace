//! Damage: readable jobs are delivered, unreadable ones are reported, and salvaging repairs the
//! store.

mod folder;
mod rig;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use folder::{copy, cut_zeroes, journals};
use proptest::prelude::*;
use rig::{Rig, seconds};
use tickwheel_queue::store::{
    Directory, Disk, Persist, StoreError, StoreOptions, Table, WriteBatch,
};
use tickwheel_queue::{
    Error, Job, JobId, Keep, List, NewJob, OpenError, QueueSettings, Queues, Retention, Retry,
    State, Time,
};

/// Returns all jobs of a queue, the number of unreadable jobs, and the number of gaps.
fn everything(queues: &Queues, queue: &str) -> (Vec<Job>, usize, u64) {
    let (mut jobs, mut damaged, mut gaps) = (Vec::new(), 0, 0);
    let mut list = List::of(queue).limit(10_000);
    loop {
        let page = queues.list(list.clone()).wait().expect("a page");
        jobs.extend(page.jobs);
        damaged += page.damaged.len();
        gaps += page.gaps;
        list.after = page.next;
        if list.after.is_none() {
            return (jobs, damaged, gaps);
        }
    }
}

fn ids(jobs: &[Job]) -> BTreeSet<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Returns a queue with jobs in all states, some of which were rescheduled.
fn fill(rig: &Rig) {
    let queues = rig.queues();
    let retention =
        Retention { done: Keep::FOREVER, cancelled: Keep::FOREVER, ..Retention::default() };
    let settings = QueueSettings { retention, ..QueueSettings::default() };
    queues.configure("q", settings).wait().expect("settings");
    for number in 0..24_u64 {
        let job = NewJob::new("q", number.to_string()).key(number.to_string());
        let id = queues.put(job.priority((number % 3) as i8)).wait().expect("a put").id;
        let lease = || queues.reserve("q", 1, seconds(900)).wait().expect("a job")[0].lease;
        match number % 8 {
            0 => queues.ack(lease()).wait().expect("an ack"),
            1 => drop(queues.fail(lease(), "no", Retry::Never).wait().expect("a failure")),
            2 => drop(queues.fail(lease(), "no", Retry::After(seconds(50))).wait()),
            3 => drop(lease()),
            4 => drop(queues.cancel(id).wait().expect("cancelled")),
            5 | 6 => drop(queues.reschedule(id, seconds(number)).wait().expect("moved")),
            _ => drop(queues.reschedule(id, seconds(9_000)).wait().expect("moved")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Salvaging finds every job exactly once, whichever index rows are missing or garbled.
    #[test]
    fn the_index_is_put_right_from_the_jobs(
        lost in prop::collection::btree_set(0..200_usize, 1..40),
        garbled in any::<bool>(),
        all in prop::bool::weighted(0.05),
    ) {
        let mut rig = Rig::new();
        fill(&rig);
        let (before, ..) = everything(rig.queues(), "q");
        let mut is_queue_lost = false;
        rig.salvaged(|rows| {
            let index = rows.keys().filter(|(table, _)| *table == Table::Index);
            let keys: Vec<_> = index.cloned().enumerate().collect();
            for (number, key) in keys {
                if all || lost.contains(&number) {
                    is_queue_lost |= key.1[0] == 1;
                    if garbled {
                        rows.insert(key, b"\x07garbage"[..].into());
                    } else {
                        rows.remove(&key);
                    }
                }
            }
        });
        let name = if is_queue_lost { "damaged-0" } else { "q" };
        let (after, damaged, gaps) = everything(rig.queues(), name);
        prop_assert_eq!((damaged, gaps), (0, 0));
        prop_assert_eq!(after.len(), before.len());
        prop_assert_eq!(ids(&after), ids(&before));
        let info = rig.queues().queue(name).wait().unwrap().unwrap();
        let count = |state| after.iter().filter(|job| job.state == state).count() as u64;
        prop_assert_eq!(info.scheduled + info.ready, count(State::Scheduled) + count(State::Ready));
        prop_assert_eq!(info.leased, count(State::Leased));
        prop_assert_eq!(
            (info.dead, info.done, info.cancelled),
            (count(State::Dead), count(State::Done), count(State::Cancelled))
        );
        // The queue then works normally: every live job is delivered once, and found by its key.
        let live: Vec<&Job> = after.iter().filter(|job| job.state.is_live()).collect();
        for job in &live {
            let key = job.key.clone().expect("all have one");
            let found = rig.queues().get((name, key)).wait().unwrap().expect("by its key");
            prop_assert_eq!(found.id, job.id);
        }
        rig.queues().resume(name).wait().unwrap();
        rig.clock.advance(seconds(100_000));
        let mut delivered = BTreeSet::new();
        loop {
            let jobs = rig.queues().reserve(name, 100, seconds(900)).wait().unwrap();
            if jobs.is_empty() {
                break;
            }
            delivered.extend(jobs.iter().map(|job| job.job.id));
        }
        prop_assert_eq!(delivered.len(), live.len());
        // Salvaging again changes nothing.
        let dump = rig.dump();
        rig.salvaged(|_| {});
        prop_assert_eq!(rig.dump().len(), dump.len());
    }
}

#[test]
fn salvaging_what_is_whole_changes_nothing_but_the_count_of_commits() {
    let mut rig = Rig::new();
    fill(&rig);
    let before = everything(rig.queues(), "q");
    rig.closed(|_| {});
    let mut dump = rig.dump();
    rig.salvaged(|_| {});
    assert_eq!(everything(rig.queues(), "q"), before);
    let mut after = rig.dump();
    for rows in [&mut dump, &mut after] {
        // Leaves out the totals and counts, which also hold the low-water marks.
        rows.retain(|((table, key), _)| *table == Table::Jobs || ![0, 2].contains(&key[0]));
    }
    assert_eq!(after, dump);
}

/// Returns the table files of all keyspaces.
fn tables(folder: &Path) -> Vec<PathBuf> {
    let keyspaces = fs::read_dir(folder.join("store/keyspaces")).unwrap();
    let folders = keyspaces.map(|entry| entry.unwrap().path().join("tables"));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns a directory whose rows are in tables, not only in the journal.
fn directory(jobs: usize) -> (tempfile::TempDir, Vec<JobId>) {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let puts = queues
        .put_all((0..jobs).map(|number| {
            // These bytes do not compress, so that a block holds only a few jobs.
            let payload: Vec<u8> =
                (0..600_u64).map(|byte| ((byte * byte * (number as u64 + 7)) >> 5) as u8).collect();
            NewJob::new("q", payload).at(Time::from_millis(number as u64))
        }))
        .wait()
        .unwrap();
    drop(queues);
    let store = Directory::new(folder.path()).open(&StoreOptions::default()).unwrap();
    store.compact().unwrap();
    drop(store);
    // Copying the zeroes at the end of the journal would only take time.
    for path in journals(folder.path()) {
        cut_zeroes(&path);
    }
    (folder, puts.into_iter().map(|put| put.unwrap().id).collect())
}

/// Opens a damaged directory and counts the delivered jobs; `None` if opening reports damage.
fn delivered(queues: Result<Queues, OpenError>) -> Option<usize> {
    let queues = match queues {
        Ok(queues) => queues,
        Err(error @ OpenError::Damaged { .. }) => {
            let text = error.to_string();
            assert!(text.contains("/tables/") && text.contains("salvage"), "{text}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut all = BTreeSet::new();
    loop {
        match queues.reserve("q", 500, seconds(900)).wait() {
            Ok(jobs) if jobs.is_empty() => break,
            Ok(jobs) => all.extend(jobs.iter().map(|job| job.job.id)),
            Err(error) => panic!("{error}"),
        }
    }
    let stats = queues.stats().wait().unwrap();
    let (_, damaged, gaps) = everything(&queues, "q");
    let is_reported = stats.damaged > 0 || damaged > 0 || gaps > 0;
    assert!(all.len() == JOBS || is_reported, "{} of {JOBS} jobs, and no word of it", all.len());
    Some(all.len())
}

const JOBS: usize = 400;

/// Returns a copy of a directory with one bit flipped in one of its files.
fn flipped(folder: &Path, file: &Path, place: u64) -> tempfile::TempDir {
    let damaged = tempfile::tempdir().unwrap();
    copy(folder, damaged.path());
    let path = damaged.path().join(file.strip_prefix(folder).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[place as usize] ^= 0x40;
    fs::write(&path, bytes).unwrap();
    damaged
}

/// Opens with salvage and returns the number of jobs; `None` if nothing can be salvaged.
fn salvaged(folder: &Path) -> Option<usize> {
    let queues = match Queues::builder().salvage(true).open(folder) {
        Ok(queues) => queues,
        Err(error) => {
            assert!(error.to_string().contains("nothing can be salvaged"), "{error}");
            return None;
        }
    };
    // A queue whose name is lost gets a new one.
    let queue = queues.queues().wait().unwrap().pop();
    let (jobs, damaged, gaps) =
        queue.map_or((Vec::new(), 0, 0), |it| everything(&queues, &it.name));
    assert_eq!((damaged, gaps), (0, 0));
    drop(queues);
    // The store is intact from now on, and the damaged one is kept.
    let queues = Queues::open(folder).unwrap();
    assert_eq!(queues.stats().wait().unwrap().damaged, 0);
    assert!(folder.join("damaged/store.0").exists() || jobs.len() == JOBS);
    Some(jobs.len())
}

#[test]
fn a_flipped_bit_among_the_rows_costs_few_jobs_and_is_reported() {
    let (folder, _) = directory(JOBS);
    let (mut opened, mut attempts) = (0, 0);
    for table in tables(folder.path()) {
        // Only the tables of jobs and index are this large.
        let length = fs::metadata(&table).unwrap().len();
        if length < 10_000 {
            continue;
        }
        for part in 0..5 {
            let damaged = flipped(folder.path(), &table, (length - 4_000) * part / 5 + 40);
            attempts += 1;
            if let Some(count) = delivered(Queues::open(damaged.path())) {
                opened += 1;
                // A block of the index refers to more jobs than a block of jobs contains.
                let most = if length > 100_000 { 10 } else { 150 };
                assert!(count >= JOBS - most, "{count} of {JOBS}: {}, {part}", table.display());
            }
            let count = salvaged(damaged.path()).expect("it can be salvaged");
            assert!(count >= JOBS - 10, "{count} of {JOBS}: {}, {part}", table.display());
        }
    }
    // Opening fails only if the names of queues are damaged.
    assert!(attempts == 10 && opened >= 7, "{opened} of {attempts} opened");
}

#[test]
fn a_flipped_bit_in_what_leads_to_the_rows_is_never_passed_over_in_silence() {
    let (folder, _) = directory(JOBS);
    for table in tables(folder.path()) {
        let length = fs::metadata(&table).unwrap().len();
        for part in 1..5 {
            let damaged = flipped(folder.path(), &table, length - part * length.min(2_000) / 5);
            // Opening fails, or the missing jobs are reported.
            delivered(Queues::open(damaged.path()));
            salvaged(damaged.path());
        }
    }
}

/// Returns a directory with a flipped bit in the middle of the table of jobs.
fn damaged_in_the_middle() -> (tempfile::TempDir, Vec<JobId>) {
    let (folder, ids) = directory(JOBS);
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let table = tables(folder.path()).into_iter().max_by_key(length).unwrap();
    let damaged = flipped(folder.path(), &table, length(&table) / 2);
    (damaged, ids)
}

#[test]
fn a_merge_that_meets_damage_stops_the_commits_and_loses_nothing() {
    let (folder, ids) = damaged_in_the_middle();
    let queues = Queues::open(folder.path()).unwrap();
    // Removes rows at both ends of the damaged table, so that the next table overlaps it and must
    // be merged with it.
    for id in [ids[0], ids[JOBS - 1]] {
        queues.cancel(id).wait().unwrap();
    }
    let mut kept = Vec::new();
    let error = (0..400).find_map(|_| {
        let job = NewJob::new("q", vec![7; 1 << 20]).at(Time::MAX);
        queues.put(job).wait().map(|put| kept.push(put.id)).err()
    });
    let error = error.expect("tables were merged");
    assert!(matches!(error, Error::Failed(_) | Error::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("`salvage`"), "{error}");
    drop(queues);
    let queues = Queues::builder().salvage(true).open(folder.path()).unwrap();
    for id in &kept {
        assert!(queues.get(*id).wait().unwrap().is_some(), "{id} was acknowledged");
    }
    let (jobs, damaged, gaps) = everything(&queues, "q");
    assert_eq!((damaged, gaps), (0, 0));
    let old = ids.iter().filter(|id| jobs.iter().any(|job| job.id == **id)).count();
    assert!((JOBS - 12..=JOBS - 2).contains(&old), "{old} of {JOBS}");
    drop(queues);
    // No damage is left that a merge could find.
    let store = Directory::new(folder.path()).open(&StoreOptions::default()).unwrap();
    store.compact().unwrap();
}

#[test]
fn a_merge_that_was_asked_for_says_that_it_met_damage_and_changes_nothing() {
    let (folder, ids) = damaged_in_the_middle();
    let store = Directory::new(folder.path()).open(&StoreOptions::default()).unwrap();
    let readable = || ids.iter().filter(|id| store.get(Table::Jobs, id.as_bytes()).is_ok()).count();
    let before = readable();
    assert!((JOBS - 10..JOBS).contains(&before), "{before} of {JOBS}");
    let error = store.compact().unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert_eq!(readable(), before);
    let mut batch = WriteBatch::new();
    batch.put(Table::Jobs, b"more", b"value");
    store.commit(&batch, Persist::Sync).unwrap();
}

#[test]
fn salvaging_that_was_cut_off_is_ended_or_begun_anew() {
    let (folder, ids) = directory(10);
    // Interrupted while the new store was being filled.
    copy(&folder.path().join("store"), &folder.path().join("salvaged"));
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(everything(&queues, "q").0.len(), ids.len());
    assert!(!folder.path().join("salvaged").exists());
    drop(queues);
    // Interrupted after the new store was complete and the damaged one was moved aside.
    fs::rename(folder.path().join("store"), folder.path().join("salvaged")).unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(everything(&queues, "q").0.len(), ids.len());
}

/// The process ends after the new store is in place and before its index is repaired.
#[test]
fn a_repair_that_was_cut_off_is_done_by_the_next_opening() {
    let (folder, ids) = damaged_in_the_middle();
    let salvaging = StoreOptions { salvage: true, ..StoreOptions::default() };
    drop(Directory::new(folder.path()).open(&salvaging).unwrap());
    let queues = Queues::open(folder.path()).unwrap();
    let (jobs, damaged, gaps) = everything(&queues, "q");
    assert_eq!((damaged, gaps), (0, 0));
    assert!((JOBS - 10..JOBS).contains(&jobs.len()), "{} of {JOBS}", jobs.len());
    let stats = queues.stats().wait().unwrap();
    assert_eq!(stats.damaged as usize, ids.len() - jobs.len());
    assert_eq!(stats.pending as usize, jobs.len());
    drop(queues);
    let queues = Queues::open(folder.path()).unwrap();
    assert_eq!(queues.stats().wait().unwrap().damaged, 0);
}

#[test]
fn a_lost_due_row_is_not_delivered_until_it_is_salvaged() {
    let mut rig = Rig::new();
    rig.put("a", seconds(0));
    rig.put("b", seconds(0));
    rig.closed(|rig| {
        rig.disk.tamper(|rows| {
            let key = rows.keys().find(|(table, key)| *table == Table::Index && key[0] == 3);
            let key = key.expect("a due row").clone();
            rows.remove(&key);
        });
    });
    assert_eq!(rig.names(), ["b"]);
    rig.salvaged(|_| {});
    assert_eq!(rig.names(), ["a"]);
    assert_eq!(rig.queues().stats().wait().unwrap().pending, 0);
}

#[test]
#[cfg(unix)]
fn what_the_last_opening_could_not_sync_is_written_again() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    let ids: Vec<JobId> = (0..50)
        .map(|number| queues.put(NewJob::new("q", number.to_string())).wait().unwrap().id)
        .collect();
    drop(queues);
    let journals = || -> Vec<(PathBuf, u64, Vec<u8>)> {
        let files = fs::read_dir(folder.path().join("store")).unwrap();
        let paths = files.map(|entry| entry.unwrap().path());
        let journals = paths.filter(|path| path.extension().is_some_and(|ext| ext == "jnl"));
        let read = |path: PathBuf| {
            let (file, bytes) = (path.metadata().unwrap().ino(), fs::read(&path).unwrap());
            (path, file, bytes)
        };
        let mut all: Vec<_> = journals.map(read).collect();
        all.sort();
        all
    };
    let before = journals();
    let options = StoreOptions { after_failure: true, ..StoreOptions::default() };
    drop(Directory::new(folder.path()).open(&options).unwrap());
    let after = journals();
    assert!(!before.is_empty() && before.len() == after.len());
    for ((path, file, bytes), (same_path, new_file, new_bytes)) in before.iter().zip(&after) {
        assert_eq!(path, same_path);
        assert_ne!(file, new_file, "it has to be another file");
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        assert_eq!(bytes[..=end], new_bytes[..=end]);
    }
    let drafts = fs::read_dir(folder.path().join("store")).unwrap();
    let is_draft = |path: &Path| path.extension().is_some_and(|ext| ext == "draft");
    assert!(!drafts.map(|entry| entry.unwrap().path()).any(|path| is_draft(&path)));
    let queues = Queues::open(folder.path()).unwrap();
    assert!(ids.iter().all(|id| queues.get(*id).wait().unwrap().is_some()));
}

mod failing {
    //! A directory on disk whose syncs can be made to fail.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use bytes::Bytes;
    use tickwheel_queue::store::{
        Directory, Disk, Persist, Rows, Store, StoreError, StoreId, StoreOptions, Table, View,
        WriteBatch,
    };

    #[derive(Clone, Debug)]
    pub(crate) struct FailingDirectory {
        pub(crate) directory: Directory,
        pub(crate) fails: Arc<AtomicBool>,
        pub(crate) openings_after_failure: Arc<AtomicU64>,
    }

    impl Disk for FailingDirectory {
        fn open(&self, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
            let after_failure = u64::from(options.after_failure);
            self.openings_after_failure.fetch_add(after_failure, Ordering::SeqCst);
            let store = self.directory.open(options)?;
            Ok(Arc::new(FailingStore { store, fails: Arc::clone(&self.fails) }))
        }
    }

    struct FailingStore {
        store: Arc<dyn Store>,
        fails: Arc<AtomicBool>,
    }

    impl View for FailingStore {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
            self.store.get(table, key)
        }

        fn scan<'a>(&'a self, table: Table, from: &[u8], to: &[u8]) -> Rows<'a> {
            self.store.scan(table, from, to)
        }
    }

    impl Store for FailingStore {
        fn id(&self) -> StoreId {
            self.store.id()
        }

        fn view(&self) -> Box<dyn View> {
            self.store.view()
        }

        fn commit(&self, batch: &WriteBatch, persist: Persist) -> Result<(), StoreError> {
            self.store.commit(batch, persist)?;
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Io("the disk failed to sync".into()));
            }
            Ok(())
        }

        fn sync(&self) -> Result<(), StoreError> {
            self.store.sync()
        }

        fn disk_space(&self) -> Result<u64, StoreError> {
            self.store.disk_space()
        }

        fn compact(&self) -> Result<(), StoreError> {
            self.store.compact()
        }
    }
}

#[test]
fn after_a_failed_sync_on_a_real_disk_everything_acknowledged_is_there() {
    use std::sync::atomic::Ordering;
    let folder = tempfile::tempdir().unwrap();
    let disk = failing::FailingDirectory {
        directory: Directory::new(folder.path()),
        fails: std::sync::Arc::default(),
        openings_after_failure: std::sync::Arc::default(),
    };
    let queues = Queues::builder().open_disk(disk.clone()).unwrap();
    let put = |name: String| queues.put(NewJob::new("q", name)).wait().map(|put| put.id);
    let mut kept = Vec::new();
    for round in 0..3 {
        kept.extend((0..20).map(|number| put(format!("{round}-{number}")).unwrap()));
        disk.fails.store(true, Ordering::SeqCst);
        assert!(matches!(put("unknown".into()), Err(Error::Failed(_))));
        disk.fails.store(false, Ordering::SeqCst);
        let after = loop {
            match put("after".into()) {
                Err(Error::Unavailable(_)) => std::thread::sleep(rig::millis(10)),
                answer => break answer.unwrap(),
            }
        };
        kept.push(after);
        assert_eq!(disk.openings_after_failure.load(Ordering::SeqCst), round + 1);
    }
    assert!(kept.iter().all(|id| queues.get(*id).wait().unwrap().is_some()));
}
