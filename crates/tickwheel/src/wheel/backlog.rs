//! The timers that a jump makes due: collected by time, and sorted shortly before they are needed.
//!
//! A wheel that is more than a round late finds timers of many missed rounds in each slot. The
//! missed time is divided into [`SPANS`] spans of equal length:
//!
//! ```text
//!   start        reached              now
//!     │ taken out  │ span │ span │ span │     each span: references in no order
//!     └──────────▲─┴──────┴──────┴──────┘
//!                └ runs, merged by a heap
//! ```
//!
//! A reference is collected in its span. When the wheel reaches a span, its references are sorted and
//! become a *run*, from which they are taken out one by one. With timers spread over the missed time,
//! a span is a single short run, so nothing is merged.
//!
//! No step takes long, also if all timers fall into one span: once a span has [`RUN`] references, these
//! become a run at once, and a heap knows the first reference of each run. Sorting a run is the longest
//! step, and memory is freed run by run. A jump over 200,000 timers that are spread over a day takes
//! 1.10 times the instructions of one sort of the whole backlog, which would be a single step; with
//! all of them in one span, 1.25 times.
//!
//! Ground rules:
//! * References for spans that were reached are collected in `open`. So are the first [`SPREAD`]
//!   references, because fewer are not worth making spans. `open` becomes a run when it has [`RUN`]
//!   references or when its first one is needed.
//! * A run is sorted from the last deadline to the first, so that it shrinks as it is used.
//! * References may be stale. A sweep drops those inside a run by marking them as [`GONE`]. It leaves
//!   alone the first one of a run, which the heap knows, and those in `open`.

use alloc::vec::Vec;

use super::overdue::Late;
use super::references::CHUNK;

/// The maximum length of a run.
const RUN: usize = 4096;

/// The binary logarithm of the number of spans, and that number.
const SPAN_BITS: u32 = 10;
const SPANS: usize = 1 << SPAN_BITS;

/// The number of references for which spans are made. Fewer are collected in `open`.
const SPREAD: usize = 1024;

/// A run or a span with a smaller capacity is not worth shrinking.
const KEPT: usize = 64;

/// The index of a reference that was dropped. No entry has it.
const GONE: u32 = u32::MAX;

/// The timers of missed rounds.
pub(super) struct Backlog {
    /// The number of references that were not dropped.
    len: usize,
    /// References that are not sorted yet, of spans that were reached.
    open: Vec<Late>,
    /// The position of the one in `open` with the smallest deadline.
    open_first: usize,
    /// All spans, or none as long as there are few references.
    spans: Vec<Span>,
    /// When the first span begins, and the binary logarithm of a span's length.
    start: u64,
    shift: u32,
    /// The first span that was not reached yet.
    reached: usize,
    /// No span before this one has references, except those that were reached.
    next: usize,
    /// The runs. Those that were used up are empty, and listed in `free`.
    runs: Vec<Run>,
    free: Vec<u32>,
    /// The first reference of each run of the spans that were reached, as a heap.
    heads: Vec<Head>,
    /// The place up to which the sweep has come.
    swept: Option<Swept>,
}

struct Span {
    /// No reference has an earlier deadline.
    earliest: u64,
    references: Vec<Late>,
    /// The numbers of the runs that the span has already filled.
    runs: Vec<u32>,
}

impl Span {
    const EMPTY: Self = Self { earliest: u64::MAX, references: Vec::new(), runs: Vec::new() };

    #[inline]
    fn is_empty(&self) -> bool {
        self.references.is_empty() && self.runs.is_empty()
    }
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

/// The number of a run or a span, and a position in it.
#[derive(Clone, Copy)]
enum Swept {
    Run(usize, usize),
    Span(usize, usize),
}

impl Run {
    /// Takes out the dropped references before the first one that was not.
    #[cold]
    fn drop_gone(&mut self) {
        while self.references.pop_if(|last| last.index == GONE).is_some() {
            self.gone -= 1;
        }
    }

    /// Frees memory if the run has become much smaller.
    fn shrink(&mut self) {
        if self.references.len() < self.references.capacity() / 2 {
            self.references.shrink_to_fit();
        }
    }
}

impl Backlog {
    pub(super) const EMPTY: Self = Self {
        len: 0,
        open: Vec::new(),
        open_first: 0,
        spans: Vec::new(),
        start: 0,
        shift: 0,
        reached: SPANS,
        next: SPANS,
        runs: Vec::new(),
        free: Vec::new(),
        heads: Vec::new(),
        swept: None,
    };

    /// Divides the time from `start` to `end` into spans, if the backlog is empty.
    #[inline]
    pub(super) fn divide(&mut self, start: u64, end: u64) {
        if self.len == 0 {
            let bits = u64::BITS - (end - start).leading_zeros();
            (self.start, self.shift) = (start, bits.saturating_sub(SPAN_BITS));
        }
    }

    /// Returns the number of the span in which a deadline is. The wheel may have missed more since
    /// the time was divided, so the last span has no end.
    #[inline]
    fn span_of(&self, deadline: u64) -> usize {
        let number = deadline.saturating_sub(self.start) >> self.shift;
        number.min(SPANS as u64 - 1) as usize
    }

    #[inline]
    pub(super) fn push(&mut self, late: Late) {
        self.len += 1;
        let number = self.span_of(late.deadline);
        if number < self.reached { self.push_open(late) } else { self.collect(number, late) }
    }

    #[inline]
    fn collect(&mut self, number: usize, late: Late) {
        let span = &mut self.spans[number];
        if late.deadline <= span.earliest {
            span.earliest = late.deadline;
            self.next = self.next.min(number);
        }
        span.references.push(late);
        if span.references.len() == RUN {
            self.fill_run(number);
        }
    }

    #[cold]
    fn push_open(&mut self, late: Late) {
        if self.open.get(self.open_first).is_none_or(|first| late.deadline < first.deadline) {
            self.open_first = self.open.len();
        }
        self.open.push(late);
        if self.len >= SPREAD && self.spans.is_empty() {
            self.spread();
        } else if self.open.len() == RUN {
            self.seal();
        }
    }

    /// Makes the spans, and moves the references that were collected so far into them.
    #[cold]
    #[inline(never)]
    fn spread(&mut self) {
        let (start, shift, len) = (self.start, self.shift, self.len);
        let few = core::mem::replace(self, Self { start, shift, len, reached: 0, ..Self::EMPTY });
        self.spans.resize_with(SPANS, || Span::EMPTY);
        for late in few.iter() {
            self.collect(self.span_of(late.deadline), late);
        }
    }

    /// Returns a time before which no reference is due.
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        let reached = self.first_reached().map(|late| late.deadline);
        reached.or_else(|| self.spans.get(self.next).map(|span| span.earliest))
    }

    /// Returns the first reference of the spans that were reached.
    #[inline]
    fn first_reached(&self) -> Option<Late> {
        let open = self.open.get(self.open_first);
        match (self.heads.first(), open) {
            (Some(head), open) if open.is_none_or(|open| head.deadline <= open.deadline) => {
                self.runs[head.run as usize].references.last().copied()
            }
            (_, open) => open.copied(),
        }
    }

    /// Returns the reference that [`pop_until`](Self::pop_until) takes out.
    pub(super) fn first_until(&mut self, tick: u64) -> Option<Late> {
        if self.heads.is_empty() && self.open.is_empty() {
            self.reach_next(tick);
        }
        self.first_reached().filter(|late| late.deadline <= tick)
    }

    /// Takes out the reference with the smallest deadline, if that is at most `tick`. Calls `prefetch`
    /// with the index of one that will be needed later.
    #[inline]
    pub(super) fn pop_until(&mut self, tick: u64, prefetch: impl FnOnce(u32)) -> Option<Late> {
        if self.heads.len() != 1 || !self.open.is_empty() {
            self.prepare(tick);
        }
        let head = self.heads.first_mut()?;
        if head.deadline > tick {
            return None;
        }
        let run = &mut self.runs[head.run as usize];
        let late = run.references.pop()?;
        self.len -= 1;
        if run.gone > 0 {
            run.drop_gone();
        }
        let Some(next) = run.references.last() else {
            self.end_run();
            return Some(late);
        };
        prefetch(next.index);
        head.deadline = next.deadline;
        if run.references.len().is_multiple_of(KEPT) {
            run.shrink();
        }
        if self.heads.len() > 1 {
            self.sift_first();
        }
        Some(late)
    }

    /// Ensures that the first reference is in a run, if its deadline is at most `tick`.
    #[cold]
    #[inline(never)]
    fn prepare(&mut self, tick: u64) {
        if let Some(open) = self.open.get(self.open_first) {
            if self.heads.first().is_none_or(|head| open.deadline < head.deadline) {
                self.seal();
            }
        } else if self.heads.is_empty() {
            self.reach_next(tick);
        }
    }

    /// Makes runs of the next span that has references, unless all of them come after `tick`.
    #[cold]
    #[inline(never)]
    fn reach_next(&mut self, tick: u64) {
        while self.heads.is_empty()
            && let Some(span) = self.spans.get_mut(self.next)
            && span.earliest <= tick
        {
            let Span { references, runs, .. } = core::mem::replace(span, Span::EMPTY);
            self.reached = self.next + 1;
            let later = self.spans[self.reached..].iter().position(|span| !span.is_empty());
            self.next = later.map_or(SPANS, |distance| self.reached + distance);
            for run in runs {
                self.add_head(run);
            }
            if !references.is_empty() {
                let run = self.add_run(references);
                self.add_head(run);
            }
        }
    }

    /// Makes a run of the references of a span that was not reached.
    #[cold]
    #[inline(never)]
    fn fill_run(&mut self, number: usize) {
        let references = core::mem::take(&mut self.spans[number].references);
        let run = self.add_run(references);
        self.spans[number].runs.push(run);
    }

    /// Sorts references, and returns the number of their run.
    fn add_run(&mut self, mut references: Vec<Late>) -> u32 {
        references.sort_unstable_by_key(|late| core::cmp::Reverse(late.deadline));
        self.keep_run(references)
    }

    fn keep_run(&mut self, references: Vec<Late>) -> u32 {
        let run = Run { references, gone: 0 };
        if let Some(number) = self.free.pop() {
            self.runs[number as usize] = run;
            number
        } else {
            self.runs.push(run);
            self.runs.len() as u32 - 1
        }
    }

    /// Makes a run of what was collected in `open`.
    #[cold]
    #[inline(never)]
    fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        // The first one stays first among equals, so that `pop` takes out what was returned as first.
        let first = self.open.swap_remove(self.open_first);
        self.open.sort_unstable_by_key(|late| core::cmp::Reverse(late.deadline));
        self.open.push(first);
        let run = self.keep_run(self.open.as_slice().into());
        self.open.clear();
        self.open_first = 0;
        self.add_head(run);
    }

    /// Frees a run that was used up, and all memory with the last one.
    #[cold]
    fn end_run(&mut self) {
        let Some(last) = self.heads.pop() else { return };
        let ended = self.heads.first().map_or(last, |first| *first);
        if let Some(first) = self.heads.first_mut() {
            *first = last;
            self.sift_first();
        }
        self.runs[ended.run as usize] = Run::default();
        self.free.push(ended.run);
        if self.len == 0 {
            *self = Self::EMPTY;
        }
    }

    /// Adds the first reference of a run to the heap.
    fn add_head(&mut self, run: u32) {
        let Some(first) = self.runs[run as usize].references.last() else { return };
        let head = Head { deadline: first.deadline, run };
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

    /// Restores the order of the heap after the deadline of its first head has grown.
    fn sift_first(&mut self) {
        let heads = &mut self.heads[..];
        let Some(&head) = heads.first() else { return };
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

    /// Begins a sweep, if there are references.
    pub(super) fn begin_sweep(&mut self) {
        self.swept = (self.len > 0).then_some(Swept::Run(0, 0));
    }

    pub(super) fn is_being_swept(&self) -> bool {
        self.swept.is_some()
    }

    /// Examines as many references as a chunk holds, and drops those that are not `live`. Returns
    /// the number of dropped references.
    pub(super) fn sweep_step(&mut self, live: impl Fn(Late) -> bool) -> usize {
        let dropped = match self.swept {
            None => 0,
            Some(Swept::Run(number, from)) => self.sweep_run(number, from, live),
            Some(Swept::Span(number, from)) => self.sweep_span(number, from, live),
        };
        self.len -= dropped;
        if self.len == 0 {
            *self = Self::EMPTY;
        }
        dropped
    }

    fn sweep_run(&mut self, number: usize, from: usize, live: impl Fn(Late) -> bool) -> usize {
        let Some(run) = self.runs.get_mut(number) else {
            self.swept = Some(Swept::Span(self.reached, 0));
            return 0;
        };
        // The last reference of the vector is the first of the run, which the heap knows: it stays.
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
        self.swept = Some(Swept::Run(number, to));
        if to == end {
            if run.gone > run.references.len() / 2 {
                run.references.retain(|late| late.index != GONE);
                run.references.shrink_to_fit();
                run.gone = 0;
            }
            self.swept = Some(Swept::Run(number + 1, 0));
        }
        dropped
    }

    fn sweep_span(&mut self, number: usize, from: usize, live: impl Fn(Late) -> bool) -> usize {
        let Some(span) = self.spans.get_mut(number) else {
            self.swept = None;
            return 0;
        };
        let references = &mut span.references;
        let (mut place, mut dropped) = (from, 0);
        while place < references.len() && place + dropped < from + CHUNK {
            if live(references[place]) {
                place += 1;
            } else {
                references.swap_remove(place);
                dropped += 1;
            }
        }
        self.swept = Some(Swept::Span(number, place));
        if place >= references.len() {
            if references.len() < references.capacity() / 2 && references.capacity() > KEPT {
                references.shrink_to_fit();
            }
            self.swept = Some(Swept::Span(number + 1, 0));
        }
        dropped
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Late> {
        let runs = self.runs.iter().flat_map(|run| &run.references);
        let spans = self.spans.iter().flat_map(|span| &span.references);
        runs.filter(|late| late.index != GONE).chain(&self.open).chain(spans).copied()
    }

    pub(super) fn memory_usage(&self) -> usize {
        let references = self.runs.iter().map(|run| run.references.capacity()).sum::<usize>();
        let collected = self.spans.iter().map(|span| span.references.capacity()).sum::<usize>();
        (references + collected + self.open.capacity()) * size_of::<Late>()
            + self.spans.capacity() * size_of::<Span>()
            + self.runs.capacity() * size_of::<Run>()
            + self.free.capacity() * size_of::<u32>()
            + self.heads.capacity() * size_of::<Head>()
    }

    /// Panics if a reference is in the wrong span, a run is not sorted, or the heap does not know the
    /// first reference of a run.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.len, self.iter().count(), "the length of the backlog");
        let used = self.runs.iter().filter(|run| !run.references.is_empty()).count();
        let ahead = self.spans.iter().map(|span| span.runs.len()).sum::<usize>();
        assert_eq!(used, self.heads.len() + ahead, "runs and their heads");
        for (at, head) in self.heads.iter().enumerate() {
            let above = &self.heads[at.saturating_sub(1) / 2];
            assert!(above.deadline <= head.deadline, "the heap of runs");
            let first = self.check_run(head.run);
            assert_eq!(first, head.deadline, "the head of a run");
        }
        for (number, span) in self.spans.iter().enumerate() {
            assert!(
                span.is_empty() || number >= self.reached.max(self.next),
                "span {number} was missed"
            );
            let runs = span.runs.iter().map(|run| self.check_run(*run));
            for deadline in runs.chain(span.references.iter().map(|late| late.deadline)) {
                assert_eq!(self.span_of(deadline), number, "the span of a reference");
                assert!(span.earliest <= deadline, "span {number} comes too late");
            }
        }
        let first = self.open.iter().map(|late| late.deadline).min();
        let known = self.open.get(self.open_first).map(|late| late.deadline);
        assert_eq!(known, first, "the first collected reference");
    }

    /// Returns the first deadline of a run.
    fn check_run(&self, number: u32) -> u64 {
        let run = &self.runs[number as usize];
        let first = run.references.last().expect("a run that is not used up");
        assert!(first.index != GONE, "the first reference of a run was dropped");
        let sorted = run.references.is_sorted_by_key(|late| core::cmp::Reverse(late.deadline));
        assert!(sorted, "a run is not sorted");
        let gone = run.references.iter().filter(|late| late.index == GONE).count();
        assert_eq!(gone, run.gone, "dropped references of a run");
        first.deadline
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    /// A generator of numbers (xorshift), so that each run is the same.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    /// A backlog beside the set of its references that are not stale.
    struct Case {
        backlog: Backlog,
        live: BTreeSet<(u64, u32)>,
        next_index: u32,
    }

    impl Case {
        fn new(start: u64, end: u64) -> Self {
            let mut backlog = Backlog::EMPTY;
            backlog.divide(start, end);
            Self { backlog, live: BTreeSet::new(), next_index: 0 }
        }

        fn push(&mut self, deadline: u64) {
            self.backlog.push(Late { deadline, index: self.next_index, stamp: 0 });
            self.live.insert((deadline, self.next_index));
            self.next_index += 1;
        }

        /// Takes out everything up to a tick, and compares it with the set.
        fn pop_until(&mut self, tick: u64) {
            let mut last = 0;
            loop {
                let first = self.backlog.first_until(tick);
                let earliest = self.backlog.earliest();
                let late = self.backlog.pop_until(tick, |_| ());
                assert_eq!(first.map(|it| it.index), late.map(|it| it.index));
                let Some(late) = late else { break };
                assert!(earliest.is_some_and(|earliest| earliest <= late.deadline));
                assert!((last..=tick).contains(&late.deadline), "{} after {last}", late.deadline);
                last = late.deadline;
                let is_live = self.live.remove(&(late.deadline, late.index));
                assert!(is_live || self.live.first().is_none_or(|it| it.0 >= last));
            }
            assert!(self.live.first().is_none_or(|first| first.0 > tick), "one was left out");
            self.backlog.check_invariants();
        }

        /// Makes a part of the references stale, and sweeps all.
        fn cancel(&mut self, random: &mut Random, percent: u64) {
            self.live.retain(|_| random.below(100) >= percent);
            let before = self.backlog.len;
            self.backlog.begin_sweep();
            let mut dropped = 0;
            while self.backlog.is_being_swept() {
                let live = &self.live;
                dropped +=
                    self.backlog.sweep_step(|late| live.contains(&(late.deadline, late.index)));
            }
            assert_eq!(self.backlog.len, before - dropped);
            self.backlog.check_invariants();
        }
    }

    #[test]
    fn references_come_in_order_however_they_are_spread() {
        let random = &mut Random(7);
        let day = 86_400_000;
        let spreads: [fn(&mut Random) -> u64; 5] = [
            |random| 1 + random.below(86_400_000),
            |random| 5_000_000 + random.below(60_000),
            |random| [3, 80_000_000, 86_399_999][random.below(3) as usize],
            |random| 1 << random.below(26),
            |_| u64::MAX,
        ];
        for spread in spreads {
            let mut case = Case::new(0, day);
            for _ in 0..3 * RUN {
                case.push(spread(random));
            }
            case.backlog.check_invariants();
            for part in 1..=8 {
                case.pop_until(day / 8 * part);
                for _ in 0..100 {
                    case.push(spread(random).max(day / 8 * part));
                }
                case.cancel(random, 20);
            }
            case.pop_until(u64::MAX);
            assert_eq!((case.backlog.len, case.backlog.memory_usage()), (0, 0));
        }
    }

    #[test]
    fn few_references_need_no_spans_and_more_move_to_them() {
        let random = &mut Random(3);
        let mut case = Case::new(1_000, 9_000_000);
        for round in 0..40 {
            for _ in 0..(SPREAD / 20) {
                case.push(1_000 + random.below(9_000_000));
            }
            // The first ones are sorted before there are spans.
            case.pop_until(1_000 + round * 2_000);
            let is_spread = !case.backlog.spans.is_empty();
            assert!(is_spread || case.backlog.len < SPREAD, "{}", case.backlog.len);
        }
        assert!(!case.backlog.spans.is_empty());
        case.cancel(random, 95);
        case.pop_until(u64::MAX);
        assert_eq!(case.backlog.memory_usage(), 0);
    }

    #[test]
    fn a_sweep_that_drops_everything_frees_the_spans() {
        let mut case = Case::new(0, 1 << 20);
        for deadline in 0..2 * RUN as u64 {
            case.push(deadline * 100);
        }
        case.cancel(&mut Random(1), 100);
        case.pop_until(u64::MAX);
        assert_eq!((case.backlog.len, case.backlog.memory_usage()), (0, 0));
    }
}
