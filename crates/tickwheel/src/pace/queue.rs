//! Tasks that wait for their start: higher priorities first, and first in, first out among equals.
//!
//! All tasks of a pacer are in one [`Pool`]; a queue is lists through them, one for each priority
//! that occurs. Most queues have one.
//!
//! Ground rules:
//! * A task is in exactly one list: while it waits, in that of its priority; from when it is let go
//!   until the pacer has seen when it began, in its lane's list of open starts. Afterwards in none.
//! * `top` is the list with the highest priority, and empty only if the queue is. `rest` has the
//!   others, none empty, the highest last.

use std::sync::Arc;
use std::vec::Vec;

use super::pool::Pool;
use super::start::Start;
use crate::timer::Job;
use crate::wheel::arena::NIL;

pub(super) type Tasks = Pool<Task>;

/// What was submitted.
pub(super) struct Task {
    /// No two tasks of a pacer ever have the same.
    pub(super) id: u64,
    pub(super) lane: u32,
    pub(super) work: Work,
    pub(super) priority: i8,
    /// Counts the tasks of a list.
    number: u32,
    previous: u32,
    next: u32,
}

pub(super) enum Work {
    /// Waits: a closure.
    Call(Job),
    /// Waits: somebody who asked for a permit.
    #[cfg(feature = "async")]
    Permit(Arc<Start>),
    /// Was let go, and is an open start.
    Open(Arc<Start>),
    /// Has begun.
    Begun,
    /// Was handed back when the pacer was stopped.
    HandedBack,
}

impl Work {
    /// Whether it still waits.
    pub(super) fn waits(&self) -> bool {
        !matches!(self, Self::Open(_) | Self::Begun | Self::HandedBack)
    }
}

impl Task {
    pub(super) fn new(id: u64, lane: u32, priority: i8, work: Work) -> Self {
        Self { id, lane, work, priority, number: 0, previous: NIL, next: NIL }
    }
}

/// A list through tasks.
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
    pub(super) fn push(&mut self, tasks: &mut Tasks, task: u32) {
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

    #[inline]
    pub(super) fn remove(&mut self, tasks: &mut Tasks, task: u32) {
        let Task { previous, next, .. } = tasks[task];
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

    /// The tasks, in order. The list may lose the one that was last given.
    pub(super) fn each(&self, tasks: &mut Tasks, mut task: impl FnMut(&mut Tasks, u32)) {
        let mut at = self.first;
        while at != NIL {
            let next = tasks[at].next;
            task(tasks, at);
            at = next;
        }
    }

    /// How many are ahead of a task.
    fn position(&self, tasks: &Tasks, task: u32) -> usize {
        let number = |task: u32| tasks[task].number;
        let ahead = number(task).wrapping_sub(number(self.first));
        let whole = number(self.last).wrapping_sub(number(self.first)).wrapping_add(1) == self.len;
        if whole {
            return ahead as usize;
        }
        // Some were cancelled: count, from the end that is nearer.
        let behind = number(self.last).wrapping_sub(number(task));
        let walk = |mut at: u32, next: fn(&Task) -> u32| {
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
    pub(super) fn push(&mut self, tasks: &mut Tasks, task: u32) {
        let priority = tasks[task].priority;
        self.make_class(priority).push(tasks, task);
    }

    /// The list for a priority.
    #[inline]
    fn make_class(&mut self, priority: i8) -> &mut List {
        if self.is_empty() {
            self.top.priority = priority;
        }
        if priority == self.top.priority { &mut self.top.list } else { self.make_other(priority) }
    }

    #[cold]
    fn make_other(&mut self, priority: i8) -> &mut List {
        let class = Class { priority, list: List::EMPTY };
        if priority > self.top.priority {
            self.rest.push(core::mem::replace(&mut self.top, class));
            return &mut self.top.list;
        }
        let found = self.rest.binary_search_by_key(&priority, |class| class.priority);
        let at = found.unwrap_or_else(|at| {
            self.rest.insert(at, class);
            at
        });
        &mut self.rest[at].list
    }

    /// The task to start next.
    #[inline]
    pub(super) fn pop(&mut self, tasks: &mut Tasks) -> Option<u32> {
        let task = self.top.list.first;
        if task == NIL {
            return None;
        }
        self.top.list.remove(tasks, task);
        self.fill_top();
        Some(task)
    }

    /// Makes the highest of the others the top, if that is empty.
    #[inline]
    fn fill_top(&mut self) {
        if self.top.list.len == 0
            && let Some(next) = self.rest.pop()
        {
            self.top = next;
        }
    }

    /// Takes a task out that waits.
    pub(super) fn remove(&mut self, tasks: &mut Tasks, task: u32) {
        let priority = tasks[task].priority;
        if priority == self.top.priority {
            self.top.list.remove(tasks, task);
            self.fill_top();
        } else if let Ok(at) = self.place_of(priority) {
            let list = &mut self.rest[at].list;
            list.remove(tasks, task);
            if list.len == 0 {
                self.rest.remove(at);
            }
        }
    }

    fn place_of(&self, priority: i8) -> Result<usize, usize> {
        self.rest.binary_search_by_key(&priority, |class| class.priority)
    }

    /// How many are ahead of a task that waits.
    pub(super) fn position(&self, tasks: &Tasks, task: u32) -> usize {
        let priority = tasks[task].priority;
        if priority == self.top.priority {
            return self.top.list.position(tasks, task);
        }
        let higher = self.rest.iter().filter(|class| class.priority > priority);
        let ahead = self.top.list.len() + higher.map(|class| class.list.len()).sum::<usize>();
        let at = self.place_of(priority).expect("a task that waits has a list");
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
        fn a_queue_is_a_list_sorted_by_priority(
            ops in prop::collection::vec((0..4_u8, -2..3_i8, any::<prop::sample::Index>()), 1..80)
        ) {
            let mut tasks = Tasks::new();
            let mut queue = Queue::new();
            let mut plain: Vec<(i8, u32)> = Vec::new();
            for (op, priority, which) in ops {
                match op {
                    0 | 1 => {
                        let task = tasks.insert(Task::new(0, 0, priority, Work::Begun));
                        queue.push(&mut tasks, task);
                        let at = plain.partition_point(|&(other, _)| other >= priority);
                        plain.insert(at, (priority, task));
                    }
                    2 if !plain.is_empty() => {
                        let (_, task) = plain.remove(which.index(plain.len()));
                        queue.remove(&mut tasks, task);
                        tasks.remove(task);
                    }
                    _ => {
                        let first = (!plain.is_empty()).then(|| plain.remove(0).1);
                        prop_assert_eq!(queue.pop(&mut tasks), first);
                        first.map(|task| tasks.remove(task));
                    }
                }
                prop_assert_eq!(queue.len(), plain.len());
                prop_assert_eq!(queue.is_empty(), plain.is_empty());
                for (position, &(_, task)) in plain.iter().enumerate() {
                    prop_assert_eq!(queue.position(&tasks, task), position);
                }
            }
        }
    }
}
