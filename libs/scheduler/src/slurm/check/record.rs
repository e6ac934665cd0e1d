//! A record of settings: one partition, node or quality of service.

use std::collections::BTreeMap;

/// Settings of one partition, node or quality of service. Keys are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Name of the record.
    pub name: String,
    fields: BTreeMap<String, String>,
}

impl Record {
    /// A record without settings.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            fields: BTreeMap::new(),
        }
    }

    /// Sets a setting.
    pub fn set(&mut self, key: &str, value: &str) {
        self.fields.insert(key.to_lowercase(), value.to_owned());
    }

    /// The value of a setting; `None` if it is absent or empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.fields.get(&key.to_lowercase())?;
        telling(value)
    }

    /// Takes over the settings of `from` that this record lacks.
    pub fn inherit(&mut self, from: &Self) {
        for (key, value) in &from.fields {
            self.fields
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }

    /// Reads `Key=value` words. Words without `=` continue the value before them, as in a
    /// reason with blanks.
    pub(super) fn read(&mut self, text: &str) {
        let mut key = String::new();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    name.clone_into(&mut key);
                    self.set(name, value);
                }
                _ => {
                    if let Some(value) = self.fields.get_mut(&key.to_lowercase()) {
                        value.push(' ');
                        value.push_str(word);
                    }
                }
            }
        }
    }
}

/// A value, unless it is one of Slurm's words for an absent value.
pub(super) fn telling(value: &str) -> Option<&str> {
    let value = value.trim();
    let nothing = ["", "(null)", "n/a", "none"];
    (!nothing.contains(&value.to_lowercase().as_str())).then_some(value)
}

/// Whether two partitions may share nodes. The first letters of node names are compared. If they
/// do not decide, the partitions may share nodes.
pub(super) fn may_share(one: &Record, other: &Record) -> bool {
    let stems = |record: &Record| -> Option<Vec<String>> {
        let nodes = record.get("Nodes")?;
        if nodes.eq_ignore_ascii_case("all") {
            return None;
        }
        let mut inside = false;
        let mut stems = vec![String::new()];
        let mut open = true;
        for c in nodes.chars() {
            match c {
                '[' => {
                    inside = true;
                    open = false;
                }
                ']' => inside = false,
                ',' if !inside => {
                    stems.push(String::new());
                    open = true;
                }
                c if open && c.is_alphabetic() => {
                    if let Some(stem) = stems.last_mut() {
                        stem.push(c);
                    }
                }
                _ => open = false,
            }
        }
        Some(stems)
    };
    match (stems(one), stems(other)) {
        (Some(one), Some(other)) => one.iter().any(|stem| other.contains(stem)),
        _ => true,
    }
}

/// A length of time in Slurm's notation, in seconds: `30`, `30 sec`, `00:02:00`, `1-00:00:00`,
/// `INFINITE`.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next()?;
    let unit = text.split_whitespace().nth(1).unwrap_or("sec");
    if ["infinite", "unlimited"].contains(&word.to_lowercase().as_str()) {
        return Some(u64::MAX);
    }
    let (days, clock) = match word.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, word),
    };
    let mut total = 0_u64;
    for part in clock.split(':') {
        total = total.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let total = match unit {
        "min" => total.checked_mul(60)?,
        "usec" => total / 1_000_000,
        _ => total,
    };
    days.checked_mul(86_400)?.checked_add(total)
}
