//! The clusters of a log. One log may have several (`sacct -L`, `sinfo -M`), and the nodes of each
//! may have the same names, so exactly one is read.

/// How a line belongs to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// It is of the cluster that is read.
    Ours,
    /// It is of another cluster, which the user has not named.
    Another,
    /// It is of a second cluster, and the user has named none.
    Second,
}

/// The clusters of a log so far.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    wanted: Option<String>,
    seen: Vec<String>,
}

/// Most clusters that a message names.
const NAMED: usize = 8;

impl Clusters {
    pub(super) fn new(wanted: Option<&String>) -> Self {
        let (wanted, seen) = (wanted.cloned(), Vec::new());
        Self { wanted, seen }
    }

    /// Takes the cluster of a line. A line that names none is of the cluster that is read.
    pub(super) fn take(&mut self, name: &[u8]) -> Of {
        let name = name.trim_ascii();
        if name.is_empty() {
            return Of::Ours;
        }
        let is = |known: &String| known.as_bytes().eq_ignore_ascii_case(name);
        if !self.seen.iter().any(is) && self.seen.len() < NAMED {
            self.seen.push(String::from_utf8_lossy(name).into_owned());
        }
        match &self.wanted {
            Some(wanted) if is(wanted) => Of::Ours,
            Some(_) => Of::Another,
            None if self.seen.first().is_some_and(is) => Of::Ours,
            None => Of::Second,
        }
    }

    /// Why the log cannot be read: several clusters are in it and none is named, or at its end it
    /// lacks the named one. `command` prints one cluster.
    pub(super) fn refusal(&self, is_end: bool, command: &str) -> Option<String> {
        if self.wanted.is_some() && !is_end {
            return None;
        }
        let is_wanted = |name: &String| {
            let wanted = self.wanted.as_ref();
            wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let names = self.seen.join(", ");
        match (&self.wanted, self.seen.as_slice()) {
            (None, [first, _, ..]) => Some(format!(
                "it has the clusters {names}, whose nodes may have the same names: name one with \
                 --cluster {first}, or print one alone with {command} -M {first}"
            )),
            (Some(wanted), []) => Some(format!(
                "it names no cluster, so that --cluster {wanted} selects nothing: leave the option \
                 out, or print the cluster's name ({command} -M {wanted})"
            )),
            (Some(wanted), seen) if !seen.iter().any(is_wanted) => Some(format!(
                "it has nothing of the cluster {wanted}, but of {names}: name one of these with \
                 --cluster"
            )),
            _ => None,
        }
    }
}
