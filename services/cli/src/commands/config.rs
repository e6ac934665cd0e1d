//! `lacuna config`.

mod explain;

use std::path::PathBuf;

use clap::Subcommand;

use lacuna_model::pilots::Pilots;
use lacuna_planner::objective::Objective;
use lacuna_runtime::nats_conf::{NatsConf, ServerKeys};

use crate::Config;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};

/// The actions on configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a file without starting a service: every error, and settings that are seldom meant
    #[command(after_help = "Example:\n  lacuna config check /etc/lacuna/lacuna.toml")]
    Check {
        /// The file (TOML)
        file: PathBuf,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Print the settings in force: those of a file, and the defaults of all others
    #[command(after_help = "Example:\n  lacuna config print lacuna.toml")]
    Print {
        /// The file (TOML); only defaults without one
        file: Option<PathBuf>,
    },
    /// Print a complete file with every key at its default
    #[command(after_help = "Example:\n  lacuna config example > lacuna.toml")]
    Example,
    /// Explain settings and their defaults
    Explain(explain::ExplainArgs),
    /// Print a configuration of nats-server that syncs each message before it acknowledges it
    #[command(after_help = "\
Examples:
  lacuna config nats-server --store /var/lib/nats > nats.conf
  lacuna config nats-server --store /data --listen 0.0.0.0:4222 --keys /etc/nats/keys

nats-server resolves included files relative to the folder of its configuration. Only the last
component of --keys is used, so the folder of keys (the folder `server` of `lacuna keys`) must lie,
or be mounted, beside the configuration.")]
    NatsServer {
        /// The folder for streams
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
        /// The address for clients
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4222")]
        listen: String,
        /// The address for health and statistics, served without a password
        #[arg(long, value_name = "ADDRESS")]
        monitor: Option<String>,
        /// The folder `server` of `lacuna keys`; without it every client may do anything
        #[arg(long, value_name = "DIR")]
        keys: Option<PathBuf>,
    },
}

/// Reads a file, or the defaults.
///
/// # Errors
/// `L0003` with every error: file, line, key and expectation.
pub(crate) fn load(file: Option<&PathBuf>) -> Result<Config> {
    let Some(file) = file else {
        return Ok(Config::default().with_secrets());
    };
    let (config, errors) = Config::inspect(file);
    let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    // The planner alone parses this setting.
    if let Err(error) = config.planner.objective.parse::<Objective>() {
        errors.push(format!("{}: planner.objective: {error}", file.display()));
    }
    match errors.is_empty() {
        true => Ok(config),
        false => Err(CliError::new("L0003", Exit::Config, errors.join("\n"))),
    }
}

fn text(config: &Config) -> Result<String> {
    config.print().map_err(|e| CliError::failed(e.to_string()))
}

/// Runs `config`.
///
/// # Errors
/// The file is wrong.
pub(crate) fn run(command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Check { file, json } => {
            let config = load(Some(file))?;
            let doubt = config.control.pilots.as_ref().and_then(Pilots::doubt);
            if json.json {
                let doubts: Vec<&str> = doubt.into_iter().collect();
                output::print_json(
                    &serde_json::json!({ "file": file, "ok": true, "warnings": doubts }),
                )
            } else {
                if let Some(doubt) = doubt {
                    output::print_error(&format!("warning: {}: {doubt}", file.display()));
                }
                output::print(&format!("{}: ok", file.display()))
            }
        }
        ConfigCommand::Print { file } => output::print(&text(&load(file.as_ref())?)?),
        ConfigCommand::Explain(args) => explain::run(args),
        ConfigCommand::NatsServer {
            store,
            listen,
            monitor,
            keys,
        } => {
            let keys = keys.as_ref().map(|folder| ServerKeys {
                include: folder.file_name().map(PathBuf::from).unwrap_or_default(),
                folder: folder.clone(),
            });
            let conf = NatsConf {
                listen: listen.clone(),
                monitor: monitor.clone(),
                store: store.clone(),
                log: None,
                keys,
            };
            output::print(conf.text().trim_end())
        }
        ConfigCommand::Example => {
            let head = "\
# Lacuna: one file for all services. Every key is at its default; leave out unchanged keys.
# Lengths of time are written 250ms, 10s, 15m, 2h. Secrets are not kept here: the
# password of NATS comes from LACUNA_NATS_PASSWORD or from bus.password_file.
#
# To play a trace of a machine, add:
#   [ingest.recording]
#   path = \"holes.csv.gz\"
#   rate = 600.0

";
            output::print(&format!("{head}{}", text(&Config::default())?))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_server_of_the_container_has_the_printed_configuration() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let deployed = std::fs::read_to_string(root.join("deploy/nats.conf")).unwrap();
        let command = "config nats-server --store /data --listen 0.0.0.0:4222 \
                       --monitor nats-monitor:8222 --keys /etc/nats/keys";
        let conf = NatsConf {
            listen: "0.0.0.0:4222".to_owned(),
            monitor: Some("nats-monitor:8222".to_owned()),
            store: "/data".into(),
            log: None,
            keys: Some(ServerKeys {
                include: "keys".into(),
                folder: "/etc/nats/keys".into(),
            }),
        };
        let wanted = conf.text();
        assert_eq!(
            deployed, wanted,
            "make it again: lacuna {command} > deploy/nats.conf"
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_line_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lacuna.toml");
        std::fs::write(&path, "[planner]\nhorizn = \"10s\"\n").unwrap();
        let error = load(Some(&path)).unwrap_err();
        assert_eq!(error.exit.number(), 64);
        assert!(
            error.message.contains("lacuna.toml:2:1: planner.horizn"),
            "{}",
            error.message
        );
        std::fs::write(&path, "[planner]\nobjective = \"faire * 2\"\n").unwrap();
        let error = load(Some(&path)).unwrap_err();
        assert_eq!(error.exit.number(), 64);
        assert!(
            error.message.contains("planner.objective") && error.message.contains("faire"),
            "{}",
            error.message
        );
        std::fs::write(&path, "[planner]\nobjective = \"faire\"\nhorizn = \"1s\"\n").unwrap();
        assert_eq!(load(Some(&path)).unwrap_err().message.lines().count(), 2);
        std::fs::write(&path, text(&Config::default()).unwrap()).unwrap();
        assert_eq!(load(Some(&path)).unwrap(), Config::default());
    }
}
