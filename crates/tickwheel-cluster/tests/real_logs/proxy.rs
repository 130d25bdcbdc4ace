//! A TCP proxy that loses what it shall forward.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::cases::Network;

/// Forwards connections from a port of its own to a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    network: AtomicU8,
    connections: Mutex<Vec<TcpStream>>,
}

const WORKS: u8 = 0;
const LOSES_ANSWERS: u8 = 1;
const LOSES_REQUESTS: u8 = 2;

impl Proxy {
    /// Starts to forward to a port of loopback. The threads end with the program.
    pub(crate) fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state =
            Arc::new(State { network: AtomicU8::new(WORKS), connections: Mutex::default() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().filter_map(Result::ok) {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) {
                    shared.forward(client, server);
                }
            }
        });
        Self { port, state }
    }

    /// Changes what the network does. When it works again, connections that lost something are
    /// closed, so that clients connect anew.
    pub(crate) fn set(&self, network: Network) {
        let code = match network {
            Network::Works => WORKS,
            Network::LosesAnswers => LOSES_ANSWERS,
            Network::LosesRequests => LOSES_REQUESTS,
        };
        let before = self.state.network.swap(code, Ordering::SeqCst);
        if network == Network::Works && before != WORKS {
            for connection in self.state.connections().drain(..) {
                // It may be closed already.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }
}

impl State {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forward(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let streams = [&client, &server].map(|it| it.try_clone().unwrap());
        self.connections().extend(streams);
        let pairs = [
            (client.try_clone().unwrap(), server.try_clone().unwrap(), LOSES_REQUESTS),
            (server, client, LOSES_ANSWERS),
        ];
        for (from, to, losing) in pairs {
            let state = Arc::clone(self);
            thread::spawn(move || state.copy(from, to, losing));
        }
    }

    /// Copies bytes in one direction, unless the network loses them.
    fn copy(&self, mut from: TcpStream, mut to: TcpStream, losing: u8) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if self.network.load(Ordering::SeqCst) == losing {
                continue;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
