//! The peers. Those that have no timeout get the one that their users write: the future is polled
//! first, and then the timer.

mod async_io;
mod bare;
mod futures_timer;
mod limited;
mod tokio;

pub(super) use async_io::AsyncIo;
pub(super) use bare::Bare;
pub(super) use futures_timer::FuturesTimer;
pub(super) use tokio::Tokio;
