"""What the readings of :mod:`lacuna.moments` cost, and how they split the reading of a batch."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Sequence

import torch

from lacuna import outside
from lacuna.loopback import Loopback
from lacuna.moments import Stopwatch
from lacuna.timing import NUMBERS, Timing

from . import common
from .rates import PAIR, WARM_UP, Pair
from .stalls_counted import COUNT, KINDS
from .stalls_run import burn

#: Steps of a turn, and those in which the time inside the added code is counted.
STEPS = 20
COUNTED = 300
#: How often the pairs start again: where a process has its memory changes its step.
SETS = 4
#: Two-sided 95 % points of Student's distribution by degrees of freedom.
STUDENT = {4: 2.776, 5: 2.571, 7: 2.365, 9: 2.262, 14: 2.145, 19: 2.093, 39: 2.023, 99: 1.984}


def split() -> list[dict[str, float]]:
    """Real computing and real waiting of a loader's thread, seconds, and what is found of each."""
    common.run_first()
    rows = []
    for computes, waits in ((0.060, 0.0), (0.0, 0.060), (0.040, 0.040)):
        prep, fetch = [], []
        for _ in range(10):
            watch = Stopwatch()
            burn(computes)
            time.sleep(waits)
            began, ended, busy = watch.read()
            prep.append(busy)
            fetch.append(ended - began - busy)
        found = {"prep": statistics.median(prep), "fetch": statistics.median(fetch)}
        rows.append({"computes": computes, "waits": waits, **found})
    return rows


def measure(rounds: int, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Time inside the added code, and an alternating comparison with and without readings.

    For the package and for unchanged programs (:mod:`benches.stalls_counted`): two pairs of
    members train in turns, one of them with readings. The interval is that of the mean of the
    rounds' differences, by Student's distribution. One more pair counts the time inside.
    """
    # Members inherit it.
    common.run_first()
    load = os.getloadavg()[0]
    rows = []
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
            rows.append({"kind": kind, **_compared(kind, rounds, Path(folder))})
    return {
        "torch": torch.__version__,
        "load": load,
        "inside_us": _inside(),
        "steps": STEPS,
        "rows": rows,
    }


def _compared(kind: str, rounds: int, folder: Path) -> dict[str, Any]:
    found = []
    for number in range(SETS):
        with ExitStack() as stack:
            made = {
                name: stack.enter_context(_pair(kind, folder / f"{name}-{number}", name))
                for name in ("on", "off")
            }
            for i in range(-(-rounds // SETS)):
                turns = ("on", "off") if (i + number) % 2 else ("off", "on")
                took = {name: made[name].train(STEPS) for name in turns}
                found.append((took["on"], took["off"]))
    with _pair(kind, folder / "counted", "counted") as pair:
        each = [[number / COUNTED for number in one] for one in pair.ask(COUNTED)]
    wall = [100.0 * (on[0] / off[0] - 1.0) for on, off in found]
    cpu = [100.0 * (on[1] / off[1] - 1.0) for on, off in found]
    return {
        "rounds": len(found),
        "step": statistics.median(off[0] for _, off in found),
        "percent": statistics.mean(wall),
        "percent_interval": interval(wall),
        # A busy machine has outliers.
        "percent_median": statistics.median(wall),
        "percent_median_interval": of_median(wall),
        "processor_percent": statistics.mean(cpu),
        "processor_percent_interval": interval(cpu),
        # Of the member in which it is longer.
        "inside": max(one[2] for one in each),
        "inside_processor": max(one[3] for one in each),
        "inside_percent": max(100.0 * one[2] / one[0] for one in each),
        "percents": wall,
    }


def interval(values: Sequence[float]) -> list[float]:
    """The 95 % interval of a mean, by Student's distribution; of five values or more."""
    points = [point for degrees, point in sorted(STUDENT.items()) if degrees < len(values)]
    half = points[-1] * statistics.stdev(values) / math.sqrt(len(values))
    middle = statistics.mean(values)
    return [middle - half, middle + half]


def _inside() -> dict[str, float]:
    """Microseconds inside the added code."""

    def per(work: Any, times: int = 300) -> float:
        took = []
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(times):
                work()
            took.append((time.perf_counter() - began) / times)
        return 1e6 * min(took)

    def step(timing: Timing, buckets: int) -> None:
        timing.asked()
        timing.got(None)
        timing.sums([1 << 20] * buckets)
        for bucket in range(buckets):
            timing.launched(bucket)
            timing.ended(bucket)
        timing.launched(None)
        slots = timing.slots(1000)
        timing.ended(None)
        timing.summed()
        if slots is not None:
            timing.take(slots)
        timing.updated()

    found = {"reading a batch (worker)": per(lambda: Stopwatch().read())}
    for members, buckets in ((2, 2), (64, 20)):
        timing = Timing(None, {})
        timing.formed(members, 0)
        name = f"{members} members, {buckets} buckets"
        found[f"a step, {name}"] = per(partial(step, timing, buckets))
        found[f"a report every 30 s, {name}"] = per(partial(timing.report, NUMBERS), 10)
    return found


def of_median(values: Sequence[float]) -> list[float]:
    """The 95 % interval of a median, by order statistics: the normal law of the binomial ranks."""
    ranked, half = sorted(values), 0.98 * math.sqrt(len(values))
    middle = (len(values) - 1) / 2
    low, high = math.floor(middle - half), math.ceil(middle + half)
    return [ranked[max(low, 0)], ranked[min(high, len(values) - 1)]]


@contextmanager
def _pair(kind: str, folder: Path, name: str) -> Iterator[Pair]:
    """Two members that wait for their turn. ``name``: ``off`` without readings, ``counted``."""
    folder.mkdir()
    pair = Pair(folder / "socket")
    argv = [sys.executable, "-m", "benches", "stalls", "--counted", kind]
    more = {"LACUNA_RATES": str(pair.path), COUNT: "1" if name == "counted" else "0"}
    start = _package if kind == "package" else _unchanged
    with start(argv, folder, more, name != "off"):
        try:
            pair.accept()
            pair.train(WARM_UP + 10)
            yield pair
        finally:
            pair.close()


@contextmanager
def _package(argv: list[str], folder: Path, more: dict[str, str], on: bool) -> Iterator[None]:
    env = common.environment(LACUNA_STALLS="on" if on else "off", **more)
    # A pair waits for its turn without a step.
    with Loopback(argv, folder, env=env, hang_after=600.0) as cluster:
        names = [f"n{node}" for node in range(PAIR)]
        for name in names:
            cluster.start(name)
        joins = threading.Thread(target=cluster.join, args=names)
        joins.start()
        yield
        joins.join()


@contextmanager
def _unchanged(argv: list[str], folder: Path, more: dict[str, str], on: bool) -> Iterator[None]:
    env = {**os.environ, **common.environment(**more)}
    if on:
        front, into = folder / "front", folder / "readings"
        into.mkdir()
        outside.folder(front)
        # The wrappers stay for all steps.
        stays = front / "lacuna_stalls" / "outside.py"
        text = stays.read_text().replace("\nSTEPS = 200\n", "\nSTEPS = 1 << 30\n")
        stays.write_text(text)
        env["PYTHONPATH"] = os.pathsep.join((str(front), env["PYTHONPATH"]))
        env["LACUNA_STALLS_INTO"] = str(into)
    _store, ranks = common.ranks(PAIR)
    processes = [subprocess.Popen(argv, env={**env, **rank}) for rank in ranks]
    try:
        yield
    finally:
        for process in processes:
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
