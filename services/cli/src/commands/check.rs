//! `lacuna check`: of Slurm, and of a topology.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::process::Command;

use lacuna_model::pilots::Pilots;
use lacuna_model::{Span, Topology};
use lacuna_runtime::command::{self, Bounds, Ended};
use lacuna_scheduler::check::{Filler, Finding, Verdict, worst};
use lacuna_scheduler::ingest::TopologySource;
use lacuna_scheduler::slurm::check::{self, Facts};
use lacuna_scheduler::slurm::topology as live;
use lacuna_scheduler::submit::CommandLine;
use lacuna_scheduler::{SchedulerName, row};
use lacuna_trace::topology::{TopologyFormat, TopologyOptions, read as read_topology};

use crate::Config;
use crate::commands::{config, topology};
use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{self, JsonArg};
use crate::table::{Side, render};

/// The time limit of a command of a scheduler.
const BOUNDS: Bounds = Bounds {
    time: Span::from_secs(15),
    stdout: 64 << 20,
};

/// The scheduler to check.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckCommand {
    /// Check whether pilots in this Slurm can harm batch jobs
    Slurm(SlurmArgs),
    /// Check whether pilots in this Flux can harm batch jobs
    Flux(FluxArgs),
    /// Check a file that says where nodes are, and show what is read of it
    Topology(topology::TopologyArgs),
}

/// Arguments of `check slurm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna check slurm --partition filler
  lacuna check slurm --lacuna-config /etc/lacuna/lacuna.toml --json
  lacuna check slurm --config slurm.conf --partition filler
  lacuna check slurm --config config.txt partitions.txt qos.txt --partition filler
  lacuna check slurm --topology cabinets.csv
  lacuna check slurm --snippet >> slurm.conf.proposed

Asks `scontrol show config`, `scontrol show partition`, `scontrol show node` and `sacctmgr show
qos --parsable2`, or reads files with their output, or slurm.conf. The exit code is 1 if a
condition is fatal: control then starts no pilot, unless control.pilots.override_check is set. A
topology, of --topology or of the configuration, is compared with `scontrol show topology`.")]
pub(crate) struct SlurmArgs {
    /// Read these files instead of asking Slurm
    #[arg(long, value_name = "FILE", num_args = 1..)]
    config: Vec<PathBuf>,
    /// Read partition, QOS, account and commands from this configuration of Lacuna
    #[arg(long, value_name = "FILE")]
    lacuna_config: Option<PathBuf>,
    /// Compare this topology with Slurm's [default: ingest.topology of the configuration]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Partition of pilots [default: that of the configuration, else filler]
    #[arg(long)]
    partition: Option<String>,
    /// Quality of service of pilots
    #[arg(long)]
    qos: Option<String>,
    /// Account of pilots
    #[arg(long)]
    account: Option<String>,
    /// Print the lines that slurm.conf and sacctmgr need instead
    #[arg(long, conflicts_with = "json")]
    snippet: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `check flux`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna check flux --partition batch
  lacuna check flux --lacuna-config /etc/lacuna/lacuna.toml --json
  lacuna check flux --answers queues.txt plugins.txt config.json --partition batch

Asks `flux queue list --no-header -o '{queuem}|{submission}|{scheduling}'`, `flux jobtap list` and
`flux config get`, as the owner of the Flux instance, or reads files with their answers. The exit code
is 1 if a condition is fatal: control then starts no pilot, unless control.pilots.override_check is
set.")]
pub(crate) struct FluxArgs {
    /// Read the answers in these files, of queues, plugins and configuration, instead of asking Flux
    #[arg(long, value_names = ["QUEUES", "PLUGINS", "CONFIG"], num_args = 3)]
    answers: Vec<PathBuf>,
    /// Read the queue from this configuration of Lacuna
    #[arg(long, value_name = "FILE")]
    lacuna_config: Option<PathBuf>,
    /// Queue of pilots [default: that of the configuration, else the default queue of Flux]
    #[arg(long, value_name = "QUEUE")]
    partition: Option<String>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `check`.
///
/// # Errors
/// The scheduler does not answer, a file cannot be read, or a condition is fatal.
pub(crate) async fn run(command: CheckCommand) -> Result<()> {
    match command {
        CheckCommand::Slurm(args) => slurm(&args).await,
        CheckCommand::Flux(args) => flux(&args).await,
        CheckCommand::Topology(args) => topology::run(&args),
    }
}

/// The settings of pilots in a configuration of Lacuna, and the configuration.
fn configuration(file: Option<&PathBuf>) -> Result<(Config, Pilots)> {
    let config = file.map_or_else(|| Ok(Config::default()), |file| config::load(Some(file)))?;
    let pilots = config.control.pilots.clone().unwrap_or_default();
    Ok((config, pilots))
}

async fn slurm(args: &SlurmArgs) -> Result<()> {
    let (config, pilots) = configuration(args.lacuna_config.as_ref())?;
    let filler = filler(args, &pilots);
    let Site { facts, topology } = if args.config.is_empty() {
        ask(&pilots, args.snippet).await?
    } else {
        read(&args.config)?
    };
    if args.snippet {
        return output::print(&check::snippet(&facts, &filler));
    }
    let mut findings = check::check(&facts, &filler);
    if let Some(configured) = configured(args, &config)? {
        let slurm = match topology {
            Some(topology) => topology,
            None if args.config.is_empty() => ask_topology(&pilots).await?,
            None => Topology::default(),
        };
        findings.push(check::compare(&configured, &slurm));
    }
    show(&findings, &filler, &args.json)
}

/// Its findings say which question has no answer.
async fn flux(args: &FluxArgs) -> Result<()> {
    let (_, pilots) = configuration(args.lacuna_config.as_ref())?;
    let filler = Filler {
        partition: args.partition.clone().unwrap_or(pilots.partition),
        ..Filler::default()
    };
    let scheduler = row(SchedulerName::Flux);
    let questions = scheduler.questions(&[], &[]);
    let questions = questions.map_err(|lacks| CliError::failed(lacks.to_string()))?;
    let mut answers = Vec::new();
    if args.answers.is_empty() {
        for line in &questions {
            answers.push(answer(line).await.ok());
        }
    } else {
        for file in &args.answers {
            let text = std::fs::read_to_string(file).map_err(|e| file_error("read", file, &e))?;
            answers.push(Some(text));
        }
    }
    show(&scheduler.findings(&answers, &filler), &filler, &args.json)
}

/// Prints findings. A fatal one is an error that is printed already.
fn show(findings: &[Finding], filler: &Filler, as_json: &JsonArg) -> Result<()> {
    let worst = worst(findings);
    if as_json.json {
        let value = json!({
            "verdict": worst,
            "partition": filler.partition,
            "findings": findings,
        });
        output::print_json(&value)?;
    } else {
        output::print(&text(findings))?;
    }
    if worst == Verdict::Fatal {
        return Err(CliError::already_printed());
    }
    Ok(())
}

fn filler(args: &SlurmArgs, pilots: &Pilots) -> Filler {
    let or = |given: &Option<String>, configured: &str, default: &str| match given {
        Some(given) => given.clone(),
        None if configured.is_empty() => default.to_owned(),
        None => configured.to_owned(),
    };
    Filler {
        partition: or(&args.partition, &pilots.partition, "filler"),
        qos: or(&args.qos, &pilots.qos, ""),
        account: or(&args.account, &pilots.account, ""),
        exclusive: pilots.exclusive,
        rate: pilots.pace.rate.ceil() as u32,
    }
}

/// What is known of a site.
#[derive(Debug, Default)]
struct Site {
    facts: Facts,
    /// Slurm's own topology, if it was given.
    topology: Option<Topology>,
}

/// The topology that Lacuna uses, unless it is Slurm's own.
fn configured(args: &SlurmArgs, config: &Config) -> Result<Option<Topology>> {
    let file = match (&args.topology, config.ingest.topology_source()) {
        (Some(file), _) => file.as_path(),
        (None, Some(TopologySource::File(file))) => file,
        (None, _) => return Ok(None),
    };
    let options = TopologyOptions {
        keys: config.ingest.topology_keys.clone(),
        rails: config.ingest.topology_rails.clone(),
    };
    Ok(Some(topology::load(file, &options)?.topology))
}

fn read(files: &[PathBuf]) -> Result<Site> {
    let mut site = Site::default();
    for file in files {
        let bytes = std::fs::read(file).map_err(|e| file_error("read", file, &e))?;
        let text = String::from_utf8_lossy(&bytes);
        if matches!(
            TopologyFormat::detect(&text),
            Some(TopologyFormat::Scontrol | TopologyFormat::Conf | TopologyFormat::Yaml)
        ) {
            site.topology = Some(topology::load(file, &TopologyOptions::default())?.topology);
            continue;
        }
        if site.facts.read(&text) == 0 {
            let file = file.display();
            return Err(CliError::failed(format!(
                "{file} holds no output of Slurm"
            ))
            .remedy("give slurm.conf, or the output of scontrol show config, partition or node, or of sacctmgr show qos --parsable2"));
        }
    }
    Ok(site)
}

/// Asks Slurm where nodes are.
async fn ask_topology(pilots: &Pilots) -> Result<Topology> {
    let line = live::question(&pilots.commands.scontrol);
    let text = answer(&line).await.map_err(|reason| {
        CliError::failed(reason)
            .remedy("run it where Slurm's commands work, or give its output: --config FILE")
    })?;
    if live::is_none(&text) {
        return Ok(Topology::default());
    }
    read_topology(&text, &TopologyOptions::default())
        .map(|read| read.topology)
        .map_err(|error| CliError::new("L0045", Exit::Failed, format!("scontrol: {error}")))
}

async fn ask(pilots: &Pilots, optional: bool) -> Result<Site> {
    let mut facts = Facts::default();
    let commands = &pilots.commands;
    let questions = check::questions(&commands.scontrol, &commands.sacctmgr);
    for (line, is_needed) in questions.iter().zip([true, true, false, false]) {
        match answer(line).await {
            Ok(text) => {
                facts.read(&text);
            }
            Err(reason) if is_needed && !optional => {
                return Err(CliError::failed(reason)
                    .remedy("run it where Slurm's commands work, or give files: --config FILE"));
            }
            // Without accounting there is no sacctmgr; the findings name what is then unknown.
            Err(_) => {}
        }
    }
    Ok(Site {
        facts,
        topology: None,
    })
}

async fn answer(line: &CommandLine) -> std::result::Result<String, String> {
    let mut asked = Command::new(&line.program);
    asked.args(&line.args).env(live::LENGTH.0, live::LENGTH.1);
    let ended = command::run(asked, None, BOUNDS).await;
    let said = ended.and_then(Ended::good).map_err(|error| {
        let args = line.args.join(" ");
        format!("{} {args}: {}", line.program, error.reason())
    })?;
    Ok(said.stdout)
}

/// A table of all findings, then the remedies.
fn text(findings: &[Finding]) -> String {
    let columns = [
        ("VERDICT", Side::Left),
        ("CONDITION", Side::Left),
        ("SEEN", Side::Left),
    ];
    let row = |f: &Finding| {
        let seen: String = f.seen.chars().take(100).collect();
        vec![f.verdict.name().to_owned(), f.condition.to_owned(), seen]
    };
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|f| std::cmp::Reverse(f.verdict));
    let rows: Vec<Vec<String>> = sorted.iter().map(|f| row(f)).collect();
    let mut text = render(&columns, &rows);
    for finding in sorted.iter().filter(|f| f.verdict != Verdict::Ok) {
        let Finding {
            condition,
            meaning,
            remedy,
            ..
        } = finding;
        text.push_str(&format!(
            "\n{}: {condition}\n  {meaning}\n  -> {remedy}\n",
            finding.verdict.name()
        ));
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    text.push_str(&format!(
        "\n{} ok, {} unknown, {} warnings, {} fatal\n",
        count(Verdict::Ok),
        count(Verdict::Unknown),
        count(Verdict::Warning),
        count(Verdict::Fatal)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fatal_findings_come_first_with_their_remedies() {
        let mut facts = Facts::default();
        facts.read("PreemptType=preempt/none\nPartitionName=filler Nodes=ALL\n");
        let filler = filler_of("filler");
        let text = text(&check::check(&facts, &filler));
        let first = text.lines().nth(1).unwrap();
        assert!(first.starts_with("fatal"), "{text}");
        assert!(
            text.contains("-> PreemptType=preempt/partition_prio"),
            "{text}"
        );
    }

    #[test]
    fn a_file_without_output_of_slurm_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        std::fs::write(&file, "hello\n").unwrap();
        let error = read(&[file]).unwrap_err();
        assert!(error.to_string().contains("no output of Slurm"), "{error}");
    }

    #[test]
    fn a_topology_among_the_files_is_compared() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let slurm = file(
            "slurm.txt",
            "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n",
        );
        let conf = file("slurm.conf", "PreemptType=preempt/none\n");
        let site = read(&[conf, slurm]).unwrap();
        let table = file("table.csv", "node,leaf\nn1,a\nn2,b\n");
        let configured = topology::load(&table, &TopologyOptions::default())
            .unwrap()
            .topology;
        let found = check::compare(&configured, &site.topology.unwrap());
        assert_eq!(found.seen, "1 on another leaf: n2");
    }

    fn filler_of(partition: &str) -> Filler {
        Filler {
            partition: partition.to_owned(),
            ..Filler::default()
        }
    }
}
