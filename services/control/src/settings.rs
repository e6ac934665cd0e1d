//! From the configuration to the settings of the books.

use lacuna_model::Span;
use lacuna_runtime::Config;
use lacuna_runtime::config::{PilotMode, ProfileOrder};
use lacuna_trainer::book::{BookConfig, TrialOrder};

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);

/// Settings of the books.
pub(crate) fn book(config: &Config) -> BookConfig {
    let (control, agent) = (&config.control, &config.agent);
    BookConfig {
        max_parallel: control.max_parallel,
        anew_every: control.anew_every,
        dead_man: agent.dead_man,
        // Its status may be late twice before it counts as silent.
        silent_after: control
            .silent_after
            .max(agent.report_every + agent.report_every + SLACK),
        // A program may take its whole grace to stop.
        safety: agent.grace + SLACK,
        last_words: agent.grace + SLACK,
        max_failures: control.max_failures,
        backoff: control.retry_after,
        quarantine: control.quarantine,
        prepare_wait: control.prepare_wait,
        trial_share: control.profile.share,
        trial_order: match control.profile.order {
            ProfileOrder::LargeToSmall => TrialOrder::LargeToSmall,
            ProfileOrder::SmallToLarge => TrialOrder::SmallToLarge,
        },
        trial_longest: control.profile.longest,
        broken_wait: control.broken_wait,
        pilots: control
            .pilots
            .as_ref()
            .is_some_and(|pilots| pilots.mode == PilotMode::On),
        require_agents: control.require_agents,
        store: control.store.clone(),
        quotas: crate::access::quotas(&control.access),
        ..BookConfig::default()
    }
}
