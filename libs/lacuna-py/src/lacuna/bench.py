"""Measures what a change of members costs: ``python3 -m lacuna.bench``.

A small model is trained by real processes on this machine, with a real store and real gloo
groups; :mod:`lacuna.loopback` takes the place of agents and control. The stall is the longest time
without a completed step around the change, so it contains one ordinary step. A step is lost if
its work was thrown away: it had been applied and was done again, or a survivor had computed its
gradients in vain.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from . import bench_torchft, bench_torchrun, rates
from .bench_torchft import Torchfts
from .bench_torchrun import Torchruns
from .loopback import HANG_AFTER, Loopback

EPILOG = """examples:
  python3 -m lacuna.bench                          all kinds of change, ten times each
  python3 -m lacuna.bench --kinds join,sigkill --times 20 --json
  python3 -m lacuna.bench --nodes 6 --hidden 2048  more members, a larger model
  python3 -m lacuna.bench --workers 2              two workers a node, which come and go together
  python3 -m lacuna.bench --torchrun --times 3     the same changes under torchrun alone
  python3 -m lacuna.bench --torchft                and under torchft (pip install torchft)
  python3 -m lacuna.bench data --help              loading by workers, against DDP
  python3 -m lacuna.bench loaders                  loaders on other nodes, and their prediction
  python3 -m lacuna.bench noise                    cost and errors of the noise scale
  python3 -m lacuna.bench rates                    the rate beside plain DDP; rates --help
  python3 -m lacuna.bench stalls                   injected stalls, and those that are found
  python3 -m lacuna.bench two_stage                tables and dense part apart, beside the plan
"""

#: The kinds of change, and the agent's view of each.
KINDS = {
    "join": "a node joins, its program was ready",
    "leave": "a node is asked to leave, control knows at once",
    "sigterm": "the program of a node gets SIGTERM, control hears of its exit",
    "sigkill": "the program of a node is killed, control hears of its exit",
    "worker": "one worker of a node is killed, the agent ends the others",
    "sigstop": "the program of a node is paused, the group breaks after {timeout:g} s",
}


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lacuna.bench",
        description="Measures the stall of training when its members change.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kinds", help=f"default: {','.join(KINDS)}")
    parser.add_argument(
        "--torchrun",
        action="store_true",
        help=f"the same under torchrun, of kinds {','.join(bench_torchrun.KINDS)}",
    )
    parser.add_argument(
        "--torchft",
        action="store_true",
        help=f"the same under torchft, of kinds {','.join(bench_torchft.KINDS)}",
    )
    parser.add_argument("--times", type=int, default=10, help="of each (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=3, help="nodes (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, default=1, help="workers of a node (default: %(default)s)"
    )
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--batch", type=int, default=96, help="samples of a step")
    parser.add_argument("--hang-after", type=float, default=HANG_AFTER, metavar="SECONDS")
    parser.add_argument(
        "--timeout", type=float, default=2.0, metavar="SECONDS", help="that of lacuna.elastic"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Prints the table; 64 for wrong arguments, 69 if PyTorch is missing."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] == ["data"]:
        from . import bench_data

        return bench_data.main(argv[1:])
    if argv[:1] == ["loaders"]:
        from . import bench_loaders

        return bench_loaders.main(argv[1:])
    if argv[:1] == ["noise"]:
        from . import bench_noise

        return bench_noise.main(argv[1:])
    if argv[:1] == ["rates"]:
        return rates.main(argv[1:])
    if argv[:1] == ["stalls"]:
        from . import bench_stalls

        return bench_stalls.main(argv[1:])
    if argv[:1] == ["two_stage"]:
        from . import bench_two_stage

        return bench_two_stage.main(argv[1:])
    options = arguments().parse_args(argv)
    known = bench_torchrun.KINDS if options.torchrun else KINDS
    known = bench_torchft.KINDS if options.torchft else known
    kinds = list(known) if options.kinds is None else options.kinds.split(",")
    unknown = [kind for kind in kinds if kind not in known]
    if unknown or options.nodes < 2 or options.times < 1 or options.workers < 1:
        print(f"lacuna.bench: kinds are {', '.join(known)}; nodes >= 2, times, workers >= 1")
        return 64
    if options.torchft and options.workers > 1:
        print("lacuna.bench: --torchft measures nodes of one worker")
        return 64
    try:
        import torch

        if options.torchft:
            import torchft  # noqa: F401 - not a part of this package.
    except ImportError as error:
        print(f"lacuna.bench: {error.name} is missing: {error}", file=sys.stderr)
        return 69
    if options.train:
        return _train(options)
    with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
        measure = _measure_others if options.torchrun or options.torchft else _measure
        rows = measure(options, kinds, Path(folder))
    host = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "nodes": options.nodes,
        "workers": options.workers,
        "hidden": options.hidden,
        "batch": options.batch,
    }
    if options.json:
        print(json.dumps({"host": host, "rows": rows}, indent=2))
    else:
        _print(rows, host, {kind: known[kind].format(timeout=options.timeout) for kind in kinds})
    return 0


def _measure(options: argparse.Namespace, kinds: list[str], folder: Path) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", *_module(options)]
    env = _environment(folder)
    with Loopback(
        argv, folder, env=env, hang_after=options.hang_after, workers=options.workers
    ) as cluster:
        count = options.nodes
        names = [f"n{i:04d}" for i in range(count)]
        for name in names:
            cluster.start(name)
        cluster.join(*names)
        _settle(cluster)

        def spare() -> str:
            nonlocal count
            name = f"n{count:04d}"
            count += 1
            cluster.start(name)
            cluster.wait_ready(name)
            return name

        def once(kind: str, place: int) -> dict[str, Any]:
            name = spare()
            if kind == "join":
                trial = _trial(cluster, folder, lambda: cluster.join(name))
                _without(cluster, cluster.members[0])
                return trial
            victim = cluster.members[place]
            trial = _trial(cluster, folder, lambda: _change(cluster, kind, victim))
            cluster.wait_gone(victim)
            cluster.join(name)
            _settle(cluster)
            return trial

        # Rank 0, which reports and saves, is the one in turn with the last rank.
        return [
            _summary(kind, [once(kind, -(i % 2)) for i in range(options.times)]) for kind in kinds
        ]


def _measure_others(
    options: argparse.Namespace, kinds: list[str], folder: Path
) -> list[dict[str, Any]]:
    env = _environment(folder)

    def settle(members: int, since: float) -> None:
        end = time.monotonic() + 300.0
        while time.monotonic() < end:
            lines = [line for line in _log(folder) if line["t"] > since and line["ok"]]
            newest = lines[-1]["run"] if lines else None
            steps = {line["step"] for line in lines if line["run"] == newest}
            if len(steps) >= 15 and lines[-1]["members"] == members:
                return
            time.sleep(0.2)
        raise TimeoutError(f"{members} members did not train together; see {folder}")

    with Loopback([], folder, env=env) as stores:
        make = Torchfts if options.torchft else Torchruns
        agents = make(_module(options), folder, env, stores.store_port, options.workers)

        def once(kind: str, place: int) -> dict[str, Any]:
            agents.restore(options.nodes)
            settle(options.nodes * options.workers, time.time())
            return _judged(folder, agents.trial(kind, place, settle))

        try:
            return [
                _summary(kind, [once(kind, -(i % 2)) for i in range(options.times)])
                for kind in kinds
            ]
        finally:
            agents.close()


def _module(options: argparse.Namespace) -> list[str]:
    """The program of each member, as arguments of ``python3 -m``."""
    module = ["lacuna.bench", "--train", "--hidden", str(options.hidden)]
    module += ["--torchft"] if options.torchft else []
    return [*module, "--batch", str(options.batch), "--timeout", str(options.timeout)]


def _environment(folder: Path) -> dict[str, str]:
    source = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)
    return {"LACUNA_STEP_LOG": str(folder), "PYTHONPATH": path}


def _change(cluster: Loopback, kind: str, victim: str) -> None:
    if kind == "leave":
        cluster.leave(victim)
    elif kind == "worker":
        cluster.signal(victim, signal.SIGKILL, local_rank=0)
    else:
        number = {
            "sigterm": signal.SIGTERM,
            "sigkill": signal.SIGKILL,
            "sigstop": signal.SIGSTOP,
        }[kind]
        cluster.signal(victim, number)


def _without(cluster: Loopback, name: str) -> None:
    cluster.leave(name)
    cluster.wait_gone(name)
    _settle(cluster)


def _settle(cluster: Loopback, steps: int = 15) -> None:
    """Waits until the newest run has done some steps."""
    cluster.wait_together()
    cluster.wait_step(cluster.progress[-1]["step"] + steps)


def _trial(cluster: Loopback, folder: Path, change: Callable[[], None]) -> dict[str, Any]:
    run = cluster.run
    began = time.time()
    change()
    cluster.wait(lambda: cluster.run > run, 60.0, "control has opened a new run")
    _settle(cluster)
    return _judged(folder, began)


def _judged(folder: Path, began: float) -> dict[str, Any]:
    """The stall and the lost steps of a change at a time, from the logs."""
    lines = [line for line in _log(folder) if line["t"] > began - 1.0]
    times = sorted({line["step"]: line["t"] for line in reversed(lines) if line["ok"]}.values())
    gaps = [(b - a, a, b) for a, b in zip(times, times[1:])]
    around = [gap for gap, _, end in gaps if end > began]
    usual = [gap for gap, _, end in gaps if end <= began]
    applied: dict[int, set[int]] = {}
    for line in lines:
        if line["ok"]:
            applied.setdefault(line["step"], set()).add(line["run"])
    lost = {step for step, runs in applied.items() if len(runs) > 1}
    lost |= {line["step"] for line in lines if not line["ok"]}
    step = statistics.median(usual) if usual else 0.0
    return {"stall": max(around), "step": step, "lost": len(lost)}


def _log(folder: Path) -> list[dict[str, Any]]:
    lines = []
    for path in folder.glob("*.steps"):
        for line in path.read_text().splitlines():
            if line.endswith("}"):
                lines.append(json.loads(line))
    return sorted(lines, key=lambda line: float(line["t"]))


def _summary(kind: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
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
        "stalls_s": stalls,
    }


def _print(rows: list[dict[str, Any]], host: dict[str, Any], words: dict[str, str]) -> None:
    print(
        f"{host['nodes']} nodes of {host['workers']} workers on {host['cores']} cores "
        f"(load {host['load']:.1f}), "
        f"torch {host['torch']}, hidden {host['hidden']}, batch {host['batch']}"
    )
    print(f"{'change':<9}{'times':>6}{'stall':>9}{'quartiles':>17}{'worst':>9}{'step':>9}", end="")
    print(f"{'lost steps':>12}{'worst':>7}")
    for row in rows:
        low, high = row["stall_quartiles_s"] or (row["stall_median_s"],) * 2
        print(
            f"{row['kind']:<9}{row['times']:>6}{row['stall_median_s']:>7.3f} s"
            f"{low:>8.3f}-{high:.3f} s{row['stall_worst_s']:>7.3f} s"
            f"{row['step_median_s']:>7.3f} s{row['lost_steps_median']:>12g}"
            f"{row['lost_steps_worst']:>7}"
        )
    for row in rows:
        print(f"{row['kind']}: {words[row['kind']]}")


def _work(width: int) -> tuple[Any, Any, Any, Any]:
    """The model, the optimiser and the samples."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )
    x = torch.randn(8192, 32)
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), x, x.sin().sum(1, keepdim=True)


def _train(options: argparse.Namespace) -> int:
    """The program on each node."""
    from .run import elastic

    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    model, optimizer, x, y = _work(options.hidden)
    if options.torchft:
        bench_torchft.train(options, model, optimizer, x, y)
    # Torchrun numbers no runs, but each meeting of its members has a port of its own.
    port = int(os.environ.get("MASTER_PORT", "0"))
    path = os.path.join(os.environ["LACUNA_STEP_LOG"], f"{os.environ['LACUNA_NODE']}.steps")
    with (
        open(path, "a", buffering=1) as log,
        elastic(model, optimizer, batch=options.batch, seed=1, timeout=options.timeout) as run,
    ):
        for a, b in run.steps((x, y)):
            optimizer.zero_grad()
            loss = (model(a) - b).pow(2).mean()
            loss.backward()
            applied = run.step(loss)
            step = run.steps_done if applied else run.steps_done + 1
            line = {"step": step, "ok": applied, "run": run.run_id or port, "t": time.time()}
            log.write(json.dumps({**line, "members": run.world_size}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
