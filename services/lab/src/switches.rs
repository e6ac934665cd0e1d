//! Every switch that a text names exists in the command that it names: in the pages of errors, in the guide,
//! and in what the commands print.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

/// Switches of other programs that the pages of errors name: of sacct, and of nats-server.
const FOREIGN: [&str; 2] = ["parsable2", "signal"];

/// `lacuna` and `lacuna-lab`, with what subcommands inherit.
fn programs() -> [Command; 2] {
    [lacuna_cli::Cli::command(), crate::args::definition()].map(|mut program| {
        program.build();
        program
    })
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether a command has a switch.
fn has(command: &Command, switch: &str) -> bool {
    let mut names = command.get_arguments().flat_map(|arg| {
        let others = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(others)
    });
    names.any(|name| name == switch)
}

/// The commands of a text: what follows the name of a program in it, up to a gap or the end of the line, or
/// to the end of the quotation that the name begins.
fn commands<'a>(text: &'a str, program: &str) -> Vec<&'a str> {
    let at = text.match_indices(program).filter_map(|(at, name)| {
        let before = text.get(..at)?.chars().next_back();
        let behind = text.get(at + name.len()..)?;
        let starts = before.is_none_or(|c| !c.is_alphanumeric() && !"-_/.=".contains(c));
        let rest = behind.strip_prefix(' ').filter(|_| starts)?;
        let end = match before {
            Some('`') => rest.find('`'),
            _ => rest.find(['\n', '`', '"', '|']),
        };
        let words = rest.get(..end.unwrap_or(rest.len()))?;
        words.split("   ").next()
    });
    at.collect()
}

/// The switches of a command that it does not have, each with the command; none if it is no command.
fn unknown(program: &Command, words: &str) -> Vec<String> {
    let (mut command, mut unknown) = (program, Vec::new());
    let mut named = program.get_name().to_owned();
    let mut is_path = true;
    for word in words.split_whitespace() {
        if ["--", "|", "||", "&&", ">", ">>", "<", "#", "\\"].contains(&word)
            || word.starts_with("$(")
        {
            break;
        }
        let bare = word.trim_matches(|c: char| "[](),;:.'\"".contains(c));
        match bare.strip_prefix("--") {
            Some(switch) => {
                let switch = switch.split(['=', ',', '\'']).next().unwrap_or_default();
                let is_known =
                    has(command, switch) || ["help", "help-all", "version"].contains(&switch);
                if !is_known {
                    unknown.push(format!("{named} --{switch}"));
                }
            }
            None => match command.find_subcommand(bare).filter(|_| is_path) {
                Some(next) => {
                    command = next;
                    named = format!("{named} {bare}");
                }
                None if std::ptr::eq(command, program) => return Vec::new(),
                None => is_path = false,
            },
        }
        // What follows in the line is prose, or another command.
        if word.ends_with([',', ';', ':', '.', ')']) {
            break;
        }
    }
    unknown
}

/// The guide and the sources of the commands, without tests; each with its path.
fn texts() -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = vec![root().join("README.md")];
    let mut folders = vec![root().join("deploy")];
    for sources in [
        "services/cli/src",
        "services/lab/src",
        "libs/trace/src",
        "libs/sim/src",
    ] {
        folders.push(root().join(sources));
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".md")
                || (name.ends_with(".rs") && !name.contains("tests") && name != "switches.rs")
            {
                files.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        (path.display().to_string(), product.replace("\\n", "\n"))
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_switch_that_a_text_names_exists_in_the_command_that_it_names() {
    let programs = programs();
    let (mut wrong, mut looked) = (Vec::new(), 0);
    for (file, text) in texts() {
        for program in &programs {
            for words in commands(&text, program.get_name()) {
                looked += 1;
                let unknown = unknown(program, words).into_iter();
                wrong.extend(unknown.map(|switch| format!("{file}: {switch}")));
            }
        }
    }
    assert!(looked > 500, "the test looks in the wrong place: {looked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where a page of an error names a switch alone, some command has it.
#[test]
fn a_switch_in_a_page_of_an_error_is_a_switch_of_some_command() {
    fn all(command: &Command, into: &mut BTreeSet<String>) {
        into.extend(
            command
                .get_arguments()
                .filter_map(|arg| arg.get_long())
                .map(str::to_owned),
        );
        command.get_subcommands().for_each(|sub| all(sub, into));
    }
    let mut known: BTreeSet<String> = FOREIGN.map(str::to_owned).into();
    programs()
        .iter()
        .for_each(|program| all(program, &mut known));
    let page = std::fs::read_to_string(root().join("deploy/errors.md")).unwrap();
    let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let switches = words.filter_map(|word| word.strip_prefix("--"));
    let unknown: BTreeSet<&str> = switches.filter(|switch| !known.contains(*switch)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_switch_of_another_command_is_found() {
    let [lacuna, lab] = programs();
    for (program, text, expected) in [
        (
            &lacuna,
            "`lacuna replay a.swf\n--keys x`",
            "lacuna replay --keys",
        ),
        (&lacuna, "lacuna check topology --keys x, --foo", ""),
        (
            &lacuna,
            "lacuna limits set --nodes 3 | jq --bar",
            "lacuna limits set --nodes",
        ),
        (&lacuna, "lacuna is --no-command", ""),
        (&lacuna, "run /x/lacuna replay --foo", ""),
        (
            &lab,
            "lacuna-lab replay h.csv --compat --seed 1",
            "lacuna-lab replay --compat",
        ),
    ] {
        let found: Vec<String> = commands(text, program.get_name())
            .into_iter()
            .flat_map(|words| unknown(program, words))
            .collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }
}
