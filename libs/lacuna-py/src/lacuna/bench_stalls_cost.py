"""What the readings of :mod:`lacuna.moments` cost, and how they split the reading of a batch."""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import bench_common
from .bench_stalls_run import burn, run_first
from .loopback import Loopback
from .moments import NUMBERS, Moments, Stopwatch
from .rates import PAIR, WARM_UP, Pair

#: Steps of a round, and two-sided 95 % points of Student's distribution by degrees of freedom.
STEPS = 60
STUDENT = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 14: 2.145, 19: 2.093}


def split() -> list[dict[str, float]]:
    """Real computing and real waiting of a loader's thread, seconds, and what is found of each."""
    run_first()
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


def measure(rounds: int) -> dict[str, Any]:
    """Time inside the added code, and an alternating comparison with and without readings.

    Two pairs of members train an MLP of a million parameters, in turns; one has
    ``LACUNA_STALLS=off``. The interval is that of the mean of the rounds' differences, by Student's
    distribution.
    """
    # Members inherit it.
    run_first()
    with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
        pairs = _alternate(rounds, Path(folder))
    percents = [100.0 * (on / off - 1.0) for on, off in pairs]
    middle, spread = statistics.mean(percents), statistics.stdev(percents)
    points = [point for degrees, point in sorted(STUDENT.items()) if degrees <= rounds - 1]
    half = points[-1] * spread / math.sqrt(rounds)
    return {
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
        "inside_us": _inside(),
        "rounds": rounds,
        "step": statistics.median(off for _, off in pairs),
        "percent": middle,
        "percent_interval": [middle - half, middle + half],
        "percents": percents,
    }


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

    def step(moments: Moments, buckets: int) -> None:
        moments.asked()
        moments.got(None)
        moments.sums([1 << 20] * buckets)
        for bucket in range(buckets):
            moments.launched(bucket)
            moments.ended(bucket)
        moments.launched(None)
        slots = moments.slots(1000)
        moments.ended(None)
        moments.summed()
        if slots is not None:
            moments.take(slots)
        moments.updated()

    found = {"reading a batch (worker)": per(lambda: Stopwatch().read())}
    for members, buckets in ((2, 2), (64, 20)):
        moments = Moments({})
        moments.formed(members, 0)
        name = f"{members} members, {buckets} buckets"
        found[f"a step, {name}"] = per(partial(step, moments, buckets))
        found[f"a report every 30 s, {name}"] = per(partial(moments.report, NUMBERS), 10)
    return found


def _alternate(rounds: int, folder: Path) -> list[tuple[float, float]]:
    """Seconds of a step with and without readings, by round."""
    argv = [sys.executable, "-m", "lacuna.bench", "rates", "--models", "mlp", "--sizes", "1"]
    pairs: dict[str, Pair] = {}
    clusters = []
    try:
        for value in ("on", "off"):
            (folder / value).mkdir()
            pair = pairs[value] = Pair(folder / f"{value}.socket")
            env = bench_common.environment(LACUNA_STALLS=value, LACUNA_RATES=str(pair.path))
            # A pair waits for its turn without a step.
            cluster = Loopback(
                [*argv, "--worker", "lacuna"], folder / value, env=env, hang_after=600.0
            )
            clusters.append(cluster)
            names = [f"n{node}" for node in range(PAIR)]
            for name in names:
                cluster.start(name)
            opened = threading.Thread(target=pair.accept)
            opened.start()
            cluster.join(*names)
            opened.join()
        for pair in pairs.values():
            pair.train(WARM_UP + 10)
        found = []
        for i in range(rounds):
            turns = ("on", "off") if i % 2 else ("off", "on")
            took = {value: pairs[value].train(STEPS)[0] for value in turns}
            found.append((took["on"], took["off"]))
        return found
    finally:
        for pair in pairs.values():
            pair.close()
        for cluster in clusters:
            cluster.close()
