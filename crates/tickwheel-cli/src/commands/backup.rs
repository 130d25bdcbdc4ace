//! `backup` and `restore`: all data of a server, as one file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tickwheel_api::Cluster;
use tickwheel_server::backup::{self, BackupError, DirectoryBackup};

use super::Context;
use crate::args::{BackupArgs, RestoreArgs};
use crate::client;
use crate::failure::Failure;
use crate::output::{Output, text};

/// The bytes that are read from the server at a time.
const PIECE: usize = 256 << 10;
/// The offset of the store's size in a backup: after the line with the format, and the head of the
/// first block. It is used only to show progress.
const SIZE: std::ops::Range<usize> = 32..40;

fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::NoData(_) => Failure::NotFound(error.to_string()),
        BackupError::NotEmpty(_) => Failure::Usage(error.to_string()),
        error => Failure::Other(error.to_string()),
    }
}

/// The source of a backup.
enum Source {
    Server(Box<dyn Read>),
    Directory(Box<DirectoryBackup>),
}

impl Source {
    /// Returns the next piece, which is empty at the end.
    fn next(&mut self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Directory(backup) => {
                Ok(backup.next_piece().map_err(failure)?.unwrap_or_default())
            }
            Self::Server(stream) => {
                let mut piece = Vec::with_capacity(PIECE);
                let read = stream.by_ref().take(PIECE as u64).read_to_end(&mut piece);
                read.map_err(|error| {
                    Failure::Other(format!("the server ended the backup early: {error}"))
                })?;
                Ok(piece)
            }
        }
    }
}

/// The destination of a backup: a file that appears when it is complete, or standard output.
enum Target {
    File { draft: PathBuf, path: PathBuf, file: File },
    Stdout,
}

impl Target {
    fn new(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        if path.exists() {
            let why = format!("{} exists: name a new file", path.display());
            return Err(Failure::Usage(why));
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // The backup contains payloads and the secrets of push targets.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&draft).map_err(|error| at(&draft, &error))?;
        Ok(Self::File { draft, path: path.to_owned(), file })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        match self {
            Self::File { draft, file, .. } => {
                file.write_all(piece).map_err(|error| at(draft, &error))
            }
            Self::Stdout => Ok(io::stdout().lock().write_all(piece)?),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File { draft, path, file } => {
                let done = file.sync_all().and_then(|()| fs::rename(&draft, &path));
                done.map_err(|error| at(&path, &error))
            }
            Self::Stdout => Ok(io::stdout().lock().flush()?),
        }
    }
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

/// Backs up a running server, or a directory that no server uses. A cluster with several partitions
/// has a file for each of them.
pub(crate) fn run<'a>(
    output: &Output,
    args: &BackupArgs,
    context: impl FnOnce() -> Result<Context<'a>, Failure>,
) -> Result<(), Failure> {
    if args.file == Path::new("-") && io::stdout().is_terminal() {
        let why = "a backup is not text: name a file, or send standard output to one";
        return Err(Failure::Usage(why.to_owned()));
    }
    if let Some(data) = &args.data {
        let source = DirectoryBackup::of(data).map_err(failure)?;
        return copy(output, Source::Directory(Box::new(source)), &args.file);
    }
    let client = context()?.client;
    let path = client::Path::new(&["backup"]);
    let partitions = partitions(&client)?;
    if partitions < 2 {
        return copy(output, Source::Server(Box::new(client.download(&path)?)), &args.file);
    }
    if args.file == Path::new("-") {
        let why = "a cluster has a backup for each partition: name a file, to which the number of \
                   the partition is added";
        return Err(Failure::Usage(why.to_owned()));
    }
    for partition in 0..partitions {
        let mut file = args.file.as_os_str().to_owned();
        file.push(format!(".{partition}"));
        let path = path.clone().query("partition", &partition.to_string());
        copy(output, Source::Server(Box::new(client.download(&path)?)), Path::new(&file))?;
    }
    Ok(())
}

/// Returns how many partitions the cluster has; none if the server is not a node of one, or if the
/// token does not say.
fn partitions(client: &client::Client) -> Result<usize, Failure> {
    match client.get(&client::Path::new(&["cluster"])) {
        Ok(answer) => Ok(answer.read::<Cluster>()?.partitions.len()),
        Err(Failure::Refused { .. }) => Ok(0),
        Err(failure) => Err(failure),
    }
}

/// Writes a backup into a file.
fn copy(output: &Output, mut source: Source, file: &Path) -> Result<(), Failure> {
    let mut target = Target::new(file)?;
    let (mut done, mut all) = (0, 0);
    let mut last = Vec::new();
    loop {
        let piece = source.next()?;
        if piece.is_empty() {
            break;
        }
        if done == 0
            && let Some(size) = piece.get(SIZE)
        {
            all = size.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
        }
        target.write(&piece)?;
        done += piece.len() as u64;
        output.progress_bytes(done, all, false);
        last.extend_from_slice(&piece);
        last.drain(..last.len().saturating_sub(END.len() + 24));
    }
    output.end_progress();
    // If a server fails in the middle, a proxy may end the answer as if it were complete. Only the
    // last block proves that nothing is missing.
    if !last.starts_with(END) {
        return Err(Failure::Other("the backup is not complete; try again".to_owned()));
    }
    target.finish()?;
    if file == Path::new("-") {
        return Ok(());
    }
    let file = file.display().to_string();
    if output.json {
        return output.document(&json!({ "file": file, "bytes": done }));
    }
    output.line(format!("{file}: {}", text::bytes(done)))
}

/// The kind and length at the start of the last block.
const END: &[u8] = &[3, 0, 0, 0, 16];

/// Creates a data directory from a backup.
pub(crate) fn restore(output: &Output, args: &RestoreArgs) -> Result<(), Failure> {
    let (mut input, length): (Box<dyn Read>, Option<u64>) = if args.file == Path::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failure::Usage(format!("{}: {error}", args.file.display())))?;
        let length = file.metadata().ok().filter(fs::Metadata::is_file).map(|it| it.len());
        (Box::new(io::BufReader::with_capacity(PIECE, file)), length)
    };
    let summary = backup::restore(&mut input, &args.data, &mut |done, about| {
        output.progress_bytes(done, length.unwrap_or(about), length.is_some());
    });
    output.end_progress();
    let summary = summary.map_err(failure)?;
    let data = args.data.display().to_string();
    if output.json {
        return output.document(&json!({
            "data": data, "rows": summary.rows, "bytes": summary.bytes,
        }));
    }
    let rows = text::count(summary.rows, "row");
    output.line(format!("{data}: {rows}, {}, checked", text::bytes(summary.bytes)))?;
    output.remark("tokens are not part of a backup: copy tokens.json, or make new ones");
    Ok(())
}
