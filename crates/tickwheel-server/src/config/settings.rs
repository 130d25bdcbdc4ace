//! Values with their origins, collected from all sources.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::options::{OPTIONS, OTHER_VARIABLES};
use super::{Config, config_of, file};

/// Where a value came from.
///
/// ```
/// use tickwheel_server::config::Origin;
/// assert_eq!(Origin::Flag("--listen".into()).to_string(), "flag --listen");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 is the file as a whole.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// What is wrong with the configuration, and where.
///
/// ```
/// use tickwheel_server::config;
///
/// let flags = [("limits.body".to_owned(), "lots".to_owned())];
/// let error = config::load(&flags, [], None).unwrap_err();
/// assert!(error.to_string().starts_with("flag --limits-body: \"lots\" is not a size"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where the wrong value came from.
    pub origin: Origin,
    /// The option, if one is concerned.
    pub option: Option<&'static str>,
    /// What is wrong, and what to do.
    pub why: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let (Origin::File { .. } | Origin::Default, Some(option)) = (&self.origin, self.option) {
            write!(f, "{option}: ")?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for ConfigError {}

/// A value with its origin.
///
/// ```
/// let settings = tickwheel_server::config::load(&[], [], None)?;
/// let listen = &settings.all()[0];
/// assert_eq!((listen.name, &listen.value[..]), ("listen", "127.0.0.1:7300"));
/// assert_eq!(listen.origin.to_string(), "default");
/// # Ok::<(), tickwheel_server::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The option.
    pub name: &'static str,
    /// The value, as given.
    pub value: String,
    /// Its origin.
    pub origin: Origin,
}

/// All values with their origins, and the configuration that they make up.
///
/// ```
/// let environment = [("TICKWHEEL_LISTEN".into(), "127.0.0.1:0".into())];
/// let settings = tickwheel_server::config::load(&[], environment, None)?;
/// assert_eq!(settings.all()[0].origin.to_string(), "environment TICKWHEEL_LISTEN");
/// assert_eq!(settings.config().listen.port(), 0);
/// # Ok::<(), tickwheel_server::config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    all: Vec<Setting>,
    config: Config,
    warnings: Vec<String>,
}

impl Settings {
    /// Every option, in the order of [`OPTIONS`].
    ///
    /// ```
    /// use tickwheel_server::config::{self, OPTIONS};
    /// assert_eq!(config::load(&[], [], None)?.all().len(), OPTIONS.len());
    /// # Ok::<(), config::ConfigError>(())
    /// ```
    pub fn all(&self) -> &[Setting] {
        &self.all
    }

    /// The configuration.
    ///
    /// ```
    /// use tickwheel_server::config;
    /// assert!(!config::load(&[], [], None)?.config().insecure);
    /// # Ok::<(), config::ConfigError>(())
    /// ```
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Harmless oddities, such as an unknown variable.
    ///
    /// ```
    /// use tickwheel_server::config;
    /// let environment = [("TICKWHEEL_LISTN".into(), "127.0.0.1:0".into())];
    /// let settings = config::load(&[], environment, None)?;
    /// assert!(settings.warnings()[0].contains("TICKWHEEL_LISTN"));
    /// # Ok::<(), config::ConfigError>(())
    /// ```
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Collects and parses all values. `flags` has the names of options, `variables` is the environment
/// of the process.
///
/// ```
/// use tickwheel_server::config::{self, Origin};
///
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("tickwheel.toml");
/// std::fs::write(&file, "near = 1000\n[limits]\nbody = \"1MiB\"\nrate = 50\n")?;
///
/// let flags = [("limits.rate".to_owned(), "10".to_owned())];
/// let settings = config::load(&flags, std::env::vars_os(), Some(&file))?;
/// let config = settings.config();
/// assert_eq!((config.limits.rate, config.limits.body, config.near), (10, 1 << 20, 1_000));
/// let body = settings.all().iter().find(|setting| setting.name == "limits.body").unwrap();
/// assert_eq!(body.origin, Origin::File { path: file, line: 3 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, or a value is invalid.
pub fn load(
    flags: &[(String, String)],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    file: Option<&Path>,
) -> Result<Settings, ConfigError> {
    let mut all: Vec<Setting> = OPTIONS
        .iter()
        .map(|option| Setting {
            name: option.name,
            value: option.default.to_owned(),
            origin: Origin::Default,
        })
        .collect();
    let mut warnings = Vec::new();
    if let Some(path) = file {
        file::read(path, &mut all)?;
    }
    for (name, value) in environment {
        take_variable(&name, value, &mut all, &mut warnings)?;
    }
    for (name, value) in flags {
        let place = OPTIONS.iter().position(|option| option.name == name);
        let Some(place) = place else {
            return Err(ConfigError {
                origin: Origin::Flag(format!("--{name}")),
                option: None,
                why: format!("there is no option {name:?}"),
            });
        };
        all[place].value.clone_from(value);
        all[place].origin = Origin::Flag(format!("--{}", OPTIONS[place].flag()));
    }
    let config = config_of(&all)?;
    Ok(Settings { all, config, warnings })
}

fn take_variable(
    name: &OsString,
    value: OsString,
    all: &mut [Setting],
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let Some(name) = name.to_str().filter(|name| name.starts_with("TICKWHEEL_")) else {
        return Ok(());
    };
    let Some(place) = OPTIONS.iter().position(|option| option.variable() == name) else {
        if !OTHER_VARIABLES.contains(&name) {
            warnings.push(format!(
                "the environment variable {name} is ignored: there is no such option"
            ));
        }
        return Ok(());
    };
    let origin = Origin::Environment(name.to_owned());
    let option = Some(OPTIONS[place].name);
    let value = value.into_string().map_err(|_| ConfigError {
        origin: origin.clone(),
        option,
        why: "its value is not UTF-8".into(),
    })?;
    all[place].value = value;
    all[place].origin = origin;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn flag(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn a_later_source_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\nhorizon = 2000\ninsecure = true\n")
            .unwrap();
        let environment: [(OsString, OsString); 2] = [
            ("TICKWHEEL_LISTEN".into(), "127.0.0.1:2".into()),
            ("TICKWHEEL_HORIZON".into(), "3s".into()),
        ];
        let settings = load(&flag("listen", "127.0.0.1:3"), environment, Some(&file)).unwrap();
        let config = settings.config();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.horizon, Duration::from_secs(3));
        assert!(config.insecure);
        let origin = |name: &str| {
            let setting = settings.all().iter().find(|setting| setting.name == name);
            setting.unwrap().origin.to_string()
        };
        assert_eq!(origin("listen"), "flag --listen");
        assert_eq!(origin("data"), "default");
        assert_eq!(origin("insecure"), format!("{}:3", file.display()));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        for (text, wanted) in [
            ("\n[limits]\nbody = \"much\"", "a.toml:3: limits.body: \"much\" is not a size"),
            ("[limits]\nboddy = 1", "a.toml:2: there is no option `limits.boddy`"),
            (
                "listen = [1]",
                "a.toml:1: listen: the value must be a text, an integer or a boolean, got an array",
            ),
            ("near = 1\nnear = 2", "a.toml:2: duplicate key"),
            ("a = ", "a.toml:1: "),
            ("durability = \"often\"", "a.toml:1: durability: must be sync, none, or the interval"),
            ("[tls]\ncert = \"c.pem\"", "a.toml:2: tls.cert: a certificate alone"),
            ("[limits]\nbatch = 0", "a.toml:2: limits.batch: must be between 1 and"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = load(&[], [], Some(&file)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
        let error = load(&[], [], Some(&folder.path().join("none.toml"))).unwrap_err();
        assert!(error.to_string().contains("none.toml: the file cannot be read"), "{error}");
        let error = load(&flag("listen", "here"), [], None).unwrap_err().to_string();
        assert!(error.starts_with("flag --listen: \"here\" is not an address"), "{error}");
    }
}
