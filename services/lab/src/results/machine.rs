//! The machine and the commit of a result.

use std::path::Path;
use std::process::Command;

const UNKNOWN: &str = "not known";

/// The class of this machine: cores, memory, model of the processor.
#[must_use]
pub(super) fn class() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    class_of(cores, &read("/proc/meminfo"), &read("/proc/cpuinfo"))
}

fn class_of(cores: usize, meminfo: &str, cpuinfo: &str) -> String {
    let field = |text: &str, name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
    };
    let kib = field(meminfo, "MemTotal").and_then(|text| {
        let kib = text.split_whitespace().next()?;
        kib.parse::<f64>().ok()
    });
    let memory = kib.map_or_else(
        || format!("memory {UNKNOWN}"),
        |kib| format!("{:.0} GiB of memory", kib / 1024.0 / 1024.0),
    );
    let model = field(cpuinfo, "model name").filter(|model| !model.is_empty());
    let model = model.unwrap_or_else(|| format!("model of the processor {UNKNOWN}"));
    let cores = match cores {
        1 => "1 core".to_owned(),
        more => format!("{more} cores"),
    };
    format!("{cores}, {memory}, {model}")
}

/// The commit of the tree at a folder, with `-dirty` if files differ from it.
#[must_use]
pub(super) fn commit(folder: &Path) -> String {
    let said = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--exclude", "*"])
        .output();
    let said = said.ok().filter(|output| output.status.success());
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.filter(|commit| !commit.is_empty())
        .map_or_else(|| UNKNOWN.to_owned(), |commit| format!("`{commit}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_by_cores_memory_and_processor() {
        let meminfo = "MemTotal:        8045236 kB\nMemFree:  1 kB\n";
        let cpuinfo = "processor\t: 0\nmodel\t\t: 106\nmodel name\t: A Processor @ 2.4GHz\n";
        assert_eq!(
            class_of(2, meminfo, cpuinfo),
            "2 cores, 8 GiB of memory, A Processor @ 2.4GHz"
        );
        assert_eq!(
            class_of(1, "", "model name\t:\n"),
            "1 core, memory not known, model of the processor not known"
        );
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(commit(&nowhere.path().join("no-folder")), UNKNOWN);
    }
}
