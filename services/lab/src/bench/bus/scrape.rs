//! Reads the metrics of a service at /metrics.

use std::collections::BTreeMap;

use lacuna_runtime::http::ask;

/// The value of a metric, summed over its labels; none if the service does not have it.
#[must_use]
pub(crate) fn value(exposition: &str, name: &str) -> Option<f64> {
    let mut sum = None;
    for line in exposition.lines().filter(|l| !l.starts_with('#')) {
        let Some((metric, number)) = line.rsplit_once(' ') else {
            continue;
        };
        let bare = metric.split('{').next().unwrap_or(metric);
        if bare == name
            && let Ok(number) = number.parse::<f64>()
        {
            sum = Some(sum.unwrap_or(0.0) + number);
        }
    }
    sum
}

/// The whole exposition of a service.
pub(crate) async fn exposition(address: &str) -> String {
    ask(address, "/metrics")
        .await
        .map_or_else(|_| String::new(), |(_, body)| body)
}

/// The values of a metric by one of its labels.
#[must_use]
pub(crate) fn by_label(exposition: &str, name: &str, label: &str) -> BTreeMap<String, f64> {
    let (start, key) = (format!("{name}{{"), format!("{label}=\""));
    let lines = exposition.lines().filter_map(|line| {
        let (labels, number) = line.strip_prefix(&start)?.rsplit_once("} ")?;
        let (value, _) = labels.split_once(&key)?.1.split_once('"')?;
        Some((value.to_owned(), number.parse().ok()?))
    });
    lines.collect()
}

/// Resident memory of a process now, and its peak, MiB.
#[must_use]
pub(crate) fn status_mib(pid: u32) -> Option<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key))?;
        let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib / 1024.0)
    };
    Some((mib("VmRSS:")?, mib("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_labels() {
        let text = "# HELP a_total x\n# TYPE a_total counter\na_total{k=\"1\"} 3\na_total{k=\"2\"} 4\n\
                    a_total_more 100\nb 1.5\n";
        assert_eq!(value(text, "a_total"), Some(7.0));
        assert_eq!(value(text, "b"), Some(1.5));
        assert_eq!(value(text, "c"), None);
        let labels = by_label(text, "a_total", "k");
        assert_eq!(
            labels,
            BTreeMap::from([("1".to_owned(), 3.0), ("2".to_owned(), 4.0)])
        );
        let (now, peak) = status_mib(std::process::id()).unwrap();
        assert!(now > 1.0 && peak >= now - 1.0, "{now} {peak}");
    }
}
