//! The occupied slots of the hierarchical wheel, against a plain model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tickwheel::wheel::{Advance, HierarchicalWheel, Key};

/// A step of a random history. Deadlines are relative to the wheel's time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    Reset(usize, u64),
    Remove(usize),
    /// Pops one timer.
    Pop(u64),
    /// Pops until nothing is due.
    Turn(u64),
    /// Advances with this budget, which may stop in the middle of a slot.
    Advance(u64, usize),
}

fn ahead() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, 0..70_000_u64, 0..20_000_000_u64, any::<u64>().prop_map(|it| it >> 8)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => ahead().prop_map(Step::Insert),
        2 => (any::<usize>(), ahead()).prop_map(|(pick, ahead)| Step::Reset(pick, ahead)),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..70_000_u64).prop_map(Step::Pop),
        2 => (0..70_000_u64).prop_map(Step::Turn),
        1 => (0..70_000_u64, 0..40_usize).prop_map(|(ahead, few)| Step::Advance(ahead, few)),
    ]
}

/// A wheel with the current and the original deadlines of its timers.
struct Pair {
    wheel: HierarchicalWheel<u64>,
    model: BTreeMap<Key, (u64, bool)>,
}

impl Pair {
    fn pick(&self, pick: usize) -> Option<Key> {
        let len = self.model.len();
        (len > 0).then(|| *self.model.keys().nth(pick % len).unwrap())
    }

    fn play(&mut self, step: Step) {
        let now = self.wheel.now();
        let at = |ahead: u64| now.saturating_add(ahead);
        match step {
            Step::Insert(ahead) => {
                let key = self.wheel.insert(at(ahead), at(ahead));
                self.model.insert(key, (at(ahead), false));
            }
            Step::Reset(pick, ahead) => {
                if let Some(key) = self.pick(pick) {
                    assert!(self.wheel.reset(key, at(ahead)));
                    self.model.insert(key, (at(ahead), true));
                }
            }
            Step::Remove(pick) => {
                if let Some(key) = self.pick(pick) {
                    assert!(self.wheel.remove(key).is_some());
                    self.model.remove(&key);
                }
            }
            Step::Pop(ahead) => {
                if let Some(due) = self.wheel.pop_due(at(ahead)) {
                    assert!(self.model.remove(&due.key).is_some());
                }
            }
            Step::Turn(ahead) => {
                while let Some(due) = self.wheel.pop_due(at(ahead)) {
                    assert!(self.model.remove(&due.key).is_some());
                }
            }
            Step::Advance(ahead, budget) => {
                let found: Advance = self.wheel.advance(at(ahead), budget);
                drop(format!("{found:?}"));
            }
        }
    }

    /// Checks that every timer is overdue or in exactly one slot, which the wheel reaches in time.
    fn check(&self) {
        let mut found = BTreeSet::new();
        let mut before = None;
        for slot in self.wheel.slots() {
            assert!(before < Some((slot.level, slot.slot)), "{slot:?} after {before:?}");
            before = Some((slot.level, slot.slot));
            let span = 1_u64 << (8 * slot.level);
            assert_eq!((slot.first % span, slot.last - slot.first), (0, span - 1), "{slot:?}");
            assert_eq!((slot.first / span % 256) as usize, slot.slot, "{slot:?}");
            assert_eq!(slot.count(), slot.timers().count());
            assert!(slot.count() > 0);
            for timer in slot.timers() {
                let &(deadline, was_reset) = self.model.get(&timer.key).expect("a live timer");
                assert_eq!(timer.deadline, deadline);
                assert!(slot.first <= deadline, "{deadline} is missed by {slot:?}");
                assert!(was_reset || deadline <= slot.last, "{deadline} is not in {slot:?}");
                assert!(found.insert(timer.key), "in two slots");
            }
        }
        assert_eq!(found.len() + self.wheel.overdue(), self.model.len());
        assert_eq!(self.wheel.len(), self.model.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_timer_is_in_one_slot(start in any::<u64>(), steps in vec(step(), 1..80)) {
        let wheel = HierarchicalWheel::with_start(start >> 1);
        let mut pair = Pair { wheel, model: BTreeMap::new() };
        for step in steps {
            pair.play(step);
            pair.check();
        }
    }
}

#[test]
fn a_full_slot_is_counted_without_what_was_removed() {
    let mut wheel = HierarchicalWheel::new();
    let keys: Vec<_> = (0..1_000).map(|number| wheel.insert(300, number)).collect();
    for key in &keys[..400] {
        wheel.remove(*key);
    }
    let slots: Vec<_> = wheel.slots().map(|slot| (slot.level, slot.slot, slot.count())).collect();
    assert_eq!(slots, [(1, 1, 600)]);
    for key in &keys[400..] {
        wheel.remove(*key);
    }
    assert_eq!(wheel.slots().count(), 0);
}
