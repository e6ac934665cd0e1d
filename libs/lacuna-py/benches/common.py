"""What the measurements of :mod:`benches` have in common."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import Any, Optional

import lacuna
from lacuna.loopback import Loopback

from . import HERE

#: Real-time priority of members.
PRIORITY = 10


def parser(name: str, what: str, examples: str) -> argparse.ArgumentParser:
    """The command line of a measurement, with the arguments that all have."""
    made = argparse.ArgumentParser(
        prog=f"python3 -m benches {name}",
        description=what,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return made


def of_members(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the arguments of a measurement whose program is this command itself on each member."""
    made.add_argument("--nodes", type=int, default=2, help="members (default: %(default)s)")
    made.add_argument("--worker", help=argparse.SUPPRESS)
    return made


def host() -> Optional[dict[str, Any]]:
    """What the figures depend on; None, and words to standard error, without PyTorch."""
    try:
        import torch
    except ImportError as error:
        print(f"benches: PyTorch is missing: {error}", file=sys.stderr)
        return None
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def run_first() -> bool:
    """Lets this process run before all other work of the machine; whether it may.

    In turns: under SCHED_FIFO two busy threads of the run could stop the bench itself.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    except OSError:
        return False
    return True


def searched() -> str:
    """The PYTHONPATH of a member: the measurements and the packages."""
    package = Path(lacuna.__file__).resolve().parent.parent
    tables = HERE / "tables" / "src"
    paths = (str(HERE), str(package), str(tables), os.environ.get("PYTHONPATH"))
    return os.pathsep.join(filter(None, paths))


def environment(**more: str) -> dict[str, str]:
    """Of a member: where its modules are, and one thread."""
    return {"PYTHONPATH": searched(), "OMP_NUM_THREADS": "1", **more}


def ranks(count: int) -> tuple[Any, list[dict[str, str]]]:
    """A store, to be kept; and the variables of each process of a group that meets there.

    As under torchrun, the store is not rank 0's: no port is let go before it is used.
    """
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(count)}
    world |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    return store, [{**world, "RANK": str(rank)} for rank in range(count)]


def train(argv: list[str], folder: Path, env: dict[str, str], nodes: int, limit: float) -> None:
    """Runs a program on members of this number to its end, within ``limit`` seconds."""
    with Loopback(argv, folder, env=env) as cluster:
        members = [f"n{i}" for i in range(nodes)]
        for member in members:
            cluster.start(member)
        cluster.join(*members)
        for member in members:
            if cluster.wait_gone(member, limit) != 0:
                raise RuntimeError(cluster.words(member))
