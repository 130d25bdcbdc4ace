//! `serve`: the service, with its log and its signals.

use std::io::{self, IsTerminal};
use std::path::Path;

use tickwheel_server::config::{ConfigError, Setting, Settings};
use tickwheel_server::{Server, Shutdown};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::style::Style;

pub(crate) fn run(output: &Output, args: &ServeArgs) -> Result<(), Failure> {
    let settings = super::config::load(&args.options.flags.0, args.options.config.as_deref())?;
    start_log(&settings)?;
    // Only the owner of the files may read jobs and the signing secrets of targets.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Other(format!("the runtime does not start: {error}")))?;
    runtime.block_on(serve(output, &settings))
}

async fn serve(output: &Output, settings: &Settings) -> Result<(), Failure> {
    let failure = |error: &dyn std::error::Error| Failure::Other(error.to_string());
    // Signals are caught before anything else, also while the store is opened.
    let shutdown = Shutdown::on_signals().map_err(|error| failure(&error))?;
    let config = settings.config();
    let server = Server::bind(config.clone()).await.map_err(|error| failure(&error))?;
    let scheme = if server.is_tls() { "https" } else { "http" };
    let url = format!("{scheme}://{}", server.local_addr());
    tracing::info!(data = %config.data.display(), "listening on {url}");
    greet(output, &url, &config.data)?;
    server.run(shutdown).await;
    Ok(())
}

/// Prints a few lines for a user at a terminal.
fn greet(output: &Output, url: &str, data: &Path) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let faint = |text: &str| output.paint.text(Style::Faint, text);
    output.line(format!(
        "\n  {}  {}\n  {}      {}\n  {}       curl {url}/v1/queues/mail/jobs -H 'content-type: \
         application/json' -d '{{\"text\":\"hello\",\"delay\":\"5s\"}}'\n  {}      {url}/docs\n  \
         {}      Ctrl-C\n",
        faint("Tickwheel"),
        output.paint.text(Style::Good, url),
        faint("data"),
        data.display(),
        faint("try"),
        faint("docs"),
        faint("stop"),
    ))
}

fn setting<'a>(settings: &'a Settings, name: &str) -> &'a Setting {
    settings.all().iter().find(|setting| setting.name == name).expect("the option is in the table")
}

fn wrong(setting: &Setting, why: String) -> Failure {
    let origin = setting.origin.clone();
    Failure::Usage(ConfigError { origin, option: Some(setting.name), why }.to_string())
}

/// Refuses a malformed log filter.
pub(crate) fn check_log(settings: &Settings) -> Result<(), Failure> {
    is_json(settings)?;
    log_filter(settings).map(drop)
}

/// Parses the log filter: levels and modules.
fn log_filter(settings: &Settings) -> Result<Targets, Failure> {
    let setting = setting(settings, "log_level");
    // The filter would take a lone word that is not a level as the name of a module. For people it
    // is a mistake.
    let level = |part: &'_ str| {
        let level = part.split_once('=').map_or(part, |(_, level)| level);
        level.trim().parse::<LevelFilter>().is_ok()
    };
    let filter = setting.value.parse();
    filter.ok().filter(|_| setting.value.split(',').all(level)).ok_or_else(|| {
        let why = format!(
            "{:?} is not a level: use off, error, warn, info, debug or trace, also for a part \
             like \"info,tickwheel_queue=debug\"",
            setting.value
        );
        wrong(setting, why)
    })
}

/// Returns `true` if the log is JSON.
fn is_json(settings: &Settings) -> Result<bool, Failure> {
    let form = setting(settings, "log");
    match form.value.as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        other => Err(wrong(form, format!("{other:?} is not a log format: use text or json"))),
    }
}

/// Starts the log on standard error: a line for each event, for people or for programs.
fn start_log(settings: &Settings) -> Result<(), Failure> {
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let layer = if is_json(settings)? {
        layer.json().flatten_event(true).with_filter(log_filter(settings)?).boxed()
    } else {
        let has_colours = io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        layer.with_ansi(has_colours).with_target(false).with_filter(log_filter(settings)?).boxed()
    };
    tracing_subscriber::registry().with(layer).init();
    Ok(())
}
