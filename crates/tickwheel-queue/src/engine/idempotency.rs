//! Puts with an idempotency key.
//!
//! The key and the results of its put are committed together with the jobs, so a replay finds all
//! of them or none. A second row, ordered by expiry, leads to the keys that expire next. Before the
//! low-water mark in the totals there are none.
//!
//! If a put was refused as a whole, its key is not kept and can be used again.

use super::{Engine, Timed, unreadable};
use crate::model::access::Access;
use crate::model::error::Error;
use crate::model::idempotency::{IdempotencyKey, PutOnce};
use crate::model::new_job::NewJob;
use crate::model::validation::check_idempotency_key;
use crate::store::idempotency::KeyRow;
use crate::store::rows;
use crate::store::tolerant::Tolerant;
use crate::store::{StoreError, Table, View};

/// Expired keys that are removed in one group.
const STEP: usize = 1_000;
/// The approximate bytes of a key's rows, without the results of its jobs.
const ROW_BYTES: usize = 256;
const RESULT_BYTES: usize = 48;
/// How long to wait after a failed read before expired keys are looked for again.
const RETRY_MILLIS: u64 = 1_000;

impl Engine {
    pub(super) fn put_once(
        &mut self,
        view: &dyn View,
        key: &IdempotencyKey,
        jobs: &[NewJob],
        access: &Access,
    ) -> Result<PutOnce, Error> {
        check_idempotency_key(key)?;
        let row_key = rows::idempotency(&key.key);
        let row = self.read(view, Table::Index, &row_key).map_err(unreadable)?;
        if let Some(row) = row {
            let row = KeyRow::decode(row).map_err(|why| {
                let key = &key.key;
                Error::Unreadable(format!("the record of idempotency key {key:?}: {why}"))
            })?;
            if row.expires > self.now.time() {
                if row.fingerprint != key.fingerprint {
                    return Err(Error::IdempotencyConflict { key: key.key.clone() });
                }
                return Ok(PutOnce { puts: row.puts, is_replay: true });
            }
            self.batch.remove(Table::Index, &rows::idempotency_expiry(row.expires, &key.key));
            self.batch.remove(Table::Index, &row_key);
        }
        self.room.check(self.batch.bytes() + ROW_BYTES + RESULT_BYTES * jobs.len())?;
        let puts = jobs.iter().map(|job| self.put(view, job, access)).collect();
        let expires = self.now.after(key.lifetime);
        let row = KeyRow { expires, fingerprint: key.fingerprint.clone(), puts };
        if row.puts.iter().any(Result::is_ok) {
            self.remember(&key.key, &row);
        }
        Ok(PutOnce { puts: row.puts, is_replay: false })
    }

    fn remember(&mut self, key: &str, row: &KeyRow) {
        let expiry = rows::idempotency_expiry(row.expires, key);
        self.batch.put(Table::Index, &expiry, &[]);
        self.batch.put_with(Table::Index, &rows::idempotency(key), |bytes| row.encode(bytes));
        self.totals.idempotency_low = self.totals.idempotency_low.min(row.expires);
        self.expect_expiry(row.expires.as_millis());
    }

    /// Schedules the removal of expired keys for this time or earlier.
    fn expect_expiry(&mut self, at: u64) {
        let timer = self.idempotency_timer;
        match timer.and_then(|timer| Some((timer, self.wheel.deadline(timer)?))) {
            Some((_, earlier)) if earlier <= at => {}
            Some((timer, _)) => drop(self.wheel.reset(timer, at)),
            None => self.idempotency_timer = Some(self.wheel.insert(at, Timed::Idempotency)),
        }
    }

    /// Schedules the removal of the key that expires first.
    pub(super) fn read_idempotency_keys(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let low = rows::idempotency_expiry(self.totals.idempotency_low, "");
        for row in Tolerant::new(view, Table::Index, &low, &[rows::IDEMPOTENCY_EXPIRY + 1]) {
            let Some((key, _)) = self.pass_damage(row)? else { continue };
            if let Some((expires, _)) = rows::read_idempotency_expiry(&key) {
                self.expect_expiry(expires.as_millis());
                break;
            }
        }
        Ok(())
    }

    /// Removes one step of expired keys, once the timer has fired.
    pub(super) fn forget_expired_keys(&mut self, view: &dyn View) {
        if self.idempotency_timer.is_some() || !std::mem::take(&mut self.keys_may_expire) {
            return;
        }
        let now = self.now.time();
        let low = rows::idempotency_expiry(self.totals.idempotency_low, "");
        let mut forgotten = 0;
        for row in Tolerant::new(view, Table::Index, &low, &[rows::IDEMPOTENCY_EXPIRY + 1]) {
            let row_key = match row {
                Ok((key, _)) => key,
                Err(StoreError::Damaged(_)) => continue,
                Err(error) => {
                    tracing::warn!(%error, "expired idempotency keys cannot be read");
                    self.expect_expiry(now.as_millis() + RETRY_MILLIS);
                    return;
                }
            };
            let Some((expires, key)) = rows::read_idempotency_expiry(&row_key) else { continue };
            if expires > now || forgotten == STEP {
                self.expect_expiry(expires.as_millis());
                return;
            }
            self.totals.idempotency_low = expires;
            self.batch.remove(Table::Index, &rows::idempotency(key));
            self.batch.remove(Table::Index, &row_key);
            forgotten += 1;
        }
    }
}
