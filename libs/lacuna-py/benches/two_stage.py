"""A two-stage training beside its plan: ``python3 -m benches two_stage``.

A small recommender is profiled layer by layer on two kinds of unit, ``lacuna place`` plans how many
of each, and that plan is run: embedding tables at members of one kind, the dense part at members of
the other. Kinds are speeds of this machine: a layer sleeps until its samples took the seconds of
its kind. So computation is as slow as the profile measured it, and what differs from the plan is
what the plan leaves out: messages, sums, waiting for each other.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Sequence

import torch
from torch import nn

from lacuna import profile_layers
from lacuna.loopback import Loopback
from lacuna.run import elastic
from lacuna_tables import Table, Tables
from lacuna_tables.map import Directory
from lacuna_tables.member import Holder

from . import common

EPILOG = """examples:
  python3 -m benches two_stage
  python3 -m benches two_stage --lacuna target/release/lacuna --steps 100 --json
  python3 -m benches two_stage --no-ahead         rows of a step are asked for when it begins

The exit code is 1 if the measured rate is not within 15 % of the plan.
"""

TABLES = [Table("users", 20_000, 16), Table("items", 5_000, 16)]
WIDTH = 16 * len(TABLES)
HIDDEN = 64
#: Seconds a sample of each layer, forward and backward, and the price of a unit for an hour.
KINDS = {
    "slow": ({"tables": 0.9e-3, "first": 8e-3, "hidden": 16e-3, "last": 4e-3}, 1.0),
    "fast": ({"tables": 0.5e-3, "first": 0.4e-3, "hidden": 0.8e-3, "last": 0.2e-3}, 12.0),
}
#: Least samples/s that are asked for, samples of a step and of a pass of the profiler, steps before
#: the first that counts, and the most units of a kind: each is a process here.
RATE = 2000.0
BATCH = 960
PROFILED = {"slow": 128, "fast": 480}
LIMIT = 6
WARM = 5
#: How far the measured rate may be from the plan.
WITHIN = 0.15


class _At(torch.autograd.Function):
    """Passes a tensor on, and calls a function with its gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, call: Callable[[torch.Tensor], None]) -> torch.Tensor:
        ctx.call = call
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.call(gradient)
        return gradient, None


def _until(end: float) -> None:
    left = end - time.monotonic()
    if left > 0.0:
        time.sleep(left)


class Paced(nn.Module):
    """A layer that takes at least some seconds a sample, a third of them forward."""

    def __init__(self, inner: nn.Module, seconds: float) -> None:
        super().__init__()
        self.inner, self.seconds, self.began = inner, seconds, 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        began = time.monotonic()
        out = self.inner(_At.apply(x, self._end))
        _until(began + self.seconds / 3 * len(x))
        passed: torch.Tensor = _At.apply(out, self._begin)
        return passed

    def _begin(self, gradient: torch.Tensor) -> None:
        """The backward pass is at the output."""
        self.began = time.monotonic()

    def _end(self, gradient: torch.Tensor) -> None:
        """It is at the input, and waits until its time is over."""
        _until(self.began + 2 / 3 * self.seconds * len(gradient))


class Lookup(nn.Module):
    """The tables in this process, to be profiled: lookup, and the update of the batch before."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._holder = Holder.alone(TABLES, seconds / len(TABLES))
        self._step = 0
        self.table_bytes = sum(4 * table.rows * table.width for table in TABLES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        of = {table.name: ids[:, place] for place, table in enumerate(TABLES)}
        _, rows = self._holder.look_up(self._step, of)
        self._step += 1
        header = {"step": self._step, "run": 0, "size": 1, "rank": 0, "shares": 1}
        staged = {f"ids/{name}": one for name, one in of.items()}
        staged.update({f"gradients/{name}": torch.ones_like(one) for name, one in rows.items()})
        self._holder.stage(header, staged)
        return torch.cat(list(rows.values()), 1).requires_grad_()


def dense(kind: str) -> nn.Module:
    """The dense part at the speed of a kind."""
    seconds = KINDS[kind][0]
    inner = {
        "first": nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU()),
        "hidden": nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU()),
        "last": nn.Linear(HIDDEN, 1),
    }
    model = nn.Sequential()
    for name, layer in inner.items():
        model.add_module(name, Paced(layer, seconds[name]))
    return model


def _whole(kind: str) -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential()
    model.add_module("tables", Lookup(KINDS[kind][0]["tables"]))
    for name, layer in dense(kind).named_children():
        model.add_module(name, layer)
    return model, _samples(PROFILED[kind])[0]


def slow() -> tuple[nn.Module, torch.Tensor]:
    """The recommender on a slow unit, for the profiler."""
    return _whole("slow")


def fast() -> tuple[nn.Module, torch.Tensor]:
    """The recommender on a fast unit, for the profiler."""
    return _whole("fast")


def _samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    # Some rows are asked for more often.
    drawn = [torch.rand(count, generator=generator) ** 2 * table.rows for table in TABLES]
    clicked = (torch.rand(count, generator=generator) < 0.5).float()
    return torch.stack(drawn, 1).long(), clicked


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches two_stage",
        description="Measures a two-stage training, and prints the plan beside it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lacuna", default="lacuna", metavar="PATH", help="of the command lacuna")
    parser.add_argument("--rate", type=float, default=RATE, help="asked for (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="measured (default: %(default)s)")
    parser.add_argument("--no-ahead", action="store_true", help="no lookup ahead")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints plan and measurement; 1 if they differ, 64 for wrong arguments, 69 without lacuna."""
    options = arguments().parse_args(argv)
    if options.train:
        folder, kind, members = options.train
        return _train(options, folder, kind, int(members))
    if options.steps < 1 or not options.rate > 0.0:
        print("benches: --steps and --rate: expected 1 or more", file=sys.stderr)
        return 64
    lacuna = shutil.which(options.lacuna)
    if lacuna is None:
        print(f"benches: {options.lacuna} is missing: give its --lacuna PATH", file=sys.stderr)
        return 69
    with tempfile.TemporaryDirectory(prefix="lacuna-two-stage-") as name:
        folder = Path(name)
        plan = _plan(lacuna, options.rate, folder / "profile.json")
        if plan is None:
            return 1
        stages = plan["stages"]
        if [len(stage["layers"]) for stage in stages] != [1, 3]:
            words = "; ".join(f"{', '.join(s['layers'])} on {s['kind']}" for s in stages)
            print(f"benches: only tables | dense can be run, not {words}", file=sys.stderr)
            return 1
        tables, trained = stages
        measured = _measured(options, folder, tables, trained)
    share = measured["rate"] / plan["rate"] - 1.0
    found = {
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "ahead": not options.no_ahead,
        "tables_on": [tables["units"], tables["kind"]],
        "dense_on": [trained["units"], trained["kind"]],
        "planned_rate": plan["rate"],
        "measured_rate": measured["rate"],
        "steps": measured["steps"],
        "difference": share,
    }
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"torch {torch.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(
            f"plan      tables on {tables['units']} {tables['kind']}, dense part on "
            f"{trained['units']} {trained['kind']}: {plan['rate']:.0f} samples/s"
        )
        print(
            f"measured  {measured['rate']:.0f} samples/s over {measured['steps']} steps "
            f"of {BATCH}, {100 * share:+.1f} %"
        )
    return 0 if abs(share) <= WITHIN else 1


def _plan(lacuna: str, rate: float, path: Path) -> Any:
    """What ``lacuna place`` makes of the profiles of both kinds; None if it fails."""
    for kind, (_, price) in KINDS.items():
        argv = [f"benches.two_stage:{kind}", "--kind", kind, "--price", str(price)]
        argv += ["--threads", "1", "--limit", str(LIMIT), "--out", str(path)] + [
            "--add",
            str(path),
        ] * path.exists()
        if profile_layers.main(argv):
            return None
    done = subprocess.run(
        [lacuna, "place", str(path), "--rate", str(rate), "--json"], capture_output=True, text=True
    )
    if done.returncode:
        why = done.stderr.strip() or f"{LIMIT} units of each kind do not reach {rate:.0f} samples/s"
        print(f"benches: no plan: {why}; a busy machine distorts profiles", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def _measured(
    options: argparse.Namespace, folder: Path, tables: dict[str, Any], trained: dict[str, Any]
) -> dict[str, Any]:
    env = common.environment()
    place = str(folder / "tables")
    pace = KINDS[tables["kind"]][0]["tables"] / len(TABLES)
    argv = [sys.executable, "-m", "lacuna_tables", place, "--host", "127.0.0.1"]
    argv += ["--pace", str(pace), "--every", "1000000"]
    holders = [
        subprocess.Popen(argv, env={**os.environ, **env}, stderr=subprocess.DEVNULL)
        for _ in range(tables["units"])
    ]
    program = [sys.executable, "-m", "benches", "two_stage", "--steps", str(options.steps)]
    program += ["--no-ahead"] * options.no_ahead
    program += ["--train", str(folder), trained["kind"], str(tables["units"])]
    try:
        _wait(lambda: len(Directory(place).members()) == tables["units"], "table members are there")
        with Loopback(program, folder, env=env) as cluster:
            names = [f"n{n}" for n in range(trained["units"])]
            for name in names:
                cluster.start(name)
            cluster.join(*names)
            for name in names:
                cluster.wait_gone(name, 600.0)
            times = folder / "times.json"
            if not times.exists():
                raise RuntimeError(f"training failed: {cluster.words(names[0])}")
            lines = json.loads(times.read_text(encoding="utf-8"))
    finally:
        for holder in holders:
            holder.kill()
            holder.wait(10.0)
    return {"rate": BATCH * (len(lines) - 1) / (lines[-1] - lines[0]), "steps": len(lines) - 1}


def _wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120.0
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"not true after 120 s: {what}")
        time.sleep(0.05)


def _train(options: argparse.Namespace, folder: str, kind: str, members: int) -> int:
    """The program of each member of the dense part."""
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    torch.manual_seed(1)
    model = dense(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    samples, clicked = _samples(1 << 15)

    def ids(index: torch.Tensor) -> dict[str, torch.Tensor]:
        return {table.name: samples[index, place] for place, table in enumerate(TABLES)}

    tables = Tables(f"{folder}/tables", TABLES, members=members, ahead=not options.no_ahead)
    times: list[float] = []
    with tables, elastic(model, optimizer, batch=BATCH, seed=1) as run:
        for index, rows in tables.steps(run, len(samples), ids):
            optimizer.zero_grad()
            score = model(torch.cat(list(rows.values()), 1)).squeeze(1)
            loss = nn.functional.binary_cross_entropy_with_logits(score, clicked[index])
            loss.backward()
            if tables.step(loss) and run.steps_done >= WARM:
                times.append(time.monotonic())
            if len(times) > options.steps:
                break
        if run.rank == 0:
            Path(folder, "times.json").write_text(json.dumps(times), encoding="utf-8")
    return 0
