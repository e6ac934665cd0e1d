"""Prepares batches for a training elsewhere: ``python3 -m lacuna.loader --join FILE -- ...``.

It runs the trainer's own program, some processes of it, with the role of a loader: in
``run.steps`` they serve batches and never train (:mod:`lacuna.serving`).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from typing import Optional, Sequence

from .messages import EXIT_LEFT

#: Environment of members, which a loader is not.
_OF_MEMBERS = (
    *("LACUNA_SOCKET", "LACUNA_PROGRESS_FILE", "LACUNA_DEADLINE_FILE", "LACUNA_CHECKPOINT_DIR"),
    *("LACUNA_WORLD_SIZE", "LACUNA_LOCAL_RANK", "LACUNA_LOCAL_WORLD_SIZE", "LACUNA_LOADERS"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
)

EPILOG = """examples:
  python3 -m lacuna.loader --join run/loaders.json -- python3 train.py --data /scratch/images
  srun -p cpu -N 4 python3 -m lacuna.loader --join run/loaders.json -- python3 train.py

The file is that of lacuna.elastic(loaders=...): rank 0 writes it, with a token, for its user alone.
Loaders come and go at any time. SIGTERM ends them, and what they owed is read elsewhere. Without a
request for --idle seconds they end with exit code 0.
"""


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lacuna.loader",
        description="Prepares batches on an idle node for a training that waits for its data.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--join", required=True, metavar="FILE", help="where the training is")
    parser.add_argument(
        "--processes",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="that read at the same time (default: one for each core, here %(default)s)",
    )
    parser.add_argument(
        "--idle", type=float, default=60.0, help="seconds without a request (default: %(default)s)"
    )
    parser.add_argument("program", nargs="+", help="the trainer's program and its arguments")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the processes; the first exit code of one that failed, 64 for wrong arguments."""
    options = arguments().parse_args(argv)
    if options.processes < 1 or options.idle <= 0.0:
        print("lacuna.loader: processes and idle must be positive", file=sys.stderr)
        return 64
    base = {name: value for name, value in os.environ.items() if name not in _OF_MEMBERS}
    base = {"OMP_NUM_THREADS": "1", **base}
    base |= {"LACUNA_LOADER_JOIN": options.join, "LACUNA_LOADER_IDLE": str(options.idle)}
    running: list["subprocess.Popen[bytes]"] = []

    def end(number: int, _frame: object) -> None:
        for process in running:
            process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        for number in range(options.processes):
            env = {**base, "LACUNA_LOADER_NUMBER": str(number)}
            running.append(subprocess.Popen(options.program, env=env))
    except OSError as error:
        print(f"lacuna.loader: {options.program[0]} does not start: {error}", file=sys.stderr)
        end(signal.SIGTERM, None)
        return 64
    codes = [process.wait() for process in running]
    return next((code for code in codes if code not in (0, EXIT_LEFT, -signal.SIGTERM)), 0)


if __name__ == "__main__":
    sys.exit(main())
