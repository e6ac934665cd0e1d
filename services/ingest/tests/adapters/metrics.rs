//! Metrics of adapters, name by name.

use std::path::Path;

use lacuna_ingest_service::adapters::{FollowMetrics, SchedulerMetrics};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_testkit::golden;

#[test]
fn metrics_of_adapters_are_exposed_as_documented() {
    let registry = Registry::new();
    SchedulerMetrics::of_commands(&registry, &["pbsnodes"]).unwrap();
    FollowMetrics::new(&registry).unwrap();
    let text = expose(&registry).unwrap();
    // The operator's guide contains every name.
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitor.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in text.lines().filter_map(|l| l.strip_prefix("# TYPE ")) {
        let name = name.split(' ').next().unwrap();
        let short = name
            .trim_start_matches("lacuna_ingest_scheduler")
            .trim_start_matches("lacuna_ingest_follow");
        assert!(
            guide.contains(name) || guide.contains(&format!("`{short}`")),
            "{name}"
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/adapters.txt");
    golden(&path, &text);
}
