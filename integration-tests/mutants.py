#!/usr/bin/env python3
"""Deliberate bugs: each is put into a copy of the sources, and worlds in virtual time must find it.

    integration-tests/mutants.py                      all of them
    integration-tests/mutants.py older-command --seeds 500
    integration-tests/mutants.py --list

All bugs go into one build, each behind a value of LACUNA_MUTANT, so the copy is built once. For each
bug the worlds of `make simulate` run from seed 1 until one of them violates an invariant. The table
says how many worlds that took, and which violation was seen first. A bug that no world finds is a
failure, and so is a violation without a bug.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACTIVE = 'std::env::var("LACUNA_MUTANT").is_ok_and(|m| m == "%s")'

# Name, meaning, folder, and the line of code with its replacement. IS stands for the test whether
# the bug is active. Exactly one file of the folder has the line.
MUTANTS = [
    (
        "older-command",
        "an agent obeys a command with an older epoch or number",
        "libs/trainer/src",
        "        if at < self.taken {\n            let (epoch, seq) = at;",
        "        if at < self.taken && !IS {\n            let (epoch, seq) = at;",
    ),
    (
        "no-lease-timeout",
        "an agent keeps its node without renewals of the lease",
        "libs/trainer/src",
        "        if now.since(self.renewed) < self.lease_timeout {",
        "        if now.since(self.renewed) < self.lease_timeout || IS {",
    ),
    (
        "unconfirmed-release",
        "a node goes to the next trainer before its agent has confirmed the release",
        "libs/trainer/src",
        "    pub(crate) const fn is_ready(&self) -> bool {\n"
        "        self.is_idle() && self.lease.is_free() && self.is_usable()",
        "    pub(crate) fn is_ready(&self) -> bool {\n"
        "        let free = IS && self.lease.owner().is_none() && !self.lease.is_held();\n"
        "        self.is_idle() && (free || self.lease.is_free()) && self.is_usable()",
    ),
    (
        "unchecked-lease",
        "control writes a lease without comparing its revision",
        "services/control/src",
        "        let mut again = None;\n        let (entry, written)",
        "        let mut again = None;\n"
        "        if IS && let Ok(revision) = self.leases.put(key, &record, correlation).await {\n"
        "            let entry = Some((write.trainer.clone(), Epoch(revision)));\n"
        "            let (node, written) = (write.node.clone(), true);\n"
        "            return (LeaseResult { node, entry, written }, again);\n"
        "        }\n"
        "        let (entry, written)",
    ),
    (
        "unwatched-lease",
        "control does not notice a former leader's late write of a lease",
        "services/control/src",
        "        if sender == self.ctx.bus.instance() || lease.sequence <= self.newest_lease {",
        "        if IS || sender == self.ctx.bus.instance() || lease.sequence <= self.newest_lease {",
    ),
    (
        "former-leader-writes",
        "a process goes on writing after it has lost its leadership",
        "libs/runtime/src/bus",
        "                Some(limit) if limit.open() => return true,",
        "                Some(limit) if limit.open() || IS => return true,",
    ),
    (
        "hasty-standby",
        "a standby takes the leadership without waiting for the leader's silence",
        "libs/runtime/src",
        "                if now.saturating_sub(since) >= ttl {",
        "                if now.saturating_sub(since) >= ttl || IS {",
    ),
    (
        "counted-twice",
        "samples of a repeated report are counted again",
        "libs/trainer/src",
        "            let more = (report.samples - record.samples_run).max(0.0).min(left);",
        "            let counted = if IS { 0.0 } else { record.samples_run };\n"
        "            let more = (report.samples - counted).max(0.0).min(left);",
    ),
    (
        "wanted-waits",
        "a wanted node is released with the next plan and not at once",
        "libs/trainer/src",
        '        self.lose(held, "the scheduler took the node", at, now, out);',
        "        if !IS {\n"
        '            self.lose(held, "the scheduler took the node", at, now, out);\n'
        "        }",
    ),
    (
        "ended-again",
        "exit 0 of a member without rank 0 begins another incarnation, although the work was done",
        "libs/trainer/src",
        "        if trainer.record().spec.work != Work::UntilExit {\n            return false;\n        }\n",
        "        let again = IS && !trainer.may_have_rank_0(node);\n"
        "        if again {\n"
        "            trainer.set_ending(None);\n"
        "        }\n"
        "        if again || trainer.record().spec.work != Work::UntilExit {\n"
        "            return false;\n"
        "        }\n",
    ),
    (
        "commands-first",
        "commands go out before the incarnation is recorded and its leases are written",
        "libs/trainer/src",
        "        let mut effects = Vec::new();\n        if self.has_writes() {",
        "        let mut effects = Vec::new();\n"
        "        if IS {\n"
        "            effects.extend(self.sends.iter().cloned().map(Effect::Send));\n"
        "        }\n"
        "        if self.has_writes() {",
    ),
    (
        "numbers-again",
        "an ingest that starts numbers on after the last event that it finds, without a jump",
        "services/ingest/src",
        "        self.skip_to(self.keeper.seq().saturating_add(RESTART_JUMP));",
        "        if !IS {\n"
        "            self.skip_to(self.keeper.seq().saturating_add(RESTART_JUMP));\n"
        "        }",
    ),
    (
        "early-acknowledgement",
        "an external event leaves its queue before a snapshot includes it",
        "services/ingest/src",
        "        for _ in 0..ATTEMPTS {\n            match self.writer.keep(&snapshot, &cause).await {",
        "        if IS && let Some(done) = done.take() {\n"
        "            queue.done(&done);\n"
        "            return Ok(());\n"
        "        }\n"
        "        for _ in 0..ATTEMPTS {\n            match self.writer.keep(&snapshot, &cause).await {",
    ),
    (
        "generations-again",
        "a planner that starts begins its generations at 1",
        "services/planner/src",
        "    let generation = last.map_or(wall, |last| last.max(wall));",
        "    let generation = last.map_or(wall, |last| last.max(wall));\n"
        "    let generation = if IS { Generation(0) } else { generation };",
    ),
]

VIOLATED = re.compile(r"^\s+VIOLATED (.*)$", re.M)
SEED = re.compile(r"^seed (\d+): .*", re.M)


def fail(text):
    sys.exit(f"mutants: {text}")


def sources():
    """The files of the checkout, by path, with all bugs."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    files = {name: (ROOT / name).read_bytes() for name in listed.stdout.split("\0") if name}
    for name, _, folder, before, after in MUTANTS:
        old = before.encode()
        found = [f for f, text in files.items() if f.startswith(f"{folder}/") and old in text]
        if len(found) != 1 or files[found[0]].count(old) != 1:
            places = ", ".join(found) or "no file"
            fail(f"{name}: exactly one place of {folder} must have its line, and {places} has it")
        files[found[0]] = files[found[0]].replace(old, after.replace("IS", ACTIVE % name).encode())
    return files


def write(files, tree):
    """Makes the copy. Files that are the same stay as they are, so that little is built again."""
    for path in tree.rglob("*"):
        if path.is_file() and str(path.relative_to(tree)) not in files:
            path.unlink()
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)
            path.chmod((ROOT / name).stat().st_mode)


def build(tree, target):
    """Builds the test program of the worlds. Returns its path."""
    command = ["cargo", "test", "--release", "--locked", "-p", "lacuna-integration-tests"]
    command += ["--test", "all", "--no-run", "--message-format", "json-render-diagnostics"]
    # The path of the toolchain file is part of what HiGHS was compiled with: it stays the same.
    highs = os.environ.get("CMAKE_TOOLCHAIN_FILE", str(ROOT / ".cargo" / "highs.cmake"))
    env = os.environ | {"CARGO_TARGET_DIR": str(target), "CMAKE_TOOLCHAIN_FILE": highs}
    done = subprocess.run(command, cwd=tree, env=env, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        fail("the copy with the bugs does not build")
    programs = [
        message["executable"]
        for message in map(json.loads, done.stdout.splitlines())
        if message.get("reason") == "compiler-artifact"
        and message["target"]["name"] == "all"
        and "integration-tests" in message["manifest_path"]
    ]
    return programs[-1] if programs else fail("cargo names no test program of the worlds")


def run(program, tree, name, first, count):
    env = os.environ | {
        "LACUNA_MUTANT": name,
        "LACUNA_SIMULATE_SEEDS": str(count),
        "LACUNA_SIMULATE_FROM": str(first),
    }
    command = [program, "chaos::virtual_world::in_virtual_time", "--nocapture"]
    done = subprocess.run(
        command,
        cwd=tree / "integration-tests",
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout


def first_violation(text):
    """The smallest seed whose world violates an invariant, and the violation."""
    found = []
    for world in re.split(r"(?=^seed \d+: )", text, flags=re.M):
        seed, violation = SEED.match(world), VIOLATED.search(world)
        if seed and violation:
            found.append((int(seed.group(1)), violation.group(1)))
    return min(found, default=None)


def search(program, tree, name, seeds):
    """Worlds until the first violation, in batches that grow; None without one."""
    first, batch = 1, 20
    while first <= seeds:
        count = min(batch, seeds - first + 1)
        found = first_violation(run(program, tree, name, first, count))
        if found:
            return found
        first, batch = first + count, batch * 2
    return None


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help="which bugs [all]")
    options.add_argument("--seeds", type=int, default=1000, help="worlds for each, at most [1000]")
    options.add_argument("--clean", type=int, default=100, help="worlds without a bug first [100]")
    options.add_argument("--list", action="store_true", help="name the bugs and end")
    options.add_argument("--json", action="store_true", help="the results as JSON")
    options = options.parse_args()
    known = [mutant[0] for mutant in MUTANTS]
    if options.list:
        print("\n".join(f"{name:22} {meaning}" for name, meaning, *_ in MUTANTS))
        return
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        fail(f"unknown: {', '.join(unknown)}; --list names all")
    names = options.names or known
    # A folder of its own: cargo takes crates of the copy for those of the checkout. The copy stays in
    # the same place, so that a second run builds only what has changed.
    target = ROOT / "target" / "mutants"
    tree = target / "tree"
    write(sources(), tree)
    print("mutants: building a copy with all bugs", file=sys.stderr)
    program = build(tree, target)
    clean = first_violation(run(program, tree, "none", 1, options.clean))
    if clean:
        fail(f"without a bug, seed {clean[0]} violates: {clean[1]}")
    results = []
    for name in names:
        began = time.monotonic()
        found = search(program, tree, name, options.seeds)
        took = time.monotonic() - began
        seed, violation = found or (None, None)
        results.append({"bug": name, "worlds": seed, "violation": violation, "s": round(took)})
        print(f"mutants: {name}: {seed or 'not found'}", file=sys.stderr)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print("| bug | worlds | first violation |\n|---|---:|---|")
        for result in results:
            meaning = next(m[1] for m in MUTANTS if m[0] == result["bug"])
            worlds = result["worlds"] or f"none of {options.seeds}"
            print(f"| {meaning} | {worlds} | {result['violation'] or '-'} |")
    if any(result["worlds"] is None for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
