//! Submitted tasks, and a queue of them: higher priorities first, first in, first out within one.
//!
//! All submissions of a pacer are in one [`Pool`]; a queue is a set of linked lists through them,
//! one for each priority in use. Most queues have one list.
//!
//! Ground rules:
//! * A submission is in at most one list: in its priority's while it waits, then in its lane's list
//!   of open starts from its release until the pacer has seen when it began.
//! * Within a list of one priority, ids increase: a task that is tried again returns to its place.
//! * `top` is the list with the highest priority, and empty only if the queue is. `rest` has the
//!   other lists, none empty, the highest priority last.

use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use super::permit::Start;
use super::ticket::Attempt;
use crate::timer::Job;
use crate::wheel::arena::NIL;
use crate::wheel::pool::Pool;

pub(super) type Submissions = Pool<Submission>;

/// A task, or a future that waits for a permit, from its acceptance to its end.
pub(super) struct Submission {
    /// Unique among all submissions of a pacer, and increasing.
    pub(super) id: u64,
    pub(super) lane: u32,
    pub(super) stage: Stage,
    pub(super) priority: i8,
    /// Consecutive within a list, except where members left it.
    number: u32,
    previous: u32,
    next: u32,
}

/// How far a submission has come.
pub(super) enum Stage {
    /// A closure that waits.
    Call(Job),
    /// A closure that waits, and may ask for another attempt.
    Attempts(Box<dyn FnMut() -> Attempt + Send>),
    /// A future that waits for a permit.
    Permit(Arc<Start>),
    /// Released: an open start.
    Open(Arc<Start>),
    /// Running.
    Begun,
    /// Handed back when the pacer was stopped.
    HandedBack,
}

impl Stage {
    /// Returns `true` if the submission waits for its start.
    pub(super) fn waits(&self) -> bool {
        !matches!(self, Self::Open(_) | Self::Begun | Self::HandedBack)
    }
}

impl Submission {
    pub(super) fn new(id: u64, lane: u32, priority: i8, stage: Stage) -> Self {
        Self { id, lane, stage, priority, number: 0, previous: NIL, next: NIL }
    }
}

/// A linked list through submissions.
#[derive(Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL, len: 0 };

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn push(&mut self, tasks: &mut Submissions, task: u32) {
        let last = self.last;
        let number = if last == NIL {
            self.first = task;
            0
        } else {
            let last = &mut tasks[last];
            last.next = task;
            last.number.wrapping_add(1)
        };
        let pushed = &mut tasks[task];
        (pushed.previous, pushed.next, pushed.number) = (last, NIL, number);
        self.last = task;
        self.len += 1;
    }

    /// Inserts a task before all members with a greater id. Walks from the front: only tasks that
    /// are tried again as well can be ahead of it.
    fn insert_by_id(&mut self, tasks: &mut Submissions, task: u32) {
        let id = tasks[task].id;
        let mut next = self.first;
        while next != NIL && tasks[next].id < id {
            // Those ahead make room for its number.
            let ahead = &mut tasks[next];
            ahead.number = ahead.number.wrapping_sub(1);
            next = ahead.next;
        }
        if next == NIL {
            return self.push(tasks, task);
        }
        let Submission { previous, number, .. } = tasks[next];
        tasks[next].previous = task;
        match previous {
            NIL => self.first = task,
            previous => tasks[previous].next = task,
        }
        let inserted = &mut tasks[task];
        (inserted.previous, inserted.next) = (previous, next);
        inserted.number = number.wrapping_sub(1);
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, tasks: &mut Submissions, task: u32) {
        let Submission { previous, next, .. } = tasks[task];
        match previous {
            NIL => self.first = next,
            previous => tasks[previous].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => tasks[next].previous = previous,
        }
        self.len -= 1;
    }

    /// Visits the members in order. The visitor may remove the member that it is given.
    pub(super) fn each(
        &self,
        tasks: &mut Submissions,
        mut visit: impl FnMut(&mut Submissions, u32),
    ) {
        let mut at = self.first;
        while at != NIL {
            let next = tasks[at].next;
            visit(tasks, at);
            at = next;
        }
    }

    /// Returns how many members are ahead of a task.
    fn position(&self, tasks: &Submissions, task: u32) -> usize {
        let number = |task: u32| tasks[task].number;
        let ahead = number(task).wrapping_sub(number(self.first));
        let is_gapless =
            number(self.last).wrapping_sub(number(self.first)).wrapping_add(1) == self.len;
        if is_gapless {
            return ahead as usize;
        }
        // Some were cancelled: count from the nearer end.
        let behind = number(self.last).wrapping_sub(number(task));
        let walk = |mut at: u32, next: fn(&Submission) -> u32| {
            let mut count = 0;
            while at != task {
                at = next(&tasks[at]);
                count += 1;
            }
            count
        };
        if ahead <= behind {
            walk(self.first, |task| task.next)
        } else {
            self.len() - 1 - walk(self.last, |task| task.previous)
        }
    }
}

/// The waiting tasks of one priority.
struct Class {
    priority: i8,
    list: List,
}

pub(super) struct Queue {
    top: Class,
    rest: Vec<Class>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { top: Class { priority: 0, list: List::EMPTY }, rest: Vec::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.top.list.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.top.list.len() + self.rest.iter().map(|class| class.list.len()).sum::<usize>()
    }

    #[inline]
    pub(super) fn push(&mut self, tasks: &mut Submissions, task: u32) {
        let priority = tasks[task].priority;
        self.list_for(priority).push(tasks, task);
    }

    /// Returns a task to its place: ahead of all that were submitted after it.
    pub(super) fn put_back(&mut self, tasks: &mut Submissions, task: u32) {
        let priority = tasks[task].priority;
        self.list_for(priority).insert_by_id(tasks, task);
    }

    /// Returns the list of a priority, which it makes if there is none.
    #[inline]
    fn list_for(&mut self, priority: i8) -> &mut List {
        if self.is_empty() {
            self.top.priority = priority;
        }
        if priority == self.top.priority { &mut self.top.list } else { self.list_beside(priority) }
    }

    #[cold]
    fn list_beside(&mut self, priority: i8) -> &mut List {
        let class = Class { priority, list: List::EMPTY };
        if priority > self.top.priority {
            self.rest.push(core::mem::replace(&mut self.top, class));
            return &mut self.top.list;
        }
        let at = self.position_of(priority).unwrap_or_else(|at| {
            self.rest.insert(at, class);
            at
        });
        &mut self.rest[at].list
    }

    /// Removes and returns the task to start next.
    #[inline]
    pub(super) fn pop(&mut self, tasks: &mut Submissions) -> Option<u32> {
        let task = self.top.list.first;
        if task == NIL {
            return None;
        }
        self.top.list.remove(tasks, task);
        self.fill_top();
        Some(task)
    }

    /// Makes the highest other list the top, if the top is empty.
    #[inline]
    fn fill_top(&mut self) {
        if self.top.list.len == 0
            && let Some(next) = self.rest.pop()
        {
            self.top = next;
        }
    }

    /// Removes a task that waits.
    pub(super) fn remove(&mut self, tasks: &mut Submissions, task: u32) {
        let priority = tasks[task].priority;
        if priority == self.top.priority {
            self.top.list.remove(tasks, task);
            self.fill_top();
        } else if let Ok(at) = self.position_of(priority) {
            let list = &mut self.rest[at].list;
            list.remove(tasks, task);
            if list.len == 0 {
                self.rest.remove(at);
            }
        }
    }

    fn position_of(&self, priority: i8) -> Result<usize, usize> {
        self.rest.binary_search_by_key(&priority, |class| class.priority)
    }

    /// Returns how many tasks are ahead of one that waits.
    pub(super) fn position(&self, tasks: &Submissions, task: u32) -> usize {
        let priority = tasks[task].priority;
        if priority == self.top.priority {
            return self.top.list.position(tasks, task);
        }
        let higher = self.rest.iter().filter(|class| class.priority > priority);
        let ahead = self.top.list.len() + higher.map(|class| class.list.len()).sum::<usize>();
        let at = self.position_of(priority).expect("a waiting task is in its priority's list");
        ahead + self.rest[at].list.position(tasks, task)
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.rest.capacity() * size_of::<Class>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_queue_is_a_list_sorted_by_priority_and_id(
            ops in prop::collection::vec((0..6_u8, -2..3_i8, any::<prop::sample::Index>()), 1..120)
        ) {
            let mut tasks = Submissions::new();
            let mut queue = Queue::new();
            let mut plain: Vec<(i8, u64, u32)> = Vec::new();
            let mut popped: Vec<(i8, u64, u32)> = Vec::new();
            for (id, (op, priority, which)) in (0..).zip(ops) {
                match op {
                    0 | 1 => {
                        let task = Submission::new(id, 0, priority, Stage::Begun);
                        let task = tasks.insert(task);
                        queue.push(&mut tasks, task);
                        plain.push((priority, id, task));
                    }
                    2 if !plain.is_empty() => {
                        let (_, _, task) = plain.remove(which.index(plain.len()));
                        queue.remove(&mut tasks, task);
                        tasks.remove(task);
                    }
                    3 if !popped.is_empty() => {
                        let again = popped.remove(which.index(popped.len()));
                        queue.put_back(&mut tasks, again.2);
                        plain.push(again);
                    }
                    _ => {
                        let first = (!plain.is_empty()).then(|| plain.remove(0));
                        prop_assert_eq!(queue.pop(&mut tasks), first.map(|(_, _, task)| task));
                        popped.extend(first);
                    }
                }
                plain.sort_by_key(|&(priority, id, _)| (-i32::from(priority), id));
                prop_assert_eq!(queue.len(), plain.len());
                prop_assert_eq!(queue.is_empty(), plain.is_empty());
                for (position, &(_, _, task)) in plain.iter().enumerate() {
                    prop_assert_eq!(queue.position(&tasks, task), position);
                }
            }
        }
    }
}
