//! Changes the journal of a directory, then opens the directory.
//!
//! Every job in it was acknowledged. So the opening may be refused, but when it succeeds all jobs
//! have to be there.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tickwheel_queue::{JobId, NewJob, Queues};

const JOBS: usize = 12;

#[derive(Debug, Arbitrary)]
struct Case {
    edits: Vec<(u16, u8)>,
    /// How many bytes are left of the file.
    length: Option<u16>,
    /// What comes behind them.
    tail: Vec<u8>,
}

/// A directory as it is after a kill, and the jobs in it.
struct Original {
    folder: TempDir,
    ids: Vec<JobId>,
}

fuzz_target!(|case: Case| {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    let original = ORIGINAL.get_or_init(create);
    let copy = tempfile::tempdir().expect("a folder");
    copy_folder(original.folder.path(), copy.path());
    let journal = journal_in(copy.path());
    let mut bytes = fs::read(&journal).expect("a journal");
    for (place, byte) in &case.edits {
        let place = usize::from(*place) % bytes.len();
        bytes[place] = *byte;
    }
    bytes.truncate(case.length.map_or(usize::MAX, usize::from));
    bytes.extend_from_slice(&case.tail);
    fs::write(&journal, bytes).expect("written");
    let opened = Queues::builder().reserve(0).open(copy.path());
    if let Ok(queues) = opened {
        for id in &original.ids {
            let job = queues.get(*id).wait().expect("readable");
            assert!(job.is_some(), "{id} was acknowledged, and is gone: {case:?}");
        }
    }
});

fn create() -> Original {
    let original = tempfile::tempdir().expect("a folder");
    let queues = Queues::builder().reserve(0).open(original.path()).expect("opens");
    let put = |number: usize| {
        let job = NewJob::new("mail", vec![number as u8; number * 40]);
        queues.put(job).wait().expect("a put").id
    };
    let ids = (0..JOBS).map(put).collect();
    // Copied while it is open, as a kill would leave it.
    let folder = tempfile::tempdir().expect("a folder");
    copy_folder(original.path(), folder.path());
    Original { folder, ids }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("readable").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn journal_in(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("store")).expect("a store");
    let paths = files.map(|file| file.expect("readable").path());
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jnl");
    paths.filter(is_journal).max().expect("a journal")
}
