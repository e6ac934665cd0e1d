"""Measures loading by worker processes against PyTorch's own: ``python3 -m benches data``.

The same model trains on the same data with the same loader: with DistributedDataParallel and a
DistributedSampler, and with ``run.steps(loader)``. Rounds alternate. A sample takes a fixed time,
in which its worker sleeps, so that loading is the limit and not the cores of this machine. The
figure of a round is the mean time of a step, without the first ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional, Sequence

from . import common

EPILOG = """examples:
  python3 -m benches data                         items of 5 ms, 4 workers, 5 rounds
  python3 -m benches data --item 0 --workers 1    the cost of the loaders themselves
  python3 -m benches data --rounds 9 --json
  python3 -m benches data --kinds ddp,timed --item 0.0005       what `lacuna stalls` costs
"""

#: Steps at the beginning that do not count.
WARM = 10
KINDS = {
    "ddp": "DistributedDataParallel",
    "lacuna": "run.steps(loader)",
    "timed": "DDP, timed from outside",
}
#: Two-sided 95 % of Student's t for many rounds.
NORMAL = 1.96


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    what = "Measures loading by workers, against DistributedDataParallel."
    parser = common.of_members(common.parser("data", what, EPILOG))
    parser.add_argument("--item", type=float, default=0.005, help="seconds of a sample")
    parser.add_argument("--workers", type=int, default=4, help="of each member's loader")
    parser.add_argument("--batch", type=int, default=96, help="samples of a step, of all members")
    parser.add_argument("--steps", type=int, default=100, help="of a round, besides the first ones")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind, in turns")
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--kinds", default="ddp,lacuna", help="in turns (default: %(default)s)")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Prints the table; 64 for wrong arguments, 69 if PyTorch is missing."""
    options = arguments().parse_args(argv)
    kinds = options.kinds.split(",")
    if set(kinds) - set(KINDS) or "ddp" not in kinds:
        print(f"benches: kinds are {', '.join(KINDS)}; ddp is always one of them")
        return 64
    if min(options.nodes, options.rounds, options.steps) < 1 or options.batch % options.nodes:
        print("benches: nodes, rounds, steps >= 1; batch is a multiple of nodes")
        return 64
    host = common.host()
    if host is None:
        return 69
    if options.worker:
        return _train(options)
    rounds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, times in rounds.items():
            with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
                times.append(_round(kind, options, Path(folder)))
    settings = {k: v for k, v in vars(options).items() if k not in ("json", "worker")}
    rows = [_summary(kind, times, rounds["ddp"]) for kind, times in rounds.items()]
    if options.json:
        print(json.dumps({"host": host, "settings": settings, "rows": rows}, indent=2))
    else:
        _print(rows, host, settings)
    return 0


def _summary(kind: str, times: list[float], ddp: list[float]) -> dict[str, Any]:
    return {
        "kind": kind,
        "rounds": len(times),
        "step_median_s": statistics.median(times),
        "step_best_s": min(times),
        "step_worst_s": max(times),
        # Neighbouring rounds have the same load of the machine.
        "of_ddp": statistics.median(d / t for d, t in zip(ddp, times)),
        "slower": _slower(ddp, times),
        "steps_s": times,
    }


def _slower(ddp: list[float], times: list[float]) -> list[float]:
    """How much longer a step takes than with DDP, as a share: the mean, and its 95 % interval."""
    shares = [t / d - 1.0 for d, t in zip(ddp, times)]
    mean = statistics.fmean(shares)
    wide = NORMAL * statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else math.inf
    return [mean, mean - wide, mean + wide]


def _print(rows: list[dict[str, Any]], host: dict[str, Any], settings: dict[str, Any]) -> None:
    print(
        f"{settings['nodes']} members on {host['cores']} cores (load {host['load']:.1f}), torch "
        f"{host['torch']}; {settings['workers']} workers a member, {1e3 * settings['item']:g} ms a "
        f"sample, batch {settings['batch']}, {settings['steps']} steps a round"
    )
    print(
        f"{'loop':<26}{'rounds':>7}{'step':>11}{'best':>11}{'worst':>11}{'rate of DDP':>13}"
        f"{'a step is longer by':>28}"
    )
    for row in rows:
        mean, low, high = row["slower"]
        print(
            f"{KINDS[row['kind']]:<26}{row['rounds']:>7}{row['step_median_s']:>9.4f} s"
            f"{row['step_best_s']:>9.4f} s{row['step_worst_s']:>9.4f} s{row['of_ddp']:>13.3f}"
            f"{100 * mean:>11.2f} % ({100 * low:+.2f} to {100 * high:+.2f})"
        )


def _round(kind: str, options: argparse.Namespace, folder: Path) -> float:
    """The mean time of a step, in seconds."""
    names = ("item", "workers", "nodes", "batch", "steps", "hidden")
    settings = [text for name in names for text in (f"--{name}", str(getattr(options, name)))]
    argv = [sys.executable, "-m", "benches", "data", "--worker", kind, *settings]
    env = common.environment(LACUNA_BENCH_INTO=str(folder))
    if kind == "lacuna":
        common.train(argv, folder, env, options.nodes, 600.0)
    else:
        if kind == "timed":
            from lacuna import outside

            front = folder / "front"
            outside.folder(front)
            env["PYTHONPATH"] = os.pathsep.join((str(front), env["PYTHONPATH"]))
            env["LACUNA_STALLS_INTO"] = str(folder)
        _by_ddp(argv, env, options.nodes)
    times = [float(line) for line in (folder / "times").read_text().split()]
    return (times[-1] - times[WARM]) / (len(times) - 1 - WARM)


def _by_ddp(argv: list[str], env: dict[str, str], nodes: int) -> None:
    _store, ranks = common.ranks(nodes)
    programs = [subprocess.Popen(argv, env={**os.environ, **env, **rank}) for rank in ranks]
    try:
        codes = [program.wait(600.0) for program in programs]
    finally:
        for program in programs:
            program.kill()
    if any(codes):
        raise RuntimeError(f"the programs with DDP ended with {codes}")


class _Items:
    """Samples that take their time."""

    def __init__(self, x: Any, seconds: float) -> None:
        self._x = x
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> Any:
        time.sleep(self._seconds)
        return self._x[index], self._x[index].sin().sum().view(1)


def _train(options: argparse.Namespace) -> int:
    """The program on each node."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler

    torch.manual_seed(1)
    width = options.hidden
    model: nn.Module = nn.Sequential(
        nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )
    data: Any = _Items(torch.randn(options.batch * (options.steps + WARM + 1), 32), options.item)
    times: list[float] = []
    if options.worker != "lacuna":
        import torch.distributed as dist

        dist.init_process_group("gloo")
        rank, size = dist.get_rank(), options.batch // options.nodes
        sampler: Any = DistributedSampler(data, seed=1)
        loader: Any = DataLoader(data, size, sampler=sampler, num_workers=options.workers)
        model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for a, b in loader:
            optimizer.zero_grad()
            (model(a) - b).pow(2).mean().backward()
            optimizer.step()
            times.append(time.monotonic())
    else:
        from lacuna.run import elastic

        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        loader = DataLoader(data, shuffle=True, num_workers=options.workers)
        with elastic(model, optimizer, batch=options.batch, seed=1) as run:
            for a, b in run.steps(loader, epochs=1):
                optimizer.zero_grad()
                loss = (model(a) - b).pow(2).mean()
                loss.backward()
                run.step(loss)
                times.append(time.monotonic())
        rank = run.rank
    if rank == 0:
        into = Path(os.environ["LACUNA_BENCH_INTO"]) / "times"
        into.write_text("\n".join(map(str, times)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
