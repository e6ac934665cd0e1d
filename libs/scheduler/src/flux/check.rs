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
    let queues = "{queue}|{submission}|{scheduling}";
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
    queue(answer(0), &filler.partition, &mut out);
    preemption(answer(1), answer(2), &mut out);
    out
}

fn queue(answer: Option<&str>, ours: &str, out: &mut Vec<Finding>) {
    let rows = answer.map(|text| {
        let rows = text.lines().map(|line| {
            let mut words = line.split('|').map(str::trim);
            [words.next(), words.next(), words.next()].map(Option::unwrap_or_default)
        });
        rows.filter(|[_, submission, _]| !submission.is_empty())
            .collect::<Vec<_>>()
    });
    let row = rows
        .as_ref()
        .map(|rows| rows.iter().find(|[name, ..]| *name == ours));
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
    let loaded = plugins.map(|text| text.contains("killbot"));
    if loaded != Some(true) {
        let (verdict, seen) = match loaded {
            None => (Verdict::Unknown, "unknown"),
            _ => (Verdict::Fatal, "killbot is not loaded"),
        };
        add(out, "preemption", verdict, seen, meaning, remedy);
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

    fn verdicts(answers: [Option<&str>; 3]) -> Vec<(&'static str, Verdict)> {
        let answers = answers.map(|answer| answer.map(str::to_owned));
        let filler = Filler {
            partition: "batch".to_owned(),
            ..Filler::default()
        };
        let found = check(&answers, &filler).into_iter();
        found.map(|f| (f.condition, f.verdict)).collect()
    }

    #[test]
    fn pilots_need_a_queue_and_a_plugin_that_preempts() {
        let (queue, preemption) = ("queue of pilots", "preemption");
        let queues = "debug|enabled|started\nbatch|enabled|started\n";
        let config = r#"{"job-manager": {"killbot": {"kill-after": 1}}}"#;
        for (answers, expected) in [
            ([None; 3], [Verdict::Unknown; 2]),
            (
                [
                    Some(queues),
                    Some(".update-duration\nkillbot.so\n"),
                    Some(config),
                ],
                [Verdict::Ok; 2],
            ),
            (
                [Some(queues), Some("killbot.so\n"), Some("{}")],
                [Verdict::Ok, Verdict::Warning],
            ),
            (
                [Some("batch|disabled|started\n"), Some(""), Some(config)],
                [Verdict::Fatal; 2],
            ),
            (
                [Some("debug|enabled|started\n"), Some("killbot.so\n"), None],
                [Verdict::Fatal, Verdict::Unknown],
            ),
        ] {
            let expected: Vec<_> = [queue, preemption].into_iter().zip(expected).collect();
            assert_eq!(verdicts(answers), expected, "{answers:?}");
        }
    }
}
