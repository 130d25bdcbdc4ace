//! The timers that a jump makes due: sorted runs, which are merged as timers are taken out.
//!
//! A wheel that is more than a round behind finds timers of many missed rounds in each slot. They
//! are collected in `open`. Once that has [`RUN`] references, or its first one is needed, it is
//! sorted and becomes a run. A heap knows the first reference of each run.
//!
//! So no step takes long: sorting a run is the longest, and memory is freed run by run. One sort of
//! the whole backlog would take fewer instructions, but in a single step. A jump over 200,000 timers
//! takes 1.6 times as many instructions with a tree instead.
//!
//! Ground rules:
//! * A run is sorted from the last deadline to the first, so that it shrinks as it is used.
//! * References may be stale. A sweep drops those inside a run by marking them as [`GONE`], and
//!   leaves alone the first one of a run, which the heap knows, and those in `open`.

use alloc::vec::Vec;

use super::overdue::Late;
use super::references::CHUNK;

/// The maximum length of a run.
const RUN: usize = 4096;

/// A run with a smaller capacity is not worth shrinking.
const KEPT: usize = 64;

/// The index of a reference that was dropped. No entry has it.
const GONE: u32 = u32::MAX;

pub(super) struct Backlog {
    /// References that are not sorted yet.
    open: Vec<Late>,
    /// The position of the one in `open` with the smallest deadline.
    open_first: usize,
    /// Those that were used up are empty, and listed in `free`.
    runs: Vec<Run>,
    free: Vec<u32>,
    /// The first reference of each run, as a heap.
    heads: Vec<Head>,
    /// The run and the position up to which the sweep has come.
    swept: Option<(usize, usize)>,
}

#[derive(Default)]
struct Run {
    references: Vec<Late>,
    /// The number of references among them that were dropped.
    gone: usize,
}

#[derive(Clone, Copy)]
struct Head {
    deadline: u64,
    run: u32,
}

impl Backlog {
    pub(super) const EMPTY: Self = Self {
        open: Vec::new(),
        open_first: 0,
        runs: Vec::new(),
        free: Vec::new(),
        heads: Vec::new(),
        swept: None,
    };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.open.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, late: Late) {
        if self.open.get(self.open_first).is_none_or(|first| late.deadline < first.deadline) {
            self.open_first = self.open.len();
        }
        self.open.push(late);
        if self.open.len() == RUN {
            self.seal();
        }
    }

    /// Returns the reference with the smallest deadline.
    #[inline]
    pub(super) fn first(&self) -> Option<Late> {
        let open = self.open.get(self.open_first);
        match (self.heads.first(), open) {
            (Some(head), open) if open.is_none_or(|open| head.deadline <= open.deadline) => {
                self.runs[head.run as usize].references.last().copied()
            }
            (_, open) => open.copied(),
        }
    }

    /// Takes out the reference that [`first`](Self::first) returns. Calls `prefetch` with the index
    /// of one that will be needed later.
    #[inline]
    pub(super) fn pop(&mut self, prefetch: impl FnOnce(u32)) -> Option<Late> {
        if let Some(open) = self.open.get(self.open_first)
            && self.heads.first().is_none_or(|head| open.deadline < head.deadline)
        {
            self.seal();
        }
        let head = self.heads.first()?;
        let run = &mut self.runs[head.run as usize];
        let late = run.references.pop()?;
        while run.references.pop_if(|last| last.index == GONE).is_some() {
            run.gone -= 1;
        }
        if let Some(next) = run.references.last() {
            prefetch(next.index);
            let next = Head { deadline: next.deadline, run: head.run };
            self.replace_first(next);
            self.shrink(next.run);
        } else {
            self.end_run();
        }
        Some(late)
    }

    /// Makes a run of what was collected.
    #[cold]
    #[inline(never)]
    fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        // The first one stays first among equals, so that `pop` takes out what `first` returned.
        let first = self.open.swap_remove(self.open_first);
        self.open.sort_unstable_by_key(|late| core::cmp::Reverse(late.deadline));
        self.open.push(first);
        let deadline = first.deadline;
        let run = Run { references: self.open.as_slice().into(), gone: 0 };
        let number = if let Some(number) = self.free.pop() {
            self.runs[number as usize] = run;
            number
        } else {
            self.runs.push(run);
            self.runs.len() as u32 - 1
        };
        self.open.clear();
        self.open_first = 0;
        self.add_head(Head { deadline, run: number });
    }

    /// Frees a run that was used up, and all memory with the last one.
    #[cold]
    fn end_run(&mut self) {
        let Some(last) = self.heads.pop() else { return };
        let ended = self.heads.first().map_or(last, |first| *first);
        if !self.heads.is_empty() {
            self.replace_first(last);
        }
        self.runs[ended.run as usize] = Run::default();
        self.free.push(ended.run);
        if self.is_empty() {
            *self = Self::EMPTY;
        }
    }

    /// Frees the memory of a run that has become much smaller.
    #[inline]
    fn shrink(&mut self, run: u32) {
        let references = &mut self.runs[run as usize].references;
        if references.len() < references.capacity() / 2 && references.capacity() > KEPT {
            references.shrink_to_fit();
        }
    }

    fn add_head(&mut self, head: Head) {
        let mut hole = self.heads.len();
        self.heads.push(head);
        while hole > 0 {
            let above = (hole - 1) / 2;
            if self.heads[above].deadline <= head.deadline {
                break;
            }
            self.heads[hole] = self.heads[above];
            hole = above;
        }
        self.heads[hole] = head;
    }

    /// Replaces the first head by a later one.
    #[inline]
    fn replace_first(&mut self, head: Head) {
        let heads = &mut self.heads[..];
        let mut hole = 0;
        loop {
            let mut below = 2 * hole + 1;
            let Some(&(mut lower)) = heads.get(below) else { break };
            if let Some(&right) = heads.get(below + 1)
                && right.deadline < lower.deadline
            {
                below += 1;
                lower = right;
            }
            if lower.deadline >= head.deadline {
                break;
            }
            heads[hole] = lower;
            hole = below;
        }
        heads[hole] = head;
    }

    /// Begins a sweep, if there are runs.
    pub(super) fn begin_sweep(&mut self) {
        self.swept = (!self.runs.is_empty()).then_some((0, 0));
    }

    pub(super) fn is_being_swept(&self) -> bool {
        self.swept.is_some()
    }

    /// Examines as many references as a chunk holds, and drops those that are not `live`. Returns
    /// the number of dropped references.
    pub(super) fn sweep_step(&mut self, live: impl Fn(Late) -> bool) -> usize {
        let Some((number, from)) = self.swept else { return 0 };
        let Some(run) = self.runs.get_mut(number) else {
            self.swept = None;
            return 0;
        };
        // The last one stays.
        let end = run.references.len().saturating_sub(1);
        let to = end.min(from + CHUNK);
        let mut dropped = 0;
        for late in run.references.get_mut(from..to).unwrap_or_default() {
            if late.index != GONE && !live(*late) {
                late.index = GONE;
                dropped += 1;
            }
        }
        run.gone += dropped;
        self.swept = Some((number, to));
        if to == end {
            if run.gone > run.references.len() / 2 {
                run.references.retain(|late| late.index != GONE);
                run.references.shrink_to_fit();
                run.gone = 0;
            }
            self.swept = Some((number + 1, 0));
        }
        dropped
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Late> {
        let runs = self.runs.iter().flat_map(|run| &run.references);
        runs.filter(|late| late.index != GONE).chain(&self.open).copied()
    }

    pub(super) fn memory_usage(&self) -> usize {
        let references = self.runs.iter().map(|run| run.references.capacity()).sum::<usize>();
        (references + self.open.capacity()) * size_of::<Late>()
            + self.runs.capacity() * size_of::<Run>()
            + self.free.capacity() * size_of::<u32>()
            + self.heads.capacity() * size_of::<Head>()
    }

    /// Panics if a run is not sorted, or the heap does not know its first reference.
    pub(super) fn check_invariants(&self) {
        let used = self.runs.iter().filter(|run| !run.references.is_empty()).count();
        assert_eq!(used, self.heads.len(), "runs and their heads");
        for (at, head) in self.heads.iter().enumerate() {
            let above = &self.heads[at.saturating_sub(1) / 2];
            assert!(above.deadline <= head.deadline, "the heap of runs");
            let run = &self.runs[head.run as usize];
            let first = run.references.last().expect("a run that is not used up");
            assert!(first.index != GONE && first.deadline == head.deadline, "the head of a run");
            let sorted = run.references.is_sorted_by_key(|late| core::cmp::Reverse(late.deadline));
            assert!(sorted, "a run is not sorted");
            let gone = run.references.iter().filter(|late| late.index == GONE).count();
            assert_eq!(gone, run.gone, "dropped references of a run");
        }
        let first = self.open.iter().map(|late| late.deadline).min();
        let known = self.open.get(self.open_first).map(|late| late.deadline);
        assert_eq!(known, first, "the first collected reference");
    }
}
