#!/usr/bin/env python3
"""Lists tests that did not run, with the missing need: `not_run.py LIST`, at the end of `make test`.

LIST is the file that LACUNA_SKIPPED named during the tests. libs/skip writes a line of six fields
between tabs for each test that was left out: `test`, or `part` if the rest of it ran, or `again` if
it failed and was tried once more; the missing need; file; test; the detail; the remedy. By the table
of promises in README.md the command names each promise without a test that ran.

`not_run.py --ran LOG LIST` also reads the output of `cargo test` for all tests, and counts for each
promise the tests that ran. It fails if none did and no missing need explains it.
"""

import argparse
import os
import re
import sys
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Line = namedtuple("Line", "which need file test what remedy")


def left_out(need: str, test: str, what: str, remedy: str) -> int:
    """Says that a program of tests does not run; its exit code: 1 if LACUNA_REQUIRE names the need."""
    required = os.environ.get("LACUNA_REQUIRE", "")
    if {need, "all"} & {name.strip() for name in required.split(",")}:
        print(f"{test}: {what} ({remedy}); LACUNA_REQUIRE={required}", file=sys.stderr)
        return 1
    print(f"SKIPPED {test}: {what} ({remedy})")
    note("test", need, test, what, remedy)
    return 0


def note(which: str, need: str, test: str, what: str, remedy: str) -> None:
    """Writes a line about a test of this program into the list, if there is one."""
    if path := os.environ.get("LACUNA_SKIPPED"):
        program = Path(sys.argv[0]).resolve().relative_to(ROOT)
        fields = [which, need, str(program), test, " ".join(what.split()), remedy]
        with open(path, "a", encoding="utf-8") as file:
            file.write("\t".join(fields) + "\n")


def read(path: str) -> list[Line]:
    """The lines of a list, each once, in the order of needs, files and tests."""
    text = Path(path).read_text(encoding="utf-8")
    lines = {Line(*line.split("\t")) for line in text.splitlines()}
    return sorted(lines, key=lambda line: (line.need, line.file, line.test, line.what))


def groups(lines: list[Line]) -> list[str]:
    """The tests by what they lack, each group with its count and its remedy."""
    shown = []
    for need in sorted({line.need for line in lines}):
        of = [line for line in lines if line.need == need]
        tests = {(line.file, line.test) for line in of}
        shown.append(f"  {len(tests)} for want of {need} ({of[0].remedy})")
        shown += [f"    {file}: {test}" for file, test in sorted(tests)]
    return shown


def promises(readme: str) -> list[tuple[str, str, set[tuple[str, str]]]]:
    """The table of promises: number, promise, and (file, function) of each Rust test named."""
    rows = []
    for row in readme.splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) < 5 or not cells[1].isdigit():
            continue
        file, tests = None, set()
        for word in re.findall(r"`([^`]+)`", row):
            if word.endswith(".rs"):
                file = word
            elif file and re.fullmatch(r"\w+", word):
                tests.add((file, word))
        if tests:
            rows.append((cells[1], cells[2], tests))
    return rows


def ran(log: str) -> set[tuple[str, str]]:
    """(file, function) of each Rust test that ran, by cargo's output: a program, then its tests. The
    file beside a program lists its sources."""
    sources, found = [], set()
    for line in re.sub(r"\x1b\[[0-9;]*m", "", log).splitlines():
        if program := re.match(r"\s*Running .*\((.+)\)$", line):
            made_of = ROOT / f"{program[1]}.d"
            text = made_of.read_text(encoding="utf-8") if made_of.is_file() else ""
            sources = [word for word in text.partition("\n")[0].split() if word.endswith(".rs")]
        elif test := re.match(r"test (\S+)(?: - should panic)? \.\.\. (?!ignored)", line):
            *modules, function = test[1].split("::")
            # A module `tests` is in the file that it tests.
            of = [name for name in modules if name != "tests"]
            for file in sources if of else sources[:1]:
                parts = [p for p in Path(file).with_suffix("").parts if p not in ("mod", "main")]
                if parts[len(parts) - len(of):] == of:
                    found.add((file, function))
    return found


def kept(lines: list[Line], done: set[tuple[str, str]], readme: str) -> tuple[list[str], bool]:
    """A line for each promise, and whether each has a test that ran or lacks what it needs."""
    gone = {(line.file, line.test.split("::")[-1]): line.need for line in lines if line.which == "test"}
    shown, well = ["Promises, and how many of the tests that guard each ran:"], True
    for number, promise, tests in promises(readme):
        here = {test for test in tests if test in done and test not in gone}
        text = f"  {number:>2}  {len(here)} of {len(tests)}  {promise}"
        if not here:
            lacks = sorted({gone.get(test, "") for test in tests})
            well = well and "" not in lacks
            why = f"for want of {', '.join(lacks)}" if "" not in lacks else "and nothing explains it"
            text += f"\n      NONE RAN, {why}"
        shown.append(text)
    return shown, well


def report(lines: list[Line], readme: str) -> str:
    """The text at the end of all tests."""
    whole = [line for line in lines if line.which == "test"]
    gone = {(line.file, line.test) for line in whole}
    parts = [line for line in lines if line.which == "part" and (line.file, line.test) not in gone]
    shown = [f"{len(gone)} {'test' if len(gone) == 1 else 'tests'} did not run:", *groups(whole)]
    if not gone:
        shown = ["No test was left out for want of something."]
    if parts:
        some = {(line.file, line.test) for line in parts}
        shown += [f"{len(some)} ran without a part:", *groups(parts)]
    again = sorted({(line.file, line.test) for line in lines if line.which == "again"})
    if again:
        shown.append(f"{len(again)} {'test' if len(again) == 1 else 'tests'} failed and had a second chance:")
        shown += [f"    {file}: {test}" for file, test in again]
    functions = {(file, test.split("::")[-1]) for file, test in gone}
    for number, promise, tests in promises(readme):
        if tests <= functions:
            shown.append(f"Promise {number} has no test that ran: {promise}")
    return "\n".join(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description="which tests did not run, and for want of what")
    parser.add_argument("list", help="the file that LACUNA_SKIPPED named")
    parser.add_argument("--ran", metavar="LOG", help="the output of cargo test for all tests")
    args = parser.parse_args()
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    lines, well = read(args.list), True
    if args.ran:
        log = Path(args.ran).read_text(encoding="utf-8", errors="replace")
        shown, well = kept(lines, ran(log), readme)
        print("\n".join(shown))
    print(report(lines, "" if args.ran else readme))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
