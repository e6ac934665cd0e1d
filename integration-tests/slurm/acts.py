#!/usr/bin/env python3
"""What users and administrators do to Slurm, each once and timed: `acts.py ACT [NODE]`.

Runs as root beside the controller of the test cluster (`clusterctl.py users`). Prints one JSON value:
the seconds from the user's command until what it asks for is there, or what Slurm said instead.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import slurm

# A user gives up after this time, seconds.
PATIENCE = 120.0
QUIET = ["-Q", "-p", "batch"]
JOB = ["sbatch", "--parsable", "-p", "batch", "-N1", "-o", "/dev/null"]


class Refused(Exception):
    """Slurm does not do it."""


def start(*command: str, user: str = slurm.BATCH) -> str:
    """A command that must succeed; its output."""
    try:
        done = subprocess.run(
            command, user=user, group=user, extra_groups=[], cwd="/shared", capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"no end after {PATIENCE:.0f} s") from None
    if done.returncode != 0:
        raise Refused((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])
    return done.stdout.strip()


def wait(what: str, condition) -> None:
    """Until a condition of Slurm's answers holds. slurmctld may be away meanwhile."""

    def holds() -> bool:
        try:
            return condition()
        except slurm.SlurmError:
            return False

    try:
        slurm.until(what, PATIENCE, holds)
    except slurm.SlurmError as error:
        raise Refused(str(error)) from None


def timed(*command: str) -> float:
    started = time.monotonic()
    start(*command)
    return time.monotonic() - started


def srun(*options: str) -> float:
    return timed("srun", *QUIET, *options, "true")


def burst() -> float:
    started = time.monotonic()
    for _ in range(20):
        start(*JOB, "--wrap", "true")
    wait("all have ended", lambda: not slurm.jobs("batch", slurm.BATCH))
    return time.monotonic() - started


def setting(name: str) -> float:
    """A time in Slurm's configuration, seconds."""
    lines = (line.partition("=") for line in slurm.call("scontrol", "show", "config").splitlines())
    return next(float(value.split()[0]) for key, _, value in lines if key.strip() == name)


def requeue() -> float:
    """A requeued job starts again. Slurm holds it back for two minutes, which its owner ends. Where that
    is sooner than a second after the requeue, Slurm kills the job ("credential revoked"). For KillWait and
    MessageTimeout after its first preemption a job preempts no more, which two minutes exceed."""
    job = start(*JOB, "--requeue", "--wrap", "sleep 300")

    def is_in(wanted: str) -> bool:
        return (job, wanted) in [(found, state) for found, state, _ in slurm.jobs("batch")]

    try:
        wait("it runs", lambda: is_in("RUNNING"))
        time.sleep(setting("KillWait") + setting("MessageTimeout"))
        start("scontrol", "requeue", job)
        # While it completes, the wait is not set yet.
        wait("it waits", lambda: is_in("PENDING"))
        time.sleep(2)
        started = time.monotonic()
        start("scontrol", "update", f"jobid={job}", "starttime=now")
        wait("it runs again", lambda: is_in("RUNNING"))
        return time.monotonic() - started
    finally:
        start("scancel", job)


def jobless(node: str) -> bool:
    return not slurm.call("squeue", "-h", "-w", node, "-o", "%i").strip()


def drain(node: str) -> float:
    started = time.monotonic()
    start("scontrol", "update", f"nodename={node}", "state=drain", "reason=fan", user="root")
    try:
        wait("no job is there", lambda: jobless(node) and slurm.states()[node] == "drained")
        return time.monotonic() - started
    finally:
        start("scontrol", "update", f"nodename={node}", "state=resume", user="root")


def reserve(node: str) -> float:
    started = time.monotonic()
    words = ["starttime=now", "duration=5", f"nodes={node}", "users=root", "flags=maint,ignore_jobs"]
    start("scontrol", "create", "reservation", "reservationname=acts", *words, user="root")
    try:
        wait("no job is there", lambda: jobless(node))
        return time.monotonic() - started
    finally:
        start("scontrol", "delete", "reservationname=acts", user="root")


def reconfigure() -> float:
    start("scontrol", "reconfigure", user="root")
    return srun("-N1")


def slurmctld(signal: str) -> None:
    start("kill", f"-{signal}", Path("/run/slurm/slurmctld.pid").read_text().strip(), user="root")


def hung() -> float:
    slurmctld("STOP")
    time.sleep(10)
    slurmctld("CONT")
    return srun("-N1")


def killed() -> float:
    # Slurm saves its state every five seconds; what it forgets would be another measurement.
    time.sleep(7)
    slurmctld("KILL")
    return srun("-N1")


def look() -> float:
    """Nodes that a user finds free."""
    started = time.monotonic()
    if not start("sinfo", "-h", "-N", "-p", "batch", "-t", "idle", "-o", "%N"):
        raise Refused("sinfo -t idle shows no node")
    return time.monotonic() - started


# The acts, in the order of the table.
ACTS = {
    "srun, one node": lambda node: srun("-N1"),
    "srun, all nodes": lambda node: srun(f"-N{len(slurm.states())}"),
    "srun -I": lambda node: srun("-N1", "--immediate"),
    "salloc -I": lambda node: timed("salloc", *QUIET, "-N1", "--immediate", "true"),
    "srun --immediate=5": lambda node: srun("-N1", "--immediate=5"),
    "sinfo -t idle": lambda node: look(),
    "salloc": lambda node: timed("salloc", *QUIET, "-N1", "true"),
    "array of 8": lambda node: timed(*JOB, "--wait", "--array=1-8", "--wrap", "true"),
    "burst of 20": lambda node: burst(),
    "requeue": lambda node: requeue(),
    "scontrol drain": drain,
    "reservation": reserve,
    "reconfigure, srun": lambda node: reconfigure(),
    "slurmctld hung 10 s, srun": lambda node: hung(),
    "slurmctld killed, srun": lambda node: killed(),
    "a node lost, srun": lambda node: srun("-N1", "-x", node),
}


def main() -> int:
    _, act, node = sys.argv
    try:
        print(json.dumps({"seconds": ACTS[act](node)}))
    except Refused as refused:
        print(json.dumps({"refused": str(refused)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
