//! Parsing values: the errors name the value and its bounds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tickwheel_queue::Durability;

use super::{AccessLog, ConfigError, PushAllow, Setting};
use crate::api::Delay;

pub(super) struct Value<'a>(pub(super) &'a Setting);

impl Value<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.value.is_empty()
    }

    pub(super) fn wrong(&self, why: impl Into<String>) -> ConfigError {
        ConfigError { origin: self.0.origin.clone(), option: Some(self.0.name), why: why.into() }
    }

    pub(super) fn address(&self) -> Result<SocketAddr, ConfigError> {
        let text = &self.0.value;
        if let Some(port) = text.strip_prefix("localhost:")
            && let Ok(port) = port.parse()
        {
            return Ok((IpAddr::from(Ipv4Addr::LOCALHOST), port).into());
        }
        text.parse().map_err(|_| {
            self.wrong(format!(
                "{text:?} is not an address: write an IP address and a port, such as \
                 127.0.0.1:7300 or [::1]:7300"
            ))
        })
    }

    pub(super) fn path(&self) -> Result<PathBuf, ConfigError> {
        if self.is_empty() {
            return Err(self.wrong("the path must not be empty"));
        }
        Ok(PathBuf::from(&self.0.value))
    }

    /// An address of HTTP or HTTPS, without a query.
    pub(super) fn http_url(&self) -> Result<axum::http::Uri, ConfigError> {
        let text = &self.0.value;
        let uri: Option<axum::http::Uri> = text.parse().ok();
        uri.filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && uri.query().is_none()
        })
        .ok_or_else(|| {
            self.wrong(format!(
                "{text:?} is not the address of a collector: write it like http://127.0.0.1:4318"
            ))
        })
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        match &self.0.value[..] {
            "true" => Ok(true),
            "false" => Ok(false),
            text => Err(self.wrong(format!("{text:?} is neither true nor false"))),
        }
    }

    pub(super) fn push_allow(&self) -> Result<PushAllow, ConfigError> {
        self.0.value.parse().map_err(|why: String| self.wrong(why))
    }

    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let text = &self.0.value;
        let number = text
            .replace('_', "")
            .parse()
            .map_err(|_| self.wrong(format!("{text:?} is not a number")))?;
        self.within(number, least, most)
    }

    fn within(&self, number: u64, least: u64, most: u64) -> Result<u64, ConfigError> {
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.wrong(format!("must be between {least} and {most}, got {number}")))
    }

    /// Bytes, with a unit or without.
    pub(super) fn size(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let text = &self.0.value;
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit: Option<u64> = match text[digits..].trim_start() {
            "" | "B" => Some(1),
            "kB" => Some(1_000),
            "KiB" => Some(1 << 10),
            "MB" => Some(1_000_000),
            "MiB" => Some(1 << 20),
            "GB" => Some(1_000_000_000),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let number = text[..digits].parse::<u64>().ok();
        let bytes = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
        let bytes = bytes.ok_or_else(|| {
            self.wrong(format!(
                "{text:?} is not a size: write a number of bytes, or a number with one of the \
                 units B, kB, KiB, MB, MiB, GB, GiB"
            ))
        })?;
        self.within(bytes, least, most)
    }

    pub(super) fn length(&self, least: Duration, most: Duration) -> Result<Duration, ConfigError> {
        let delay: Delay = self.0.value.parse().map_err(|error| self.wrong(format!("{error}")))?;
        if (least..=most).contains(&delay.0) {
            return Ok(delay.0);
        }
        let (least, most) = (Delay(least), Delay(most));
        Err(self.wrong(format!("must be between {least} and {most}, got {delay}")))
    }

    pub(super) fn durability(&self) -> Result<Durability, ConfigError> {
        match &self.0.value[..] {
            "sync" => Ok(Durability::Sync),
            "none" => Ok(Durability::None),
            text if text.starts_with(|first: char| first.is_ascii_digit()) => self
                .length(Duration::from_millis(1), Duration::from_secs(60))
                .map(Durability::Interval),
            text => Err(self.wrong(format!(
                "must be sync, none, or the interval between syncs such as 100ms, got {text:?}"
            ))),
        }
    }

    pub(super) fn is_manual(&self) -> Result<bool, ConfigError> {
        match &self.0.value[..] {
            "system" => Ok(false),
            "manual" => Ok(true),
            text => Err(self.wrong(format!("{text:?} is not a clock: write system or manual"))),
        }
    }

    pub(super) fn access_log(&self) -> Result<AccessLog, ConfigError> {
        match &self.0.value[..] {
            "all" => Ok(AccessLog::All),
            "errors" => Ok(AccessLog::Errors),
            "none" => Ok(AccessLog::None),
            text => Err(self.wrong(format!("must be all, errors or none, got {text:?}"))),
        }
    }
}
