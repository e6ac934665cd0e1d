//! One name for one thing: retired words stay away from code, outputs and documents.

use crate::support;

/// Retired words, each row with all forms of a word, and the successor. A form of two words is
/// found in `two words`, `two-words`, `two_words`, `TwoWords` and `TWO_WORDS`.
const RETIRED: &[(&[&str], &str)] = &[
    (&["anew"], "again"),
    (&["at hand"], "available"),
    (&["bettered"], "improved"),
    (&["bite"], "event size"),
    (
        &["bury", "buries", "buried", "burial", "graves"],
        "dead-letter",
    ),
    (&["by decree"], "oracle lookahead"),
    (&["dead man"], "lease timeout"),
    (&["deed", "deeds"], "column kind"),
    (&["desk"], "pending inputs"),
    (&["eagerness"], "hazard ratio"),
    (&["faults on purpose"], "fault injection"),
    (&["for ever"], "forever"),
    (&["foreseen", "foretold"], "forecast"),
    (&["foresight"], "forecasting"),
    (&["heed", "heeds", "heeded", "heeding"], "handle, obey"),
    (&["hinted"], "planned starts"),
    (&["kinship"], "co-departure"),
    (&["lately"], "recent"),
    (&["nursery"], "process supervisor"),
    (&["oddity", "oddities"], "anomaly"),
    (&["of late"], "recent"),
    (&["outlook"], "planned starts"),
    (&["programme", "programmes"], "program"),
    (&["sat out"], "stall debt"),
    (&["repool", "repooled"], "replaced"),
    (&["salvage"], "shadow price"),
    (&["seer"], "observer"),
    (&["stand by", "stands by"], "standby"),
    (&["taker", "takers"], "bidder"),
    (&["tape"], "events"),
];

/// Former names of settings, which the change log gives with their successors.
const KEPT: &[&str] = &[
    "`agent.dead_man`",
    "`control.anew_every`",
    "`planner.foresight`",
];

/// A sentence of a comment or a document has a noun of the vocabulary as its subject.
const SUBJECTS: &[(&[&str], &str)] = &[
    (&["nobody"], "no trainer, no agent, no user, ..."),
    (&["so many"], "the number, or what it is compared with"),
    (&["whoever"], "the trainer, the agent, the user, ... that"),
];

/// This file has the words that it looks for.
const OWN: &str = "integration-tests/tests/architecture/language.rs";

const FOLDERS: &[&str] = &[
    ".ci",
    "deploy",
    "grafana",
    "integration-tests",
    "libs",
    "services",
];

const EXTENSIONS: &[&str] = &[
    "conf",
    "css",
    "Dockerfile",
    "example",
    "html",
    "in",
    "js",
    "json",
    "jsonl",
    "md",
    "py",
    "rs",
    "sbatch",
    "sh",
    "snap",
    "svg",
    "toml",
    "txt",
    "yaml",
    "yml",
];

/// Files outside the folders, or without an extension.
const SINGLE: &[&str] = &[
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.toml",
    "Makefile",
    "README.md",
    "RESULTS.md",
    "deploy/Dockerfile",
    "integration-tests/slurm/Dockerfile",
    "integration-tests/slurm/Dockerfile.accounting",
];

/// All files whose words are looked at, with their text. A file that is no text has no words.
fn files() -> Vec<(String, String)> {
    let mut names: Vec<String> = SINGLE.iter().map(|name| (*name).to_owned()).collect();
    for folder in FOLDERS {
        for extension in EXTENSIONS {
            names.extend(support::files(folder, extension));
        }
    }
    names.sort();
    names.dedup();
    names.retain(|name| name != OWN);
    let text = |name: &String| std::fs::read_to_string(support::root().join(name)).ok();
    let read = names.into_iter().filter_map(|name| {
        let text = text(&name)?;
        Some((name, text))
    });
    read.collect()
}

/// The line without the names that are kept. A part of a longer name is no such name.
fn without_kept(line: &str) -> String {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut line = line.to_owned();
    for kept in KEPT {
        let mut from = 0;
        while let Some(at) = line[from..].find(kept).map(|at| at + from) {
            let end = at + kept.len();
            let is_whole = !line[..at].ends_with(in_name) && !line[end..].starts_with(in_name);
            if is_whole {
                line.replace_range(at..end, ".");
            }
            from = if is_whole { at + 1 } else { end };
        }
    }
    line
}

/// The words of a line in lower case. A name is split at underscores and at capitals. An empty
/// word stands between words that more than a blank, a hyphen or an underscore divides.
fn words(line: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    let mut last = ' ';
    for (at, &c) in letters.iter().enumerate() {
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = c.is_uppercase() && (!last.is_uppercase() || before_small);
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if !matches!(c, ' ' | '-' | '_') {
            words.push(String::new());
        }
        last = c;
    }
    words.push(word);
    words
}

/// The forms of the list that a line has, each with its successor.
fn found<'a>(line: &str, list: &[(&'a [&'a str], &'a str)]) -> Vec<(&'a str, &'a str)> {
    let words = words(&without_kept(line));
    let mut found = Vec::new();
    for (forms, successor) in list {
        for form in *forms {
            let form_words: Vec<&str> = form.split(' ').collect();
            if words
                .windows(form_words.len())
                .any(|some| some == form_words)
            {
                found.push((*form, *successor));
            }
        }
    }
    found
}

/// One line for each retired word in a file's name or text: file, line, word, successor.
fn retired(file: &str, text: &str) -> Vec<String> {
    let mut lines_found = Vec::new();
    for (word, successor) in found(file, RETIRED) {
        lines_found.push(format!("{file}: its name has `{word}`: say {successor}"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (word, successor) in found(line, RETIRED) {
            lines_found.push(format!("{file}:{number}: `{word}`: say {successor}"));
        }
    }
    lines_found
}

/// The lines of a file that are written for people, by number: all lines of a document, and the
/// comments and docstrings of code.
fn prose<'a>(file: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let lines = (1..).zip(text.lines());
    let extension = file.rsplit('.').next().unwrap_or_default();
    let mut in_docstring = false;
    let after = |line: &'a str, mark: &str| line.find(mark).map(|at| &line[at..]);
    let mut of_line = |line: &'a str| match extension {
        "md" | "json" | "yaml" | "yml" => Some(line),
        "rs" | "js" => after(line, "//"),
        "py" => {
            let was_inside = in_docstring;
            let marks = line.matches("\"\"\"").count();
            in_docstring ^= marks % 2 == 1;
            if was_inside || marks > 0 {
                Some(line)
            } else {
                after(line, "#")
            }
        }
        "css" | "html" | "snap" | "svg" | "txt" => None,
        _ => after(line, "#"),
    };
    lines
        .filter_map(|(number, line)| Some((number, of_line(line)?)))
        .collect()
}

/// A line without its names in backquotes.
fn without_names(line: &str) -> String {
    let outside = line.split('`').step_by(2);
    outside.collect::<Vec<&str>>().join("` `")
}

/// One line for each sentence of a file that has no subject of the vocabulary.
fn subjects(file: &str, text: &str) -> Vec<String> {
    let mut lines_found = Vec::new();
    for (number, line) in prose(file, text) {
        for (word, successor) in found(&without_names(line), SUBJECTS) {
            lines_found.push(format!("{file}:{number}: `{word}`: say {successor}"));
        }
    }
    lines_found
}

fn assert_none(of_file: fn(&str, &str) -> Vec<String>) {
    let files = files();
    assert!(files.len() > 500, "only {} files found", files.len());
    let found = files.iter().flat_map(|(name, text)| of_file(name, text));
    let found: Vec<String> = found.collect();
    assert!(
        found.is_empty(),
        "{} retired words (the list is in {OWN}):\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn retired_words_stay_away_from_code_outputs_and_documents() {
    assert_none(retired);
}

#[test]
fn comments_and_documents_name_the_subjects_of_their_sentences() {
    assert_none(subjects);
}

#[test]
fn at_most_thirty_words_are_retired_and_none_twice() {
    assert!(RETIRED.len() <= 30, "{} words are retired", RETIRED.len());
    let forms = RETIRED.iter().flat_map(|(forms, _)| *forms);
    let mut forms: Vec<&str> = forms.copied().collect();
    let before = forms.len();
    forms.sort_unstable();
    forms.dedup();
    assert_eq!(forms.len(), before, "a word is retired twice");
    for (forms, successor) in RETIRED {
        let again = found(successor, RETIRED);
        assert!(again.is_empty(), "{forms:?} give way to a retired word");
    }
    for kept in KEPT {
        let longer = format!("{kept}_");
        assert!(
            !found(&longer, RETIRED).is_empty(),
            "{kept} has no retired word"
        );
    }
}

#[test]
fn a_retired_word_is_found_in_every_form_with_its_line_and_successor() {
    let text = "let x = 1;\n// It waits for ever.\nstruct Nursery;\nfn nursery_of() {}\n";
    assert_eq!(
        retired("libs/made/up.rs", text),
        [
            "libs/made/up.rs:2: `for ever`: say forever",
            "libs/made/up.rs:3: `nursery`: say process supervisor",
            "libs/made/up.rs:4: `nursery`: say process supervisor",
        ]
    );
    assert_eq!(
        retired("libs/made/nursery.rs", ""),
        ["libs/made/nursery.rs: its name has `nursery`: say process supervisor"]
    );
    for line in [
        "the dead man's time",
        "dead-man",
        "DeadMan",
        "DEAD_MAN_S",
        "dead_man_s",
        "lacuna_agent_dead_man_total",
    ] {
        assert_eq!(
            found(line, RETIRED),
            [("dead man", "lease timeout")],
            "{line}"
        );
    }
}

#[test]
fn other_words_and_kept_names_are_no_retired_words() {
    for line in [
        "unheeded, a seersucker, two bites",
        "the man is dead, man",
        "at: hand",
        "`agent.dead_man` = 60",
    ] {
        assert!(found(line, RETIRED).is_empty(), "{line}");
    }
}

#[test]
fn subjects_are_looked_for_in_comments_docstrings_and_documents() {
    let rust = "let nobody = 65534;\n// Nobody waits.\nlet x = 2; // so many\n";
    let numbers = |file: &str, text: &str| -> Vec<usize> {
        let of = |line: &String| line.split(':').nth(1).unwrap().parse::<usize>().unwrap();
        subjects(file, text).iter().map(of).collect()
    };
    assert_eq!(numbers("a.rs", rust), [2, 3]);
    let python = "user = 'nobody'\ndef f():\n    \"\"\"Whoever\n    nobody\"\"\"\n    nobody = 1\n";
    assert_eq!(numbers("a.py", python), [3, 4]);
    assert_eq!(numbers("a.sh", "chown nobody x\n# whoever\n"), [2]);
    assert_eq!(
        numbers("a.md", "So many words.\n`nobody_waits` and `nobody`.\n"),
        [1]
    );
}
