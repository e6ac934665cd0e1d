//! The machines.

use std::path::Path;

use lacuna_forecast::Prior;
use lacuna_model::{Span, Timestamp};

/// The share of a log that is history: what comes after it is measured.
const HISTORY: f64 = 1.0 / 3.0;

/// A machine of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Its name.
    pub(super) name: &'static str,
    /// Its log, in the folder of recorded data.
    log: &'static str,
    /// The arguments by which the log is read.
    reading: &'static [&'static str],
    /// The arguments of its trainers.
    trainers: &'static [&'static str],
    /// The end of the history, if it is no share of the log.
    from: Option<Timestamp>,
}

const FOUR: &[&str] = &["--max-parallel", "4"];

/// The machines of the table.
pub(super) const MACHINES: [Known; 7] = [
    known("p3-spot", "machines/p3-spot.csv.gz", &[], FOUR),
    known("spot-9-zones", "machines/spot-9-zones.csv.gz", &[], FOUR),
    known(
        "mason",
        "machines/mason-2017-10.pbs.gz",
        &["--time-zone", "America/New_York"],
        FOUR,
    ),
    known(
        "surf",
        "machines/surf-2022-10.swf.gz",
        &["--until", "2022-10-11T22:00:00Z"],
        FOUR,
    ),
    known(
        "prometheus",
        "prometheus-2022-03/17_03_2022_idle_nodes.txt.gz",
        &[],
        &[],
    ),
    known(
        "theta",
        "theta-2022/theta_2022.swf.gz",
        &["--machine-nodes", "4392", "--until", "2022-02-01T00:00:00Z"],
        &[],
    ),
    Known {
        from: Some(Timestamp::from_unix(1_613_347_732)),
        ..known(
            "summit-1024",
            "summit-2021-02/holes.csv.gz",
            &["--first-nodes", "1024"],
            &["--max-parallel", "10"],
        )
    },
];

const fn known(
    name: &'static str,
    log: &'static str,
    reading: &'static [&'static str],
    trainers: &'static [&'static str],
) -> Known {
    Known {
        name,
        log,
        reading,
        trainers,
        from: None,
    }
}

/// A machine whose log is given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    /// Its name.
    pub(super) name: String,
    /// The arguments by which its log is read.
    reading: Vec<String>,
    /// The arguments of its trainers.
    trainers: Vec<String>,
    from: Option<Timestamp>,
}

impl Machine {
    /// A machine of the table, with recorded data in this folder.
    pub(super) fn known(known: &Known, data: &Path) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let log = data.join(known.log).display().to_string();
        Self {
            name: known.name.to_owned(),
            reading: [vec![log], words(known.reading)].concat(),
            trainers: words(known.trainers),
            from: known.from,
        }
    }

    /// The machine of any log, with further arguments of each replay.
    pub(super) fn other(log: &Path, more: &[String]) -> Self {
        let name = log.file_name().unwrap_or(log.as_os_str());
        Self {
            name: name.to_string_lossy().into_owned(),
            reading: [&[log.display().to_string()], more].concat(),
            trainers: Vec::new(),
            from: None,
        }
    }

    /// The command that tells when the log begins and ends.
    pub(super) fn probe(&self) -> Vec<String> {
        let command = ["holes", "--leave-out-idle-above=none"].map(str::to_owned);
        [command.as_slice(), self.reading.as_slice()].concat()
    }

    /// The other machines whose traces are known, separated by commas.
    pub(super) fn others(&self) -> String {
        let machines = Prior::machines();
        // The first nodes of a machine are no other machine.
        let others = machines.iter().map(|machine| machine.name.as_ref());
        let others = others.filter(|name| !self.name.starts_with(name));
        others.collect::<Vec<_>>().join(",")
    }

    /// The end of the history of a log of this time.
    pub(super) fn from(&self, start: Timestamp, end: Timestamp) -> Timestamp {
        let third = HISTORY * end.since(start).as_secs_f64();
        self.from
            .unwrap_or_else(|| start + Span::from_secs_f64(third.round()))
    }

    /// The command of a replay of what comes after its history.
    pub(super) fn replay(&self, from: Timestamp, cost: f64) -> Vec<String> {
        let mut command = ["replay", "--leave-out-idle-above=none"]
            .map(str::to_owned)
            .to_vec();
        command.extend_from_slice(&self.reading);
        command.extend_from_slice(&self.trainers);
        for (flag, value) in [
            ("--from", from.unix_seconds().to_string()),
            ("--cost-scale", cost.to_string()),
            ("--milestones", "1h,24h,7d".to_owned()),
        ] {
            command.extend([flag.to_owned(), value]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prior_is_of_the_other_machines() {
        for known in &MACHINES {
            let others = Machine::known(known, Path::new("/d")).others();
            assert_eq!(others.split(',').count(), MACHINES.len() - 1, "{others}");
        }
        let unknown = Machine::other(Path::new("/l/a.swf"), &[]).others();
        assert_eq!(unknown.split(',').count(), MACHINES.len());
    }

    #[test]
    fn what_comes_after_the_history_is_replayed() {
        let data = Path::new("/d");
        let [first, .., last] = MACHINES.map(|known| Machine::known(&known, data));
        let (start, end) = (Timestamp::from_unix(1000), Timestamp::from_unix(4000));
        assert_eq!(first.from(start, end), Timestamp::from_unix(2000));
        assert_eq!(last.from(start, end), Timestamp::from_unix(1_613_347_732));
        assert_eq!(
            first.replay(first.from(start, end), 5.0).join(" "),
            "replay --leave-out-idle-above=none /d/machines/p3-spot.csv.gz --max-parallel 4 \
             --from 2000 --cost-scale 5 --milestones 1h,24h,7d"
        );
        let other = Machine::other(Path::new("/l/a.swf"), &["--machine-nodes".to_owned()]);
        assert_eq!(
            other.probe().join(" "),
            "holes --leave-out-idle-above=none /l/a.swf --machine-nodes"
        );
    }
}
