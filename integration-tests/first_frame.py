#!/usr/bin/env python3
"""Times `make demo` from a fresh clone to the first frame, for one or more commits side by side.

    integration-tests/first_frame.py HEAD
    integration-tests/first_frame.py v0.1.0 HEAD --rounds 3 --jobs 2

Each round takes each commit once, in turn, so that a slow hour affects all. Downloads are cached:
crates are fetched before, and nats-server is that of `.cache/bin`. Everything else is built again,
HiGHS too, without ccache. A first frame is the first line in which the demonstration shows its pool.
Prints a table in Markdown: seconds of set-up and build, of the programs' start, to the first frame
(median of the rounds), and the sizes of `lacuna` as built and stripped.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAME = re.compile(r"^\s*\d+ s\s+\S+Z\s+pool\s")
# The build ends where the demonstration introduces its machine.
BUILT = re.compile(r"^machine: ")
DEMO = "--nodes 256 --data none --wall 60s"


def git(*words, cwd=ROOT):
    done = subprocess.run(["git", *words], cwd=cwd, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(words)} failed")
    return done.stdout.strip()


def environment(jobs):
    unset = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER", "CARGO_TARGET_DIR", "LACUNA_DATA")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    if jobs:
        env |= {"CARGO_BUILD_JOBS": str(jobs), "NUM_JOBS": str(jobs)}
    return env


def clone(commit, into):
    git("clone", "-q", "--no-checkout", str(ROOT), str(into))
    git("checkout", "-q", commit, cwd=into)
    kept = ROOT / ".cache" / "bin"
    if kept.is_dir():
        shutil.copytree(kept, into / ".cache" / "bin")
    subprocess.run(["cargo", "fetch", "--locked", "--quiet"], cwd=into, check=True)


def measure(commit, jobs, verbose):
    """Seconds until the programs are built and until the first frame; bytes of lacuna."""
    with tempfile.TemporaryDirectory(prefix="lacuna-first-frame-") as folder:
        tree = Path(folder) / "lacuna"
        clone(commit, tree)
        report = f"{DEMO} --report {folder}/report.html"
        began = time.monotonic()
        demo = subprocess.Popen(
            ["make", "demo", f"ARGS={report}"],
            cwd=tree,
            env=environment(jobs),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        built = frame = None
        said = []
        for line in demo.stdout:
            now = time.monotonic() - began
            said.append(line)
            if verbose:
                print(f"{now:8.1f} {line}", end="", file=sys.stderr)
            if built is None and BUILT.match(line):
                built = now
            if FRAME.match(line):
                frame = now
                break
        # Ctrl-C, as a user ends it.
        os.killpg(demo.pid, signal.SIGINT)
        for _ in demo.stdout:
            pass
        demo.wait(60)
        if built is None or frame is None:
            sys.exit(f"{commit}: no frame came:\n{''.join(said[-20:])}")
        program = tree / "target" / "release" / "lacuna"
        stripped = Path(folder) / "stripped"
        subprocess.run(["strip", "-o", str(stripped), str(program)], check=True)
        return {
            "built_s": round(built, 1),
            "frame_s": round(frame, 1),
            "bytes": program.stat().st_size,
            "stripped_bytes": stripped.stat().st_size,
        }


def table(results):
    lines = [
        "| commit | set-up and build | start | to the first frame | rounds | `lacuna` | stripped |",
        "|---|---|---|---|---|---|---|",
    ]
    for commit, rounds in results.items():
        built = statistics.median(r["built_s"] for r in rounds)
        frame = statistics.median(r["frame_s"] for r in rounds)
        start = statistics.median(r["frame_s"] - r["built_s"] for r in rounds)
        each = ", ".join(f"{r['frame_s']:.0f}" for r in rounds)
        size, stripped = (rounds[-1][key] / 1e6 for key in ("bytes", "stripped_bytes"))
        lines.append(
            f"| {commit} | {built:.0f} s | {start:.1f} s | {frame:.0f} s | {each} "
            f"| {size:.1f} MB | {stripped:.1f} MB |"
        )
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("commits", nargs="+", metavar="COMMIT", help="commits to compare")
    options.add_argument("--rounds", type=int, default=3, help="times that each is built [3]")
    options.add_argument("--jobs", type=int, help="compilers at a time [as many as cores]")
    options.add_argument("--json", action="store_true", help="all rounds, as JSON")
    options.add_argument("--verbose", action="store_true", help="show what `make demo` prints")
    options = options.parse_args()
    commits = [git("rev-parse", "--short", f"{commit}^{{commit}}") for commit in options.commits]
    results = {commit: [] for commit in commits}
    for number in range(options.rounds):
        for commit in commits:
            took = measure(commit, options.jobs, options.verbose)
            results[commit].append(took)
            print(f"round {number + 1}: {commit}: {took['frame_s']:.0f} s", file=sys.stderr)
    print(json.dumps(results, indent=1) if options.json else table(results))


if __name__ == "__main__":
    main()
