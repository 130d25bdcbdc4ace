//! The rows of groups: settings and numbers of jobs.

use bytes::Bytes;

use super::codec::{Decoder, Encode, Malformed};
use super::records::{decode_pacing, encode_pacing};
use super::tolerant::Tolerant;
use super::{StoreError, Table, View, rows};
use crate::model::group::GroupSettings;
use crate::model::time::Time;

const VERSION: u8 = 1;

impl GroupSettings {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(VERSION);
        bytes.option(self.pacing, encode_pacing);
        bytes.byte(u8::from(self.paused));
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes, VERSION)?;
        let settings = Self { pacing: decoder.option(decode_pacing)?, paused: decoder.flag()? };
        decoder.end()?;
        Ok(settings)
    }
}

/// The live jobs of a group. A group without any has no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    /// Grouped rows.
    pub(crate) waiting: u64,
    /// Leases.
    pub(crate) running: u64,
}

impl GroupCounts {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.byte(VERSION);
        bytes.number(self.waiting);
        bytes.number(self.running);
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes, VERSION)?;
        let counts = Self { waiting: decoder.number()?, running: decoder.number()? };
        decoder.end()?;
        Ok(counts)
    }
}

/// Returns the ranks of the priorities that the waiting jobs of a group have, the highest priority
/// first.
pub(crate) fn ranks(view: &dyn View, queue: u32, group: &str) -> Result<Vec<u8>, StoreError> {
    let end = rows::grouped_end(queue, group);
    let mut ranks = Vec::new();
    let mut next = Some(0);
    while let Some(rank) = next {
        let start = rows::grouped_from(queue, group, rank, Time::default());
        // An unreadable row is skipped; the next one tells its rank.
        let rows = Tolerant::new(view, Table::Index, &start, &end);
        let mut readable = rows.filter(|row| !matches!(row, Err(StoreError::Damaged(_))));
        let Some((key, _)) = readable.next().transpose()? else { break };
        let Some((_, _, place)) = rows::read_grouped_key(&key) else { break };
        ranks.push(place.rank);
        next = place.rank.checked_add(1);
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::settings::Pacing;

    #[test]
    fn rows_of_groups_come_back() {
        let pacing = Pacing::starts(3, Duration::from_millis(7)).concurrency(2);
        for pacing in [None, Some(Pacing::default()), Some(pacing)] {
            let settings = GroupSettings { pacing, paused: pacing.is_none() };
            let mut bytes = Vec::new();
            settings.encode(&mut bytes);
            assert_eq!(GroupSettings::decode(bytes.into()), Ok(settings));
        }
        let counts = GroupCounts { waiting: u64::MAX, running: 1 };
        let mut bytes = Vec::new();
        counts.encode(&mut bytes);
        assert_eq!(GroupCounts::decode(bytes.into()), Ok(counts));
    }
}
