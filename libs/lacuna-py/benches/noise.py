"""Measures what the noise scale costs and how right it is: ``python3 -m benches noise``.

Members train a model of :mod:`benches.rates` over loopback, the fastest link there is. Blocks of
steps with and without the measurement take turns within one run. Two figures say what it costs:
the time inside the added code, and the difference of the blocks with its 95 % interval. Both count
processor time, since other programs share the machine; a step's time beside them is that of the
clock. Then gradients with a known truth are drawn for even and uneven shares.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Sequence

from . import common

EPILOG = """examples:
  python3 -m benches noise                      two members, two models, and the draws
  python3 -m benches noise --sizes 1,10 --blocks 20      as in BENCHMARKS.md, for an idle machine
  python3 -m benches noise --models transformer --nodes 4 --json
"""

#: Models, by name and millions of parameters, and samples of a member in a step.
MODELS = [("mlp", 1), ("transformer", 1), ("transformer", 10)]
BATCH = {"mlp": 64, "transformer": 8}
#: Shares of the draws, and draws.
SHARES = [(16, 16, 16, 16), (8, 8, 16, 32), (1, 3, 20, 40), (32, 32)]
DRAWS = 4000
#: Steps of a block: a whole number of measured steps.
BLOCK = 16
#: Two-sided 95 % of Student's t for many blocks.
NORMAL = 1.96


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    what = "Measures the cost and the errors of the gradient's noise scale."
    parser = common.of_members(common.parser("noise", what, EPILOG))
    parser.add_argument("--models", help="mlp, transformer (default: both)")
    parser.add_argument("--sizes", default="1", help="million parameters: 1,10 (default: 1)")
    parser.add_argument(
        "--blocks", type=int, default=8, help="pairs of blocks (default: %(default)s)"
    )
    parser.add_argument("--adam", action="store_true", help="AdamW and its geometry, not SGD")
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints the tables; 64 for wrong arguments, 69 if PyTorch is missing."""
    options = arguments().parse_args(argv)
    names = options.models.split(",") if options.models else list(BATCH)
    sizes = options.sizes.split(",")
    chosen = [one for one in MODELS if one[0] in names and str(one[1]) in sizes]
    if options.nodes < 2 or options.blocks < 2 or not chosen:
        print("benches: nodes and blocks >= 2; models mlp (1) and transformer (1, 10)")
        return 64
    host = common.host()
    if host is None:
        return 69
    if options.worker:
        name, size = options.worker.split(":")
        return _train(options, name, int(size))
    costs = [_measured(options, name, size) for name, size in chosen]
    draws = [_drawn(shares) for shares in SHARES]
    host |= {"members": options.nodes, "geometry": "adam" if options.adam else "sgd"}
    if options.json:
        print(json.dumps({"host": host, "costs": costs, "draws": draws}, indent=2))
    else:
        _print(costs, draws)
        print(", ".join(f"{key} {value}" for key, value in host.items()))
    return 0


def _measured(options: argparse.Namespace, name: str, size: int) -> dict[str, Any]:
    argv = [sys.executable, "-m", "benches", "noise", "--worker", f"{name}:{size}"]
    argv += ["--nodes", str(options.nodes), "--blocks", str(options.blocks)]
    argv += ["--adam"] if options.adam else []
    with tempfile.TemporaryDirectory(prefix="lacuna-noise-") as folder:
        into = Path(folder) / "result.json"
        env = common.environment(LACUNA_NOISE=str(into))
        common.train(argv, Path(folder), env, options.nodes, 900.0)
        found: dict[str, Any] = json.loads(into.read_text())
    return {"model": name, "million_parameters": size, **found}


def _print(costs: list[dict[str, Any]], draws: list[dict[str, Any]]) -> None:
    print(f"{'model':<16}{'step':>10}{'its CPU':>10}{'inside':>10}{'of CPU':>9}", end="")
    print(f"{'blocks differ by':>26}{'phi':>9}{'error':>8}")
    for row in costs:
        low, high = row["difference_95"]
        print(
            f"{row['model']:<12}{row['million_parameters']:>2} M"
            f"{1e3 * row['step_s']:>7.1f} ms{1e3 * row['step_cpu_s']:>7.1f} ms"
            f"{1e3 * row['inside_s']:>7.3f} ms{100 * row['inside_share']:>7.2f} %"
            f"{100 * row['difference']:>8.2f} % ({100 * low:+.2f} to {100 * high:+.2f})"
            f"{row['phi']:>9.2f}{100 * row['error']:>6.0f} %"
        )
    print()
    print(f"{'shares':<16}{'trace':>20}{'square':>20}{'plain: trace':>14}{'square':>9}")
    for row in draws:
        print(f"{','.join(map(str, row['shares'])):<16}", end="")
        for key in ("trace", "square"):
            print(f"{row[key]:>12.3f} +- {row[key + '_error']:.3f}", end="")
        print(f"{row['plain_trace']:>14.2f}{row['plain_square']:>9.2f}")


def _drawn(shares: tuple[int, ...]) -> dict[str, Any]:
    """Means over draws of 50 numbers, in units of the truth."""
    import torch

    from lacuna.noise import Sample

    dice = torch.Generator().manual_seed(1)
    true = torch.randn(50, generator=dice, dtype=torch.float64)
    sizes = torch.tensor(shares, dtype=torch.float64)
    weights, total = sizes / sizes.sum(), sum(shares)
    trace, square = 50 * 9.0, true.pow(2).sum().item()
    rows: list[list[float]] = []
    for _ in range(DRAWS):
        noise = torch.randn(len(shares), 50, generator=dice, dtype=torch.float64)
        gradients = true + 3.0 * noise / sizes.sqrt()[:, None]
        norms = gradients.pow(2).sum(1)
        whole = (weights[:, None] * gradients).sum(0).pow(2).sum().item()
        found = Sample(len(shares), total, (weights * norms).sum().item(), whole)
        plain = Sample(len(shares), total, norms.mean().item(), whole)
        row = [found.trace() / trace, found.square() / square]
        rows.append([*row, plain.trace() / trace, plain.square() / square])
    means = [statistics.fmean(column) for column in zip(*rows)]
    errors = [statistics.stdev(column) / math.sqrt(DRAWS) for column in zip(*rows)]
    return {
        "shares": list(shares),
        "trace": means[0],
        "trace_error": errors[0],
        "square": means[1],
        "square_error": errors[1],
        "plain_trace": means[2],
        "plain_square": means[3],
    }


class _Watch:
    """Processor seconds inside some functions, without those that they call of the same list."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def around(self, owner: Any, name: str) -> None:
        """Counts a method of a class."""
        inner: Callable[..., Any] = getattr(owner, name)

        def outer(*arguments: Any, **named: Any) -> Any:
            self._depth += 1
            began = time.thread_time()
            try:
                return inner(*arguments, **named)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.thread_time() - began

        setattr(owner, name, outer)


def _train(options: argparse.Namespace, name: str, size: int) -> int:
    """The program of a member."""
    import torch
    from torch import nn

    from lacuna import learning, norms
    from lacuna.run import elastic

    from .rates import _build

    torch.set_num_threads(1)
    watch = _Watch()
    for method in ("of_bucket", "of_momentum", "refresh"):
        watch.around(norms.Norms, method)
    for method in ("numbers", "agreed", "applies", "keep", "norms"):
        watch.around(learning.Learning, method)
    model, data = _build(name, size)
    if options.adam:
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    batch = options.nodes * BATCH[name]
    # Of the clock, of the processor, inside; blocks with the measurement are the even ones.
    rows: list[tuple[float, float, float]] = []
    with elastic(model, optimizer, batch=batch, noise=True, timeout=60.0) as run:
        state = run._line.learning
        began, cpu = time.perf_counter(), time.process_time()
        for x, y in run.steps(data):
            optimizer.zero_grad()
            loss = loss_of(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            run.step(loss)
            now, used = time.perf_counter(), time.process_time()
            rows.append((now - began, used - cpu, watch.seconds))
            began, cpu, watch.seconds = now, used, 0.0
            # All members switch at the same step, and measure each step at first.
            done = run.steps_done - learning.FIRST
            if done >= 2 * BLOCK * (options.blocks + 1):
                break
            if done >= 0:
                state.measures = (done // BLOCK) % 2 == 0
        found = state._noise.estimate(batch)
    if run.rank == 0:
        Path(os.environ["LACUNA_NOISE"]).write_text(json.dumps(_summary(rows, found)))
    return 0


def _summary(rows: list[tuple[float, float, float]], found: Any) -> dict[str, Any]:
    from lacuna.learning import FIRST

    # The first pair of blocks warms up.
    rows = rows[FIRST + 2 * BLOCK :]
    blocks = [rows[i : i + BLOCK] for i in range(0, len(rows) - BLOCK + 1, BLOCK)]
    cpu = [sum(row[1] for row in block) / BLOCK for block in blocks]
    # Pairs in both orders, so that a drift of the machine's speed cancels.
    differences = []
    for i in range(1, len(cpu) - 1):
        beside = (cpu[i - 1] + cpu[i + 1]) / 2.0
        differences.append((cpu[i] / beside - 1.0) * (1.0 if i % 2 == 0 else -1.0))
    mean = statistics.fmean(differences)
    # Neighbours share a block.
    wide = NORMAL * statistics.stdev(differences) / math.sqrt(len(differences) / 2.0)
    off = [row for block in blocks[1::2] for row in block]
    inside = [row[2] for block in blocks[::2] for row in block]
    step_cpu = statistics.fmean(row[1] for row in off)
    return {
        "step_s": statistics.median(row[0] for row in off),
        "step_cpu_s": step_cpu,
        "inside_s": statistics.fmean(inside),
        "inside_share": statistics.fmean(inside) / step_cpu,
        "difference": mean,
        "difference_95": [mean - wide, mean + wide],
        "phi": found.phi if found else math.nan,
        "error": found.error if found else math.nan,
    }
