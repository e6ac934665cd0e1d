"""What the programs of :mod:`benches` have logged: stalls, lost steps, samples used once."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any, Optional


class Log:
    """The steps of all programs, by time: each has written a file ``*.steps`` of JSON lines.

    A line has ``step``, ``ok`` (it was applied), ``run``, ``t`` (Unix time) and ``members``. Where
    an epoch ended, ``wrong`` has the number of samples that were not used once in each epoch.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._lines: list[dict[str, Any]] = []

    def lines(self) -> list[dict[str, Any]]:
        """All lines until now."""
        for path in self._folder.glob("*.steps"):
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                # A line may be written just now.
                text = file.read().rpartition(b"\n")[0]
            self._lines += [json.loads(line) for line in text.splitlines() if line]
            self._read[path] = self._read.get(path, 0) + len(text)
        self._lines.sort(key=lambda line: float(line["t"]))
        return self._lines

    def judged(self, began: float) -> dict[str, Any]:
        """The stall and the lost steps of a change at a Unix time."""
        first: dict[int, float] = {}
        applied: dict[int, set[int]] = {}
        lost = set()
        for line in self.lines():
            step = line["step"]
            if line["ok"]:
                first.setdefault(step, line["t"])
                applied.setdefault(step, set()).add(line["run"])
            if line["t"] > began and (not line["ok"] or len(applied[step]) > 1):
                lost.add(step)
        times = sorted(first.values())
        gaps = [(b - a, b) for a, b in zip(times, times[1:])]
        usual = [gap for gap, end in gaps if began - 1.0 < end <= began]
        step = statistics.median(usual) if usual else 0.0
        return {
            "stall": max(gap for gap, end in gaps if end > began),
            "step": step,
            "lost": len(lost),
        }

    def samples(self) -> Optional[dict[str, int]]:
        """Ends of epochs, and the most samples that were wrong at one; None if none has ended."""
        ends = {line["step"]: line["wrong"] for line in self.lines() if "wrong" in line}
        return {"epochs": len(ends), "wrong": max(ends.values())} if ends else None


def summary(kind: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians, quartiles and worst of the trials of a kind; the load of the machine after them."""
    stalls = sorted(trial["stall"] for trial in trials)
    quartiles = statistics.quantiles(stalls, n=4, method="inclusive") if len(stalls) > 1 else []
    lost = [trial["lost"] for trial in trials]
    return {
        "kind": kind,
        "times": len(trials),
        "stall_median_s": statistics.median(stalls),
        "stall_quartiles_s": [quartiles[0], quartiles[2]] if quartiles else None,
        "stall_worst_s": stalls[-1],
        "step_median_s": statistics.median(trial["step"] for trial in trials),
        "lost_steps_median": statistics.median(lost),
        "lost_steps_worst": max(lost),
        "load": os.getloadavg()[0],
        "stalls_s": stalls,
    }


def show(row: Optional[dict[str, Any]]) -> None:
    """Prints the row of a table; its head for None."""
    if row is None:
        print(f"{'under':<10}{'workers':>7}  {'change':<9}{'times':>6}{'stall':>9}", end="")
        print(f"{'quartiles':>17}{'worst':>9}{'step':>9}{'lost steps':>12}{'worst':>7}{'load':>6}")
        return
    low, high = row["stall_quartiles_s"] or (row["stall_median_s"],) * 2
    print(
        f"{row['under']:<10}{row['workers']:>7}  {row['kind']:<9}{row['times']:>6}"
        f"{row['stall_median_s']:>7.3f} s{low:>8.3f}-{high:.3f} s{row['stall_worst_s']:>7.3f} s"
        f"{row['step_median_s']:>7.3f} s{row['lost_steps_median']:>12g}"
        f"{row['lost_steps_worst']:>7}{row['load']:>6.1f}",
        flush=True,
    )
