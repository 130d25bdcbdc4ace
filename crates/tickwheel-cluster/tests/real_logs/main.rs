//! The conformance suite on real logs: NATS `JetStream` with three servers, and `PostgreSQL` with a
//! synchronous standby, all on loopback.
//!
//! `cargo xtask test cluster` runs it. It installs the servers if they are missing. An argument runs
//! only the cases whose name contains it.

#[path = "../conformance/cases.rs"]
mod cases;
mod nats;
mod postgres;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use cases::Network;
use tickwheel_test_servers::Link;

fn main() {
    // The test harness of cargo passes options; a name is what does not begin with a dash.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    // PostgreSQL runs as another user, which must be able to reach its folder.
    let permissions = Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new()
        .prefix("tickwheel-logs-")
        .permissions(permissions)
        .tempdir()
        .unwrap();
    let suite = Suite { filter: filter.unwrap_or_default() };
    nats::run(&suite, &folder.path().join("nats"));
    postgres::run(&suite, &folder.path().join("postgresql"));
}

/// What a proxy does for a network of the suite.
fn link(network: Network) -> Link {
    match network {
        Network::Works => Link::Works,
        Network::LosesAnswers => Link::LosesAnswers,
        Network::LosesRequests => Link::LosesRequests,
    }
}

/// Runs cases by name.
struct Suite {
    filter: String,
}

impl Suite {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Runs a case and prints how long it took. A failed case ends the program.
    fn run(&self, name: &str, case: impl FnOnce()) {
        if self.wants(name) {
            println!("{name} ...");
            let start = Instant::now();
            case();
            println!("{name} ok in {:.1} s", start.elapsed().as_secs_f64());
        }
    }
}
