//! Facts of a site, from the output of Slurm's commands or from `slurm.conf`.

use std::collections::BTreeMap;

use super::record::{Record, telling};

/// Defaults of settings that `slurm.conf` leaves out (slurm.conf(5)).
const DEFAULTS: [(&str, &str); 14] = [
    ("killwait", "30 sec"),
    ("preemptmode", "OFF"),
    ("preempttype", "preempt/none"),
    ("preemptexempttime", "00:00:00"),
    ("unkillablesteptimeout", "60 sec"),
    ("healthcheckinterval", "0 sec"),
    ("healthchecknodestate", "ANY"),
    ("suspendtime", "INFINITE"),
    ("completewait", "0 sec"),
    ("proctracktype", "proctrack/cgroup"),
    ("schedulertype", "sched/backfill"),
    ("minjobage", "300 sec"),
    ("selecttype", "select/cons_tres"),
    ("jobrequeue", "1"),
];

/// Facts of a site, filled by [`Facts::read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    config: BTreeMap<String, String>,
    /// Whether any configuration was read.
    pub has_config: bool,
    /// Whether `slurm.conf` was read, which leaves out settings at their default.
    from_file: bool,
    /// Partitions of the site.
    pub partitions: Vec<Record>,
    /// Nodes of the site.
    pub nodes: Vec<Record>,
    /// Qualities of service; `None` if they are unknown, as without accounting.
    pub qos: Option<Vec<Record>>,
    /// Defaults of partitions (`PartitionName=DEFAULT`).
    partition_defaults: Record,
}

impl Facts {
    /// Adds the facts of a text: `slurm.conf`, or the output of `scontrol show config`, `scontrol
    /// show partition`, `scontrol show node` or `sacctmgr show qos --parsable2`. The content shows
    /// which of them it is. Returns how many settings were understood.
    pub fn read(&mut self, text: &str) -> usize {
        let mut understood = 0;
        let mut open = Open::Nothing;
        let mut columns: Vec<String> = Vec::new();
        for line in joined(text) {
            let content = line.trim();
            let lower = content.to_lowercase();
            if content.is_empty() {
                open = Open::Nothing;
                continue;
            }
            if lower.starts_with("name|") {
                columns = content
                    .trim_end_matches('|')
                    .split('|')
                    .map(str::to_owned)
                    .collect();
                self.qos.get_or_insert_default();
                continue;
            }
            if !columns.is_empty() && content.contains('|') {
                self.read_qos(&columns, content);
                understood += 1;
                continue;
            }
            if lower.starts_with("partitionname=") {
                open = self.open_partition(content);
                understood += 1;
            } else if lower.starts_with("nodename=") {
                let mut node = Record::new(word(content));
                node.read(content);
                self.nodes.push(node);
                open = Open::Node;
                understood += 1;
            } else if line.starts_with([' ', '\t']) && open != Open::Nothing {
                self.more(&open, content);
            } else if let Some((key, value)) = content.split_once('=') {
                understood += usize::from(self.read_setting(key.trim(), value.trim(), &line));
                open = Open::Nothing;
            }
        }
        understood
    }

    /// A setting of the whole cluster; Slurm's default if `slurm.conf` leaves it out.
    pub(super) fn setting(&self, key: &str) -> Option<String> {
        let key = key.to_lowercase();
        if let Some(value) = self.config.get(&key) {
            return telling(value).map(str::to_owned);
        }
        let default = DEFAULTS.iter().find(|(name, _)| *name == key)?;
        self.from_file.then(|| default.1.to_owned())
    }

    /// Whether a setting was read, even an empty one.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.from_file || self.config.contains_key(&key.to_lowercase())
    }

    /// A partition by its name.
    pub(super) fn partition(&self, name: &str) -> Option<&Record> {
        self.partitions.iter().find(|p| p.name == name)
    }

    fn read_setting(&mut self, key: &str, value: &str, line: &str) -> bool {
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.is_empty() || !key.chars().all(sound) {
            return false;
        }
        // `scontrol` prints blanks around `=`; a file has none.
        if !line.contains(" = ") {
            self.from_file = true;
        }
        self.has_config = true;
        self.config.insert(key.to_lowercase(), value.to_owned());
        true
    }

    fn read_qos(&mut self, columns: &[String], line: &str) {
        let mut qos = Record::default();
        for (column, value) in columns.iter().zip(line.split('|')) {
            if column.eq_ignore_ascii_case("name") {
                value.clone_into(&mut qos.name);
            }
            qos.set(column, value);
        }
        self.qos.get_or_insert_default().push(qos);
    }

    fn open_partition(&mut self, content: &str) -> Open {
        let name = word(content);
        if name.eq_ignore_ascii_case("default") {
            self.partition_defaults.read(content);
            return Open::Defaults;
        }
        let mut partition = Record::new(name);
        partition.read(content);
        partition.inherit(&self.partition_defaults);
        self.partitions.retain(|p| p.name != name);
        self.partitions.push(partition);
        Open::Partition
    }

    fn more(&mut self, open: &Open, content: &str) {
        match open {
            Open::Nothing => {}
            Open::Defaults => self.partition_defaults.read(content),
            Open::Partition => {
                if let Some(partition) = self.partitions.last_mut() {
                    partition.read(content);
                }
            }
            Open::Node => {
                if let Some(node) = self.nodes.last_mut() {
                    node.read(content);
                }
            }
        }
    }
}

/// The record to which indented lines belong.
#[derive(Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Defaults,
    Partition,
    Node,
}

/// The name in `PartitionName=name ...`.
fn word(content: &str) -> &str {
    let value = content.split_once('=').map_or("", |(_, value)| value);
    value.split_whitespace().next().unwrap_or_default()
}

/// Lines without comments. A line that ends in a backslash is joined with the next.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        // A comment begins a line or follows a blank; other `#` are part of a value.
        let comment = line.trim_start().starts_with('#');
        let line = if comment {
            ""
        } else {
            line.split(" #").next().unwrap_or(line)
        };
        let (content, more) = match line.trim_end().strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(content);
            }
            _ => lines.push(content.to_owned()),
        }
        goes_on = more;
    }
    lines
}
