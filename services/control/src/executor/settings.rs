//! From the configuration to the core's settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lacuna_model::pilots::{Pace, Pilots, TimeLimit};
use lacuna_model::{KindName, Span};
use lacuna_pilots::keeper::{Mode, Settings};
use lacuna_runtime::{Misconfigured, ServiceError};
use lacuna_scheduler::job::Owner;
use lacuna_scheduler::submit::{Programs, Submission, Submitter, mark};
use lacuna_scheduler::{Unsupported, row};

use super::helper::Helper;
use crate::sections::Context;

/// Variables that the scheduler's commands see, besides those that the configuration names.
const PASSED: [&str; 6] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ"];

/// The settings of the executor.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) mode: Mode,
    pub(super) keeper: Settings,
    pub(super) time: TimeLimit,
    pub(super) scheduler: Arc<dyn Submitter>,
    /// Lists the pilots of all kinds.
    pub(super) lister: Arc<dyn Submitter>,
    /// Submits to nodes of kinds with settings of their own.
    pub(super) by_kind: BTreeMap<KindName, Arc<dyn Submitter>>,
    /// The whole environment of the commands. Pilots inherit it, so that nothing is in it that
    /// must stay secret, as the password of NATS.
    pub(super) environment: Vec<(String, String)>,
    pub(super) limit: Span,
    pub(super) check_every: Duration,
    /// Submits and cancels pilots under their owners' accounts, if there is one.
    pub(super) helper: Option<Helper>,
}

/// Makes the settings, with the checks that need the machine itself.
///
/// # Errors
/// [`Misconfigured`].
pub(super) fn setup(ctx: &Context, pilots: &Pilots) -> Result<Setup, ServiceError> {
    let mark = mark(&ctx.cluster);
    let refused = |lacks: Unsupported| Misconfigured(format!("control.pilots: {lacks}"));
    let ways = row(pilots.scheduler).pilots().map_err(refused)?;
    let environment = environment(&pilots.pass_env, ways.variables);
    let script = match &pilots.script {
        Some(path) => std::fs::read_to_string(path).map_err(|e| {
            let path = path.display();
            Misconfigured(format!("control.pilots.script: cannot read {path}: {e}"))
        })?,
        None => (ways.script)(&pilots.agent, &pilots.agent_config),
    };
    if !script.starts_with("#!") {
        let text = "control.pilots.script: a batch script begins with #! and an interpreter";
        return Err(Misconfigured(text.to_owned()).into());
    }
    let (commands, own) = (&pilots.commands, (ways.programs)());
    let make = |pilots: &Pilots, partition: &str| -> Arc<dyn Submitter> {
        let submission = Submission {
            name: pilots.name.clone(),
            mark: mark.clone(),
            partition: partition.to_owned(),
            account: pilots.account.clone(),
            qos: pilots.qos.clone(),
            exclusive: pilots.exclusive,
            output: pilots.output.clone(),
            extra: pilots.extra.clone(),
            script: script.clone(),
            chunk: pilots.chunk.clone(),
            time_min: pilots.time.flexible.then_some(pilots.time.min),
            all_users: pilots.by_helper(),
            programs: Programs {
                submit: command(&commands.submit, &own.submit),
                cancel: command(&commands.cancel, &own.cancel),
                list: command(&commands.list, &own.list),
            },
        };
        Arc::from((ways.submitter)(submission))
    };
    let mut by_kind = BTreeMap::new();
    for (kind, own) in pilots.by_kind() {
        let kind = KindName::new(kind).map_err(|e| Misconfigured(e.to_string()))?;
        by_kind.insert(kind, make(&own, &own.partition));
    }
    let scheduler = make(pilots, &pilots.partition);
    // PBS lists one queue, or all.
    let lister = match pilots.partitions().len() {
        1 => Arc::clone(&scheduler),
        _ => make(pilots, ""),
    };
    let user = environment.iter().find(|(name, _)| name == "USER");
    let user = user.map(|(_, user)| user.clone());
    let user = user.filter(|_| scheduler.lists_all() && !pilots.by_helper());
    if pilots.by_helper() {
        scheduler.owned("").map_err(refused)?;
    }
    let owner = Owner {
        name: pilots.name.clone(),
        mark,
        user,
    };
    Ok(Setup {
        mode: pilots.mode,
        keeper: keeper(ctx, pilots, owner),
        time: pilots.time.clone(),
        scheduler,
        lister,
        by_kind,
        environment,
        limit: pilots.pace.command_limit,
        check_every: pilots.check_every.to_std(),
        helper: Helper::new(&pilots.helper),
    })
}

/// A command of the configuration, or the scheduler's own.
fn command(given: &[String], own: &[String]) -> Vec<String> {
    match given {
        [] => own.to_owned(),
        given => given.to_owned(),
    }
}

fn keeper(ctx: &Context, pilots: &Pilots, owner: Owner) -> Settings {
    let pace = &pilots.pace;
    let defaults = Settings::of(owner);
    // An agent's status may be late twice before it counts as silent.
    let report = ctx.config.agent.report_every;
    let twice = report + report + Span::from_secs(5);
    Settings {
        pace: Pace {
            start_limit: pace.start_limit.max(twice),
            ..pace.clone()
        },
        silent_after: defaults.silent_after.max(twice),
        mute_after: defaults.mute_after.max(twice),
        blind_after: defaults
            .blind_after
            .max(pace.list_every + pace.list_every + pace.command_limit),
        pool_stale: defaults.pool_stale.max(ctx.config.planner.stale_after),
        of_trainers: pilots.by_helper(),
        ..defaults
    }
}

fn environment(more: &[String], prefixes: &[&str]) -> Vec<(String, String)> {
    std::env::vars()
        .filter(|(name, _)| {
            PASSED.contains(&name.as_str())
                || prefixes.iter().any(|prefix| name.starts_with(prefix))
                || more.contains(name)
        })
        .collect()
}
