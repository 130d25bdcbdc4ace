//! Changes rows of a store, then opens queues on it and uses them.
//!
//! The store holds jobs in every state, a schedule, an idempotency key and pacing. Opening it with
//! changed rows may be refused, and calls may fail, but nothing may panic or hang.
#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tickwheel::ManualClock;
use tickwheel_queue::store::{Disk, MemoryDisk, Persist, StoreOptions, Table, WriteBatch};
use tickwheel_queue::{
    IdempotencyKey, Keep, List, NewJob, NewSchedule, Pacing, Queues, Retry, SettingsPatch, State,
    Time,
};

const TABLES: [Table; 3] = [Table::Jobs, Table::Index, Table::Counters];
const QUEUES: [&str; 2] = ["mail", "partner"];
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Arbitrary)]
struct Change {
    /// Which row; the last one follows the first.
    row: u16,
    what: What,
}

#[derive(Debug, Arbitrary)]
enum What {
    Remove,
    Replace(Vec<u8>),
    Truncate(u8),
    Set { place: u8, byte: u8 },
    Append(Vec<u8>),
}

fuzz_target!(|changes: Vec<Change>| {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::new());
    fill(&disk, &clock);
    change(&disk, &changes);
    let builder = Queues::builder().clock(clock.clone()).salvage(true);
    if let Ok(queues) = builder.open_disk(disk) {
        clock.advance(MINUTE * 2);
        use_all(&queues);
    }
});

/// Puts jobs and leads them into every state.
fn fill(disk: &MemoryDisk, clock: &ManualClock) {
    let queues = Queues::builder().clock(clock.clone()).open_disk(disk.clone()).expect("opens");
    let keep = Some(Keep::FOREVER);
    let patch = SettingsPatch { done: keep, cancelled: keep, ..SettingsPatch::default() };
    queues.patch_settings("mail", patch).wait().expect("settings");
    let pacing = Some(Pacing::starts(5, MINUTE));
    let patch = SettingsPatch { pacing, ..SettingsPatch::default() };
    queues.patch_settings("partner", patch).wait().expect("settings");
    for number in 0..6 {
        let mail = NewJob::new("mail", "hello").key(number.to_string()).header("to", "someone");
        queues.put(mail).wait().expect("a put");
    }
    queues.put(NewJob::new("partner", "call").delay(MINUTE)).wait().expect("a put");
    let key = IdempotencyKey::new("request 1").lifetime(MINUTE * 60);
    queues.put_once(key, [NewJob::new("mail", "once")]).wait().expect("a put");
    let often = NewSchedule::new("often", MINUTE, NewJob::new("partner", "again"));
    queues.put_schedule(often).wait().expect("a schedule");
    let leased = queues.reserve("mail", 3, MINUTE).wait().expect("jobs");
    queues.ack_with_result(leased[0].lease, "done").wait().expect("an ack");
    queues.fail(leased[1].lease, "no luck", Retry::Never).wait().expect("a failure");
    queues.cancel(("mail", "5")).wait().expect("a cancel");
}

fn change(disk: &MemoryDisk, changes: &[Change]) {
    let store = disk.open(&StoreOptions::default()).expect("opens");
    let mut rows = Vec::new();
    for table in TABLES {
        let found = store.scan(table, &[], &[u8::MAX; 64]).map(|row| row.expect("readable"));
        rows.extend(found.map(|(key, value)| (table, key, value.to_vec())));
    }
    let mut batch = WriteBatch::new();
    for Change { row, what } in changes {
        let index = usize::from(*row) % rows.len();
        let (table, key, value) = &mut rows[index];
        match what {
            What::Remove => {
                batch.remove(*table, key);
                continue;
            }
            What::Replace(bytes) => value.clone_from(bytes),
            What::Truncate(length) => value.truncate(usize::from(*length)),
            What::Set { place, byte } => {
                if let Some(place) = value.get_mut(usize::from(*place)) {
                    *place = *byte;
                }
            }
            What::Append(bytes) => value.extend_from_slice(bytes),
        }
        batch.put(*table, key, value);
    }
    store.commit(&batch, Persist::Sync).expect("a commit");
}

/// Calls everything once. Any call may fail.
fn use_all(queues: &Queues) {
    queues.stats().wait().ok();
    queues.schedules().wait().ok();
    for name in QUEUES {
        queues.queue(name).wait().ok();
        let mut list = List::of(name).limit(3);
        while let Ok(page) = queues.list(list.clone()).wait() {
            for job in &page.jobs {
                queues.get(job.id).wait().ok();
            }
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        for delivery in queues.reserve(name, 10, MINUTE).wait().unwrap_or_default() {
            queues.extend(delivery.lease, MINUTE).wait().ok();
            queues.ack(delivery.lease).wait().ok();
        }
        queues.kick_some(name, 10).wait().ok();
        queues.remove_finished(name, State::Dead, Time::MAX).wait().ok();
        queues.put(NewJob::new(name, "new").key("1")).wait().ok();
        queues.cancel_waiting(name).wait().ok();
    }
}
