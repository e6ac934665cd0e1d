//! Site check: whether jobs of this Flux get the nodes of pilots.
//!
//! Flux's schedulers preempt nothing. The plugin `killbot` of the job manager ("a workaround for
//! schedulers that don't do preemption") ends jobs with the attribute
//! `preemptible-after` while others wait in the same queue.

use serde_json::Value;

use crate::check::{Filler, Finding, Verdict, add};
use crate::submit::CommandLine;

/// `kill-after` where it is not set, seconds.
const USUAL_WAIT_S: f64 = 30.0;
/// A longer wait of batch jobs for pilots is a warning, seconds.
const LONG_WAIT_S: f64 = 5.0;

/// Commands whose output [`check`] judges: queues, plugins, configuration.
#[must_use]
pub(super) fn questions() -> Vec<CommandLine> {
    let flux = ["flux".to_owned()];
    // The default queue is marked with `*`.
    let queues = "{queuem}|{submission}|{scheduling}";
    let all: [&[&str]; 3] = [
        &["queue", "list", "--no-header", "-o", queues],
        &["jobtap", "list"],
        &["config", "get"],
    ];
    let line = |words: &[&str]| {
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        CommandLine::new(&flux, args, None)
    };
    all.map(line).into()
}

/// Checks a site by the answers to [`questions`].
#[must_use]
pub(super) fn check(answers: &[Option<String>], filler: &Filler) -> Vec<Finding> {
    let answer = |at: usize| answers.get(at).and_then(Option::as_deref);
    let mut out = Vec::new();
    if (0..questions().len()).any(|at| answer(at).is_none()) {
        // Control then leaves a ban on pilots as it is.
        add(
            &mut out,
            "configuration",
            Verdict::Unknown,
            "a question to Flux has no answer",
            "queues and preemption cannot be checked",
            "flux queue list, flux jobtap list and flux config get must work for control's user",
        );
    }
    queue(answer(0), &filler.partition, &mut out);
    preemption(answer(1), answer(2), &mut out);
    out
}

/// The queue of pilots; without a name it is the default queue, or the one queue without a name.
fn queue(answer: Option<&str>, ours: &str, out: &mut Vec<Finding>) {
    let rows = answer.map(|text| {
        let rows = text.lines().map(|line| {
            let mut words = line.split('|').map(str::trim);
            [words.next(), words.next(), words.next()].map(Option::unwrap_or_default)
        });
        rows.filter(|[_, submission, _]| !submission.is_empty())
            .collect::<Vec<_>>()
    });
    let is_ours = |[name, ..]: &&[&str; 3]| match name.strip_suffix('*') {
        Some(name) => ours.is_empty() || name == ours,
        None => *name == ours,
    };
    let row = rows.as_ref().map(|rows| rows.iter().find(is_ours));
    let (verdict, seen) = match row {
        None => (Verdict::Unknown, "unknown".to_owned()),
        Some(None) => (Verdict::Fatal, format!("no queue {ours:?}")),
        Some(Some([_, "enabled", "started"])) => (Verdict::Ok, format!("{ours:?}: started")),
        Some(Some([_, submission, scheduling])) => (
            Verdict::Fatal,
            format!("{ours:?}: submission {submission}, scheduling {scheduling}"),
        ),
    };
    add(
        out,
        "queue of pilots",
        verdict,
        seen,
        "pilots need a queue that takes and starts jobs",
        "control.pilots.partition, flux queue enable, flux queue start",
    );
}

fn preemption(plugins: Option<&str>, config: Option<&str>, out: &mut Vec<Finding>) {
    let meaning = "Flux preempts nothing by itself: without the plugin a batch job waits until the \
                   time of a pilot is up. The plugin ends pilots only while jobs wait in the queue of \
                   the pilots";
    let remedy = "flux jobtap load killbot.so, kill-after = 1 in [job-manager.killbot], and pilots in \
                  the queue of the batch jobs";
    let refused = match plugins {
        None => Some((
            "flux jobtap list has no answer: unknown whether killbot is loaded",
            "control under the account of the owner of the Flux instance, since flux jobtap list is for \
             the owner alone; or, if killbot is loaded, control.pilots.override_check = true",
        )),
        Some(text) if !text.contains("killbot") => Some(("killbot is not loaded", remedy)),
        Some(_) => None,
    };
    if let Some((seen, remedy)) = refused {
        add(out, "preemption", Verdict::Fatal, seen, meaning, remedy);
        return;
    }
    let config: Option<Value> = config.and_then(|text| serde_json::from_str(text).ok());
    let setting = |key: &str| {
        let pointer = format!("/job-manager/killbot/{key}");
        config.as_ref().and_then(|config| config.pointer(&pointer))
    };
    let wait_s = setting("kill-after").and_then(Value::as_f64);
    let wait_s = wait_s.unwrap_or(USUAL_WAIT_S);
    let handler = setting("handler").and_then(Value::as_str);
    let verdict = match config {
        None => Verdict::Unknown,
        Some(_) if wait_s > LONG_WAIT_S => Verdict::Warning,
        Some(_) => Verdict::Ok,
    };
    let seen = format!(
        "killbot, kill-after {wait_s} s, {}",
        handler.unwrap_or("overkill")
    );
    add(out, "preemption", verdict, seen, meaning, remedy);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(answers: [Option<&str>; 3], partition: &str) -> Vec<(&'static str, Verdict)> {
        let answers = answers.map(|answer| answer.map(str::to_owned));
        let filler = Filler {
            partition: partition.to_owned(),
            ..Filler::default()
        };
        let found = check(&answers, &filler).into_iter();
        found.map(|f| (f.condition, f.verdict)).collect()
    }

    const QUEUES: &str = "debug|enabled|started\nbatch*|enabled|started\n";
    const CONFIG: &str = r#"{"job-manager": {"killbot": {"kill-after": 1}}}"#;

    #[test]
    fn pilots_need_a_queue_and_a_plugin_that_preempts() {
        let (queue, preemption) = ("queue of pilots", "preemption");
        for (answers, expected) in [
            (
                [QUEUES, ".update-duration\nkillbot.so\n", CONFIG],
                [Verdict::Ok; 2],
            ),
            (
                [QUEUES, "killbot.so\n", "{}"],
                [Verdict::Ok, Verdict::Warning],
            ),
            (
                ["batch|disabled|started\n", "", CONFIG],
                [Verdict::Fatal; 2],
            ),
            (
                ["debug*|enabled|started\n", "killbot.so\n", "no JSON"],
                [Verdict::Fatal, Verdict::Unknown],
            ),
        ] {
            let expected: Vec<_> = [queue, preemption].into_iter().zip(expected).collect();
            assert_eq!(
                verdicts(answers.map(Some), "batch"),
                expected,
                "{answers:?}"
            );
        }
    }

    /// Control takes nothing from findings with an unknown configuration, once it has started.
    #[test]
    fn a_missing_answer_is_told_first_and_forbids_pilots_where_it_is_of_the_plugin() {
        let all = [Some(QUEUES), Some("killbot.so\n"), Some(CONFIG)];
        for (missing, queue, preemption) in [
            (0, Verdict::Unknown, Verdict::Ok),
            (1, Verdict::Ok, Verdict::Fatal),
            (2, Verdict::Ok, Verdict::Unknown),
        ] {
            let mut answers = all;
            answers[missing] = None;
            let expected = [
                ("configuration", Verdict::Unknown),
                ("queue of pilots", queue),
                ("preemption", preemption),
            ];
            assert_eq!(verdicts(answers, "batch"), expected, "{missing}");
        }
        let found = check(&[None, None, None], &Filler::default());
        assert_eq!(found[0].condition, "configuration");
        for word in ["owner", "override_check"] {
            assert!(found[2].remedy.contains(word), "{}", found[2].remedy);
        }
    }

    #[test]
    fn without_a_name_the_queue_is_the_default_one() {
        let asked = questions();
        let format = asked[0].args.last().unwrap();
        assert!(format.starts_with("{queuem}|"), "{format}");
        for (queues, expected) in [
            (QUEUES, Verdict::Ok),
            (
                "debug|enabled|started\nbatch*|enabled|stopped\n",
                Verdict::Fatal,
            ),
            (
                "debug|enabled|started\nbatch|enabled|started\n",
                Verdict::Fatal,
            ),
            ("|enabled|started\n", Verdict::Ok),
            ("", Verdict::Fatal),
        ] {
            let found = verdicts([Some(queues), Some("killbot.so"), Some(CONFIG)], "");
            assert_eq!(found[0], ("queue of pilots", expected), "{queues}");
        }
    }
}
