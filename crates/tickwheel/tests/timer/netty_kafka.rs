//! The assertions of the tests of Netty's `HashedWheelTimer` and of Kafka's `SystemTimer` and
//! `TimingWheel`, applied to this timer. Each test names the original. Where the originals sleep,
//! these advance a manual clock; where the originals allow early runs, these do not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tickwheel::{
    BuildError, ManualClock, ScheduleError, Task, Timeout, Timer, TimerState, WheelKind,
};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

fn manual(kind: WheelKind, tick: Duration) -> (ManualClock, Timer) {
    let clock = ManualClock::new();
    let timer = Timer::builder().wheel(kind).tick(tick).clock(clock.clone()).build().unwrap();
    (clock, timer)
}

/// The numbers of the tasks that have run.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u32>>>);

impl Output {
    fn task(&self, number: u32) -> impl FnMut() + Send + Clone + use<> {
        let output = self.clone();
        move || output.0.lock().unwrap().push(number)
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

mod netty {
    use super::*;

    /// `testScheduleTimeoutShouldNotRunBeforeDelay`
    #[test]
    fn a_timeout_does_not_run_before_its_delay() {
        let (clock, timer) = manual(WheelKind::Hashed { slots: 512 }, 100 * MS);
        let output = Output::default();
        let timeout = timer.after(10 * S, output.task(1)).unwrap();
        clock.advance(3 * S);
        assert!(!timeout.is_expired() && output.take().is_empty());
        clock.advance(Duration::from_nanos(6_999_999_999));
        assert!(!timeout.is_expired() && output.take().is_empty());
        assert_eq!(timer.stop().len(), 1);
    }

    /// `testScheduleTimeoutShouldRunAfterDelay`
    #[test]
    fn a_timeout_runs_after_its_delay() {
        let timer = Timer::new();
        let (sender, receiver) = mpsc::channel();
        let timeout = timer.after(20 * MS, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
        assert!(timeout.is_expired());
        assert!(timer.stop().is_empty());
    }

    /// `testStopTimer`: pending tasks are handed back, others are not, and a stop waits only for
    /// running tasks.
    #[test]
    fn stop_hands_back_the_unprocessed() {
        let (clock, processed) = manual(WheelKind::default(), MS);
        for _ in 0..3 {
            processed.after(100 * MS, || {}).unwrap();
        }
        clock.advance(100 * MS);
        assert_eq!(processed.stop().len(), 0, "all were processed");

        let unprocessed = Timer::new();
        for n in 0..5_u32 {
            unprocessed.after((5 + n) * 3_600 * S, || {}).unwrap();
        }
        thread::sleep(2 * MS);
        let left = unprocessed.stop();
        assert_eq!(left.len(), 5);
        assert!(left.is_sorted_by_key(tickwheel::Unfired::deadline));
        assert!(unprocessed.stop().is_empty());
    }

    /// `testTimerShouldThrowExceptionAfterShutdownForNewTimeouts`
    #[test]
    fn a_stopped_timer_refuses_new_timeouts() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        for _ in 0..3 {
            timer.after(MS, || {}).unwrap();
        }
        clock.advance(MS);
        timer.stop();
        assert_eq!(timer.after(MS, || {}).unwrap_err(), ScheduleError::Stopped);
        assert!(ScheduleError::Stopped.to_string().contains("stopped"));
    }

    /// `testTimerOverflowWheelLength`: a task that schedules itself again passes round the ring
    /// many times, however few slots it has.
    #[test]
    fn a_task_that_comes_back_goes_round_the_ring() {
        fn again(timer: &Timer, output: Output, left: u32) {
            output.task(left)();
            if left > 0 {
                let next = timer.clone();
                timer.after(100 * MS, move || again(&next, output, left - 1)).unwrap();
            }
        }
        for slots in [1, 2, 32] {
            let (clock, timer) = manual(WheelKind::Hashed { slots }, 10 * MS);
            let output = Output::default();
            let (next, out) = (timer.clone(), output.clone());
            timer.after(100 * MS, move || again(&next, out, 100)).unwrap();
            for _ in 0..101 {
                clock.advance(100 * MS);
            }
            assert_eq!(output.take(), (0..=100).rev().collect::<Vec<_>>());
        }
    }

    /// `testExecutionOnTime`: at or after the deadline, and within a tick of it.
    #[test]
    fn execution_is_on_time() {
        let (tick, delay) = (200 * MS, 125 * MS);
        let (clock, timer) = manual(WheelKind::Hashed { slots: 64 }, tick);
        let latenesses = Arc::new(Mutex::new(Vec::new()));
        for n in 0..1_000_u32 {
            let (clock, list) = (clock.clone(), latenesses.clone());
            let due = clock.now() + delay + n * 7 * MS;
            let task = move || list.lock().unwrap().push(clock.now().checked_duration_since(due));
            timer.after(delay + n * 7 * MS, task).unwrap();
        }
        clock.advance(10 * S);
        let latenesses = latenesses.lock().unwrap();
        assert_eq!(latenesses.len(), 1_000);
        assert!(latenesses.iter().all(|late| late.expect("never early") < tick));
    }

    /// `testExecutionOnTaskExecutor`
    #[test]
    fn an_executor_runs_each_timeout() {
        let (count, name) = (Arc::new(AtomicUsize::new(0)), "executor of the test");
        let executed = count.clone();
        let timer = Timer::builder()
            .executor(move |task: Task| {
                executed.fetch_add(1, Ordering::SeqCst);
                thread::Builder::new().name(name.into()).spawn(move || task.run()).unwrap();
            })
            .build()
            .unwrap();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..10 {
            let sender = sender.clone();
            let task = move || sender.send(thread::current().name() == Some(name)).unwrap();
            timer.after(MS, task).unwrap();
        }
        for _ in 0..10 {
            assert!(receiver.recv_timeout(PATIENCE).unwrap(), "on the executor's thread");
        }
        timer.stop();
        assert_eq!(count.load(Ordering::SeqCst), 10);
    }

    /// `testRejectedExecutionExceptionWhenTooManyTimeoutsAreAddedBackToBack`
    #[test]
    fn too_many_timeouts_are_rejected() {
        let timer = Timer::builder().tick(100 * MS).max_pending(2).build().unwrap();
        timer.after(3_600 * S, || {}).unwrap();
        timer.after(3_600 * S, || {}).unwrap();
        let error = timer.after(MS, || {}).unwrap_err();
        assert_eq!(error, ScheduleError::Full { limit: 2, pending: 2 });
        assert_eq!(timer.stop().len(), 2);
    }

    /// `testNewTimeoutShouldStopThrowingRejectedExecutionExceptionWhenExistingTimeoutIsCancelled`:
    /// and not only after the next tick.
    #[test]
    fn a_cancelled_timeout_makes_room() {
        let timer = Timer::builder().tick(3_600 * S).max_pending(2).build().unwrap();
        timer.after(5 * 3_600 * S, || {}).unwrap();
        let cancelled = timer.after(5 * 3_600 * S, || {}).unwrap();
        timer.after(MS, || {}).unwrap_err();
        assert!(cancelled.cancel());
        let second = timer.after(5 * 3_600 * S, || {}).unwrap();
        assert!(!second.is_cancelled());
        assert_eq!(timer.stop().len(), 2);
    }

    /// `testNewTimeoutShouldStopThrowingRejectedExecutionExceptionWhenExistingTimeoutIsExecuted`
    #[test]
    fn an_executed_timeout_makes_room() {
        let clock = ManualClock::new();
        let timer = Timer::builder().max_pending(2).clock(clock.clone()).build().unwrap();
        timer.after(5 * S, || {}).unwrap();
        let output = Output::default();
        timer.after(90 * MS, output.task(1)).unwrap();
        timer.after(MS, || {}).unwrap_err();
        clock.advance(90 * MS);
        assert_eq!(output.take(), [1]);
        timer.after(MS, || {}).unwrap();
        timer.after(MS, || {}).unwrap_err();
    }

    /// `reportPendingTimeouts`
    #[test]
    fn pending_timeouts_are_reported() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let [first, second] = [(); 2].map(|()| timer.after(100 * S, || {}).unwrap());
        timer.after(S, || {}).unwrap();
        assert_eq!(timer.pending(), 3);
        first.cancel();
        second.cancel();
        second.cancel();
        assert_eq!(timer.pending(), 1, "at once, not with the next tick");
        clock.advance(S);
        assert_eq!(timer.pending(), 0);
    }

    /// `testOverflow`: the longest delay is far in the future and not in the past.
    #[test]
    fn the_longest_delay_does_not_overflow() {
        let (clock, timer) = manual(WheelKind::Hashed { slots: 512 }, MS);
        let output = Output::default();
        let most_millis = Duration::from_millis(u64::MAX);
        clock.advance(S);
        let timeouts: Vec<Timeout> = [Duration::MAX, most_millis, Duration::from_secs(u64::MAX)]
            .into_iter()
            .map(|delay| timer.after(delay, output.task(1)).unwrap())
            .collect();
        clock.advance(1_000 * S);
        assert!(output.take().is_empty());
        assert!(timeouts.iter().all(|timeout| !timeout.is_expired() && timeout.cancel()));
    }

    /// `testStopTimerCancelsPendingTasks`, with our rule: a task that is handed back belongs to the
    /// caller. It does not run by itself, and its handle says unfired, not cancelled.
    #[test]
    fn a_handed_back_task_is_the_callers() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let output = Output::default();
        let timeout = timer.after(5 * S, output.task(1)).unwrap();
        let left = timer.stop();
        clock.advance(10 * S);
        assert!(output.take().is_empty());
        assert!(timeout.is_unfired() && !timeout.is_expired() && !timeout.cancel());
        assert!(left.into_iter().all(tickwheel::Unfired::run));
        assert_eq!(output.take(), [1]);
    }

    /// `cancelWillCallCallback`: here the closure is dropped before `cancel` returns, so a captured
    /// value can observe it.
    #[test]
    fn a_cancelled_task_is_told_by_its_destructor() {
        struct Callback(Output);
        impl Drop for Callback {
            fn drop(&mut self) {
                self.0.task(1)();
            }
        }
        let (_clock, timer) = manual(WheelKind::default(), MS);
        let output = Output::default();
        let callback = Callback(output.clone());
        let timeout = timer.after(90 * MS, move || drop(callback)).unwrap();
        assert_eq!((timer.pending(), output.take()), (1, vec![]));
        assert!(timeout.cancel());
        assert_eq!((timer.pending(), output.take()), (0, vec![1]));
    }

    /// `testPendingTimeoutsShouldBeCountedCorrectlyWhenTimeoutCancelledWithinGoalTick`: cancelled
    /// by another task of the same tick.
    #[test]
    fn a_timeout_cancelled_in_its_own_tick_is_counted_once() {
        let (clock, timer) = manual(WheelKind::default(), S);
        let handles: Arc<Mutex<Vec<Timeout>>> = Arc::default();
        let cancelled = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let (list, count) = (handles.clone(), cancelled.clone());
            let task = move || {
                let successes = list.lock().unwrap().iter().filter(|other| other.cancel()).count();
                count.fetch_add(successes, Ordering::SeqCst);
            };
            let timeout = timer.after(200 * MS, task).unwrap();
            handles.lock().unwrap().push(timeout);
        }
        clock.advance(S);
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.cancelled, stats.pending), (1, 9, 0));
        assert_eq!(cancelled.load(Ordering::SeqCst), 9);
    }

    /// The constructor's checks of ticks and slots, and their messages.
    #[test]
    fn impossible_values_are_refused_by_name() {
        let zero = Timer::builder().tick(Duration::ZERO).build().unwrap_err();
        assert_eq!(zero, BuildError::Tick(Duration::ZERO));
        assert!(zero.to_string().contains("0ns"), "{zero}");
        let endless = Timer::builder().tick(Duration::MAX).build().unwrap_err();
        assert_eq!(endless, BuildError::Tick(Duration::MAX));
        for slots in [0, usize::MAX] {
            let error = Timer::builder().wheel(WheelKind::Hashed { slots }).build().unwrap_err();
            assert_eq!(error, BuildError::Slots(slots));
            assert!(error.to_string().contains(&slots.to_string()), "{error}");
        }
        assert_eq!(Timer::builder().workers(0).build().unwrap_err(), BuildError::Workers(0));
        assert!(Timer::builder().tick(Duration::from_micros(1)).build().is_ok());
        assert!(Timer::builder().wheel(WheelKind::Hashed { slots: 1 }).build().is_ok());
    }

    /// The worker's state: initial, started, shut down; and started at most once.
    #[test]
    fn states_follow_each_other() {
        let timer = Timer::new();
        assert_eq!(timer.state(), TimerState::NotStarted);
        timer.start().unwrap();
        timer.start().unwrap();
        assert_eq!(timer.state(), TimerState::Running);
        timer.stop();
        assert_eq!(timer.state(), TimerState::Stopped);
        assert_eq!(timer.start().unwrap_err(), ScheduleError::Stopped);
    }

    /// An exception in a task is logged, and the worker continues.
    #[test]
    fn a_task_that_throws_does_not_kill_the_worker() {
        let timer = Timer::builder().inline().build().unwrap();
        timer.after(MS, || panic!("thrown")).unwrap();
        let (sender, receiver) = mpsc::channel();
        timer.after(2 * MS, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(timer.stats().panicked, 1);
    }

    /// Several threads add tasks while one stops: each task is refused or handed back, never both
    /// and never neither.
    #[test]
    fn adding_while_stopping_loses_nothing() {
        for _ in 0..20 {
            let timer = Timer::new();
            timer.start().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let producers: Vec<_> = (0..3)
                .map(|_| {
                    let (timer, ran) = (timer.clone(), ran.clone());
                    thread::spawn(move || {
                        let add = |n: u32| {
                            let ran = ran.clone();
                            let task = move || {
                                ran.fetch_add(1, Ordering::SeqCst);
                            };
                            timer.after(n % 3 * MS, task).is_ok()
                        };
                        (0..u32::MAX).take_while(|&n| add(n)).count()
                    })
                })
                .collect();
            thread::sleep(3 * MS);
            let left = timer.stop().len();
            let accepted: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
            assert_eq!(ran.load(Ordering::SeqCst) + left, accepted);
        }
    }
}

mod kafka {
    use super::*;

    /// `TimerTest.testAlreadyExpiredTask`
    #[test]
    fn expired_tasks_run_in_the_next_turn() {
        let timer = Timer::builder().caller_driven().build().unwrap();
        let output = Output::default();
        for number in 1..=5 {
            timer.at(Instant::now(), output.task(number)).unwrap();
        }
        let start = Instant::now();
        let mut turned = 0;
        while turned < 5 {
            turned += timer.turn();
            assert!(start.elapsed() < PATIENCE);
        }
        let mut numbers = output.take();
        numbers.sort_unstable();
        assert_eq!((numbers, timer.pending()), (vec![1, 2, 3, 4, 5], 0));
    }

    /// `TimerTest.testTaskExpiration`: over all levels of the wheel, in order of deadline.
    #[test]
    fn tasks_expire_in_order_over_all_levels() {
        for kind in [WheelKind::Hierarchical, WheelKind::Hashed { slots: 3 }] {
            let (clock, timer) = manual(kind, MS);
            let output = Output::default();
            let mut delays: Vec<u32> = Vec::new();
            delays.extend(0..5);
            delays.extend((10..100).map(|n| 2 * n));
            delays.extend((100..500).map(|n| n * 1_000 + 1));
            delays.extend([1 << 24, (1 << 24) + 1, u32::MAX]);
            for &delay in delays.iter().rev() {
                timer.after(delay * MS, output.task(delay)).unwrap();
            }
            assert_eq!(timer.pending(), delays.len());
            clock.advance(u32::MAX * MS);
            assert_eq!(output.take(), delays);
        }
    }

    /// `TimingWheelTest.testAddValidTask` and `testAdvanceClockToNextTick`: tasks that are due run,
    /// the others stay pending; cancelled tasks do not run, and the count is always right.
    #[test]
    fn advancing_runs_what_is_due_and_counts_the_rest() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let output = Output::default();
        let tasks: Vec<Timeout> =
            (1..=9).map(|n| timer.after(n * 100 * MS, output.task(n)).unwrap()).collect();
        assert_eq!(timer.pending(), 9);
        clock.advance(250 * MS);
        assert_eq!((output.take(), timer.pending()), (vec![1, 2], 7));
        assert!(tasks[4].cancel() && !tasks[0].cancel());
        assert_eq!(timer.pending(), 6);
        clock.advance(Duration::ZERO);
        assert_eq!(output.take(), [], "no time, no task");
        clock.advance(350 * MS);
        assert_eq!((output.take(), timer.pending()), (vec![3, 4, 6], 3));
        clock.advance(S);
        assert_eq!((output.take(), timer.pending()), (vec![7, 8, 9], 0));
    }

    /// `TimingWheelTest.testOverflowWheelCreation` and `testAdvanceClockWithOverflowWheel`: a task
    /// that is as far away as a ring is long, or further, fires on its tick.
    #[test]
    fn multiples_of_the_ring_fire_on_their_tick() {
        for (kind, ring) in [(WheelKind::Hashed { slots: 32 }, 32), (WheelKind::Hierarchical, 256)]
        {
            for start in [0, 1, ring - 1, ring, ring * ring - 1] {
                let (clock, timer) = manual(kind, MS);
                clock.advance(start * MS);
                for delay in [1, ring - 1, ring, ring + 1, 2 * ring, ring * ring, ring * ring + 1] {
                    let output = Output::default();
                    timer.after(delay * MS, output.task(delay)).unwrap();
                    clock.advance((delay - 1) * MS);
                    assert!(output.take().is_empty(), "{delay} after {start} is early");
                    clock.advance(MS);
                    assert_eq!(output.take(), [delay], "{delay} after {start} is late");
                }
            }
        }
    }

    /// `TimingWheelTest.testAddCancelledTask` and `testAddExpiredTask`: a task that was cancelled
    /// or has run cannot be scheduled again. `TimerTaskListTest.testAll`: a task that is moved is
    /// counted once.
    #[test]
    fn a_task_is_not_added_twice() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let output = Output::default();
        let cancelled = timer.key("request").after(S, output.task(1)).unwrap();
        cancelled.cancel();
        assert!(!cancelled.reset(S));
        let expired = timer.key("request").after(S, output.task(2)).unwrap();
        clock.advance(S);
        assert!(!expired.reset(S));
        timer.key("request").after(S, output.task(3)).unwrap();
        timer.key("request").after(S, output.task(4)).unwrap();
        assert_eq!(timer.pending(), 1);
        clock.advance(S);
        assert_eq!((output.take(), timer.pending()), (vec![2, 4], 0));
    }

    /// `TimerTaskListTest.testGetDelay`
    #[test]
    fn what_is_left_gets_less_as_time_passes() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let timeout = timer.after(10 * S, || {}).unwrap();
        clock.advance(5 * S);
        assert_eq!(timeout.remaining(), Some(5 * S));
    }

    /// `SystemTimer.close`: pending tasks do not run, and new ones are refused.
    #[test]
    fn nothing_runs_after_shutdown() {
        let (clock, timer) = manual(WheelKind::default(), MS);
        let output = Output::default();
        timer.after(S, output.task(1)).unwrap();
        drop(timer.stop());
        clock.advance(2 * S);
        assert_eq!(output.take(), []);
        assert_eq!((timer.turn(), timer.pending(), timer.next_deadline()), (0, 0, None));
        timer.after(S, output.task(2)).unwrap_err();
    }

    /// `TimingWheelTest.testAddTaskInCurrentBucket` and `testAdvanceClockWithinTick`: there a task
    /// that is due within the current tick runs at once and thus early; here it does not.
    #[test]
    fn a_deadline_within_a_tick_is_not_rounded_down() {
        let (clock, timer) = manual(WheelKind::default(), 200 * MS);
        let output = Output::default();
        timer.after(399 * MS, output.task(1)).unwrap();
        clock.advance(200 * MS);
        assert!(output.take().is_empty());
        clock.advance(199 * MS);
        assert!(output.take().is_empty(), "that tick has not come");
        clock.advance(MS);
        assert_eq!(output.take(), [1]);
    }
}
