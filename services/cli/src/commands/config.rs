//! `lacuna config`.

use std::path::PathBuf;

use clap::Subcommand;

use lacuna_planner::objective::Objective;
use lacuna_runtime::config::Config;

use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};

/// What to do with configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a file without starting anything
    #[command(after_help = "Example:\n  lacuna config check /etc/lacuna/lacuna.toml")]
    Check {
        /// The file (TOML)
        file: PathBuf,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Print the configuration in force: a file's values and the defaults of all others
    #[command(after_help = "Example:\n  lacuna config print lacuna.toml")]
    Print {
        /// The file (TOML); defaults alone without one
        file: Option<PathBuf>,
    },
    /// Print a complete file with every key at its default
    #[command(after_help = "Example:\n  lacuna config example > lacuna.toml")]
    Example,
}

/// Reads a file, or the defaults.
///
/// # Errors
/// `L0003` with file, line, key and expectation.
pub(crate) fn load(file: Option<&PathBuf>) -> Result<Config> {
    let Some(file) = file else {
        return Ok(Config::default().with_secrets());
    };
    let wrong = |text: String| CliError::new("L0003", Exit::Config, text);
    let config = Config::load(file).map_err(|e| wrong(e.to_string()))?;
    // What only the planner understands.
    config.planner.objective.parse::<Objective>().map_err(|e| {
        let file = file.display();
        wrong(format!("{file}: planner.objective: {e}"))
    })?;
    Ok(config)
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
            load(Some(file))?;
            if json.json {
                output::print_json(&serde_json::json!({ "file": file, "ok": true }))
            } else {
                output::print(&format!("{}: ok", file.display()))
            }
        }
        ConfigCommand::Print { file } => output::print(&text(&load(file.as_ref())?)?),
        ConfigCommand::Example => {
            let head = "\
# Lacuna: one file for all services. Every key is at its default; leave out what you do not
# change. Lengths of time are written 250ms, 10s, 15m, 2h. Secrets are not kept here: the
# password of NATS comes from LACUNA_NATS_PASSWORD or from bus.password_file.
#
# To play a recorded machine, add:
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
    use super::*;

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
        std::fs::write(&path, text(&Config::default()).unwrap()).unwrap();
        assert_eq!(load(Some(&path)).unwrap(), Config::default());
    }
}
