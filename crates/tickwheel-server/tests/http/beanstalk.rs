//! The beanstalkd protocol on a real socket: puts, inspection, tokens and limits.

use std::net::SocketAddr;

use serde_json::json;
use tempfile::TempDir;
use tickwheel::ManualClock;
use tickwheel_server::config::Config;
use tickwheel_server::tokens::Scope;
use tickwheel_server::{Server, StartError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::{PATIENCE, Service, config, token};

/// Starts a service that speaks the protocol.
pub(crate) async fn service() -> Service {
    Service::with(listen).await
}

pub(crate) fn listen(config: &mut Config) {
    config.beanstalk = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

/// Starts a service with a manual clock.
pub(crate) async fn service_with_clock() -> (Service, ManualClock) {
    let clock = ManualClock::new();
    // Due times are rounded up to whole milliseconds. If the clock had a fraction, jobs would be
    // due slightly later than the test advances it.
    clock.set_wall(tickwheel_queue::Time::from(clock.wall()).into());
    let own = clock.clone();
    let service = Service::with(|config| {
        listen(config);
        config.clock = Some(own);
    });
    (service.await, clock)
}

/// A client that sends exactly the given bytes.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) async fn of(service: &Service) -> Self {
        Self(BufReader::new(TcpStream::connect(service.beanstalk.unwrap()).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns the next line without its line break; empty at the end of the connection.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line));
        read.await.expect("an answer").unwrap();
        line.trim_end_matches("\r\n").to_owned()
    }

    /// Sends a command and returns its answer, with data if there is any.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(&format!("{command}\r\n")).await;
        self.answer().await
    }

    pub(crate) async fn answer(&mut self) -> String {
        let line = self.line().await;
        let has_data = ["OK ", "RESERVED ", "FOUND "].iter().any(|word| line.starts_with(word));
        if !has_data {
            return line;
        }
        let length: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
        let mut data = vec![0; length + 2];
        self.0.read_exact(&mut data).await.unwrap();
        let data = String::from_utf8(data).unwrap();
        format!("{line}\n{}", data.strip_suffix("\r\n").expect("data ends with a line's end"))
    }

    /// Puts a job and returns its number.
    pub(crate) async fn put(&mut self, terms: &str, body: &str) -> u64 {
        let answer = self.ask(&format!("put {terms} {}\r\n{body}", body.len())).await;
        answer.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    }

    /// Returns a field of a YAML answer.
    pub(crate) async fn field(&mut self, command: &str, name: &str) -> String {
        let answer = self.ask(command).await;
        let value = answer.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.unwrap_or_else(|| panic!("{name} is not in {answer}")).to_owned()
    }

    /// Closes the sending side and returns what the server still sends.
    pub(crate) async fn hang_up(mut self) -> String {
        self.0.shutdown().await.unwrap();
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).await.unwrap();
        rest
    }
}

#[tokio::test]
async fn pipelined_puts_share_commits_and_are_answered_in_order() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let commits = async || service.get("/v1/stats").await.json()["commits"].as_u64().unwrap();
    client.put("0 0 60", "first").await;
    let before = commits().await;
    let puts: Vec<_> = (0..200).map(|n| format!("put {n} 0 60 3\r\n{n:03}\r\n")).collect();
    let all = puts.concat();
    client.send(&format!("{all}use other\r\nput 0 0 60 1\r\nx\r\nnonsense\r\n")).await;
    let mut numbers = Vec::new();
    for _ in 0..200 {
        let line = client.line().await;
        numbers.push(line.strip_prefix("INSERTED ").unwrap().parse::<u64>().unwrap());
    }
    assert!(numbers.is_sorted() && numbers[0] < numbers[199], "{numbers:?}");
    assert_eq!(client.line().await, "USING other");
    assert!(client.line().await.starts_with("INSERTED "));
    assert_eq!(client.line().await, "UNKNOWN_COMMAND");
    let taken = commits().await - before;
    assert!(taken < 50, "{taken} commits for 201 puts");
    // Requests are executed in order: a job can be reserved by a request that follows its put.
    client.send("watch other\r\nput 0 0 60 1\r\ny\r\nreserve\r\nreserve\r\n").await;
    assert_eq!(client.line().await, "WATCHING 2");
    assert!(client.line().await.starts_with("INSERTED "));
    for _ in 0..2 {
        assert!(client.answer().await.starts_with("RESERVED "));
    }
    service.stop().await;
}

#[tokio::test]
async fn what_is_malformed_is_refused_and_the_connection_stays() {
    let service = Service::with(|config| {
        listen(config);
        config.queue_limits.payload = 100;
    });
    let service = service.await;
    let mut client = Client::of(&service).await;
    let long = "x".repeat(300);
    let large = "y".repeat(101);
    for (request, answer) in [
        ("bogus", "UNKNOWN_COMMAND"),
        ("delete x", "BAD_FORMAT"),
        (&long, "BAD_FORMAT"),
        (&format!("put 0 0 0 101\r\n{large}"), "JOB_TOO_BIG"),
        ("put 0 0 0 1\r\nabc", "EXPECTED_CRLF"),
        ("delete 1", "NOT_FOUND"),
        ("delete 18446744073709551615", "NOT_FOUND"),
        ("release 1 0 0", "NOT_FOUND"),
        ("bury 1 0", "NOT_FOUND"),
        ("touch 1", "NOT_FOUND"),
        ("peek 1", "NOT_FOUND"),
        ("peek-ready", "NOT_FOUND"),
        ("peek-delayed", "NOT_FOUND"),
        ("peek-buried", "NOT_FOUND"),
        ("kick-job 1", "NOT_FOUND"),
        ("kick 10", "KICKED 0"),
        ("reserve-job 1", "NOT_FOUND"),
        ("stats-job 1", "NOT_FOUND"),
        ("stats-tube nowhere", "NOT_FOUND"),
        ("pause-tube nowhere 1", "NOT_FOUND"),
        ("ignore default", "NOT_IGNORED"),
        ("ignore nowhere", "WATCHING 1"),
        ("reserve-with-timeout 0", "TIMED_OUT"),
        ("list-tube-used", "USING default"),
    ] {
        let given = client.ask(request).await;
        // The extra byte before the line break begins the next command.
        if answer == "EXPECTED_CRLF" {
            assert_eq!(given, "EXPECTED_CRLF");
            assert_eq!(client.line().await, "UNKNOWN_COMMAND");
            continue;
        }
        assert_eq!(given, answer, "{request}");
    }
    client.send("quit\r\n").await;
    assert_eq!(client.hang_up().await, "");
    service.stop().await;
}

#[tokio::test]
async fn a_browser_cannot_be_made_to_send_commands() {
    let service = service().await;
    let long = "x".repeat(300);
    for path in ["/", &long] {
        let mut browser = Client::of(&service).await;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:11300\r\n\r\nput 0 0 60 4\r\nevil\r\n"
        );
        browser.send(&request).await;
        let answers = browser.hang_up().await;
        assert!(!answers.contains("INSERTED"), "{answers}");
    }
    let mut client = Client::of(&service).await;
    assert_eq!(client.ask("peek-ready").await, "NOT_FOUND");
    service.stop().await;
}

#[tokio::test]
async fn jobs_of_http_have_numbers_and_jobs_of_the_port_are_seen_over_http() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    let id = service.put_text("mail", "by http").await;
    client.ask("watch mail").await;
    let reserved = client.ask("reserve").await;
    let number = reserved.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(reserved, format!("RESERVED {number} 7\nby http"));
    // Another connection finds the job by its number.
    let mut other = Client::of(&service).await;
    assert_eq!(other.ask(&format!("peek {number}")).await, format!("FOUND {number} 7\nby http"));
    assert_eq!(other.ask(&format!("delete {number}")).await, "NOT_FOUND");
    assert_eq!(other.field(&format!("stats-job {number}"), "ttr").await, "30");
    assert_eq!(client.ask(&format!("delete {number}")).await, "DELETED");
    assert_eq!(service.get(&format!("/v1/jobs/{id}")).await.status, 404);

    client.ask("use mail").await;
    let number = client.put("5 60 9", "later").await;
    assert!(number < 1 << 53);
    let page = service.get("/v1/queues/mail/jobs?state=scheduled").await.json();
    let job = &page["jobs"][0];
    assert_eq!(job["headers"]["beanstalk-put"], json!("5 60 9"), "{job}");
    let queue = service.get("/v1/queues/mail").await.json();
    assert_eq!(queue["settings"]["order"], json!("due"), "a queue keeps its order: {queue}");
    assert_eq!(other.ask(&format!("delete {number}")).await, "DELETED");

    client.ask("use fresh").await;
    client.put("5 0 9", "").await;
    let queue = service.get("/v1/queues/fresh").await.json();
    assert_eq!(queue["settings"]["order"], json!("priority"), "{queue}");
    service.stop().await;
}

#[tokio::test]
async fn an_id_that_holds_no_number_is_found_by_the_connection_that_was_shown_it() {
    let service = service().await;
    let id = "7d444840-9dc0-41d1-b245-5ffdce74fad2";
    service.post("/v1/queues/mail/jobs", json!({"text": "x", "id": id, "delay": "1h"})).await;
    let mut client = Client::of(&service).await;
    client.ask("use mail").await;
    let found = client.ask("peek-delayed").await;
    let number: u64 = found.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(number >= 1 << 62, "{found}");
    let mut other = Client::of(&service).await;
    assert_eq!(other.ask(&format!("delete {number}")).await, "NOT_FOUND");
    assert_eq!(client.ask(&format!("kick-job {number}")).await, "KICKED");
    assert_eq!(client.ask(&format!("delete {number}")).await, "DELETED");
    service.stop().await;
}

#[tokio::test]
async fn tubes_come_and_go_with_their_jobs_and_connections() {
    let service = service().await;
    let mut client = Client::of(&service).await;
    assert_eq!(client.ask("list-tubes").await, "OK 14\n---\n- default\n");
    assert_eq!(client.ask("use a").await, "USING a");
    assert_eq!(client.ask("watch b").await, "WATCHING 2");
    assert_eq!(client.ask("watch b").await, "WATCHING 2");
    assert_eq!(client.ask("list-tubes-watched").await, "OK 18\n---\n- default\n- b\n");
    assert_eq!(client.ask("list-tubes").await, "OK 22\n---\n- default\n- a\n- b\n");
    let number = client.put("0 0 60", "x").await;
    let mut other = Client::of(&service).await;
    assert_eq!(other.field("stats-tube a", "current-using").await, "1");
    assert_eq!(other.field("stats-tube a", "total-jobs").await, "1");
    assert_eq!(other.field("stats-tube b", "current-watching").await, "1");
    client.hang_up().await;
    let gone = async {
        while other.ask("stats-tube b").await != "NOT_FOUND" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the tube goes with its connection");
    assert_eq!(other.field("stats-tube a", "current-jobs-ready").await, "1");
    other.ask(&format!("delete {number}")).await;
    assert_eq!(other.ask("stats-tube a").await, "NOT_FOUND");
    assert_eq!(other.ask("list-tubes").await, "OK 14\n---\n- default\n");
    let stats = other.ask("stats").await;
    for line in ["cmd-put: 1", "cmd-watch: 2", "total-jobs: 1", "current-connections: 1"] {
        assert!(stats.lines().any(|it| it == line), "{line} is not in {stats}");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let open = Config { beanstalk: Some("0.0.0.0:0".parse().unwrap()), ..config(folder.path()) };
    let error = Server::bind(open.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::NeedsTokens(address) if address.port() == 0), "{error}");
    assert!(Server::bind(Config { insecure: true, ..open }).await.is_ok());
}

/// Starts a service with tokens for everything, for producers of `a-*` and for readers of `a-*`.
async fn service_with_tokens() -> (Service, [String; 3]) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let tokens = [
        token(&folder, "admin", &[Scope::Admin], &["*"]),
        token(&folder, "producer", &[Scope::Produce], &["a-*"]),
        token(&folder, "worker", &[Scope::Consume, Scope::Read], &["a-*"]),
    ];
    (Service::on(folder, listen).await, tokens)
}

#[tokio::test]
async fn a_token_comes_first_and_bounds_what_a_connection_may_do() {
    let (service, [admin, producer, worker]) = service_with_tokens().await;
    for first in ["stats", "put 0 0 0 3\r\nabc", "auth twk_a_b", "auth"] {
        let mut client = Client::of(&service).await;
        assert_eq!(client.ask(first).await, "UNAUTHORIZED", "{first}");
        assert_eq!(client.line().await, "");
    }
    let mut boss = Client::of(&service).await;
    assert_eq!(boss.ask(&format!("auth {admin}")).await, "OK");
    boss.ask("use secret").await;
    let secret = boss.put("0 0 60", "hidden").await;

    let mut put = Client::of(&service).await;
    assert_eq!(put.ask(&format!("auth {producer}")).await, "OK");
    put.ask("use a-1").await;
    let number = put.put("0 0 60", "x").await;
    put.ask("use secret").await;
    assert_eq!(put.ask("put 0 0 60 1\r\nx").await, "FORBIDDEN");
    assert_eq!(put.ask("reserve-with-timeout 0").await, "FORBIDDEN");
    assert_eq!(put.ask("stats").await, "FORBIDDEN");
    assert_eq!(put.ask(&format!("delete {secret}")).await, "NOT_FOUND");

    let mut work = Client::of(&service).await;
    assert_eq!(work.ask(&format!("auth {worker}")).await, "OK");
    // Only the watched tubes that the token may access count.
    assert_eq!(work.ask("reserve-with-timeout 0").await, "FORBIDDEN");
    work.ask("watch a-1").await;
    work.ask("watch secret").await;
    assert_eq!(work.ask("reserve").await, format!("RESERVED {number} 1\nx"));
    assert_eq!(work.ask("put 0 0 60 1\r\nx").await, "FORBIDDEN");
    assert_eq!(work.ask("kick 1").await, "FORBIDDEN");
    assert_eq!(work.ask(&format!("peek {secret}")).await, "NOT_FOUND");
    assert_eq!(work.ask("list-tubes").await, "OK 10\n---\n- a-1\n");
    assert_eq!(work.ask(&format!("delete {number}")).await, "DELETED");
    service.stop().await;
}

#[tokio::test]
async fn a_token_that_is_removed_ends_a_wait_and_what_it_held_is_released() {
    let (service, [admin, _, worker]) = service_with_tokens().await;
    let mut boss = Client::of(&service).await;
    boss.ask(&format!("auth {admin}")).await;
    boss.ask("use a-1").await;
    let number = boss.put("0 0 3600", "x").await;
    let mut work = Client::of(&service).await;
    work.ask(&format!("auth {worker}")).await;
    work.ask("watch a-1").await;
    assert!(work.ask("reserve").await.starts_with("RESERVED "));
    tickwheel_server::tokens::TokenStore::new(service.folder.path()).remove("worker").unwrap();
    let refused = async {
        loop {
            match &work.ask(&format!("touch {number}")).await[..] {
                "TOUCHED" => tokio::task::yield_now().await,
                answer => return answer.to_owned(),
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await.expect("tokens are read again");
    assert_eq!(refused, "UNAUTHORIZED");
    assert_eq!(work.line().await, "");
    boss.ask("watch a-1").await;
    assert_eq!(boss.ask("reserve").await, format!("RESERVED {number} 1\nx"));
    service.stop().await;
}

#[tokio::test]
async fn an_idle_connection_makes_room_and_one_with_a_job_does_not() {
    let service = Service::with(|config| {
        listen(config);
        config.limits.connections = 3;
    });
    let service = service.await;
    let mut holder = Client::of(&service).await;
    holder.put("0 0 3600", "x").await;
    let reserved = holder.ask("reserve").await;
    let mut idle = Client::of(&service).await;
    assert_eq!(idle.ask("use a").await, "USING a");
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = Client::of(&service).await;
        assert_eq!(other.ask("use b").await, "USING b");
        others.push(other);
    }
    assert_eq!(idle.line().await, "");
    let number = reserved.split(' ').nth(1).unwrap();
    assert_eq!(holder.ask(&format!("delete {number}")).await, "DELETED");
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_does_not_arrive_is_given_up() {
    let service = Service::with(|config| {
        listen(config);
        config.limits.header_timeout = std::time::Duration::from_millis(100);
        config.limits.body_timeout = std::time::Duration::from_millis(100);
    });
    let service = service.await;
    for begun in ["put 0 0", "put 0 0 60 5\r\nab", "put 0 0 60 9999999\r\nab"] {
        let mut client = Client::of(&service).await;
        client.send(begun).await;
        assert_eq!(client.line().await, "", "{begun}");
    }
    // A connection that sends nothing may stay open.
    let mut quiet = Client::of(&service).await;
    let mut late = Client::of(&service).await;
    late.send("put").await;
    assert_eq!(late.line().await, "");
    assert_eq!(quiet.ask("use a").await, "USING a");
    service.stop().await;
}
