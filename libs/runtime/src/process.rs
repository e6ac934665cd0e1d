//! Metrics of the process: version, memory, start, open files. The names are those of Prometheus's
//! client libraries, which common dashboards use.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Gauge, IntGauge, Opts, Registry};

use crate::clock;

/// Reads `/proc` at each scrape. An unreadable value keeps its last state.
#[derive(Debug)]
struct Process {
    resident: IntGauge,
    files: IntGauge,
    start: Gauge,
    build: IntGauge,
}

impl Process {
    fn new() -> Result<Self, Error> {
        let start = Gauge::new(
            "process_start_time_seconds",
            "when the process started, as Unix time",
        )?;
        start.set(clock::wall().unix_seconds());
        let version = env!("CARGO_PKG_VERSION");
        let build = IntGauge::with_opts(
            Opts::new("lacuna_build_info", "1, by the running version")
                .const_label("version", version),
        )?;
        build.set(1);
        Ok(Self {
            resident: IntGauge::new(
                "process_resident_memory_bytes",
                "resident memory of the process",
            )?,
            files: IntGauge::new("process_open_fds", "open file descriptors")?,
            start,
            build,
        })
    }

    fn read(&self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(bytes) = resident(&status) {
            self.resident.set(bytes);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            // Reading the folder opens one descriptor, which does not count.
            let open = i64::try_from(files.count()).unwrap_or(i64::MAX);
            self.files.set(open.saturating_sub(1));
        }
    }
}

/// Resident bytes, from the text of `/proc/self/status`.
fn resident(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.resident.desc(),
            self.files.desc(),
            self.start.desc(),
            self.build.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        [
            self.resident.collect(),
            self.files.collect(),
            self.start.collect(),
            self.build.collect(),
        ]
        .concat()
    }
}

/// Exports the metrics of this process, with the present moment as its start.
///
/// # Errors
/// If a name is taken.
pub fn export(registry: &Registry) -> Result<(), Error> {
    registry.register(Box::new(Process::new()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_is_exported() {
        let registry = Registry::new();
        export(&registry).unwrap();
        let text = crate::metrics::expose(&registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|l| l.starts_with(name)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e5, "{text}");
        assert!(value("process_open_fds ") >= 3.0, "{text}");
        assert!(value("process_start_time_seconds ") > 1.7e9, "{text}");
        assert!(text.contains("lacuna_build_info{version=\""), "{text}");
    }

    #[test]
    fn memory_is_read_in_bytes_or_not_at_all() {
        assert_eq!(resident("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\n"), Some(12288));
        assert_eq!(resident("VmRSS:\t nothing kB\n"), None);
        assert_eq!(resident(""), None);
    }
}
