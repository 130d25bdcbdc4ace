//! The rows of the table of counters: the totals of the store, and the counts of each queue.

use bytes::Bytes;

use super::super::codec::{Decoder, Encode, Malformed};
use super::super::rows::Place;
use crate::model::job::State;
use crate::model::stats::QueueCounters;
use crate::model::time::Time;

/// Counters of the whole store, written with every commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Grows with every commit.
    pub(crate) commit: u64,
    /// The sequence number of the next put.
    pub(crate) seq: u64,
    /// No idempotency key expires before this time.
    pub(crate) idempotency_low: Time,
}

impl Totals {
    const VERSION: u8 = 2;

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(Self::VERSION);
        bytes.number(self.commit);
        bytes.number(self.seq);
        bytes.time(self.idempotency_low);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, Self::VERSION)?;
        let totals = Self {
            commit: decoder.number()?,
            seq: decoder.number()?,
            idempotency_low: if version > 1 { decoder.time()? } else { Time::default() },
        };
        decoder.end()?;
        Ok(totals)
    }
}

/// The number of a queue's jobs in each state, and the low-water marks of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) waiting: u64,
    pub(crate) leased: u64,
    pub(crate) dead: u64,
    pub(crate) done: u64,
    pub(crate) cancelled: u64,
    /// No due row lies before this place.
    pub(crate) low: Place,
    /// No finished row lies before these times: dead, done, cancelled.
    pub(crate) finished_low: [Time; 3],
    /// What has happened since the queue was created.
    pub(crate) lifetime: QueueCounters,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            waiting: 0,
            leased: 0,
            dead: 0,
            done: 0,
            cancelled: 0,
            low: Place::FIRST,
            finished_low: [Time::default(); 3],
            lifetime: QueueCounters::default(),
        }
    }
}

impl Counts {
    const VERSION: u8 = 2;

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(Self::VERSION);
        for count in [self.waiting, self.leased, self.dead, self.done, self.cancelled] {
            bytes.number(count);
        }
        bytes.time(self.low.due);
        bytes.byte(self.low.rank);
        bytes.number(self.low.seq);
        for time in self.finished_low {
            bytes.time(time);
        }
        let QueueCounters {
            put,
            delivered,
            acked,
            failed,
            expired,
            released,
            died,
            cancelled,
            kicked,
        } = self.lifetime;
        for count in [put, delivered, acked, failed, expired, released, died, cancelled, kicked] {
            bytes.number(count);
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let (mut decoder, version) = Decoder::up_to(bytes, Self::VERSION)?;
        let mut counts = Self {
            waiting: decoder.number()?,
            leased: decoder.number()?,
            dead: decoder.number()?,
            done: decoder.number()?,
            cancelled: decoder.number()?,
            low: Place { due: decoder.time()?, rank: decoder.byte()?, seq: decoder.number()? },
            finished_low: [decoder.time()?, decoder.time()?, decoder.time()?],
            lifetime: QueueCounters::default(),
        };
        if version > 1 {
            counts.lifetime = QueueCounters {
                put: decoder.number()?,
                delivered: decoder.number()?,
                acked: decoder.number()?,
                failed: decoder.number()?,
                expired: decoder.number()?,
                released: decoder.number()?,
                died: decoder.number()?,
                cancelled: decoder.number()?,
                kicked: decoder.number()?,
            };
        }
        decoder.end()?;
        Ok(counts)
    }

    /// Returns the time before which there is no row of this finished state.
    pub(crate) fn finished_low(&self, state: State) -> Time {
        match state {
            State::Done => self.finished_low[1],
            State::Cancelled => self.finished_low[2],
            _ => self.finished_low[0],
        }
    }

    /// Returns the count of a state.
    pub(crate) fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Scheduled | State::Ready => &mut self.waiting,
            State::Leased => &mut self.leased,
            State::Dead => &mut self.dead,
            State::Done => &mut self.done,
            State::Cancelled => &mut self.cancelled,
        }
    }
}
