//! The program of a trainer: how it is started, where, and with what.

use serde_json::json;

use lacuna_model::{Directory, Elastic, Launch, Program};

/// Columns of a line beside the names of values, and the lines of a command.
const COLUMNS: usize = 66;
const LINES: usize = 6;
/// Longest word that is shown whole.
const WORD: usize = 200;

fn launcher(launch: &Launch) -> &'static str {
    match launch {
        Launch::Simulated => "simulated",
        Launch::Command(Program { elastic, .. }) => match elastic {
            Elastic::Restart => "command",
            Elastic::Torchrun { .. } => "torchrun",
            Elastic::Regroup { .. } => "regroup",
        },
    }
}

/// The program as a JSON value. Of its environment it has the names alone.
pub(crate) fn program_json(launch: &Launch) -> serde_json::Value {
    let Launch::Command(Program {
        program,
        args,
        env,
        checkpoint_dir,
        directory,
        environment_from,
        ..
    }) = launch
    else {
        return json!({ "launcher": launcher(launch) });
    };
    json!({
        "launcher": launcher(launch),
        "workers_per_node": launch.workers_per_node(),
        "program": program,
        "arguments": args,
        "directory": directory.named(),
        "environment": env.keys().collect::<Vec<_>>(),
        "environment_from": environment_from,
        "checkpoint_dir": checkpoint_dir,
    })
}

/// The program as rows of details.
pub(super) fn program_details(launch: &Launch) -> Vec<(&'static str, String)> {
    let mut rows = vec![("launcher", launcher(launch).to_owned())];
    let Launch::Command(Program {
        program,
        args,
        directory,
        environment_from,
        ..
    }) = launch
    else {
        return rows;
    };
    if let (Some((_, text)), more @ 2..) = (rows.first_mut(), launch.workers_per_node()) {
        text.push_str(&format!(", {more} workers on each node"));
    }
    let mut lines = command_lines(program, args).into_iter();
    rows.extend(lines.next().map(|line| ("program", line)));
    rows.extend(lines.map(|line| ("", line)));
    rows.extend(match directory {
        Directory::OfNode => None,
        Directory::Required(folder) => Some(("directory", folder.clone())),
        Directory::Preferred(folder) => Some((
            "directory",
            format!("{folder} where a node has it, else the trainer's own on the node"),
        )),
    });
    if !environment_from.is_empty() {
        rows.push((
            "secrets",
            format!("from {} on its nodes", environment_from.join(", ")),
        ));
    }
    rows
}

/// A command in lines that end between words. What does not fit is counted.
fn command_lines(program: &str, args: &[String]) -> Vec<String> {
    let mut lines = vec![String::new()];
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    for (at, word) in words.map(word).enumerate() {
        let is_full = |line: &String| {
            !line.is_empty() && console::measure_text_width(line) + word.chars().count() >= COLUMNS
        };
        if lines.last().is_some_and(is_full) {
            if lines.len() == LINES {
                let more = args.len() + 1 - at;
                lines.push(format!("... and {more} more arguments (--json shows all)"));
                return lines;
            }
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
    }
    lines
}

/// A word as a shell would need it, in one line.
fn word(text: &str) -> String {
    let one_line: Vec<&str> = text.split_whitespace().collect();
    let one_line = one_line.join(" ");
    let length = one_line.chars().count();
    let shown = match length {
        0..=WORD => one_line,
        _ => {
            let start: String = one_line.chars().take(WORD).collect();
            let whole = start
                .rsplit_once(' ')
                .map_or(start.as_str(), |(whole, _)| whole);
            format!("{whole} ... ({length} characters, --json shows all)")
        }
    };
    match shown.is_empty() || shown.contains([' ', '"', '$', '*', ';']) {
        true => format!("'{shown}'"),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_in_whole_words_and_says_what_it_leaves_out() {
        assert_eq!(command_lines("true", &[]), ["true"]);
        let args: Vec<String> = (0..100).map(|n| format!("--argument-{n}")).collect();
        let lines = command_lines("/usr/bin/python3", &args);
        let (last, whole) = lines.split_last().unwrap();
        assert!(whole.len() == LINES && whole.iter().all(|line| line.len() <= COLUMNS));
        let words: Vec<&str> = whole.iter().flat_map(|line| line.split(' ')).collect();
        assert_eq!(words[1..], args[..words.len() - 1]);
        let more = format!("... and {} more", args.len() + 1 - words.len());
        assert!(last.starts_with(&more), "{last}");
        let script = "first line\n  second\n".repeat(20);
        let lines = command_lines("/bin/sh", &["-c".to_owned(), script, String::new()]);
        let text = lines.join("|");
        assert!(
            text.starts_with("/bin/sh -c|'first line second first"),
            "{text}"
        );
        assert!(
            text.ends_with("second ... (359 characters, --json shows all)'|''"),
            "{text}"
        );
    }

    #[test]
    fn the_launcher_is_named_and_no_value_of_the_environment_is_shown() {
        let launch = Launch::Command(Program {
            program: "/run/train.py".to_owned(),
            env: [("A_KEY".to_owned(), "hush".to_owned())].into(),
            directory: Directory::Preferred("/run".to_owned()),
            environment_from: vec!["/run/s.env".to_owned()],
            elastic: Elastic::Regroup {
                workers_per_node: 4,
            },
            ..Program::default()
        });
        let rows = program_details(&launch);
        assert_eq!(
            rows[0],
            ("launcher", "regroup, 4 workers on each node".to_owned())
        );
        let all = format!("{rows:?} {}", program_json(&launch));
        assert!(all.contains("A_KEY") && all.contains("/run/s.env") && !all.contains("hush"));
        assert_eq!(
            program_details(&Launch::Simulated),
            [("launcher", "simulated".to_owned())]
        );
    }
}
