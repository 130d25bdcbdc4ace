//! Tests on a disk that is really full, where the operating system refuses writes.
//!
//! The test runs itself again in a mount namespace of its own, where it mounts small file systems
//! and fills them (`volume`). It also lowers its own limit of the file size while a queue is open,
//! and ignores the signal that would end it (`unix`). Writes then fail in the middle of a batch,
//! with an error that does not say that the disk is full.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod volume;

fn main() -> std::process::ExitCode {
    #[cfg(unix)]
    return unix::main();
    #[cfg(not(unix))]
    {
        eprintln!("error: only Unix can limit the size of files: run this test there");
        std::process::ExitCode::FAILURE
    }
}
