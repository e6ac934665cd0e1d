//! Command-line arguments that all services share.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use lacuna_model::ClusterId;

use crate::config::{Config, ConfigError, LogFormat, Sections};

/// Command-line arguments that all services share. An argument overrides the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub struct CommonArgs {
    /// Configuration file (TOML); without one, the defaults apply
    #[arg(long, value_name = "FILE", env = "LACUNA_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address of the nats-server, e.g. nats://127.0.0.1:4222
    #[arg(long, value_name = "URL", env = "LACUNA_NATS")]
    pub nats: Option<String>,
    /// Identity file of this service, made by `lacuna keys`
    #[arg(long, value_name = "FILE", env = "LACUNA_IDENTITY")]
    pub identity: Option<PathBuf>,
    /// Name of the cluster
    #[arg(long, value_name = "ID", env = "LACUNA_CLUSTER")]
    pub cluster: Option<ClusterId>,
    /// Address for /metrics and /healthz; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Check the sections that this service reads, and exit
    #[arg(long)]
    pub check_config: bool,
    /// Print the sections that this service reads, with all defaults, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Log level, or directives such as info,lacuna_planner=debug
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// No arguments beyond the common ones.
#[derive(Debug, Clone, Default, Args)]
pub struct NoArgs {}

impl CommonArgs {
    /// The configuration in force: the file, overridden by arguments.
    ///
    /// # Errors
    /// [`ConfigError`] with file, line and key.
    pub fn load<S: Sections>(&self) -> Result<Config<S>, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::<S>::load(path)?,
            None => Config::<S>::default().with_secrets(),
        };
        if let Some(cluster) = &self.cluster {
            config.cluster.id = cluster.clone();
        }
        if let Some(identity) = &self.identity {
            config.bus.identity = Some(identity.clone());
        }
        let mut config = config.with_identity()?;
        if let Some(url) = &self.nats {
            config.bus.url.clone_from(url);
        }
        if let Some(level) = &self.log_level {
            config.telemetry.log.clone_from(level);
        }
        if let Some(format) = self.log_format {
            config.telemetry.format = format;
        }
        config.check()?;
        Ok(config)
    }
}
