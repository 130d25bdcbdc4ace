//! The properties that must hold under all faults. Each check returns its findings, and has tests
//! with planted violations.
//!
//! | file | what it checks |
//! |---|---|
//! | `registers` | keys behave as linearizable registers |
//! | `occurrences` | each occurrence of a schedule has one job |
//! | `pacing` | no window has more starts, and no moment more leases, than a paced queue allows |
//! | `replicas` | replicas that have applied the same commit have the same rows |
//! | `recovery` | the service accepts jobs again soon after a fault has ended |
//!
//! The history of the simulation checks the answers about single jobs.

pub(crate) mod occurrences;
pub(crate) mod pacing;
pub(crate) mod recovery;
pub(crate) mod registers;
pub(crate) mod replicas;
