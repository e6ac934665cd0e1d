//! The metric of the end of this service's own key, where `lacuna keys` gave it one.

use std::time::Duration;

use lacuna_model::Timestamp;
use prometheus::GaugeVec;

use crate::clock;

/// Between updates of the metric.
const EVERY: Duration = Duration::from_secs(600);

/// Exports the seconds until the key ends. Does nothing if the key has no end.
pub(super) fn watch(end: Option<Timestamp>, gauge: GaugeVec) {
    let Some(end) = end else {
        return;
    };
    let export = move || {
        let left = end.since(clock::wall()).as_secs_f64().floor();
        gauge.with_label_values::<&str>(&[]).set(left);
    };
    export();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            export();
        }
    });
}

#[cfg(test)]
mod tests {
    use lacuna_model::Span;

    use super::super::connect::Metrics;
    use super::*;
    use crate::metrics::Registry;

    #[tokio::test]
    async fn only_a_key_with_an_end_is_exported() {
        let registry = Registry::new();
        let gauge = Metrics::new(&registry).unwrap().key_end;
        let value = || {
            let families = registry.gather();
            let own = families
                .iter()
                .find(|f| f.name() == "lacuna_bus_key_seconds");
            own.map(|f| f.get_metric()[0].get_gauge().get_value())
        };
        watch(None, gauge.clone());
        assert_eq!(value(), None);
        watch(Some(clock::wall() + Span::from_secs(100)), gauge);
        assert!(value().is_some_and(|left| (98.0..=100.0).contains(&left)));
    }
}
