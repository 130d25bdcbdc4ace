//! The statements.

/// Creates the tables. The lock makes nodes wait for each other that start at the same time.
pub(super) const CREATE_TABLES: &str = "
begin;
select pg_advisory_xact_lock(7233169);
create schema if not exists tickwheel;
create table if not exists tickwheel.log (
    name text primary key,
    stream text not null,
    first bigint not null,
    last bigint not null,
    settled bigint not null
);
create table if not exists tickwheel.record (
    log text not null,
    position bigint not null,
    id bytea not null,
    record bytea not null,
    primary key (log, position)
);
alter table tickwheel.record alter column record set storage external;
commit";

/// `$1` name, `$2` identity.
pub(super) const CREATE_LOG: &str = "
insert into tickwheel.log (name, stream, first, last, settled)
values ($1, $2, 1, 0, 0)
on conflict do nothing
returning name";

/// `$1` name.
pub(super) const DELETE_LOG: &str = "
with records as (delete from tickwheel.record where log = $1)
delete from tickwheel.log where name = $1";

/// `$1` name.
pub(super) const STATE: &str = "select stream, first, last from tickwheel.log where name = $1";

/// Appends a record if the log ends at the expected position. Two appends cannot both see that
/// end: the second waits for the row, then looks at it again.
///
/// `$1` name, `$2` identity, `$3` expected last position, `$4` id, `$5` record, `$6` whether a
/// standby may be missing.
pub(super) const APPEND: &str = "
with head as (
    update tickwheel.log set last = last + 1
    where name = $1 and stream = $2 and last = $3
        and ($6 or current_setting('synchronous_standby_names') <> '')
    returning last
)
insert into tickwheel.record (log, position, id, record)
select $1, last, $4, $5 from head
returning position";

/// Looks at the log and at one position after all appends before it, and makes a commit that waits
/// for the standby. So what this sees is durable when it has answered.
///
/// `$1` name, `$2` position, `$3` whether a standby may be missing.
pub(super) const SETTLE: &str = "
with head as (
    update tickwheel.log set settled = settled + 1
    where name = $1 and ($3 or current_setting('synchronous_standby_names') <> '')
    returning stream, first, last
)
select head.stream, head.first, head.last, record.id
from head left join tickwheel.record record on record.log = $1 and record.position = $2";

/// Reads the log's extent, and records up to a number of bytes, but at least one.
///
/// `$1` name, `$2` first position, `$3` bytes.
pub(super) const READ: &str = "
select log.stream, log.first, log.last, entry.position, entry.id, entry.record
from tickwheel.log log left join (
    select position, id, record from (
        select position, id, record,
            sum(octet_length(record)) over (order by position) as total
        from tickwheel.record
        where log = $1 and position >= $2 and position < $2 + 512
    ) summed
    where total <= $3 or position = $2
) entry on true
where log.name = $1
order by entry.position";

/// `$1` name, `$2` identity, `$3` the first position that stays.
pub(super) const TRIM: &str = "
with head as (
    update tickwheel.log set first = $3
    where name = $1 and stream = $2 and first < $3 and last >= $3
    returning first
)
delete from tickwheel.record where log = $1 and position < (select first from head)";

/// `$1` what to announce. Not part of an append: a transaction with a notification keeps all others
/// from committing until the standby has answered.
pub(super) const ANNOUNCE: &str = "select pg_notify('tickwheel_log', $1)";

/// Statements are never cancelled, because that would cancel the wait for the standby too. Only
/// waiting for a row that another append has changed ends after a while.
pub(super) fn session_settings(lock_timeout_ms: u128) -> String {
    format!(
        "set synchronous_commit = on;
        set statement_timeout = 0;
        set idle_in_transaction_session_timeout = 0;
        set lock_timeout = {lock_timeout_ms};
        listen tickwheel_log"
    )
}

/// The settings that decide whether a commit is durable.
pub(super) const SAFETY: &str = "
select current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_standby_names')";
