//! A TCP proxy whose link a test can cut, slow down or make lossy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The state of the link between a proxy and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Bytes pass in both directions.
    Works,
    /// Bytes that the server sends are dropped.
    LosesAnswers,
    /// Bytes that the client sends are dropped.
    LosesRequests,
    /// No bytes pass. They are kept and delivered once the link works again, as TCP does.
    Cut,
    /// Bytes pass after this delay.
    Slow(Duration),
}

/// Forwards connections from a port of its own to a server on loopback.
#[derive(Debug)]
pub struct Proxy {
    /// The port of loopback to connect to.
    pub port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    link: Mutex<Link>,
    changed: Condvar,
    connections: Mutex<Vec<TcpStream>>,
}

#[derive(Clone, Copy)]
enum Direction {
    Request,
    Answer,
}

impl Proxy {
    /// Starts threads that forward connections to a port of loopback. They end with the program.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub fn start(server_port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            link: Mutex::new(Link::Works),
            changed: Condvar::new(),
            connections: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().filter_map(Result::ok) {
                let shared = Arc::clone(&shared);
                // A client whose server is down gets a closed connection, and may try again.
                thread::spawn(move || shared.accept(client, server_port));
            }
        });
        Ok(Self { port, state })
    }

    /// Changes what the link does. When it stops losing bytes, its connections are closed, so that
    /// clients connect anew.
    pub fn set(&self, link: Link) {
        let before = std::mem::replace(&mut *lock(&self.state.link), link);
        self.state.changed.notify_all();
        if matches!(before, Link::LosesAnswers | Link::LosesRequests) && before != link {
            for connection in lock(&self.state.connections).drain(..) {
                // The connection may be closed already.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }
}

impl State {
    fn accept(self: &Arc<Self>, client: TcpStream, server_port: u16) {
        self.pass(Direction::Request);
        if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) {
            // A connection that cannot be duplicated is closed.
            let _ = self.forward(client, server);
        }
    }

    fn forward(self: &Arc<Self>, client: TcpStream, server: TcpStream) -> io::Result<()> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let mut connections = lock(&self.connections);
        // Connections that both ends have closed are dropped.
        connections.retain(|it| it.peer_addr().is_ok());
        connections.extend([client.try_clone()?, server.try_clone()?]);
        drop(connections);
        let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
        let state = Arc::clone(self);
        thread::spawn(move || state.copy(client, to_server, Direction::Request));
        self.copy(server, to_client, Direction::Answer);
        Ok(())
    }

    /// Waits until the link lets bytes through; returns `false` if it loses them.
    fn pass(&self, direction: Direction) -> bool {
        let mut link = lock(&self.link);
        while *link == Link::Cut {
            link = self.changed.wait(link).unwrap_or_else(PoisonError::into_inner);
        }
        let link = *link;
        match (link, direction) {
            (Link::Slow(delay), _) => {
                thread::sleep(delay);
                true
            }
            (Link::LosesAnswers, Direction::Answer) | (Link::LosesRequests, Direction::Request) => {
                false
            }
            _ => true,
        }
    }

    /// Copies bytes in one direction, as the link allows.
    fn copy(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if self.pass(direction) && to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        // The end of a connection does not get through a cut either.
        self.pass(direction);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoning is ignored: nothing panics under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, and a client that reaches it through a proxy.
    fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut back = stream.try_clone().unwrap();
            let _ = io::copy(&mut &stream, &mut back);
        });
        let proxy = Proxy::start(port).unwrap();
        let client = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        (proxy, client)
    }

    fn ask(client: &mut TcpStream) -> io::Result<[u8; 4]> {
        client.write_all(b"ping")?;
        let mut answer = [0; 4];
        client.read_exact(&mut answer).map(|()| answer)
    }

    #[test]
    fn a_cut_link_delivers_everything_when_it_works_again() {
        let (proxy, mut client) = echo();
        assert_eq!(&ask(&mut client).unwrap(), b"ping");
        proxy.set(Link::Cut);
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(ask(&mut client).is_err());
        client.set_read_timeout(None).unwrap();
        proxy.set(Link::Works);
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }

    #[test]
    fn a_link_that_lost_bytes_closes_its_connections() {
        let (proxy, mut client) = echo();
        assert_eq!(&ask(&mut client).unwrap(), b"ping");
        proxy.set(Link::LosesAnswers);
        client.write_all(b"ping").unwrap();
        proxy.set(Link::Works);
        assert!(ask(&mut client).is_err());
    }

    #[test]
    fn a_slow_link_takes_its_time() {
        let (proxy, mut client) = echo();
        let delay = Duration::from_millis(30);
        proxy.set(Link::Slow(delay));
        let start = std::time::Instant::now();
        assert_eq!(&ask(&mut client).unwrap(), b"ping");
        assert!(start.elapsed() >= 2 * delay);
    }
}
