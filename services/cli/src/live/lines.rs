//! The live view in one line, for logs and pipes.

use crate::output::{iso_short, latency, short};

use super::ViewModel;

/// The most important figures in one line.
#[must_use]
pub(crate) fn status_line(model: &ViewModel) -> String {
    let t = &model.totals;
    let efficiency = t
        .efficiency
        .known()
        .map_or_else(|| "-".to_owned(), |u| format!("{:.1}%", u * 100.0));
    format!(
        "{:>4.0} s  {}  pool {:>4}  leased {:>4}  harvested {:>7.1} node-h  efficiency {efficiency:>6}  \
         samples {:>6}  trainers {} active {} done  events {:.1}/s  plan p50 {}",
        model.wall_s,
        iso_short(t.now),
        t.pool_nodes,
        t.leased_nodes,
        t.harvested_node_s / 3600.0,
        short(t.samples),
        t.active,
        t.trainers_done,
        model.events_per_s,
        latency(model.plan_latency.map(|l| l.0)),
    ) + &model
        .limits
        .as_ref()
        .map_or_else(String::new, |limits| format!("  limited: {limits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_has_no_line_end_and_no_escape() {
        let line = status_line(&ViewModel::default());
        assert!(!line.contains('\n') && !line.contains('\x1b'));
        assert!(line.contains("pool    0"), "{line}");
    }
}
