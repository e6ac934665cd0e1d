//! From the configuration to the settings of the controller.

use lacuna_model::Span;
use lacuna_runtime::Config;
use lacuna_trainer::controller::ControllerConfig;
use lacuna_trainer::settings::Control;

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);

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
        lease_timeout: agent.dead_man,
        // A program may take its whole grace to stop.
        lease_margin: agent.grace + SLACK,
        report_grace: agent.grace + SLACK,
        ..ControllerConfig::default()
    }
}
