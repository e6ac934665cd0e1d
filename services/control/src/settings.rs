//! From the configuration to the settings of the books.

use lacuna_model::Span;
use lacuna_runtime::Config;
use lacuna_trainer::book::BookConfig;
use lacuna_trainer::settings::Control;

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);

/// Settings of the books.
pub(crate) fn book(config: &Config) -> BookConfig {
    let (control, agent) = (config.control.clone(), &config.agent);
    BookConfig {
        // An agent's status may be late twice before it counts as silent.
        control: Control {
            silent_after: control
                .silent_after
                .max(agent.report_every + agent.report_every + SLACK),
            ..control
        },
        dead_man: agent.dead_man,
        // A program may take its whole grace to stop.
        safety: agent.grace + SLACK,
        last_words: agent.grace + SLACK,
        ..BookConfig::default()
    }
}
