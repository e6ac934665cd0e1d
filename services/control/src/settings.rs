//! From the configuration to the settings of the controller.

use lacuna_model::Span;
use lacuna_model::pilots::{Mode, Pilots};
use lacuna_runtime::Misconfigured;
use lacuna_trainer::controller::{ControllerConfig, OnDemand};
use lacuna_trainer::settings::{Control, RunAs};

use crate::sections::Config;

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);

/// Nodes that become idle together are known within this length.
const GATHER_WAIT: Span = Span::from_secs(1);

/// Settings of the controller.
pub(crate) fn controller(config: &Config) -> ControllerConfig {
    let (control, agent) = (config.control.clone(), &config.agent);
    ControllerConfig {
        // An agent's status may be late twice before it counts as silent.
        control: Control {
            silent_after: control
                .silent_after
                .max(agent.report_every + agent.report_every + SLACK),
            ..control
        },
        lease_timeout: agent.lease_timeout,
        // A program may take its whole grace to stop.
        lease_margin: agent.grace + SLACK,
        report_grace: agent.grace + SLACK,
        gather_wait: GATHER_WAIT,
        one_account: one_account(config),
        uplink: config.planner.forecasting.uplink,
        on_demand: on_demand(config),
        ..ControllerConfig::default()
    }
}

/// How agents come, if they come as pilots of trainers' owners.
fn on_demand(config: &Config) -> Option<OnDemand> {
    let pilots = config.control.pilots.as_ref()?;
    if pilots.mode != Mode::On || !pilots.by_helper() {
        return None;
    }
    let (pace, report) = (&pilots.pace, config.agent.report_every);
    let start = pace.start_limit.max(report + report + SLACK);
    Some(OnDemand {
        // A pilot of another trainer may have to end first, and a submission to be answered.
        agent_wait: start + pace.rest + pace.command_limit,
        rest: pace.rest,
        start: pilots.assumed.start,
    })
}

/// Whether programs of all owners run under one account. Where plans are only observed no program
/// runs.
fn one_account(config: &Config) -> bool {
    let pilots = config.control.pilots.as_ref();
    match pilots.map(|pilots| pilots.mode) {
        Some(Mode::On) => !pilots.is_some_and(Pilots::by_helper),
        Some(Mode::Observe) => false,
        Some(Mode::Off) | None => config.agent.run_as == RunAs::Agent,
    }
}

/// Checks that owners are proven where programs run under their accounts: else any user of the
/// network could name any owner. `proven`: the bus proves the user of each request.
///
/// # Errors
/// [`Misconfigured`] with the remedy.
pub(crate) fn check_owners(config: &Config, proven: bool) -> Result<(), Misconfigured> {
    let enforced = config.control.access.enforce != Some(false);
    if config.agent.run_as == RunAs::Agent || (proven && enforced) {
        return Ok(());
    }
    let text = "agent.run_as = \"owner\" needs owners that are proven: run the bus with keys \
                (`lacuna keys init`), and leave control.access.enforce out";
    Err(Misconfigured(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_share_an_account_in_pilots_and_under_the_agents_user() {
        let mut config = Config::default();
        assert!(one_account(&config));
        config.agent.run_as = RunAs::Owner;
        assert!(!one_account(&config));
        for (mode, shared) in [(Mode::On, true), (Mode::Observe, false), (Mode::Off, false)] {
            config.control.pilots = Some(Pilots {
                mode,
                ..Pilots::default()
            });
            assert_eq!(one_account(&config), shared, "{mode:?}");
            assert_eq!(on_demand(&config), None);
        }
        config.control.pilots = Some(Pilots {
            mode: Mode::On,
            helper: vec!["helper".to_owned()],
            ..Pilots::default()
        });
        assert!(!one_account(&config), "each has its owner's");
        let on_demand = on_demand(&config).unwrap();
        assert_eq!(on_demand.agent_wait, Span::from_secs(60 + 20 + 20));
    }

    #[test]
    fn owners_are_proven_where_programs_run_under_their_accounts() {
        let mut config = Config::default();
        assert!(check_owners(&config, false).is_ok());
        config.agent.run_as = RunAs::Owner;
        assert!(check_owners(&config, false).is_err());
        assert!(check_owners(&config, true).is_ok());
        config.control.access.enforce = Some(false);
        let error = check_owners(&config, true).unwrap_err();
        assert!(error.to_string().contains("lacuna keys init"), "{error}");
    }
}
