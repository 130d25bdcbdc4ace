//! A disk that is really full: the operating system refuses to let files grow.
//!
//! The test starts itself again, in a mount namespace of its own, where it may mount small file
//! systems and fill them (`volume`). With the signal ignored that would end a process whose file is
//! too large, it also lowers the limit of its own file size while a queue is open: writes then fail
//! in the middle of a batch, with an error that does not say that the disk is full (`unix`).

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
