//! Pilots of Lacuna in the log of a batch scheduler. They are no batch jobs: their nodes were idle, and
//! their node-hours are what Lacuna has harvested.

use std::str::FromStr;

use lacuna_trace::JobRecord;

/// Job name with which pilots begin by default (`control.pilots.name`).
const NAME: &str = "lacuna-pilot";

/// Account and partition of pilots in the snippet of `lacuna check slurm`.
const PLACE: &str = "lacuna";

/// What a mark is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Account,
    Partition,
    /// Beginning of the job name.
    Name,
}

/// How pilots are recognised: each given text must fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ours(Vec<(Mark, String)>);

impl FromStr for Ours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mark = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let mark = match key.trim() {
                "account" => Mark::Account,
                "partition" | "queue" => Mark::Partition,
                "name" => Mark::Name,
                _ => return Err("expected account=, partition= or name=, with commas between"),
            };
            match value.trim() {
                "" => Err("a mark has no value"),
                value => Ok((mark, value.to_owned())),
            }
        };
        let marks: Result<Vec<_>, _> = text.split(',').map(mark).collect();
        Ok(Self(marks?))
    }
}

impl Ours {
    /// Whether a job is a pilot. Without marks, the name, account or partition that pilots have by
    /// default tells one.
    pub(super) fn has(marks: Option<&Self>, job: &JobRecord) -> bool {
        let is_in = |queue: &str| job.queue.split(',').any(|one| one == queue);
        let Some(Self(marks)) = marks else {
            return job.name.starts_with(NAME) || job.account == PLACE || is_in(PLACE);
        };
        marks.iter().all(|(mark, text)| match mark {
            Mark::Account => job.account == *text,
            Mark::Partition => is_in(text),
            Mark::Name => job.name.starts_with(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pilots_are_told_by_what_they_have_by_default_or_by_all_given_marks() {
        let job = |name: &str, account: &str, queue: &str| JobRecord {
            name: name.to_owned(),
            account: account.to_owned(),
            queue: queue.to_owned(),
            ..JobRecord::default()
        };
        assert!(Ours::has(None, &job("lacuna-pilot-n1", "", "batch")));
        assert!(Ours::has(None, &job("", "lacuna", "")));
        assert!(!Ours::has(None, &job("pilot", "physics", "batch")));
        let marks: Ours = "account=ml, partition=idle".parse().unwrap();
        assert!(Ours::has(Some(&marks), &job("x", "ml", "gpu,idle")));
        assert!(!Ours::has(Some(&marks), &job("lacuna-pilot", "ml", "gpu")));
        for wrong in ["", "user=ann", "name", "name=,account=a"] {
            assert!(wrong.parse::<Ours>().is_err(), "{wrong}");
        }
    }
}
