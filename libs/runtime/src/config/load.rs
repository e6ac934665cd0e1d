//! Reading the configuration file and checking its values.

use std::path::{Path, PathBuf};

use lacuna_model::{ClusterId, SettingError};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::sections::{BusSettings, Cluster, Config, Http, Sections, Telemetry};
use crate::identity::{Identity, IdentityError};

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not what was expected.
    #[error("{path}:{line}:{column}: {key}: {reason}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Key path, e.g. `planner.horizon`.
        key: String,
        /// The error, with the values that are accepted.
        reason: String,
    },
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The identity is of another cluster.
    #[error(
        "{path} is an identity of cluster {identity}, but the configuration says {cluster}: take \
         one of cluster {cluster}, or leave [cluster] id and --cluster out",
        path = path.display()
    )]
    OtherCluster {
        /// The identity's file.
        path: PathBuf,
        /// The cluster that the configuration names.
        cluster: ClusterId,
        /// That of the identity.
        identity: ClusterId,
    },
    /// A value is out of its range.
    #[error(transparent)]
    Value(#[from] SettingError),
}

/// The sections of every program, and the names of all others. This is the one list of sections: each
/// program refuses a section that is not in it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Known {
    cluster: Cluster,
    bus: BusSettings,
    http: Http,
    telemetry: Telemetry,
    ingest: IgnoredAny,
    forecast: IgnoredAny,
    planner: IgnoredAny,
    control: IgnoredAny,
    agent: IgnoredAny,
    gateway: IgnoredAny,
}

impl Known {
    fn with<S>(self, own: S) -> Config<S> {
        Config {
            cluster: self.cluster,
            bus: self.bus,
            http: self.http,
            telemetry: self.telemetry,
            own,
        }
    }
}

impl<S: Sections> Config<S> {
    /// Reads and checks a file, and takes secrets from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (config, errors) = Self::inspect(path);
        errors.into_iter().next().map_or(Ok(config), Err)
    }

    /// Reads a file as [`Config::load`] does and goes on after errors: the settings without those that
    /// are wrong, and every error.
    #[must_use]
    pub fn inspect(path: &Path) -> (Self, Vec<ConfigError>) {
        let mut errors = Vec::new();
        let sound = match std::fs::read_to_string(path) {
            Ok(text) => readable(text, path, &mut errors),
            Err(source) => {
                let path = path.to_owned();
                errors.push(ConfigError::Read { path, source });
                None
            }
        };
        let config = sound.map(|(config, table)| within_range(config, table, &mut errors));
        (config.unwrap_or_default(), errors)
    }

    /// Reads the text of a file. `path` is used in errors only.
    ///
    /// # Errors
    /// [`ConfigError::Parse`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let placed = |e: toml::de::Error| {
            let offset = e.span().map_or(0, |s| s.start).min(text.len());
            let before = text.get(..offset).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            ConfigError::Parse {
                path: path.to_owned(),
                line,
                column,
                key: key_at(text, line),
                reason: e.message().to_owned(),
            }
        };
        let known: Known = toml::from_str(text).map_err(placed)?;
        Ok(known.with(toml::from_str(text).map_err(placed)?))
    }

    /// The configuration that a table has.
    fn from_table(table: toml::Table) -> Result<Self, toml::de::Error> {
        let known: Known = table.clone().try_into()?;
        Ok(known.with(table.try_into()?))
    }

    /// Adds the secrets of the environment (`LACUNA_NATS_PASSWORD`).
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        if let Ok(password) = std::env::var("LACUNA_NATS_PASSWORD") {
            self.bus.password = Some(password.into());
        }
        self
    }

    /// Takes cluster and address from the identity, where they still have their defaults.
    ///
    /// # Errors
    /// The identity cannot be used, or it is of another cluster.
    pub fn with_identity(mut self) -> Result<Self, ConfigError> {
        let Some(path) = &self.bus.identity else {
            return Ok(self);
        };
        let identity = Identity::load(path)?;
        if self.bus.url == BusSettings::default().url {
            self.bus.url = identity.url;
        }
        if self.cluster.id == Cluster::default().id {
            self.cluster.id = identity.cluster;
        } else if self.cluster.id != identity.cluster {
            return Err(ConfigError::OtherCluster {
                path: path.clone(),
                cluster: self.cluster.id,
                identity: identity.cluster,
            });
        }
        Ok(self)
    }

    /// The configuration in force as TOML, with all defaults and no secrets.
    ///
    /// # Errors
    /// If it cannot be written as TOML, which cannot happen for a checked one.
    pub fn print(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Checks the values that types alone do not restrict.
    ///
    /// # Errors
    /// [`ConfigError::Value`] with key and expectation.
    pub fn check(&self) -> Result<(), ConfigError> {
        SettingError::unless_positive([
            ("bus.connect_limit", self.bus.connect_limit),
            ("bus.request_limit", self.bus.request_limit),
        ])?;
        SettingError::unless(
            !self.bus.url.contains('@'),
            "bus.url",
            "an address with a user or password",
            "an address alone; bus.identity, bus.credentials or bus.user names the user",
        )?;
        SettingError::unless(
            (300..=60_000).contains(&self.cluster.lead.as_ms()),
            "cluster.lead",
            self.cluster.lead,
            "a length of time from 300ms to 60s",
        )?;
        self.own.check()?;
        SettingError::unless(
            crate::telemetry::filter(&self.telemetry.log).is_ok(),
            "telemetry.log",
            format!("{:?}", self.telemetry.log),
            "a level (info) or directives (info,lacuna_planner=debug)",
        )?;
        Ok(())
    }
}

/// The configuration of a text without the lines that cannot be read, and its table. None if it cannot
/// be read without them.
fn readable<S: Sections>(
    mut text: String,
    path: &Path,
    errors: &mut Vec<ConfigError>,
) -> Option<(Config<S>, toml::Table)> {
    let mut before: Option<(usize, String)> = None;
    loop {
        let error = match Config::parse(&text, path) {
            Ok(config) => {
                errors.sort_by_key(|error| match error {
                    ConfigError::Parse { line, .. } => *line,
                    _ => 0,
                });
                return Some((config, text.parse().ok()?));
            }
            Err(error) => error,
        };
        let place = match &error {
            ConfigError::Parse { line, reason, .. } => Some((*line, reason.clone())),
            _ => None,
        };
        // The error is not of the lines that were left out.
        if place == before {
            return None;
        }
        errors.push(error);
        text = without_entry(&text, place.as_ref()?.0)?;
        before = place;
    }
}

/// A text with empty lines in place of the entry or the section that begins at a line, from 1. None if
/// no such text can be read.
fn without_entry(text: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let first = line.checked_sub(1)?;
    let behind = lines.iter().skip(line).position(is_header);
    let section = behind.map_or(lines.len(), |more| line + more);
    // A value may have several lines.
    let shortest = if is_header(lines.get(first)?) {
        section
    } else {
        line
    };
    (shortest..=section).find_map(|end| {
        let kept = lines.iter().enumerate();
        let kept = kept.map(|(at, &text)| if (first..end).contains(&at) { "" } else { text });
        let shorter = kept.collect::<Vec<&str>>().join("\n");
        let is_readable = shorter.parse::<toml::Table>().is_ok();
        (is_readable && shorter.trim_end() != text.trim_end()).then_some(shorter)
    })
}

/// The configuration without the settings that are out of their range. `table` has what was given.
fn within_range<S: Sections>(
    config: Config<S>,
    mut table: toml::Table,
    errors: &mut Vec<ConfigError>,
) -> Config<S> {
    let mut config = config.with_secrets();
    while let Err(error) = config.check() {
        let is_left_out = match &error {
            ConfigError::Value(SettingError { key, .. }) => leave_out(&mut table, key),
            _ => false,
        };
        errors.push(error);
        match Config::<S>::from_table(table.clone()) {
            Ok(rest) if is_left_out => config = rest.with_secrets(),
            _ => break,
        }
    }
    config
}

/// Takes a key out of a table, or the innermost section of it that was given; whether there was one.
fn leave_out(table: &mut toml::Table, key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else {
        return table.remove(key).is_some();
    };
    let inner = table.get_mut(section).and_then(toml::Value::as_table_mut);
    inner.is_some_and(|inner| leave_out(inner, rest)) || table.remove(section).is_some()
}

/// The key path at a line: the last table header before it, and the key on it.
fn key_at(text: &str, line: usize) -> String {
    let mut table = String::new();
    let mut key = String::new();
    for (number, content) in text.lines().enumerate().take(line) {
        let content = content.trim();
        if let Some(header) = content.strip_prefix('[') {
            let end = header.find(']').unwrap_or(header.len());
            table = header.get(..end).unwrap_or_default().trim().to_owned();
        } else if number + 1 == line
            && let Some((name, _)) = content.split_once('=')
        {
            key = name.trim().to_owned();
        }
    }
    match (table.is_empty(), key.is_empty()) {
        (true, true) => "(top)".to_owned(),
        (true, false) => key,
        (false, true) => table,
        (false, false) => format!("{table}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{PlannerSettings, Span};
    use serde::Serialize;

    use super::*;

    /// The sections of a program that reads `[planner]` alone.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Planning {
        planner: PlannerSettings,
    }

    impl Sections for Planning {
        fn check(&self) -> Result<(), SettingError> {
            self.planner.check()
        }
    }

    fn parse(text: &str) -> Result<Config<Planning>, ConfigError> {
        let config = Config::<Planning>::parse(text, Path::new("lacuna.toml"))?;
        config.check()?;
        Ok(config)
    }

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_means_defaults_and_print_reads_back() {
        let config = parse("").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(parse(&config.print().unwrap()).unwrap(), config);
    }

    #[test]
    fn an_unknown_key_names_file_line_and_key() {
        let error = refused("[planner]\npolicy = \"dp\"\nhorizn = \"120s\"\n");
        assert!(
            error.starts_with("lacuna.toml:3:1: planner.horizn: "),
            "{error}"
        );
        assert!(
            error.contains("unknown field") && error.contains("`horizon`"),
            "{error}"
        );
        let error = refused("[bus]\nurll = \"nats://n\"\n");
        assert!(error.starts_with("lacuna.toml:2:1: bus.urll: "), "{error}");
    }

    /// A section of another program is its owner's to read; a section that nothing reads is refused.
    #[test]
    fn a_section_of_no_program_is_refused_and_one_of_another_is_passed_over() {
        let error = refused("[plannr]\n");
        assert!(
            error.contains("plannr") && error.contains("`planner`") && error.contains("`agent`"),
            "{error}"
        );
        let other = parse("[agent]\ngrase = \"1s\"\n[planner]\nhorizon = \"7s\"\n").unwrap();
        assert_eq!(other.planner.horizon, Span::from_secs(7));
        assert!(!other.print().unwrap().contains("[agent]"));
    }

    #[test]
    fn every_error_of_a_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lacuna.toml");
        let errors = |text: &str| -> Vec<String> {
            std::fs::write(&path, text).unwrap();
            let (_, errors) = Config::<Planning>::inspect(&path);
            let shown = errors.iter().map(ToString::to_string);
            shown
                .map(|error| error.replace(&format!("{}:", path.display()), ""))
                .collect()
        };
        let text = "# a file with errors of each kind\n[planner]\nhorizn = \"10s\"\n\
                    horizon = \"0s\"\ngap = 2.0\n[plannr]\nhorizon = \"3s\"\n\
                    [planner.forecasting]\nhorizon = [\n  \"a\",\n  7,\n]\nscenarios = 0\n\
                    [telemetry]\nlog = \"x=y=z\"\n";
        let found = errors(text);
        for (error, expected) in found.iter().zip([
            "3:1: planner.horizn: unknown field",
            "6:2: plannr: unknown field",
            "planner.forecasting",
            "planner.horizon is 0ms",
            "planner.gap is 2",
            "planner.forecasting.scenarios is 0",
            "telemetry.log",
        ]) {
            assert!(error.contains(expected), "{expected}: {found:#?}");
        }
        assert_eq!(found.len(), 7, "{found:#?}");
        let found = errors("[planner]\nhorizon = \n[x]\n");
        assert!(
            found[1].contains("unknown field `x`") && found.len() == 2,
            "{found:#?}"
        );
        assert_eq!(errors(""), [""; 0]);
        std::fs::remove_file(&path).unwrap();
        let gone = Config::<Planning>::load(&path).unwrap_err();
        assert!(gone.to_string().contains("cannot read"), "{gone}");
    }

    #[test]
    fn a_bare_number_is_no_length_of_time() {
        let error = refused("[planner]\nhorizon = \"120\"\n");
        assert!(error.starts_with("lacuna.toml:2:"), "{error}");
        assert!(
            error.contains("planner.horizon") && error.contains("as in 10s"),
            "{error}"
        );
    }

    #[test]
    fn the_password_is_never_printed() {
        let mut config = Config::<Planning>::default();
        config.bus.password = Some("geheim".to_owned().into());
        assert!(!config.print().unwrap().contains("geheim"));
        assert!(!format!("{config:?}").contains("geheim"));
        assert!(config.print().unwrap().contains("[planner]"));
    }
}
