//! Reading the configuration file and checking its values.

use std::path::{Path, PathBuf};

use lacuna_model::{ClusterId, SettingError};

use super::sections::Config;
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

impl Config {
    /// Reads and checks a file, and takes secrets from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let config = Self::parse(&text, path)?.with_secrets();
        config.check()?;
        Ok(config)
    }

    /// Reads the text of a file. `path` is used in errors only.
    ///
    /// # Errors
    /// [`ConfigError::Parse`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|e| {
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
        })
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
        let usual = Self::default();
        if self.bus.url == usual.bus.url {
            self.bus.url = identity.url;
        }
        if self.cluster.id == usual.cluster.id {
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
        self.ingest.check()?;
        self.forecast.check()?;
        self.planner.check()?;
        self.control.check()?;
        self.agent.check()?;
        self.gateway.check()?;
        SettingError::unless(
            self.control.renew_every.as_ms() <= self.agent.dead_man.as_ms() / 2,
            "control.renew_every",
            self.control.renew_every,
            "at most half of agent.dead_man, so that one lost renewal stops nothing",
        )?;
        SettingError::unless(
            crate::telemetry::filter(&self.telemetry.log).is_ok(),
            "telemetry.log",
            format!("{:?}", self.telemetry.log),
            "a level (info) or directives (info,lacuna_planner=debug)",
        )?;
        Ok(())
    }
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
    use super::*;
    use lacuna_model::Span;

    fn refused(text: &str) -> String {
        Config::parse(text, Path::new("lacuna.toml"))
            .and_then(|c| c.check())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn an_empty_file_means_defaults_and_print_reads_back() {
        let config = Config::parse("", Path::new("x")).unwrap();
        assert_eq!(config, Config::default());
        config.check().unwrap();
        let printed = config.print().unwrap();
        assert_eq!(Config::parse(&printed, Path::new("x")).unwrap(), config);
    }

    #[test]
    fn a_recording_prints_and_reads_back() {
        let text = "[ingest.recording]\npath = \"holes.csv\"\nplanned_file = \"planned.csv\"\n\
                    rate = 600\nstart = 1613347732\nend = \"2021-02-16T00:00:00Z\"\n";
        let config = Config::parse(text, Path::new("x")).unwrap();
        let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
        assert_eq!(again, config);
        let recording = config.ingest.recording.unwrap();
        assert_eq!(recording.rate, 600.0);
        assert_eq!(recording.planned_file.unwrap(), Path::new("planned.csv"));
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
        let error = refused("[plannr]\n");
        assert!(
            error.contains("plannr") && error.contains("`planner`"),
            "{error}"
        );
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
    fn values_are_checked_together() {
        let error = refused("[control]\nrenew_every = \"50s\"\n");
        assert!(error.contains("control.renew_every is 50s"), "{error}");
        let error = refused("[ingest.recording]\npath = \"x\"\nrate = -1.0\n");
        assert!(error.contains("ingest.recording.rate is -1"), "{error}");
        let error = refused("[planner]\nhorizon = \"0s\"\n");
        assert!(error.contains("planner.horizon"), "{error}");
    }

    #[test]
    fn the_password_is_never_printed() {
        let mut config = Config::default();
        config.bus.password = Some("geheim".to_owned().into());
        assert!(!config.print().unwrap().contains("geheim"));
        assert!(!format!("{config:?}").contains("geheim"));
        assert_eq!(config.planner.horizon, Span::from_secs(120));
    }
}
