//! `clock`: the time of the server, and advancing it in tests.

use std::time::Duration;

use tickwheel_api::{AdvanceRequest, Clock};
use ureq::http::Method;

use super::Context;
use crate::args::ClockCommand;
use crate::client::{Extra, Path};
use crate::failure::Failure;

/// The timeout of an advance, which is answered when everything that is due is done.
const ADVANCE_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn run(context: &Context, command: &ClockCommand) -> Result<(), Failure> {
    let answer = match *command {
        ClockCommand::Show => context.client.get(&Path::new(&["clock"]))?,
        ClockCommand::Advance { by } => {
            let extra = Extra { wait: ADVANCE_TIMEOUT, ..Extra::default() };
            let path = Path::new(&["clock", "advance"]);
            context.client.call(Method::POST, &path, Some(&AdvanceRequest { by }), &extra)?
        }
    };
    context.output.answer(&answer, |clock: &Clock| {
        let kind = if clock.manual { "manual clock" } else { "system clock" };
        context.output.line(format!("{} ({kind})", context.output.wall.absolute(clock.now_ms)))
    })
}
