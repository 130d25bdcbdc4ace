//! A timeout around a future that completes.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::contender::{Contender, Limits};
use super::run::time;
use crate::meter::Meter;
use crate::suite::Outcome;
use crate::work::{Checksum, Size};

const LIMIT: Duration = Duration::from_secs(30);

/// The number of pairs of tasks: one sends messages, the other sends them back.
const PAIRS: usize = 100;

/// A future that is pending for this number of polls, and then ready.
struct After(u32);

impl Future for After {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

/// Polls by hand, with a waker that does nothing: the timeout is most of the cost.
pub(super) fn by_hand<C: Contender>(system: &C, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let cases = [
        (0, ["timeout-ready-cpu", "timeout-ready-wall"]),
        (1, ["timeout-once-cpu", "timeout-once-wall"]),
        (4, ["timeout-several-cpu", "timeout-several-wall"]),
    ];
    // Warm-up: threads start and memory grows before the clock starts.
    let mut completed = many(system, size.timers / 10, 1);
    let mut figures = Vec::new();
    for (polls, names) in cases {
        let reading = time(system, runtime, || completed = many(system, size.timers, polls));
        ensure!(completed == size.timers, "{completed} of {} futures completed", size.timers);
        figures.extend(reading.each(names, size.timers));
    }
    Ok(Checksum::default().outcome(figures))
}

/// Polls one future after the other and returns how many completed.
fn many<C: Contender>(system: &C, count: usize, polls: u32) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let one = |_: &usize| {
        let mut limited = pin!(system.timeout(LIMIT, After(black_box(polls))));
        for _ in 0..polls {
            if limited.as_mut().poll(&mut cx).is_ready() {
                return false;
            }
        }
        matches!(limited.poll(&mut cx), Poll::Ready(Ok(())))
    };
    (0..count).filter(one).count()
}

/// Measures pairs of tasks: one sends and waits for the answer, with a limit; the other answers.
pub(super) fn receive<L: Limits>(system: &L, size: &Size, runtime: &Runtime) -> Result<Outcome> {
    let messages = (size.timers / PAIRS).max(1);
    // Warm-up, as above.
    let mut received = runtime.block_on(talk(system, messages / 10));
    let meter = Meter::start();
    received += runtime.block_on(talk(system, messages));
    let reading = meter.stop();
    let expected = (messages + messages / 10) * PAIRS;
    ensure!(received == expected, "{received} of {expected} messages were received in time");
    let figures = reading.each(["receive-cpu", "receive-wall"], messages * PAIRS);
    Ok(Checksum::default().outcome(figures))
}

async fn talk<L: Limits>(system: &L, messages: usize) -> usize {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let (question, questions) = channel(1);
        let (answer, answers) = channel(1);
        tokio::spawn(echo(questions, answer));
        pairs.push(tokio::spawn(ask(system.clone(), question, answers, messages)));
    }
    let mut received = 0;
    for pair in pairs {
        received += pair.await.unwrap_or(0);
    }
    received
}

async fn echo(mut questions: Receiver<usize>, answer: Sender<usize>) {
    while let Some(number) = questions.recv().await {
        if answer.send(number).await.is_err() {
            return;
        }
    }
}

/// Asks one question after another and returns how many answers came in time.
async fn ask<L: Limits>(
    system: L,
    question: Sender<usize>,
    mut answers: Receiver<usize>,
    messages: usize,
) -> usize {
    let mut received = 0;
    for number in 0..messages {
        if question.send(number).await.is_err() {
            break;
        }
        let answer = system.timeout(LIMIT, answers.recv()).await;
        received += usize::from(matches!(answer, Ok(Some(answer)) if answer == number));
    }
    received
}
