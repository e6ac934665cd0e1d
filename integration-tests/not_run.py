#!/usr/bin/env python3
"""Which tests did not run, and for want of what: `not_run.py LIST`, at the end of `make test`.

LIST is the file that LACUNA_SKIPPED named while they ran: a line for each test that was left out, of
six fields between tabs, as libs/skip writes them: `test`, or `part` if the rest of it ran; what was
missing; file; test; what exactly was missing; the remedy. The table of promises in README.md says
which promise had no test at all then.
"""

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
    if path := os.environ.get("LACUNA_SKIPPED"):
        program = Path(sys.argv[0]).resolve().relative_to(ROOT)
        fields = ["test", need, str(program), test, " ".join(what.split()), remedy]
        with open(path, "a", encoding="utf-8") as file:
            file.write("\t".join(fields) + "\n")
    return 0


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


def report(lines: list[Line], readme: str) -> str:
    """What to print at the end of all tests."""
    whole = [line for line in lines if line.which == "test"]
    gone = {(line.file, line.test) for line in whole}
    parts = [line for line in lines if line.which == "part" and (line.file, line.test) not in gone]
    shown = [f"{len(gone)} {'test' if len(gone) == 1 else 'tests'} did not run:", *groups(whole)]
    if not gone:
        shown = ["No test was left out for want of something."]
    if parts:
        some = {(line.file, line.test) for line in parts}
        shown += [f"{len(some)} ran without a part:", *groups(parts)]
    functions = {(file, test.split("::")[-1]) for file, test in gone}
    for number, promise, tests in promises(readme):
        if tests <= functions:
            shown.append(f"Promise {number} has no test that ran: {promise}")
    return "\n".join(shown)


def main() -> int:
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    print(report(read(sys.argv[1]), readme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
