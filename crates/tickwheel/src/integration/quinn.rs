//! QUIC endpoints whose timers wait on a [`Timer`].
//!
//! A connection of quinn has one timer, which it resets with nearly every packet: for loss
//! detection, pacing and the idle timeout. On a wheel that is a write, and a server with a million
//! connections has one thread that sleeps until the first of them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::boxed::Box;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

use ::quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

use crate::{Sleep, Timer};

/// A quinn runtime with the timers of a [`Timer`], and sockets and tasks of another runtime.
///
/// Pass it to [`quinn::Endpoint::new`](::quinn::Endpoint::new). quinn also asks it for the present,
/// so all connections follow the timer's clock.
///
/// ```
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use quinn::{Endpoint, EndpointConfig, Runtime};
/// use tickwheel::Timer;
/// use tickwheel::integration::quinn::TimerRuntime;
///
/// /// `tasks` is what `quinn::default_runtime()` returns inside tokio.
/// fn client(
///     timer: &Timer,
///     tasks: Arc<dyn Runtime>,
///     config: EndpointConfig,
/// ) -> std::io::Result<Endpoint> {
///     let socket = UdpSocket::bind("[::]:0")?;
///     Endpoint::new(config, None, socket, Arc::new(TimerRuntime::new(timer, tasks)))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct TimerRuntime {
    timer: Timer,
    tasks: Arc<dyn Runtime>,
}

impl TimerRuntime {
    /// Makes a runtime that waits on `timer`, and takes everything else from `tasks`.
    pub fn new(timer: &Timer, tasks: Arc<dyn Runtime>) -> Self {
        Self { timer: timer.clone(), tasks }
    }
}

impl Runtime for TimerRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.timer.sleep_until(deadline))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tasks.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.tasks.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        super::now(&self.timer)
    }
}

impl AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        Sleep::reset(self.get_mut(), deadline);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}
