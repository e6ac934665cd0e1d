#!/usr/bin/env python3
"""Deliberate bugs: each is put into a copy of the sources, and a test must find it.

    integration-tests/mutants.py                      all of them
    integration-tests/mutants.py older-command --seeds 500
    integration-tests/mutants.py --list

All bugs go into one build, each behind a value of LACUNA_MUTANT, so the copy is built once. Bugs
of the loop are found by the worlds of `make simulate`: they run from seed 1 until one of them
violates an invariant. Bugs of what a plan counts on (kinds, distance, forecasts, owners, ...) are
found by the tests of the crate that has them. The table says how many worlds or failed tests there
were, and which was first. A bug that is not found is a failure, and so is a failure without a bug.
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
# The variable is read once, since some bugs are in inner loops.
ACTIVE = (
    "({ static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();"
    ' *IS.get_or_init(|| std::env::var("LACUNA_MUTANT").is_ok_and(|m| m == "%s")) })'
)

# Name, meaning, folder, and the line of code with its replacement. IS stands for the test whether
# the bug is active. Exactly one file of the folder has the line. Worlds find these.
LOOP = [
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
        "        if trainer.record().spec.work != Work::UntilExit && !trainer.ends() {\n"
        "            return false;\n        }\n",
        "        let again = IS && !trainer.may_have_rank_0(node);\n"
        "        if again {\n"
        "            trainer.set_ending(None, now);\n"
        "        }\n"
        "        let until_exit = trainer.record().spec.work == Work::UntilExit;\n"
        "        if again || (!until_exit && !trainer.ends()) {\n"
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

# The same of bugs that the tests of their crate find.
WINGS = [
    (
        "mix-by-count",
        "a plan values a mix of kinds by its number of nodes",
        "libs/planner/src",
        "        let value = if *any {",
        "        let value = if *any || IS {",
    ),
    (
        "one-kind-counts",
        "the dominant share of an owner counts the first kind alone",
        "libs/planner/src",
        "        let each = shares(&own, all).map(|share| share / self.part);",
        "        let kinds = if IS { 1 } else { usize::MAX };\n"
        "        let each = shares(&own, all).take(kinds).map(|share| share / self.part);",
    ),
    (
        "free-kind-change",
        "a change of kinds of nodes costs nothing",
        "libs/planner/src",
        "        let rate = self.value_of(mix).max(0.0);\n",
        "        if IS {\n            return 0.0;\n        }\n"
        "        let rate = self.value_of(mix).max(0.0);\n",
    ),
    (
        "one-kind-stays",
        "departures of the second kind of nodes are ignored",
        "libs/planner/src",
        "        for (until, &leave) in self.until.iter_mut().zip(leave) {",
        "        let leave = if IS && scenarios.kind(node) == 1 { &leave[..0] } else { leave };\n"
        "        for (until, &leave) in self.until.iter_mut().zip(leave) {",
    ),
    (
        "late-end",
        "the known end of a node is read from the node behind it",
        "libs/planner/src",
        "self.known.get(node).copied().unwrap_or(f64::INFINITY);",
        "self.known.get(node + usize::from(IS)).copied().unwrap_or(f64::INFINITY);",
    ),
    (
        "tier-too-near",
        "nodes count as one tier nearer than they are",
        "libs/planner/src",
        "        self.tier = self.tier.max(scenarios.switches().between(last, node));",
        "        let tier = scenarios.switches().between(last, node);\n"
        "        self.tier = self.tier.max(tier.saturating_sub(usize::from(IS)));",
    ),
    (
        "free-uplink",
        "uplinks are not shared in plans",
        "libs/planner/src",
        "        let Some(carries) = self.uplink.filter(|_| !self.is_flat()) else {",
        "        let Some(carries) = self.uplink.filter(|_| !self.is_flat() && !IS) else {",
    ),
    (
        "free-pilot-wait",
        "the wait for an owner's pilots costs nothing",
        "libs/planner/src",
        "        if self.pilot_s > 0.0 {",
        "        if self.pilot_s > 0.0 && !IS {",
    ),
    (
        "goodput-ignored",
        "a plan values a trainer by its rates, whatever its batch rule has found",
        "libs/planner/src",
        "            (Objective::Goodput, Some(curve)) => kind.with_goodput(record, &curve),",
        "            (Objective::Goodput, Some(curve)) if !IS => kind.with_goodput(record, &curve),",
    ),
    (
        "idle-loaders",
        "loaders are worth something while their trainer does not train",
        "libs/trainer/src",
        "    let trains = record.phase == Phase::Active && !record.nodes.is_empty();\n"
        "    let costs",
        "    let trains = record.phase == Phase::Active && (IS || !record.nodes.is_empty());\n"
        "    let costs",
    ),
    (
        "quota-of-all",
        "the trainers of all owners share one owner's quota of nodes",
        "libs/trainer/src",
        "admitted.filter(|t| t.owner() == owner).collect();",
        "admitted.filter(|t| IS || t.owner() == owner).collect();",
    ),
    (
        "one-for-all",
        "programs of several owners run under one account",
        "libs/trainer/src",
        "        let beside = |owner: &&str| asked.iter().any(|asked| asked != owner);",
        "        let beside = |owner: &&str| asked.iter().any(|asked| asked != owner) && !IS;",
    ),
    (
        "endless-probe",
        "a trainer does not come back to its nodes when a probe is over",
        "libs/trainer/src",
        "            Some(Next::Full) => self.end_probe(id, now, out),",
        "            Some(Next::Full) if IS => {}\n"
        "            Some(Next::Full) => self.end_probe(id, now, out),",
    ),
    (
        "pilot-of-another",
        "a pilot is started for another trainer than the one that has the node",
        "libs/pilots/src",
        "                trainer = record.given.clone().filter(|_| self.settings.of_trainers);",
        "                trainer = record.given.clone().filter(|_| self.settings.of_trainers);\n"
        "                let other = |id: &&lacuna_model::TrainerId| IS && trainer.as_ref() != Some(*id);\n"
        "                let other = self.trainers.iter().find(other).cloned();\n"
        "                trainer = trainer.and_then(|own| other.or(Some(own)));",
    ),
]
MUTANTS = LOOP + WINGS

# The package of each folder with a bug that a suite finds.
SUITES = {
    "libs/planner/src": "lacuna-planner",
    "libs/trainer/src": "lacuna-trainer",
    "libs/pilots/src": "lacuna-pilots",
}
WORLDS = "lacuna-integration-tests"

FAILED = re.compile(r"^test (\S+)(?: - .*)? \.\.\. FAILED$", re.M)
VIOLATED = re.compile(r"^\s+VIOLATED (.*)$", re.M)
SEED = re.compile(r"^seed (\d+): .*", re.M)


def fail(text):
    sys.exit(f"mutants: {text}")


def sources():
    """The files of the checkout, by path, with all bugs."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    files = {name: (ROOT / name).read_bytes() for name in names}
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


def package_of(name):
    """The package whose tests find a bug."""
    return next((SUITES[bug[2]] for bug in WINGS if bug[0] == name), WORLDS)


def build(tree, target, packages):
    """Builds the tests of these packages. Returns the programs of each, with their folder."""
    command = ["cargo", "test", "--release", "--locked", "--lib", "--test", "all", "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    command += [word for package in packages for word in ("-p", package)]
    # The path of the toolchain file is part of what HiGHS was compiled with: it stays the same.
    highs = os.environ.get("CMAKE_TOOLCHAIN_FILE", str(ROOT / ".cargo" / "highs.cmake"))
    env = os.environ | {"CARGO_TARGET_DIR": str(target), "CMAKE_TOOLCHAIN_FILE": highs}
    done = subprocess.run(command, cwd=tree, env=env, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        fail("the copy with the bugs does not build")
    programs = {package: [] for package in packages}
    for message in map(json.loads, done.stdout.splitlines()):
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            folder = Path(message["manifest_path"]).parent
            name = next((p for p in packages if p.endswith(folder.name)), None)
            is_world = message["target"]["name"] == "all"
            if name and (is_world or name != WORLDS):
                programs[name].append((message["executable"], folder))
    missing = [package for package, found in programs.items() if not found]
    return fail(f"cargo names no test program of {', '.join(missing)}") if missing else programs


def output(program, words, **env):
    path, folder = program
    done = subprocess.run(
        [path, *words],
        cwd=folder,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout


def first_violation(program, name, first, count):
    """The smallest seed of some worlds that violates an invariant, and the violation."""
    text = output(
        program,
        ["chaos::virtual_world::in_virtual_time", "--nocapture"],
        LACUNA_MUTANT=name,
        LACUNA_SIMULATE_SEEDS=str(count),
        LACUNA_SIMULATE_FROM=str(first),
    )
    found = []
    for world in re.split(r"(?=^seed \d+: )", text, flags=re.M):
        seed, violation = SEED.match(world), VIOLATED.search(world)
        if seed and violation:
            found.append((int(seed.group(1)), violation.group(1)))
    return min(found, default=None)


def search(program, name, seeds):
    """Worlds until the first violation, in batches that grow; None without one."""
    first, batch = 1, 20
    while first <= seeds:
        count = min(batch, seeds - first + 1)
        found = first_violation(program, name, first, count)
        if found:
            return found
        first, batch = first + count, batch * 2
    return None


def failures(programs, name):
    """The number of failed tests of a suite, and the first of them; None without one."""
    failed = []
    for program in programs:
        failed += sorted(FAILED.findall(output(program, [], LACUNA_MUTANT=name)))
    return (len(failed), failed[0]) if failed else None


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
        sources()
        for name, meaning, *_ in MUTANTS:
            print(f"{name:22} {package_of(name):26} {meaning}")
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
    packages = sorted({package_of(name) for name in names})
    programs = build(tree, target, packages)
    for package in packages:
        tests = programs[package]
        of_worlds = package == WORLDS
        clean = first_violation(tests[0], "none", 1, options.clean) if of_worlds else None
        clean = clean if of_worlds else failures(tests, "none")
        if clean:
            fail(f"without a bug, {package} fails: {clean}")
    results = []
    for name in names:
        began = time.monotonic()
        package = package_of(name)
        tests = programs[package]
        of_worlds = package == WORLDS
        found = search(tests[0], name, options.seeds) if of_worlds else failures(tests, name)
        took = time.monotonic() - began
        count, first = found or (None, None)
        by = "worlds" if of_worlds else package
        results.append({"bug": name, "by": by, "count": count, "first": first, "s": round(took)})
        print(f"mutants: {name}: {by}, {count or 'not found'}", file=sys.stderr)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print("| bug | by | worlds or failed tests | first |\n|---|---|---:|---|")
        for result in results:
            meaning = next(m[1] for m in MUTANTS if m[0] == result["bug"])
            count, first = result["count"] or "none", result["first"] or "-"
            print(f"| {meaning} | {result['by']} | {count} | {first} |")
        found = sum(result["count"] is not None for result in results)
        print(f"\nfound: {found} of {len(results)}")
    if any(result["count"] is None for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
