//! The documented front-door API: it compiles, and does what its comments say.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime};

use tickwheel::wheel::{HashedWheel, HierarchicalWheel, Key};
use tickwheel::{ScheduleError, Timeout, Timer, Unfired, WheelKind};

#[test]
fn the_timer() -> Result<(), Box<dyn Error>> {
    let _defaults = Timer::new();
    let timer = Timer::builder()
        .tick(Duration::from_millis(10))
        .wheel(WheelKind::Hashed { slots: 512 })
        .max_pending(1_000_000)
        .thread_name("payments")
        .build()?;

    let t: Timeout = timer.after(Duration::from_secs(3), || println!("hello"))?;
    timer.at(SystemTime::now() + Duration::from_secs(60), || {})?;
    timer.at(Instant::now() + Duration::from_secs(60), || {})?;
    let beat = timer.every(Duration::from_secs(5), || {})?;

    assert!(t.reset(Duration::from_secs(9)));
    assert!(t.remaining() > Some(Duration::from_secs(8)));
    assert!(t.deadline() > Some(Instant::now()));
    assert!(t.cancel());
    assert!(!t.cancel() && !t.reset(Duration::from_secs(1)));
    assert!(t.is_cancelled() && !t.is_expired());
    drop(t.cancel_on_drop());

    timer.key("order-42").after(Duration::from_secs(1800), || {})?;
    timer.key("order-42").after(Duration::from_secs(1800), || {})?;
    assert_eq!(timer.pending(), 4);
    assert!(timer.key("order-42").is_pending() && !timer.key("order-43").is_pending());
    assert!(timer.key("order-42").reset(Duration::from_secs(600)));
    assert!(timer.key("order-42").remaining() <= Some(Duration::from_secs(601)));
    assert!(timer.cancel("order-42"));
    assert!(!timer.key("order-42").reset(Duration::from_secs(600)));
    assert_eq!(timer.key("order-42").remaining(), None);
    assert!(!timer.cancel("order-42"));

    assert!(beat.cancel());
    assert_eq!(timer.pending(), 2);
    assert_eq!(timer.stats().scheduled, 6);
    let rest: Vec<Unfired> = timer.stop();
    assert_eq!(rest.len(), 2);
    for unfired in rest {
        assert!(unfired.key().is_none() && unfired.deadline() > Some(Instant::now()));
        assert!(unfired.run());
    }
    let refused = timer.after(Duration::from_secs(1), || {});
    assert!(matches!(refused, Err(ScheduleError::Stopped)));

    tickwheel::after(Duration::from_secs(1), || {})?;
    Ok(())
}

#[cfg(feature = "async")]
#[test]
fn the_futures() -> Result<(), Box<dyn Error>> {
    fn work() -> impl Future<Output = u32> {
        std::future::ready(42)
    }

    let timer = Timer::new();
    futures::executor::block_on(async {
        let start = Instant::now();
        timer.sleep(Duration::from_millis(5)).await;
        assert!(start.elapsed() >= Duration::from_millis(5));
        assert_eq!(timer.timeout(Duration::from_secs(1), work()).await?, 42);
        let mut ticks = timer.interval(Duration::from_secs(1));
        assert!(ticks.tick().await >= start);
        Ok(())
    })
}

#[test]
fn the_wheels() {
    let mut wheel: HierarchicalWheel<&str> = HierarchicalWheel::new();
    let old: HierarchicalWheel<&str> = HierarchicalWheel::with_start(1 << 40);
    let hashed: HashedWheel<&str> = HashedWheel::with_start(512, 1 << 40);
    assert_eq!((old.now(), hashed.now()), (1 << 40, 1 << 40));

    let key: Key = wheel.insert(1_000, "a");
    assert!(wheel.reset(key, 2_000));
    assert_eq!(wheel.deadline(key), Some(2_000));
    assert_eq!(wheel.get(key), Some(&"a"));
    assert_eq!(wheel.len(), 1);
    assert!(wheel.next_wake() <= Some(2_000));
    while let Some(due) = wheel.pop_due(2_000) {
        assert_eq!((due.key, due.deadline, due.value), (key, 2_000, "a"));
    }
    assert_eq!(wheel.remove(key), None);
}

/// A panic names the place of the call with the bad argument.
#[cfg(all(feature = "async", feature = "pace"))]
#[test]
fn a_bad_argument_is_blamed_on_the_caller() {
    use std::panic::{catch_unwind, set_hook, take_hook};
    use std::sync::{Arc, Mutex};

    let (files, this) = (Arc::new(Mutex::new(Vec::new())), std::thread::current().id());
    let (seen, before) = (files.clone(), take_hook());
    set_hook(Box::new(move |panic| {
        if std::thread::current().id() == this {
            seen.lock().unwrap().push(panic.location().unwrap().file().to_owned());
        } else {
            before(panic);
        }
    }));
    let (timer, zero) = (Timer::new(), Duration::ZERO);
    // Timers are unwind-safe without a wrapper.
    catch_unwind(|| drop(timer.interval(zero))).unwrap_err();
    catch_unwind(|| drop(timer.interval_at(Instant::now(), zero))).unwrap_err();
    catch_unwind(|| drop(tickwheel::interval(zero))).unwrap_err();
    catch_unwind(|| drop(tickwheel::DelayQueue::<u8>::bounded(&timer, 0))).unwrap_err();
    catch_unwind(|| drop(tickwheel::pace::Pacer::new(&timer, 0, zero))).unwrap_err();
    catch_unwind(|| drop(HashedWheel::<u8>::new(0))).unwrap_err();
    catch_unwind(|| HashedWheel::<u8>::new(1).reserve(usize::MAX)).unwrap_err();
    let _ = take_hook();
    let files = files.lock().unwrap();
    assert_eq!(files.len(), 7);
    assert!(files.iter().all(|file| file.ends_with("front_door.rs")), "{files:?}");
}

fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}

#[test]
fn handles_are_unwind_safe() {
    is_unwind_safe::<Timer>();
    is_unwind_safe::<Timeout>();
    is_unwind_safe::<tickwheel::ManualClock>();
    #[cfg(feature = "async")]
    is_unwind_safe::<(tickwheel::Sleep, tickwheel::Interval)>();
}
