"""Injects stalls into training and shows which are found: ``python3 -m benches stalls``.

Members train on this machine with an emulated device: it sleeps in the forward and in the backward
pass, which needs no processor. Samples are prepared and fetched for a set time, a member's device
is slower, links are throttled. The truth of a cause is the step minus the step of a run without
it. What is found comes from the one run that has all causes. ``libs/stalls`` of Lacuna replays its
report. The published differences (Stash, arXiv 2208.14344) come from runs with samples from memory,
with one member and with all.

Preparation is computed with ``--burn``, by default where each member and its loader has a core.
Else its time is slept and declared as computed; ``--split`` shows that real reading is split right.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Optional, Sequence

from . import common
from . import stalls_cost as cost
from . import stalls_counted as counted
from . import stalls_run as run
from .stalls_run import Config

EPILOG = """examples:
  python3 -m benches stalls                        all cases at 2 members
  python3 -m benches stalls --rounds 3 --json      medians of three runs of each
  python3 -m benches stalls --nodes 4 --cases nothing,slow-link
  python3 -m benches stalls --predict              sizes, links and workers not tried
  python3 -m benches stalls --split                preparing apart from fetching
  python3 -m benches stalls --cost --rounds 60     what the readings themselves take

Throttled links need root, iproute2 and util-linux. Without them, cases with a slow link are left
out.
"""

#: A cause counts as injected if it truly costs as many seconds.
INJECTED = 0.005
CAUSES = ("preparation", "fetch", "link", "straggler")
SLOW = 300.0

CASES = {
    "nothing": Config(),
    "prep-120": Config(prep=0.120),
    "prep-30": Config(prep=0.030),
    "fetch-120": Config(fetch=0.120),
    "fetch-80-prep-60": Config(prep=0.060, fetch=0.080),
    "slow-link": Config(link=SLOW),
    "slow-link-prep-120": Config(prep=0.120, link=SLOW),
    "slow-link-prep-180": Config(prep=0.180, link=SLOW),
    "straggler-40": Config(straggler=0.040),
    "straggler-40-backward": Config(straggler=0.040, backward=True),
    "straggler-40-slow-link": Config(straggler=0.040, link=SLOW),
    "prep-bursts-50": Config(prep=0.050, bursts=True),
    "fetch-100-slow-link-straggler-40": Config(fetch=0.100, link=SLOW, straggler=0.040),
}


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches stalls",
        description="Injects stalls into training, and shows which are found.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", help=f"default: all, {','.join(CASES)}")
    parser.add_argument("--nodes", type=int, help="members (default: 2)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each (default: 1)")
    parser.add_argument("--tool", help="the program of libs/stalls (default: built by cargo)")
    parser.add_argument("--burn", action=argparse.BooleanOptionalAction, help="compute preparation")
    parser.add_argument("--predict", action="store_true", help="sizes, links, workers not tried")
    parser.add_argument("--split", action="store_true", help="preparing apart from fetching")
    parser.add_argument(
        "--cost",
        nargs="?",
        choices=[*counted.KINDS, "both"],
        const="both",
        help="what the readings themselves take, for the package, for unchanged programs, or both",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--counted", choices=counted.KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints the tables; 64 for wrong arguments, 69 if PyTorch or the tool is missing."""
    options = arguments().parse_args(argv)
    others = [options.predict, options.split, options.cost is not None]
    if any(others) and (sum(others) > 1 or options.cases or options.nodes):
        print("benches: --predict, --split and --cost go without each other, --nodes, --cases")
        return 64
    cases = list(CASES) if options.cases is None else options.cases.split(",")
    nodes: int = 2 if options.nodes is None else options.nodes
    if set(cases) - set(CASES) or nodes < 2 or options.rounds < 1:
        print(f"benches: cases are {', '.join(CASES)}; nodes >= 2, rounds >= 1")
        return 64
    host = common.host()
    if host is None:
        return 69
    if options.worker:
        return run.train([Config(**one) for one in json.loads(options.worker)])
    if options.counted:
        return counted.train(options.counted)
    if options.split:
        return _show(options, {"split": cost.split()}, _print_split)
    if options.cost is not None:
        kinds = counted.KINDS if options.cost == "both" else (options.cost,)
        return _show(options, cost.measure(max(options.rounds, 5), kinds), _print_cost)
    tool = options.tool or built_tool()
    if tool is None:
        print("benches: libs/stalls is not here: --tool PROGRAM", file=sys.stderr)
        return 69
    if not options.apart and run.can_throttle():
        command = ["unshare", "--net", sys.executable, "-m", "benches", "stalls", "--apart"]
        return subprocess.run([*command, "--tool", tool, *argv]).returncode
    burn = (os.cpu_count() or 1) >= 2 * nodes if options.burn is None else options.burn
    found: dict[str, Any] = {
        "host": {
            **host,
            "nodes": nodes,
            "rounds": options.rounds,
            "realtime": run.real_time(),
            "links": options.apart,
            "preparation": "computed" if burn else "slept and declared",
        }
    }
    measured = Measured(tool, options.rounds, options.apart)
    if options.predict:
        found["predictions"] = _predict(measured, replace(CASES["nothing"], burn=burn))
        return _show(options, found, _print_predictions)
    rows = []
    for name in cases:
        config = replace(CASES[name], nodes=nodes, burn=burn)
        if config.link and not options.apart:
            continue
        rows.append({"case": name, **_row(measured, config)})
        if not options.json:
            _print_row(rows[-1], first=len(rows) == 1)
    found |= {"rows": rows, "errors": _errors(rows)}
    return _show(options, found, _print_errors)


def _show(options: argparse.Namespace, found: dict[str, Any], words: Any) -> int:
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        words(found)
    return 0


def built_tool() -> Optional[str]:
    """The example program of libs/stalls, built now; None outside of Lacuna's repository."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "libs" / "stalls" / "Cargo.toml").exists() and shutil.which("cargo"):
            command = ["cargo", "build", "--quiet", "--release", "-p", "lacuna-stalls"]
            subprocess.run([*command, "--example", "stalls"], cwd=folder, check=True)
            target = os.environ.get("CARGO_TARGET_DIR", str(folder / "target"))
            return str(Path(target) / "release" / "examples" / "stalls")
    return None


class Measured:
    """Runs of configurations, each of which is done once."""

    def __init__(self, tool: str, rounds: int, apart: bool) -> None:
        self._tool = tool
        self._rounds = rounds
        #: Whether links can be throttled.
        self.apart = apart
        self._known: dict[Config, list[dict[str, Any]]] = {}

    def runs(self, config: Config) -> list[dict[str, Any]]:
        """The reports and step times of all rounds."""
        if config not in self._known:
            rounds = []
            for _ in range(self._rounds):
                with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
                    rounds.append(run.one(config, Path(folder), self.apart))
            self._known[config] = rounds
        return self._known[config]

    def step(self, config: Config) -> float:
        """Median over rounds of the mean step, in seconds."""
        steps: list[float] = [one["step"] for one in self.runs(config)]
        return statistics.median(steps)

    def answers(self, config: Config) -> list[dict[str, Any]]:
        """The answers to all rounds."""
        return [json.loads(self._ask(one["stalls"], "--json")) for one in self.runs(config)]

    def predicted(self, config: Config, *change: str) -> float:
        """Median over rounds of the step with a change."""
        steps = [float(self._ask(one["stalls"], *change)) for one in self.runs(config)]
        return statistics.median(steps)

    def _ask(self, stalls: dict[str, Any], *options: str) -> str:
        done = subprocess.run(
            [self._tool, *options], input=json.dumps(stalls), stdout=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self._tool} ended with {done.returncode}")
        return done.stdout


def _without(config: Config, cause: str) -> Config:
    """The configuration without a cause."""
    fields = {"preparation": "prep", "fetch": "fetch", "link": "link", "straggler": "straggler"}
    made = Config(**{**asdict(config), fields[cause]: 0.0})
    # Configurations that train alike are one, so that they run once.
    return replace(
        made,
        bursts=made.bursts and made.prep > 0.0,
        backward=made.backward and made.straggler > 0.0,
    )


def _row(measured: Measured, config: Config) -> dict[str, Any]:
    step = measured.step(config)
    answers = measured.answers(config)
    found = {
        cause: statistics.median(
            next(c["seconds"] for c in answer["costs"] if c["cause"] == cause) for answer in answers
        )
        for cause in CAUSES
    }
    truth = {}
    for cause in CAUSES:
        other = _without(config, cause)
        truth[cause] = None if other == config else step - measured.step(other)
    memory = _without(_without(config, "preparation"), "fetch")
    # With one member there is no slow one and no link.
    alone = replace(_without(_without(memory, "link"), "straggler"), nodes=1)
    t0, t1 = measured.step(alone), measured.step(memory)
    t3 = measured.step(_without(config, "fetch"))
    named = [None if a["slow"] is None else a["slow"]["rank"] for a in answers]
    return {
        "config": asdict(config),
        "step": step,
        "replayed": statistics.median(answer["replayed"] for answer in answers),
        "trusted": all(answer["trusted"] for answer in answers),
        "truth": truth,
        "found": found,
        "differences": {"link": t1 - t0, "preparation": t3 - t1, "fetch": step - t3},
        "fetch_as_coded": step - (t3 - t1),
        "slow": named,
        "slow_true": config.nodes - 1 if config.straggler else None,
    }


def _errors(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors in per cent of the step, over causes that truly cost something."""
    ours, theirs, absent = [], [], []
    for row in rows:
        for cause in CAUSES:
            truth, found = row["truth"][cause], row["found"][cause]
            if truth is None:
                absent.append(100.0 * found / row["step"])
            elif truth > INJECTED:
                ours.append(100.0 * abs(found - truth) / row["step"])
                if cause in row["differences"]:
                    difference = row["differences"][cause] - truth
                    theirs.append(100.0 * abs(difference) / row["step"])
    replay = [100.0 * abs(row["replayed"] / row["step"] - 1.0) for row in rows]

    def summary(errors: list[float]) -> Optional[dict[str, float]]:
        return (
            {"of": len(errors), "mean": statistics.mean(errors), "worst": max(errors)}
            if errors
            else None
        )

    return {
        "one_run": summary(ours),
        "differences": summary(theirs),
        "replay": summary(replay),
        "not_injected": summary(absent),
        "slow_named": [row["slow"] == [row["slow_true"]] * len(row["slow"]) for row in rows],
    }


def _predict(measured: Measured, base: Config) -> list[dict[str, Any]]:
    """Steps of other links, sizes and loaders, predicted from one run at 2 members each."""
    at = replace(base, link=SLOW)
    loading = replace(base, prep=0.120)
    cases: list[tuple[str, Config, Config, list[str]]] = [
        (f"link x {factor:g}", at, replace(at, link=SLOW * factor), ["--link", str(factor)])
        for factor in (0.5, 2.0, 4.0)
    ]
    cases.append(("4 members", at, replace(at, nodes=4), ["--members", "4"]))
    cases += [
        (f"{n} workers", loading, replace(loading, workers=n), ["--workers", str(n)])
        for n in (2, 3)
    ]
    rows = []
    for name, known, other, change in cases:
        if other.link and not measured.apart:
            continue
        step, found = measured.step(other), measured.predicted(known, *change)
        rows.append({"case": name, "measured": step, "predicted": found})
    return rows


def _print_row(row: dict[str, Any], first: bool) -> None:
    if first:
        print("milliseconds of a step: preparation / fetch / link / straggler")
        print(f"{'injected':<34}{'step':>6}{'replay':>8}  {'truth':<20}{'found':<20}", end="")
        print(f"{'worst':>7}  {'differences':<16}{'fetch coded':>11}  slow")

    def four(numbers: dict[str, Optional[float]]) -> str:
        return "/".join(
            "-" if numbers.get(cause) is None else f"{1e3 * (numbers[cause] or 0.0):.0f}"
            for cause in CAUSES
        )

    known = [c for c in CAUSES if row["truth"][c] is not None]
    worst = max((abs(row["found"][c] - row["truth"][c]) for c in known), default=0.0)
    print(
        f"{row['case']:<34}{1e3 * row['step']:>6.0f}{1e3 * row['replayed']:>8.0f}  "
        f"{four(row['truth']):<20}{four(row['found']):<20}{100 * worst / row['step']:>5.1f} %  "
        f"{four(row['differences']):<16}{1e3 * row['fetch_as_coded']:>11.0f}  {row['slow']}",
        flush=True,
    )


def _print_errors(found: dict[str, Any]) -> None:
    names = {
        "one_run": "one run, replayed",
        "differences": "differences of runs",
        "replay": "replay of the step itself",
        "not_injected": "causes that were not injected",
    }
    print("errors in per cent of a step:")
    for key, name in names.items():
        error = found["errors"][key]
        if error is not None:
            mean, worst = error["mean"], error["worst"]
            print(f"  {name:<32}{error['of']:>4} mean {mean:.1f} worst {worst:.1f}")
    right = found["errors"]["slow_named"]
    print(f"  the slow member, or none, is named right in {sum(right)} of {len(right)} cases")
    print(", ".join(f"{key} {value}" for key, value in found["host"].items()))


def _print_predictions(found: dict[str, Any]) -> None:
    for row in found["predictions"]:
        off = 100.0 * (row["predicted"] / row["measured"] - 1.0)
        print(
            f"{row['case']:<12} measured {1e3 * row['measured']:>7.1f} ms, "
            f"predicted {1e3 * row['predicted']:>7.1f} ms, {off:+.1f} %"
        )
    print(", ".join(f"{key} {value}" for key, value in found["host"].items()))


def _print_split(found: dict[str, Any]) -> None:
    for row in found["split"]:
        print(
            f"computes {1e3 * row['computes']:>3.0f} ms, waits {1e3 * row['waits']:>3.0f} ms: "
            f"found {1e3 * row['prep']:.1f} and {1e3 * row['fetch']:.1f} ms"
        )


def _print_cost(found: dict[str, Any]) -> None:
    for name, micro in found["inside_us"].items():
        print(f"{name:<44}{micro:>8.1f} us")
    print(f"PyTorch {found['torch']}, load {found['load']:.1f} at the begin")
    for row in found["rows"]:
        low, high = row["percent_interval"]
        lower, upper = row["percent_median_interval"]
        least, most = row["processor_percent_interval"]
        print(
            f"{row['kind']}: a step of {1e3 * row['step']:.2f} ms takes {row['percent']:+.2f} % "
            f"(95 %: {low:+.2f} to {high:+.2f}), in the median {row['percent_median']:+.2f} % "
            f"({lower:+.2f} to {upper:+.2f}) longer with readings, processor time "
            f"{row['processor_percent']:+.2f} % ({least:+.2f} to {most:+.2f}); "
            f"inside the added code {1e6 * row['inside']:.0f} us, {row['inside_percent']:.2f} % "
            f"({1e6 * row['inside_processor']:.0f} us of processor time); "
            f"{row['rounds']} alternating rounds of {found['steps']} steps"
        )
