//! A timer without a thread, in an event loop: an echo server on `mio` that hangs up on clients who
//! are silent for too long. `cargo run --release -p tickwheel --example event_loop`
//!
//! The loop sleeps until a socket is ready or a timeout is due, whichever comes first:
//! `next_deadline` says how long that is, and `turn` runs what is due. So sockets and timeouts are
//! seen to by one thread. Three clients try it out, on threads of their own.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use tickwheel::{TimeoutGuard, Timer};

/// How long a client may be silent.
const PATIENCE: Duration = Duration::from_millis(500);
const LISTENER: Token = Token(0);

struct Server {
    poll: Poll,
    listener: TcpListener,
    timer: Timer,
    connections: HashMap<Token, Connection>,
    /// How many connections there have been.
    accepted: usize,
    /// Tasks must not borrow the server, so they tell it who was silent.
    tell_silent: Sender<Token>,
    silent: Receiver<Token>,
    start: Instant,
}

struct Connection {
    socket: TcpStream,
    /// What was read and not yet sent back.
    unsent: Vec<u8>,
    /// Goes with the connection: then there is nothing left to wait for.
    timeout: TimeoutGuard,
}

impl Server {
    fn new() -> Result<Self, Box<dyn Error>> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (tell_silent, silent) = mpsc::channel();
        Ok(Self {
            poll,
            listener,
            timer: Timer::builder().caller_driven().build()?,
            connections: HashMap::new(),
            accepted: 0,
            tell_silent,
            silent,
            start: Instant::now(),
        })
    }

    /// Serves until so many clients have come and gone.
    fn run(&mut self, clients: usize) -> Result<(), Box<dyn Error>> {
        let mut events = Events::with_capacity(64);
        while self.accepted < clients || !self.connections.is_empty() {
            let until_due = |next: Instant| next.saturating_duration_since(Instant::now());
            match self.poll.poll(&mut events, self.timer.next_deadline().map(until_due)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    token => self.echo(token),
                }
            }
            self.timer.turn();
            while let Ok(token) = self.silent.try_recv() {
                self.close(token, "was silent for too long");
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            let mut socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.accepted += 1;
            let token = Token(self.accepted);
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, token, both)?;
            let tell = self.tell_silent.clone();
            let timed_out = move || {
                // Nobody hears it only where the server is gone.
                let _ = tell.send(token);
            };
            let timeout = self.timer.after(PATIENCE, timed_out)?.cancel_on_drop();
            self.connections.insert(token, Connection { socket, unsent: Vec::new(), timeout });
            self.log(token, "connected");
        }
    }

    /// Reads what there is and sends back what can be sent.
    fn echo(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.echo() {
            Ok(None) => self.close(token, "hung up"),
            Ok(Some(0)) => {}
            Ok(Some(bytes)) => self.log(token, &format!("said {bytes} bytes")),
            Err(error) => self.close(token, &format!("was lost: {error}")),
        }
    }

    fn close(&mut self, token: Token, why: &str) {
        if self.connections.remove(&token).is_some() {
            self.log(token, why);
        }
    }

    fn log(&self, Token(number): Token, what: &str) {
        let pending = self.timer.pending();
        let now = self.start.elapsed().as_millis();
        println!("{now:>5} ms  client {number} {what}; timeouts pending: {pending}");
    }
}

impl Connection {
    /// Says how many bytes were read; `None` at their end.
    fn echo(&mut self) -> io::Result<Option<usize>> {
        let mut buffer = [0; 4096];
        let mut bytes = 0;
        let mut ended = false;
        while !ended {
            match self.socket.read(&mut buffer) {
                Ok(0) => ended = true,
                Ok(read) => {
                    bytes += read;
                    self.unsent.extend_from_slice(&buffer[..read]);
                    // A sign of life.
                    self.timeout.reset(PATIENCE);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((!ended).then_some(bytes))
    }
}

/// Says every word with a pause after it and hears it again; then hangs up, or waits for the server
/// to.
fn client(address: SocketAddr, words: &[&str], hangs_up: bool) -> io::Result<()> {
    let mut socket = std::net::TcpStream::connect(address)?;
    for word in words {
        socket.write_all(word.as_bytes())?;
        let mut heard = vec![0; word.len()];
        socket.read_exact(&mut heard)?;
        assert_eq!(heard, word.as_bytes(), "it is an echo");
        thread::sleep(PATIENCE * 2 / 5);
    }
    if !hangs_up {
        assert_eq!(socket.read(&mut [0])?, 0, "the server hangs up");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut server = Server::new()?;
    let address = server.listener.local_addr()?;
    println!("echoing on {address}, hanging up after {PATIENCE:?} of silence");

    let clients = [
        thread::spawn(move || client(address, &["one", "two", "three", "four"], true)),
        thread::spawn(move || client(address, &["hello"], false)),
        thread::spawn(move || client(address, &[], false)),
    ];
    server.run(clients.len())?;
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    let stats = server.timer.stats();
    println!("timeouts: {} fired, {} cancelled", stats.fired, stats.cancelled);
    Ok(())
}
