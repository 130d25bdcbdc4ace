//! The commands of the protocol, and how a line becomes one.
//!
//! A command is recognised by the beginning of its line, as beanstalkd does: `reserve now` is a
//! malformed `reserve`, and `peekaboo` is unknown. Numbers are decimal and may have spaces before
//! them. Nothing here performs I/O.

/// The longest line, including its end.
pub const MAX_LINE_BYTES: usize = 224;
/// The longest name of a tube.
pub const MAX_TUBE_BYTES: usize = 200;

/// A command, without the body of a `put`.
///
/// ```
/// use tickwheel_server::beanstalk::{Command, parse_line};
///
/// let release = Command::Release { id: 7, pri: 1_024, delay: 60 };
/// assert_eq!(parse_line(b"release 7 1024 60"), Ok(release));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Put a job.
    Put(Put),
    /// Choose the tube for the next puts.
    Use(String),
    /// Reserve a job, waiting for one: this many seconds, or without a limit.
    Reserve(Option<u32>),
    /// Reserve this job.
    ReserveJob(u64),
    /// Delete a job.
    Delete(u64),
    /// Give a reserved job back.
    Release {
        /// The number of the job.
        id: u64,
        /// Its new priority.
        pri: u32,
        /// Seconds until it is ready.
        delay: u32,
    },
    /// Bury a reserved job.
    Bury {
        /// The number of the job.
        id: u64,
        /// Its new priority.
        pri: u32,
    },
    /// Restart the time of a reserved job.
    Touch(u64),
    /// Watch a tube.
    Watch(String),
    /// Watch a tube no longer.
    Ignore(String),
    /// Show a job.
    Peek(u64),
    /// Show the next ready job of the tube in use.
    PeekReady,
    /// Show the delayed job that is ready first.
    PeekDelayed,
    /// Show the job that was buried first.
    PeekBuried,
    /// Make up to this number of buried or delayed jobs ready.
    Kick(u64),
    /// Make a buried or delayed job ready.
    KickJob(u64),
    /// Show what the service has done.
    Stats,
    /// Show what has happened to a job.
    StatsJob(u64),
    /// Show what has happened in a tube.
    StatsTube(String),
    /// List the tubes.
    ListTubes,
    /// Show the tube in use.
    ListTubeUsed,
    /// List the watched tubes.
    ListTubesWatched,
    /// Pause the deliveries of a tube for this many seconds.
    PauseTube(String, u32),
    /// Close the connection.
    Quit,
    /// Show a token. This command is Tickwheel's own.
    Auth(String),
}

/// The line of a `put`.
///
/// ```
/// use tickwheel_server::beanstalk::{Command, Put, parse_line};
///
/// let put = Put { pri: 10, delay: 60, ttr: 30, bytes: 5 };
/// assert_eq!(parse_line(b"put 10 60 30 5"), Ok(Command::Put(put)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// The priority; 0 is the most urgent.
    pub pri: u32,
    /// Seconds until the job is ready.
    pub delay: u32,
    /// Seconds that a worker has for it.
    pub ttr: u32,
    /// Bytes of the body.
    pub bytes: u32,
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The line is malformed or too long.
    BadFormat,
    /// There is no such command.
    UnknownCommand,
    /// The body does not end where its line says.
    ExpectedCrlf,
    /// The body is larger than a job may be.
    JobTooBig,
    /// There is no memory for the body.
    OutOfMemory,
    /// This is a request of HTTP: a web page may have made a browser send it, with commands in its
    /// body. The connection is closed without an answer.
    Http,
}

impl Refusal {
    /// Returns `true` if the line of a put was fine and its body is refused.
    pub const fn is_of_put(self) -> bool {
        matches!(self, Self::ExpectedCrlf | Self::JobTooBig | Self::OutOfMemory)
    }

    /// The line that tells the client.
    pub const fn line(self) -> &'static str {
        match self {
            Self::BadFormat => "BAD_FORMAT\r\n",
            Self::UnknownCommand => "UNKNOWN_COMMAND\r\n",
            Self::ExpectedCrlf => "EXPECTED_CRLF\r\n",
            Self::JobTooBig => "JOB_TOO_BIG\r\n",
            Self::OutOfMemory => "OUT_OF_MEMORY\r\n",
            Self::Http => "",
        }
    }
}

/// Returns the command in a line, which is given without its end.
///
/// ```
/// use tickwheel_server::beanstalk::{Command, Refusal, parse_line};
///
/// assert_eq!(parse_line(b"delete 42"), Ok(Command::Delete(42)));
/// assert_eq!(parse_line(b"reserve-with-timeout 5"), Ok(Command::Reserve(Some(5))));
/// assert_eq!(parse_line(b"delete me"), Err(Refusal::BadFormat));
/// assert_eq!(parse_line(b"remove 42"), Err(Refusal::UnknownCommand));
/// ```
///
/// # Errors
///
/// If the command is unknown or malformed.
pub fn parse_line(line: &[u8]) -> Result<Command, Refusal> {
    let text = std::str::from_utf8(line).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or(Refusal::BadFormat)?;
    if is_http(text) {
        return Err(Refusal::Http);
    }
    let mut args;
    // The first that fits is the one, so longer names come before those that they begin with.
    let command = if let Some(rest) = text.strip_prefix("put ") {
        args = Args(rest);
        let (pri, delay, ttr) = (args.small()?, args.small()?, args.small()?);
        Command::Put(Put { pri, delay, ttr, bytes: args.small()? })
    } else if let Some(rest) = text.strip_prefix("peek ") {
        args = Args(rest);
        Command::Peek(args.number()?)
    } else if let Some(rest) = text.strip_prefix("reserve-with-timeout ") {
        args = Args(rest);
        let timeout = args.small()?;
        if timeout > i32::MAX.cast_unsigned() {
            return Err(Refusal::BadFormat);
        }
        // Text after the number is passed over.
        args = Args("");
        Command::Reserve(Some(timeout))
    } else if let Some(rest) = text.strip_prefix("reserve-job ") {
        args = Args(rest);
        Command::ReserveJob(args.number()?)
    } else if let Some(rest) = text.strip_prefix("delete ") {
        args = Args(rest);
        Command::Delete(args.number()?)
    } else if let Some(rest) = text.strip_prefix("release ") {
        args = Args(rest);
        Command::Release { id: args.number()?, pri: args.small()?, delay: args.small()? }
    } else if let Some(rest) = text.strip_prefix("bury ") {
        args = Args(rest);
        Command::Bury { id: args.number()?, pri: args.small()? }
    } else if let Some(rest) = text.strip_prefix("kick ") {
        args = Args(rest);
        let bound = args.number()?;
        args = Args("");
        Command::Kick(bound)
    } else if let Some(rest) = text.strip_prefix("kick-job ") {
        args = Args(rest);
        Command::KickJob(args.number()?)
    } else if let Some(rest) = text.strip_prefix("touch ") {
        args = Args(rest);
        Command::Touch(args.number()?)
    } else if let Some(rest) = text.strip_prefix("stats-job ") {
        args = Args(rest);
        Command::StatsJob(args.number()?)
    } else if let Some(rest) = text.strip_prefix("pause-tube") {
        args = Args(rest);
        Command::PauseTube(args.tube()?, args.small()?)
    } else {
        args = Args("");
        with_name(text).or_else(|| without_arguments(text)).ok_or(Refusal::UnknownCommand)??
    };
    if args.0.is_empty() { Ok(command) } else { Err(Refusal::BadFormat) }
}

/// Returns `true` for the first line of an HTTP request, and for the header that every browser sends
/// before any that a web page can choose.
fn is_http(text: &str) -> bool {
    text.contains(" HTTP/1.")
        || text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("host:"))
}

/// Commands whose only argument is the rest of the line.
fn with_name(text: &str) -> Option<Result<Command, Refusal>> {
    type Make = fn(String) -> Command;
    const WITH_TUBE: [(&str, Make); 4] = [
        ("stats-tube ", Command::StatsTube),
        ("use ", Command::Use),
        ("watch ", Command::Watch),
        ("ignore ", Command::Ignore),
    ];
    if let Some(token) = text.strip_prefix("auth ") {
        return Some(Ok(Command::Auth(token.trim().to_owned())));
    }
    WITH_TUBE.into_iter().find_map(|(prefix, make)| {
        let name = text.strip_prefix(prefix)?;
        Some(if is_tube(name) { Ok(make(name.to_owned())) } else { Err(Refusal::BadFormat) })
    })
}

/// Commands that are a word. What follows the word makes the line malformed.
fn without_arguments(text: &str) -> Option<Result<Command, Refusal>> {
    const WORDS: [(&str, Command); 9] = [
        ("peek-ready", Command::PeekReady),
        ("peek-delayed", Command::PeekDelayed),
        ("peek-buried", Command::PeekBuried),
        ("reserve", Command::Reserve(None)),
        ("stats", Command::Stats),
        ("list-tubes-watched", Command::ListTubesWatched),
        ("list-tube-used", Command::ListTubeUsed),
        ("list-tubes", Command::ListTubes),
        ("quit", Command::Quit),
    ];
    let (word, command) = WORDS.into_iter().find(|(word, _)| text.starts_with(word))?;
    let is_whole = text.len() == word.len() || command == Command::Quit;
    Some(if is_whole { Ok(command) } else { Err(Refusal::BadFormat) })
}

/// Returns `true` if a tube can have this name.
fn is_tube(name: &str) -> bool {
    (1..=MAX_TUBE_BYTES).contains(&name.len())
        && name.bytes().all(is_tube_byte)
        && !name.starts_with('-')
}

fn is_tube_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// The rest of a line.
struct Args<'a>(&'a str);

impl Args<'_> {
    /// Takes a number with the spaces before it.
    fn number(&mut self) -> Result<u64, Refusal> {
        let text = self.0.trim_start_matches(' ');
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number = text[..digits].parse().map_err(|_| Refusal::BadFormat)?;
        self.0 = &text[digits..];
        Ok(number)
    }

    /// Takes a number below 2^32.
    fn small(&mut self) -> Result<u32, Refusal> {
        u32::try_from(self.number()?).map_err(|_| Refusal::BadFormat)
    }

    /// Takes the name of a tube with the spaces before it.
    fn tube(&mut self) -> Result<String, Refusal> {
        let text = self.0.trim_start_matches(' ');
        let length = text.bytes().take_while(|byte| is_tube_byte(*byte)).count();
        let (name, rest) = text.split_at(length);
        self.0 = rest;
        if is_tube(name) { Ok(name.to_owned()) } else { Err(Refusal::BadFormat) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, Refusal> {
        parse_line(line.as_bytes())
    }

    #[test]
    fn every_command_is_known() {
        let put = Put { pri: 1, delay: 2, ttr: 3, bytes: 4 };
        let name = || "a-b+c/d;e.f$g_(h)".to_owned();
        for (line, command) in [
            ("put 1 2 3 4", Command::Put(put)),
            ("put   1  2 3    4", Command::Put(put)),
            ("use a-b+c/d;e.f$g_(h)", Command::Use(name())),
            ("reserve", Command::Reserve(None)),
            ("reserve-with-timeout 0", Command::Reserve(Some(0))),
            ("reserve-job 18446744073709551615", Command::ReserveJob(u64::MAX)),
            ("delete 7", Command::Delete(7)),
            ("release 7 4294967295 9", Command::Release { id: 7, pri: u32::MAX, delay: 9 }),
            ("bury 7 8", Command::Bury { id: 7, pri: 8 }),
            ("touch 7", Command::Touch(7)),
            ("watch a-b+c/d;e.f$g_(h)", Command::Watch(name())),
            ("ignore a-b+c/d;e.f$g_(h)", Command::Ignore(name())),
            ("peek 7", Command::Peek(7)),
            ("peek-ready", Command::PeekReady),
            ("peek-delayed", Command::PeekDelayed),
            ("peek-buried", Command::PeekBuried),
            ("kick 7", Command::Kick(7)),
            ("kick-job 7", Command::KickJob(7)),
            ("stats", Command::Stats),
            ("stats-job 7", Command::StatsJob(7)),
            ("stats-tube a", Command::StatsTube("a".into())),
            ("list-tubes", Command::ListTubes),
            ("list-tube-used", Command::ListTubeUsed),
            ("list-tubes-watched", Command::ListTubesWatched),
            ("pause-tube a 5", Command::PauseTube("a".into(), 5)),
            ("quit", Command::Quit),
            ("auth twk_a_b", Command::Auth("twk_a_b".into())),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_malformed_differs_from_what_is_unknown() {
        let long = format!("use {}", "x".repeat(MAX_TUBE_BYTES + 1));
        for line in [
            "put 1 2 3",
            "put 1 2 3 4 5",
            "put -1 2 3 4",
            "put 4294967296 0 0 0",
            "put a b c d",
            "delete",
            "delete ",
            "delete 18446744073709551616",
            "delete 7 ",
            "delete 7x",
            "release 7 1",
            "bury 7",
            "reserve now",
            "reserve-with-timeout -1",
            "reserve-with-timeout 2147483648",
            "use ",
            "use -a",
            "use a b",
            "use ä",
            &long,
            "stats now",
            "stats-tube",
            "pause-tube a",
            "pause-tube",
            "list-tubes-",
            "kick",
            "kick x",
        ] {
            let expected = match line {
                // Without the space after it the word is another command, or none.
                "delete" | "kick" => Refusal::UnknownCommand,
                _ => Refusal::BadFormat,
            };
            assert_eq!(parse(line), Err(expected), "{line}");
        }
        for line in ["", " ", "peekaboo", "PUT 1 2 3 4", "auth", "peek"] {
            assert_eq!(parse(line), Err(Refusal::UnknownCommand), "{line}");
        }
        for line in ["POST / HTTP/1.1", "GET /put HTTP/1.0", "Host: 127.0.0.1:11300", "HOST:x"] {
            assert_eq!(parse(line), Err(Refusal::Http), "{line}");
        }
        assert_eq!(parse_line(b"use \xff"), Err(Refusal::BadFormat));
        assert_eq!(parse_line(b"stats\0"), Err(Refusal::BadFormat));
    }
}
