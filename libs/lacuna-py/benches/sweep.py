"""Equal short trials on few nodes, as a sweep has them: ``python3 -m benches sweep``.

Each trial is a real trainer under the services of ``lacuna up``, without a curve and without a
checkpoint. The table has the wall time from the submission to the last end, the starts of programs,
those beyond one for each trial, the plans that took a trial's nodes, and the trials that began
before one submitted earlier. Releases take turns, with the same trials.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Optional, Sequence

from . import common, ends
from .up import Up

EXAMPLES = """examples:
  python3 -m benches sweep                             20 trials of one node on two nodes
  python3 -m benches sweep --least 2 --most 2          each needs both nodes
  python3 -m benches sweep --lacuna OLD/target/release/lacuna --client OLD/libs/lacuna-py/src \\
                                --lacuna target/release/lacuna --client libs/lacuna-py/src
                                                            beside another release
"""
COLUMNS = ("wall_s", "done", "starts", "restarts", "failures", "displaced", "out_of_order")


def main(argv: Sequence[str]) -> int:
    """Prints the table; 64 for wrong arguments, 69 if something is missing, 1 if a trial of the
    last release was not done, or was trained more than once."""
    parser = common.parser("sweep", "Equal short trials on few nodes.", EXAMPLES)
    parser.add_argument("--trials", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--nodes", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--least", type=int, default=1, help="nodes of a trial (%(default)s)")
    parser.add_argument("--most", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--launcher", default="regroup", choices=ends.LAUNCHERS, help="default: %(default)s"
    )
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of a release (%(default)g)"
    )
    parser.add_argument(
        "--lacuna", action="append", help="the program of a release; may be repeated"
    )
    parser.add_argument(
        "--client", action="append", help="the package's source folder of that release"
    )
    options = parser.parse_args(argv)
    programs: list[Optional[str]] = options.lacuna or [None]
    clients: list[Optional[str]] = options.client or [None] * len(programs)
    sizes = 1 <= options.least <= options.most <= min(options.nodes, ends.MOST)
    if not sizes or options.trials < 1 or len(clients) != len(programs):
        print(
            f"benches: 1 <= least <= most <= nodes and {ends.MOST}; trials >= 1; one "
            "--client for each --lacuna, or none"
        )
        return 64
    host = common.host()
    found = [Up.program(given) for given in programs]
    if host is None or None in found:
        return 69
    rows = []
    for program, client in zip(found, clients):
        assert program is not None
        with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
            trials = ends.trained(_cases(options), options, program, client, Path(folder))
        rows.append({"lacuna": program, **_figures(trials), "trials": trials})
        if not options.json:
            row = rows[-1]
            print(", ".join(f"{name.replace('_', ' ')} {row[name]}" for name in COLUMNS), program)
    if options.json:
        print(json.dumps({"host": host, "rows": rows}, indent=2))
    else:
        print(", ".join(f"{key} {value}" for key, value in host.items()))
    last = rows[-1]
    return 0 if last["done"] == options.trials and last["restarts"] == 0 else 1


def _cases(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {
            "name": f"trial-{number:02}",
            "launcher": options.launcher,
            "min": options.least,
            "max": options.most,
            "checkpoint": False,
            "delays": [0.0] * ends.MOST,
        }
        for number in range(options.trials)
    ]


def _figures(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a release from its trials in the order of their submission."""
    times = [{key: _moment(text) for key, text in trial["times"].items()} for trial in trials]
    begun = [one["started"] for one in times]
    # One that never began stands behind all others.
    order = [float("inf") if at is None else at for at in begun]
    before = [max(order[:number], default=0.0) for number in range(len(order))]
    ends = [one["ended"] for one in times]
    whole = None if None in ends else round(max(ends) - min(one["eligible"] for one in times), 1)
    return {
        "wall_s": whole,
        "done": sum(trial["phase"] == "done" for trial in trials),
        "starts": sum(trial["starts"] for trial in trials),
        "restarts": sum(max(0, trial["starts"] - 1) for trial in trials),
        "failures": sum(trial["failures"] for trial in trials),
        "displaced": sum(trial["displaced"] for trial in trials),
        "out_of_order": sum(at < last for at, last in zip(order, before)),
    }


def _moment(text: Optional[str]) -> Optional[float]:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
