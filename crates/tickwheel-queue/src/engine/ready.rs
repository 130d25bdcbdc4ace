//! The ready jobs of a queue that are in memory, in order of delivery.
//!
//! By default jobs are delivered in the order of their places: due time, priority, insertion. With
//! [`Order::Priority`] the priority comes first.
//!
//! Rows on disk are ordered by place. In priority order, a row that is read late may have to be
//! delivered early. So memory holds the best rows instead of the first ones: when there are too
//! many, the worst are *skipped*. Skipped rows stay on disk only. They are read again when the best
//! of them precedes all ready jobs in memory.

use std::collections::BTreeMap;

use super::Entry;
use crate::model::settings::Order;
use crate::store::rows::Place;

/// A job's turn: smaller turns are delivered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// The rank of the priority; always 0 in order of due time.
    rank: u8,
    pub(super) place: Place,
}

impl Turn {
    pub(super) const FIRST: Self = Self { rank: 0, place: Place::FIRST };

    /// Returns the turn of the job at a place in order of due time.
    pub(super) fn by_due(place: Place) -> Self {
        Self { rank: 0, place }
    }

    /// Returns the first turn of the next lower priority.
    pub(super) fn next_rank(self) -> Option<Self> {
        Some(Self { rank: self.rank.checked_add(1)?, place: Place::FIRST })
    }
}

/// Ready jobs before the edge that are not in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skipped {
    /// No skipped row lies before this place.
    pub(super) from: Place,
    /// No skipped job has an earlier turn.
    pub(super) best: Turn,
}

#[derive(Default)]
pub(super) struct ReadyJobs {
    order: Order,
    jobs: BTreeMap<Turn, Entry>,
    pub(super) skipped: Option<Skipped>,
    /// Rows from here up to the present are being read again.
    pub(super) rereading: Option<Place>,
}

impl ReadyJobs {
    pub(super) fn new(order: Order) -> Self {
        Self { order, ..Self::default() }
    }

    pub(super) fn is_by_priority(&self) -> bool {
        self.order == Order::Priority
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the turn of the job at a place.
    pub(super) fn turn(&self, place: Place) -> Turn {
        Turn { rank: if self.is_by_priority() { place.rank } else { 0 }, place }
    }

    pub(super) fn insert(&mut self, place: Place, entry: Entry) {
        self.jobs.insert(self.turn(place), entry);
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        self.jobs.contains_key(&self.turn(place))
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Entry> {
        self.jobs.remove(&self.turn(place))
    }

    /// Returns the next job.
    pub(super) fn first(&self) -> Option<(Place, Entry)> {
        self.jobs.first_key_value().map(|(turn, entry)| (turn.place, *entry))
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.jobs.keys().map(|turn| turn.place)
    }

    /// Returns the first place of a ready job, in memory or skipped.
    pub(super) fn earliest(&self) -> Option<Place> {
        let mut earliest = self.skipped.map(|skipped| skipped.from);
        // The first job of each rank.
        let mut from = Turn::FIRST;
        while let Some((turn, _)) = self.jobs.range(from..).next() {
            earliest = Some(earliest.map_or(turn.place, |earliest| earliest.min(turn.place)));
            let Some(next) = turn.next_rank() else { break };
            from = next;
        }
        [earliest, self.rereading].into_iter().flatten().min()
    }

    /// Evicts jobs at or after this place.
    pub(super) fn cut(&mut self, edge: Place) {
        if self.is_by_priority() {
            self.jobs.retain(|turn, _| turn.place < edge);
            self.skipped = self.skipped.filter(|skipped| skipped.from < edge);
            self.rereading = self.rereading.filter(|from| *from < edge);
        } else {
            drop(self.jobs.split_off(&self.turn(edge)));
        }
    }

    /// Takes out the jobs after this place.
    pub(super) fn take_after(&mut self, last: Place) -> Vec<(Place, Entry)> {
        let later = self.jobs.extract_if(.., |turn, _| turn.place > last);
        later.map(|(turn, entry)| (turn.place, entry)).collect()
    }

    /// Skips the last jobs, so that `remain` stay in memory.
    pub(super) fn skip_worst(&mut self, remain: usize) {
        let Some(&first) = self.jobs.keys().nth(remain) else { return };
        let worst = self.jobs.split_off(&first);
        let from = worst.keys().map(|turn| turn.place).min().unwrap_or(first.place);
        let other = self.skipped.unwrap_or(Skipped { from, best: first });
        self.skipped = Some(Skipped { from: from.min(other.from), best: first.min(other.best) });
    }

    /// Returns `true` if a skipped job may precede all jobs in memory.
    ///
    /// Only these jobs count, not those of groups: the best jobs are in memory once the skipped
    /// ones were read, so rows are never read in vain.
    pub(super) fn must_reread(&self) -> bool {
        let first = self.jobs.first_key_value().map(|(turn, _)| *turn);
        self.skipped.is_some_and(|skipped| first.is_none_or(|first| skipped.best < first))
    }

    /// Changes the order. Returns the place from which jobs must be read again, if any.
    pub(super) fn set_order(&mut self, order: Order) -> Option<Place> {
        if order == self.order {
            return None;
        }
        self.order = order;
        let jobs = std::mem::take(&mut self.jobs);
        self.jobs = jobs.into_iter().map(|(turn, entry)| (self.turn(turn.place), entry)).collect();
        self.forget_skipped()
    }

    /// Forgets which jobs are skipped. Returns the first place where one may be.
    pub(super) fn forget_skipped(&mut self) -> Option<Place> {
        let skipped = self.skipped.take().map(|skipped| skipped.from);
        [skipped, self.rereading.take()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::NO_GROUP;
    use super::*;
    use crate::model::id::JobId;
    use crate::model::time::Time;

    fn place(due: u64, priority: i8) -> Place {
        Place::new(Time::from_millis(due), priority, due)
    }

    #[test]
    fn the_worst_are_skipped_and_the_best_of_them_is_known() {
        let mut ready = ReadyJobs::new(Order::Priority);
        let entry = Entry { id: JobId::from_bytes([0; 16]), has_status: false, group: NO_GROUP };
        for due in 0..10 {
            ready.insert(place(due, (due % 3) as i8), entry);
        }
        ready.skip_worst(4);
        assert_eq!(
            ready.places().collect::<Vec<_>>(),
            [place(2, 2), place(5, 2), place(8, 2), place(1, 1)]
        );
        let skipped = ready.skipped.unwrap();
        assert_eq!((skipped.from, skipped.best), (place(0, 0), ready.turn(place(4, 1))));
        assert_eq!(ready.earliest(), Some(place(0, 0)));
        assert!(!ready.must_reread());
        for (due, priority) in [(2, 2), (5, 2), (8, 2), (1, 1)] {
            ready.remove(place(due, priority));
        }
        assert!(ready.must_reread(), "none is in memory");
        ready.insert(place(7, 1), entry);
        assert!(ready.must_reread(), "a skipped one comes first");
        assert_eq!(ready.set_order(Order::DueTime), Some(place(0, 0)));
        assert_eq!(ready.first().map(|(first, _)| first), Some(place(7, 1)));
    }
}
