//! Shell completion: names of trainers and nodes of the running cluster.
//!
//! A script of `lacuna completions` passes the words of the line to `lacuna complete`. That command
//! finds the kind of the last word by its value name (`TRAINER`, `NODE`) and prints the names that
//! complete it. The script is therefore the same for every command.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command, Parser};
use clap_complete::Shell;

use lacuna_wire::msg::{Kept, Reply, Request};

use super::trainers::pages;
use crate::client::{Client, ConnectArgs, unexpected};
use crate::error::{CliError, Result};
use crate::output;

/// The time limit for names from the cluster; the user waits after pressing Tab.
const LIMIT: Duration = Duration::from_millis(500);

/// Arguments of `complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words of the line, the program first, up to the one to complete
    #[arg(last = true)]
    words: Vec<String>,
}

/// The switches of the line that select the cluster.
#[derive(Debug, Parser)]
struct Connection {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Options of [`ConnectArgs`].
const CONNECTION: [&str; 4] = ["nats", "identity", "cluster", "data-dir"];

/// The beginning of the name of a trainer or a node.
#[derive(Debug, Default, PartialEq, Eq)]
struct PartialName<'a> {
    trainers: bool,
    nodes: bool,
    /// The letters of the name that are typed.
    begin: &'a str,
    /// The text before the name in the same word: an option and `=`.
    prefix: &'a str,
    /// The words before this one.
    before: &'a [String],
    /// The connection switches among them.
    connection: Vec<String>,
}

/// The option that a word names, if the option takes a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let is = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|c| word.strip_prefix('-') == Some(&c.to_string())),
    };
    let mut found = command
        .get_opts()
        .filter(|arg| arg.get_action().takes_values());
    found.find(is)
}

/// The positional argument with this index.
fn positional(command: &Command, place: usize) -> Option<&Arg> {
    let all: Vec<&Arg> = command.get_positionals().collect();
    let last = all
        .last()
        .filter(|last| matches!(last.get_action(), ArgAction::Append));
    all.get(place).or(last).copied()
}

/// The partial name at the end of a line; none if its last word names neither a trainer nor a node.
fn partial_name<'a>(command: &Command, words: &'a [String]) -> Option<PartialName<'a>> {
    let (current, before) = words.split_last()?;
    let mut partial_name = PartialName {
        begin: current,
        before,
        ..PartialName::default()
    };
    let (mut at, mut place, mut plain) = (command, 0, false);
    let mut expected: Option<&Arg> = None;
    // Bash splits an option, `=` and its value into three words.
    for word in before.iter().skip(1).filter(|word| *word != "=") {
        if let Some(arg) = expected.take() {
            if let Some(long) = arg.get_long().filter(|long| CONNECTION.contains(long)) {
                partial_name.connection.push(format!("--{long}={word}"));
            }
        } else if plain || !word.starts_with('-') {
            match at.find_subcommand(word) {
                Some(sub) if place == 0 && !plain => at = sub,
                _ => place += 1,
            }
        } else if word == "--" {
            plain = true;
        } else if let Some((name, _)) = word.split_once('=') {
            let long = option(at, name).and_then(Arg::get_long);
            if long.is_some_and(|long| CONNECTION.contains(&long)) {
                partial_name.connection.push(word.clone());
            }
        } else {
            expected = option(at, word);
        }
    }
    let arg = match expected {
        Some(arg) => {
            partial_name.begin = current.strip_prefix('=').unwrap_or(current);
            arg
        }
        None if current.starts_with('-') && !plain => {
            let (name, begin) = current.split_once('=')?;
            partial_name.begin = begin;
            partial_name.prefix = current.strip_suffix(begin)?;
            option(at, name)?
        }
        None => positional(at, place)?,
    };
    let named = |what: &str| {
        let mut names = arg.get_value_names().unwrap_or_default().iter();
        names.any(|name| name.split('|').any(|name| name == what))
    };
    partial_name.trainers = named("TRAINER");
    partial_name.nodes = named("NODE");
    (partial_name.trainers || partial_name.nodes).then_some(partial_name)
}

impl PartialName<'_> {
    /// Asks the cluster for names. Names of ended trainers are added only if no other name fits.
    async fn names(&self) -> Result<Vec<String>> {
        let line = std::iter::once("lacuna".to_owned()).chain(self.connection.iter().cloned());
        let said = Connection::try_parse_from(line);
        let said = said.map_err(|e| CliError::failed(e.to_string()))?;
        let client = Client::connect(&said.connect).await?;
        let mut names = Vec::new();
        if self.trainers {
            match client.ask(Request::Trainers { all: false }).await? {
                Reply::Trainers { trainers, .. } => {
                    names.extend(trainers.iter().map(|record| record.spec.id.to_string()));
                }
                other => return Err(unexpected(other)),
            }
            if self.offered(&names).is_empty() {
                let (_, trainers) = pages(&client, Kept::Live).await?;
                names.extend(trainers.iter().map(|record| record.spec.id.to_string()));
            }
        }
        if self.nodes {
            match client.ask(Request::Nodes).await? {
                Reply::Nodes { nodes, .. } => {
                    names.extend(nodes.iter().map(|view| view.node.to_string()));
                }
                other => return Err(unexpected(other)),
            }
        }
        Ok(names)
    }

    /// The names that fit, as words of the line, without names that the line has already.
    fn offered(&self, names: &[String]) -> Vec<String> {
        let fits = |name: &&String| name.starts_with(self.begin) && !self.before.contains(name);
        let names: BTreeSet<&String> = names.iter().filter(fits).collect();
        let word = |name: &String| format!("{}{name}", self.prefix);
        names.into_iter().map(word).collect()
    }
}

/// Runs `complete`: prints one word a line, or nothing.
///
/// # Errors
/// Standard output cannot be written. A silent cluster is no error: the line is still being typed.
pub(crate) async fn run(args: CompleteArgs, command: &Command) -> Result<()> {
    let Some(partial_name) = partial_name(command, &args.words) else {
        return Ok(());
    };
    if let Ok(Ok(names)) = tokio::time::timeout(LIMIT, partial_name.names()).await {
        let offered = partial_name.offered(&names);
        if !offered.is_empty() {
            output::print(&offered.join("\n"))?;
        }
    }
    // A name lookup that is still running would delay the end of the process.
    std::process::exit(0)
}

/// The head of the generated function, and the function that asks for names before it.
const FUNCTION: &str = "_lacuna() {";

const BASH: &str = r#"_lacuna() {
    local name names=()
    while IFS= read -r name; do
        names+=("$name")
    done < <("$1" complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    if [[ ${#names[@]} -gt 0 ]]; then
        COMPREPLY=("${names[@]}")
    else
        _lacuna_words "$@"
    fi
}

_lacuna_words() {"#;

const ZSH: &str = r#"_lacuna() {
    local -a names
    names=(${(f)"$("$words[1]" complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)"})
    if (( $#names )); then
        compadd -a names
    else
        _lacuna_words "$@"
    fi
}

_lacuna_words() {"#;

/// Files are offered where no name fits.
const FISH: &str = r#"
complete -c lacuna -f -n 'set -g __lacuna_names (lacuna complete -- (commandline -opc) (commandline -ct) 2>/dev/null); test (count $__lacuna_names) -gt 0' -a '$__lacuna_names'
"#;

/// A generated script that also asks for names. Scripts of other shells are unchanged.
#[must_use]
pub(crate) fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => script.replacen(FUNCTION, BASH, 1),
        Shell::Zsh => script.replacen(FUNCTION, ZSH, 1),
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_kind_of_each_word_of_a_line_is_known() {
        let command = definition();
        for (line, trainers, nodes, begin) in [
            ("lacuna logs hp", true, false, "hp"),
            ("lacuna logs -n 5 ", true, false, ""),
            ("lacuna logs --lines 5 --raw h", true, false, "h"),
            ("lacuna cancel a b", true, false, "b"),
            ("lacuna trainers ", true, false, ""),
            ("lacuna wait --for running h", true, false, "h"),
            ("lacuna explain a", true, true, "a"),
            ("lacuna nodes a01", false, true, "a01"),
            ("lacuna drain --reason fan a", false, true, "a"),
            ("lacuna undrain -- a", false, true, "a"),
            ("lacuna events publish node.idle a", false, true, "a"),
            ("lacuna events tail --node a", false, true, "a"),
            ("lacuna events tail --node = a", false, true, "a"),
            ("lacuna events tail --node =", false, true, ""),
            (
                "lacuna events tail --type node.idle --node=a",
                false,
                true,
                "a",
            ),
        ] {
            let words = words(line);
            let partial_name =
                partial_name(&command, &words).unwrap_or_else(|| panic!("{line}: nothing"));
            let found = (
                partial_name.trainers,
                partial_name.nodes,
                partial_name.begin,
            );
            assert_eq!(found, (trainers, nodes, begin), "{line}");
        }
        for line in [
            "lacuna",
            "lacuna lo",
            "lacuna logs a b",
            "lacuna logs --li",
            "lacuna logs --lines 5",
            "lacuna logs --lines=5",
            "lacuna events ",
            "lacuna events publish ",
            "lacuna events tail --type n",
            "lacuna submit tr",
            "lacuna no-such ",
        ] {
            assert_eq!(partial_name(&command, &words(line)), None, "{line}");
        }
        assert_eq!(partial_name(&command, &[]), None);
    }

    #[test]
    fn fitting_names_are_offered_once_with_the_connection_of_the_line() {
        let command = definition();
        let names = ["hpo-2", "hpo-1", "mixed", "hpo-1"].map(str::to_owned);
        let offered = |line: &str| {
            let words = words(line);
            partial_name(&command, &words).unwrap().offered(&names)
        };
        assert_eq!(offered("lacuna cancel hp"), ["hpo-1", "hpo-2"]);
        assert_eq!(offered("lacuna cancel hpo-2 hp"), ["hpo-1"]);
        assert_eq!(offered("lacuna cancel "), ["hpo-1", "hpo-2", "mixed"]);
        assert_eq!(offered("lacuna cancel x"), [""; 0]);
        assert_eq!(offered("lacuna events tail --node=m"), ["--node=mixed"]);
        let words = words("lacuna logs --nats nats://x --cluster=c --lines 5 --data-dir = /d h");
        let partial_name = partial_name(&command, &words).unwrap();
        assert_eq!(
            partial_name.connection,
            ["--nats=nats://x", "--cluster=c", "--data-dir=/d"]
        );
    }

    #[test]
    fn scripts_ask_for_names_and_then_for_words() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut bytes = Vec::new();
            clap_complete::generate(shell, &mut definition(), "lacuna", &mut bytes);
            let script = with_names(shell, &String::from_utf8(bytes).unwrap());
            assert_eq!(script.matches(" complete -- ").count(), 1, "{shell}");
            let functions = if shell == Shell::Fish { 0 } else { 1 };
            for name in ["\n_lacuna_words() {", FUNCTION] {
                assert_eq!(script.matches(name).count(), functions, "{shell} {name}");
            }
        }
    }
}
