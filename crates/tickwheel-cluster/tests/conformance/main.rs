//! The conformance suite of logs, on the simulated log.
//!
//! `tests/real_logs` runs the same cases on NATS and `PostgreSQL`.

mod cases;
mod faults;

use cases::{Network, Subject, Unreliable};
use tickwheel_cluster::log::{Faults, Log, SimulatedLog};

struct Simulated(SimulatedLog);

impl Subject for Simulated {
    fn open(&self) -> Box<dyn Log> {
        Box::new(self.0.connect())
    }

    fn open_unreliable(&self) -> Unreliable {
        let log = self.0.connect();
        let same = log.clone();
        let set = move |network| same.set_own_faults(faults_of(network));
        Unreliable { log: Box::new(log), set: Box::new(set) }
    }

    fn empty(&self) {
        self.0.empty();
    }

    fn recreate(&self) {
        self.0.recreate();
    }
}

fn faults_of(network: Network) -> Faults {
    match network {
        Network::Works => Faults::default(),
        Network::LosesAnswers => Faults { lost_answer: 1.0, ..Faults::default() },
        Network::LosesRequests => Faults { lost_request: 1.0, ..Faults::default() },
    }
}

#[test]
fn the_simulated_log_conforms() {
    for (name, case) in cases::all::<Simulated>() {
        println!("{name}");
        case(&Simulated(SimulatedLog::new(1)));
    }
}
