"""Slurm as the test cluster's programs see it, beside the controller: its commands, bounded in time.

Standard library alone. Runs as root in the controller's container, and calls Slurm as the user
to whom the job belongs.
"""

import subprocess
import time

# The users of pilots and of batch jobs, made in the Dockerfile.
PILOT, BATCH = "lacuna", "alice"


class SlurmError(Exception):
    """A command of Slurm failed, or a condition did not hold in time."""


def call(*command: str, user: str = BATCH, limit: float = 60.0, check: bool = True, **more) -> str:
    """Standard output of a command."""
    done = subprocess.run(
        command, user=user, group=user, extra_groups=[], cwd="/shared", capture_output=True, text=True, timeout=limit, **more
    )
    if check and done.returncode != 0:
        raise SlurmError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def until(what: str, limit: float, condition, every: float = 0.05):
    """The first true value of a condition."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise SlurmError(f"not within {limit:.0f} s: {what}")
        time.sleep(every)


def states() -> dict[str, str]:
    """State of every node, in sinfo's words."""
    lines = call("sinfo", "-h", "-N", "-p", "batch", "-o", "%N %T").splitlines()
    return dict(line.split() for line in lines)


def all_idle(limit: float = 60.0) -> None:
    """Waits until no node has a job or a completing one."""
    until("all nodes idle", limit, lambda: set(states().values()) == {"idle"})


def jobs(partition: str, user: str | None = None) -> list[tuple[str, str, str]]:
    """Jobs of a partition: id, state, node list."""
    who = ["-u", user] if user else []
    lines = call("squeue", "-h", "-p", partition, *who, "-o", "%i|%T|%N").splitlines()
    return [tuple(line.split("|")) for line in lines]


def srun_seconds(nodes: int, limit: float = 120.0) -> float:
    """How long `srun -N<nodes> -p batch true` takes, from the user's call to its return."""
    started = time.monotonic()
    call("srun", "-Q", "-p", "batch", f"-N{nodes}", "true", limit=limit)
    return time.monotonic() - started
