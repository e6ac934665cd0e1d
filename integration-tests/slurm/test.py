#!/usr/bin/env python3
"""End-to-end tests on a real Slurm cluster in containers: `make test-slurm`.

Starts a cluster of its own (project `lacuna-slurm-test`), runs the tests and removes it, also when
one fails. Where no Docker engine answers, or it cannot run containers, it prints SKIPPED with the
reason, and ends with 0; with 1 if LACUNA_REQUIRE names docker. Arguments name tests, as in

  make test-slurm ARGS='tests.training.Training.test_fifty_preemptions'
  make test-slurm ARGS='--within 600 --again'

LACUNA_SLURM_ACCOUNTING=1 runs tests.accounting, on a cluster with slurmdbd, slurmrestd and
preemption by QOS. LACUNA_SLURM_STANDING=1 uses the running cluster of `make
slurm-up`, and leaves it running.
"""

import argparse
import functools
import math
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

STANDING = bool(os.environ.get("LACUNA_SLURM_STANDING"))
if not STANDING:
    os.environ.setdefault("LACUNA_SLURM_PROJECT", "lacuna-slurm-test")
    os.environ.setdefault("LACUNA_SLURM_SUBNET", "172.31.248.0/22")

from cluster import Cluster, ClusterError, load, need_docker  # noqa: E402
from layout import Layout  # noqa: E402
from tests import common  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1]))
from not_run import left_out, note  # noqa: E402

# The limit of all tests together, seconds.
MOST = 1800
# Tests that take minutes, with the seconds that each needs to begin, and the most for any other. Where
# its module comes first such a test begins in any case, so that it has its turn too.
SLOW = {"tests.training.Training.test_fifty_preemptions": 480}
OTHERS = 240
# Tests that have failed begin once more within these seconds, also where no time is left for others.
AGAIN = 120


def too_long(*_) -> None:
    raise KeyboardInterrupt("the tests do not end in their time")


# Exit codes for a missing program or image; all others are failures.
NOT_HERE = (69, 75)
# The tests that run first where time is short.
CORE = ["tests.slurm_alone", "tests.training.Training.test_training_goes_on_while_batch_jobs_take_nodes"]
MODULES = [
    "tests.slurm_alone",
    "tests.hooks",
    "tests.site",
    "tests.training",
    "tests.restarts",
    "tests.refusals",
    "tests.reservations",
    "tests.at_once",
    "tests.administrators",
    "tests.another_user",
    "tests.owners",
    "tests.topology",
    "tests.bad_programs",
    "tests.loaders",
]
ACCOUNTING = bool(os.environ.get("LACUNA_SLURM_ACCOUNTING"))
if ACCOUNTING:
    CORE, MODULES = [], ["tests.accounting"]


class InTime(unittest.TestSuite):
    """A suite that leaves out the tests that do not fit into the time, and names them."""

    def __init__(self, tests, end: float):
        super().__init__(tests)
        self.end = end
        self.left: list[str] = []

    def __iter__(self):
        for test in super().__iter__():
            if test.id() in due() or time.monotonic() + SLOW.get(test.id(), 0) < self.end:
                yield test
            else:
                self.left.append(test.id())


def each(suite: unittest.TestSuite):
    """The tests of a suite, one by one."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


@functools.cache
def first() -> int:
    """The module that comes first where time is short: another one for another commit, so that each has
    its turn, and the same when the same commit is tested again."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return (int(commit, 16) if commit else time.gmtime().tm_yday) % len(MODULES)


def due() -> list[str]:
    """The slow tests whose turn it is."""
    return [name for name in SLOW if name.startswith(f"{MODULES[first()]}.")]


def chosen(names: list[str], short: bool) -> list[unittest.TestCase]:
    """The tests that are named, each once. Where time is short the core comes first, and then the
    modules from the first one on."""
    if not names and short:
        names = [*CORE, *MODULES[first():], *MODULES[:first()]]
    found = each(unittest.defaultTestLoader.loadTestsFromNames(names or MODULES))
    return list({test.id(): test for test in found}.values())


def run(tests: list[unittest.TestCase], again: bool, end: float) -> int:
    """Runs tests until a moment, those that fail once more if that is wanted; the exit code."""
    runner = unittest.TextTestRunner(verbosity=2, failfast=False)
    suite = InTime(tests, end)
    done = runner.run(suite)
    for name in suite.left:
        note("test", "time", name, "no time was left", "make test-slurm: all of it")
    if suite.left:
        print(f"NOT RUN, for want of time: {len(suite.left)} tests", *suite.left, sep="\n    ", flush=True)
    failed = [getattr(test, "test_case", test) for test, _ in done.failures + done.errors]
    # A test that cannot be loaded, or the end of the whole run, gets no second chance.
    if not again or not failed or any(test not in tests for test in failed):
        return 0 if done.wasSuccessful() else 1
    names = sorted({test.id() for test in failed})
    print(f"{len(names)} failed, and once more:", *names, sep="\n    ", flush=True)
    for name in names:
        note("again", "docker", name, "it failed", "look at it")
    second = InTime(each(unittest.defaultTestLoader.loadTestsFromNames(names)), max(end, time.monotonic() + AGAIN))
    repeated = runner.run(second)
    return 0 if repeated.wasSuccessful() and not second.left else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="end-to-end tests on a real Slurm cluster in containers")
    parser.add_argument("names", nargs="*", help="modules or tests (all)")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin no test later (a slow one earlier), and name those that are left")
    parser.add_argument("--again", action="store_true", help="run tests that fail once more, and name them")
    args = parser.parse_args()
    within = math.inf if args.within is None else args.within
    end = time.monotonic() + within
    tests = chosen(args.names, args.within is not None)
    try:
        need_docker()
        if within <= 0:
            return run(tests, False, end)
        cluster = load() if STANDING else Cluster(Layout(nodes=4, accounting=ACCOUNTING))
        if not STANDING:
            bring_up(cluster, args.again)
    except ClusterError as error:
        if error.code in NOT_HERE:
            return left_out("docker", "test-slurm", str(error), "an engine that runs containers")
        print(f"test-slurm: {error}", file=sys.stderr)
        return 1
    common.use(cluster)
    signal.signal(signal.SIGALRM, too_long)
    most = max(end - time.monotonic(), 0) + OTHERS + sum(SLOW[name] for name in due())
    signal.alarm(int(min(MOST, most)))
    try:
        return run(tests, args.again, end)
    finally:
        if not STANDING:
            cluster.down()


def bring_up(cluster: Cluster, again: bool) -> None:
    """Starts the cluster, with a second attempt if `again`."""
    try:
        cluster.up()
    except ClusterError as error:
        if not again or error.code in NOT_HERE:
            raise
        print(f"test-slurm: {error}; once more", file=sys.stderr, flush=True)
        note("again", "docker", "test-slurm", "the cluster did not come up", "look at it")
        cluster.up()


if __name__ == "__main__":
    sys.exit(main())
