//! What must hold, whatever faults there were. Each check returns what is wrong, and has tests that
//! plant the fault that it looks for.
//!
//! | file | what it checks |
//! |---|---|
//! | `registers` | keys behave as linearizable registers |
//! | `occurrences` | each occurrence of a schedule has one job |
//! | `pacing` | no window has more starts, and no moment more leases, than a paced queue allows |
//! | `replicas` | replicas that have applied the same commit have the same rows |
//! | `recovery` | the service accepts jobs again soon after a fault has ended |
//!
//! What clients were told about single jobs is checked by the history of the simulation.

pub(crate) mod occurrences;
pub(crate) mod pacing;
pub(crate) mod recovery;
pub(crate) mod registers;
pub(crate) mod replicas;
