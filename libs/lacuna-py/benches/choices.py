"""Judges recommendations by runs of every candidate: ``python3 -m benches choices``.

Each workload is a program of :mod:`benches.stalls_run` with its own times of preparing,
fetching, computing and sending. Two nodes are traced, and one node beside, which tells what part of
a step follows the samples (``--one-run``: without). All others are held out: each is trained for
as many steps, and its mean step is the truth. Then prices and time budgets are drawn,
``libs/stalls`` chooses, and the choice is held against the cheapest configuration whose own run was
in time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from . import common
from . import stalls_run as run
from .stalls import built_tool
from .stalls_run import Config

EXAMPLES = """examples:
  python3 -m benches choices                          six workloads, twenty choices each
  python3 -m benches choices --runs runs.jsonl        keeps runs, and goes on where it ended
  python3 -m benches choices --runs runs.jsonl --only 0      measures one workload, no choices

It needs root, iproute2 and util-linux for throttled links; the devices are emulated by sleeping.
"""

#: Samples of a step of all members.
BATCH = 16
SIZES = (1, 2, 4)
WORKERS = (1, 2)
#: Speeds of the devices, over that of the traced run, and what they cost about.
SPEEDS = {"old": 1.0, "new": 2.5}
PRICES = {"old": 1.0, "new": 2.0}
#: Steps of a run.
STEPS = 50
#: Of the work: seconds until it trains, its steps, and by which share a step may take longer.
START, LEFT, MARGIN = 60.0, 20_000, 0.05


class Candidate(NamedTuple):
    """A resource on which a workload is trained."""

    kind: str
    nodes: int
    spread: bool
    workers: int


#: The one that is traced, and the one beside.
TRACED = Candidate("old", 2, False, 1)
BESIDE = Candidate("old", 1, False, 1)


class Workload(NamedTuple):
    """What a workload takes: seconds of eight samples, Mbit/s of near and of spread nodes."""

    prep: float
    fetch: float
    device: float
    near: float
    spread: float

    @classmethod
    def drawn(cls, number: int) -> Workload:
        """The workload of this number."""
        dice = random.Random(number)

        def scale(low: float, high: float) -> float:
            return low * math.pow(high / low, dice.random())

        prep, fetch, device = scale(0.005, 0.120), scale(0.005, 0.120), scale(0.030, 0.120)
        near = scale(200.0, 800.0)
        return cls(prep, fetch, device, near, near * scale(0.2, 0.6))

    def config(self, candidate: Candidate) -> Config:
        """Its run on a candidate."""
        link = self.spread if candidate.spread else self.near
        return Config(
            prep=self.prep,
            fetch=self.fetch,
            link=link if candidate.nodes > 1 else 0.0,
            nodes=candidate.nodes,
            workers=candidate.workers,
            samples=BATCH // candidate.nodes,
            device=self.device / SPEEDS[candidate.kind],
            steps=STEPS,
        )


def candidates() -> Iterator[Candidate]:
    """All of them. A node alone is near itself."""
    for kind in SPEEDS:
        for nodes in SIZES:
            for spread in (False, True)[: 1 if nodes == 1 else 2]:
                for workers in WORKERS:
                    yield Candidate(kind, nodes, spread, workers)


class Runs:
    """Runs that are known, and are added to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self._known[row["config"]] = row["found"]

    def of(self, workload: Workload) -> dict[Candidate, dict[str, Any]]:
        """The runs of a workload on all candidates, trained now if they are not known."""
        for configs in _alike(workload):
            if all(_key(config) in self._known for config in configs):
                continue
            with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
                runs = run.several(configs, Path(folder), apart=True)
            for config, found in zip(configs, runs):
                self._known[_key(config)] = found
                with self._path.open("a") as file:
                    file.write(json.dumps({"config": _key(config), "found": found}) + "\n")
        return {one: self._known[_key(workload.config(one))] for one in candidates()}


def _key(config: Config) -> str:
    return json.dumps(asdict(config))


def _alike(workload: Workload) -> list[list[Config]]:
    """The configurations that train in one run: of the same members and links, the traced first."""
    found: dict[tuple[int, bool], list[Config]] = {}
    for one in sorted(candidates(), key=lambda one: one not in (TRACED, BESIDE)):
        found.setdefault((one.nodes, one.spread), []).append(workload.config(one))
    return list(found.values())


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = common.parser(
        "choices", "Judges recommendations by runs of every candidate.", EXAMPLES
    )
    parser.add_argument("--workloads", type=int, default=6, help="default: %(default)s")
    parser.add_argument("--choices", type=int, default=20, help="of each (default: %(default)s)")
    parser.add_argument("--runs", type=Path, help="file of runs, read and added to")
    parser.add_argument("--one-run", action="store_true", help="traces two nodes alone")
    parser.add_argument("--only", type=int, help="measures the workload of this number alone")
    parser.add_argument("--tool", help="the program of libs/stalls (default: built by cargo)")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints the table; 64 for wrong arguments, 69 if something is missing."""
    options = arguments().parse_args(argv)
    if options.workloads < 1 or options.choices < 1:
        print("benches: workloads and choices >= 1")
        return 64
    host = common.host()
    tool = options.tool or built_tool()
    if host is None or tool is None or not run.can_throttle():
        print("benches: needs PyTorch, libs/stalls, root, ip, tc, unshare", file=sys.stderr)
        return 69
    if not options.apart:
        command = ["unshare", "--net", sys.executable, "-m", "benches", "choices", "--apart"]
        return subprocess.run([*command, "--tool", tool, *argv]).returncode
    # Members inherit it, and begin sooner on a busy machine.
    common.run_first()
    with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
        runs = Runs(options.runs or Path(folder) / "runs.jsonl")
        numbers = range(options.workloads) if options.only is None else [options.only]
        measured = {number: runs.of(Workload.drawn(number)) for number in numbers}
    if options.only is not None:
        return 0
    rows = [
        row
        for number, found in measured.items()
        for row in _choices(tool, number, found, options.choices, not options.one_run)
    ]
    judged = {"host": {**host, "realtime": run.real_time()}, **_summary(rows), "rows": rows}
    print(json.dumps(judged, indent=2) if options.json else _words(judged))
    return 0


def _choices(
    tool: str,
    number: int,
    measured: dict[Candidate, dict[str, Any]],
    count: int,
    beside: bool = True,
) -> Iterator[dict[str, Any]]:
    workload, dice = Workload.drawn(number), random.Random(1000 + number)
    truth = {one: START + LEFT * float(found["step"]) for one, found in measured.items()}
    for _ in range(count):
        prices = {kind: price * 2.0 ** dice.uniform(-0.5, 0.5) for kind, price in PRICES.items()}
        budget = min(truth.values()) * 10.0 ** (0.05 + 0.85 * dice.random())
        kinds = [
            {
                "name": kind,
                "price": prices[kind],
                "nodes": SIZES,
                "workers": WORKERS,
                "speed": SPEEDS[kind],
                "spread": workload.spread / workload.near,
            }
            for kind in SPEEDS
        ]
        site = {"start": START, "kind": kinds}
        asked: dict[str, Any] = {"site": site, "steps": LEFT, "margin": MARGIN}
        if beside:
            asked["beside"] = measured[BESIDE]["stalls"]
        found = _recommended(tool, measured[TRACED]["stalls"], {**asked, "budget": budget})
        cost = {one: one.nodes * prices[one.kind] * truth[one] / 3600.0 for one in truth}
        cheapest = min((one for one in truth if truth[one] <= budget), key=lambda one: cost[one])
        chosen, predicted = found[0]
        yield {
            "workload": number,
            "budget": budget,
            "chosen": chosen._asdict(),
            "cheapest": cheapest._asdict(),
            "late": truth[chosen] > budget,
            "regret": cost[chosen] / cost[cheapest] - 1.0,
            # How far the replay is off, of both.
            "off": predicted / truth[chosen] - 1.0,
            "off_cheapest": dict(found)[cheapest] / truth[cheapest] - 1.0,
            # The cheapest one is in time, but not with the margin.
            "within_margin": dict(found)[cheapest] * (1.0 + MARGIN) > budget,
            "errors": [seconds / truth[one] - 1.0 for one, seconds in found],
        }


def _recommended(
    tool: str, stalls: dict[str, Any], asked: dict[str, Any]
) -> list[tuple[Candidate, float]]:
    """All candidates, the best first, and the seconds that are predicted of each."""
    done = subprocess.run(
        [tool, "--recommend", json.dumps(asked)],
        input=json.dumps(stalls),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [
        (Candidate(*(one[name] for name in Candidate._fields)), one["seconds"])
        for one in json.loads(done.stdout)
    ]


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def near(row: dict[str, Any]) -> bool:
        return not row["late"] and row["regret"] <= 0.05

    errors = sorted(abs(error) for row in rows for error in row["errors"])
    far = [row for row in rows if not near(row)]
    return {
        "choices": len(rows),
        "near_percent": 100.0 * sum(map(near, rows)) / len(rows),
        "misses_percent": 100.0 * sum(row["late"] for row in rows) / len(rows),
        "mean_regret_percent": 100.0
        * statistics.mean([row["regret"] for row in rows if not row["late"]] or [0.0]),
        "step_off_percent": [100.0 * errors[int(part * len(errors))] for part in (0.5, 0.9)],
        "far_by_margin": sum(not row["late"] and row["within_margin"] for row in far),
        "far": len(far),
    }


def _words(found: dict[str, Any]) -> str:
    middle, most = found["step_off_percent"]
    lines = [
        f"workload {row['workload']}: {_named(row['chosen'])}, cheapest {_named(row['cheapest'])}, "
        f"regret {100.0 * row['regret']:.1f} %, predicted {100.0 * row['off']:+.1f} % and "
        f"{100.0 * row['off_cheapest']:+.1f} % off" + (", late" if row["late"] else "")
        for row in found["rows"]
        if row["late"] or row["regret"] > 0.05
    ]
    lines.append(
        f"{found['choices']} choices: {found['near_percent']:.1f} % within 5 % of the cheapest, "
        f"{found['misses_percent']:.1f} % late, mean regret {found['mean_regret_percent']:.2f} %; "
        f"steps of {len(list(candidates()))} candidates off by {middle:.1f} % (median), {most:.1f} "
        f"% (p90); {found['far_by_margin']} of {found['far']} others: the cheapest one is in time "
        "by less than the margin"
    )
    lines.append(", ".join(f"{key} {value}" for key, value in found["host"].items()))
    return "\n".join(lines)


def _named(one: dict[str, Any]) -> str:
    placed = "spread" if one["spread"] else "near"
    return f"{one['nodes']} {one['kind']} {placed} with {one['workers']}"
