//! A disk that is really full: the operating system refuses to let files grow.
//!
//! The test starts itself again, with the signal ignored that would end a process whose file is too
//! large, and lowers the limit of its own file size while a queue is open. Writes then fail as they
//! do on a full disk, in the middle of a batch. It runs everywhere without rights of its own.

#[cfg(unix)]
mod unix;

fn main() -> std::process::ExitCode {
    #[cfg(unix)]
    return unix::main();
    #[cfg(not(unix))]
    {
        eprintln!("error: only Unix can limit the size of files: run this test there");
        std::process::ExitCode::FAILURE
    }
}
