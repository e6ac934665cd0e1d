#!/usr/bin/env python3
"""End-to-end tests on a real Slurm cluster in containers: `make test-slurm`.

Brings a cluster of its own up (project `lacuna-slurm-test`), runs the tests, takes it down again,
also when one fails. Where no Docker engine answers, or it cannot run containers, it prints SKIPPED
and why, and ends with 0; with 1 if LACUNA_REQUIRE names docker. Arguments name tests, as in

  make test-slurm ARGS='tests.training.Training.test_fifty_preemptions'

LACUNA_SLURM_ACCOUNTING=1 runs tests.accounting, on a cluster with slurmdbd, slurmrestd and
preemption by QOS. LACUNA_SLURM_STANDING=1 uses the cluster that stands (of `make slurm-up`), and leaves it standing.
"""

import os
import signal
import sys
import unittest
from pathlib import Path

STANDING = bool(os.environ.get("LACUNA_SLURM_STANDING"))
if not STANDING:
    os.environ.setdefault("LACUNA_SLURM_PROJECT", "lacuna-slurm-test")
    os.environ.setdefault("LACUNA_SLURM_SUBNET", "172.31.248.0/22")

from cluster import Bed, BedError, load, need_docker  # noqa: E402
from layout import Layout  # noqa: E402
from tests import common  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1]))
from not_run import left_out  # noqa: E402

# Nothing here waits for ever, all the less the whole: seconds for all tests together.
MOST = 1800


def too_long(*_) -> None:
    raise KeyboardInterrupt(f"not done within {MOST} s")


# Something is not there, or cannot be had here; everything else is a failure.
NOT_HERE = (69, 75)
MODULES = [
    "tests.slurm_alone",
    "tests.hooks",
    "tests.site",
    "tests.training",
    "tests.restarts",
    "tests.refusals",
    "tests.reservations",
    "tests.another_user",
    "tests.bad_programs",
]
ACCOUNTING = bool(os.environ.get("LACUNA_SLURM_ACCOUNTING"))
if ACCOUNTING:
    MODULES = ["tests.accounting"]


def main() -> int:
    try:
        need_docker()
        bed = load() if STANDING else Bed(Layout(nodes=4, accounting=ACCOUNTING))
        if not STANDING:
            bed.up()
    except BedError as error:
        if error.code in NOT_HERE:
            return left_out("docker", "test-slurm", str(error), "an engine that runs containers")
        print(f"test-slurm: {error}", file=sys.stderr)
        return 1
    common.use(bed)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(MOST)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:] or MODULES)
        done = unittest.TextTestRunner(verbosity=2, failfast=False).run(suite)
        return 0 if done.wasSuccessful() else 1
    finally:
        if not STANDING:
            bed.down()


if __name__ == "__main__":
    sys.exit(main())
