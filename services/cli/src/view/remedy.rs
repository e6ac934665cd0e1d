//! Remedies for the ends of programs that a first try often meets.

/// Parts of the last line of a program, and what to do.
const REMEDIES: [(&str, &str); 7] = [
    (
        "cannot enter its directory",
        "make that folder on all nodes, readable by its owner, or write another as directory",
    ),
    (
        "environment_from: ",
        "each node needs that file, its owner's alone (chmod 600), a NAME=value on each line",
    ),
    (
        "No module named 'lacuna'",
        "its Python lacks the package: run `PYTHON -m pip install libs/lacuna-py`, or write \
         environment = { PYTHONPATH = \"/.../libs/lacuna-py/src\" } in its submit file",
    ),
    (
        "No module named 'torch'",
        "its Python lacks PyTorch: name one that has it as program, or install it there",
    ),
    (
        "cannot start torchrun",
        "its agent finds no torchrun: set agent.torchrun = [\"/.../python3\", \"-m\", \
         \"torch.distributed.run\"]",
    ),
    (
        "No such file or directory",
        "its program or a file of it is not on the node: name it by its whole path, where all \
         nodes can read it",
    ),
    (
        "Permission denied",
        "its agent's user may not run or read a file: see its mode with `ls -l`",
    ),
];

/// What to do about a program that ended for this reason, if that is known.
pub(crate) fn remedy(reason: &str) -> Option<&'static str> {
    let known = REMEDIES.iter().find(|(part, _)| reason.contains(part));
    known.map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_try_is_told_what_to_do() {
        for (reason, part) in [
            (
                "exit code 1 on node n1: ModuleNotFoundError: No module named 'lacuna'",
                Some("pip install"),
            ),
            (
                "exit code 127 on node n1: cannot start torchrun: No such file or directory",
                Some("agent.torchrun"),
            ),
            ("exit code 3 on node n1: out of memory", None),
            ("its program ended with exit code 0", None),
        ] {
            let said = remedy(reason);
            let fits = said.is_some_and(|said| part.is_some_and(|part| said.contains(part)));
            assert!(fits || (said.is_none() && part.is_none()), "{reason}");
        }
    }
}
