"""Two trainings planned by what they learn: ``python3 -m benches goodput``.

They are real ones, under the services of ``lacuna up``. Both train the same small network by
``regroup`` on four nodes that they share, with the rule ``adascale`` and a batch that the program
chooses within the same bounds. Their steps take equally long, so their samples a second rise alike
with the nodes. One is at its beginning, and stays there by a small learning rate: its gradient is
hardly noise, and a larger batch teaches little more. The other one has classes that are hard to
tell apart, as a training has that is further on, and its gradient is mostly noise. So an objective
that sees samples alone shares the nodes evenly, and ``goodput`` gives more of them to the second
one, which then trains with a larger batch.

Everything is real but the device, which sleeps: programs, noise scales, control's table of
learning, and plans. What is learnt is counted as the programs count it, in samples of their users'
batches, over the same seconds for both.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Sequence

from . import common
from .up import Up, until

EXAMPLES = """examples:
  python3 -m benches goodput                      both objectives, some six minutes
  python3 -m benches goodput --objectives goodput --lacuna target/release/lacuna
"""

#: By trainer: learning rate, and how far the two classes of its points are apart.
TRAINERS = {"beginning": "1e-5,3.0", "further-on": "0.01,0.02"}
NODES = ("a1", "a2", "a3", "a4")
#: The batch that the user asks for, and the largest one.
BATCH, MOST = 16, 1024
#: Seconds of the emulated device in a step, and for each sample.
FIXED, SAMPLE = 0.250, 0.002
#: Samples a second on 1, 2, ... nodes, as the file of a trainer says them.
CURVE = (100.0, 190.0, 270.0, 340.0)
#: Seconds for which an objective is watched at most, between two looks, and for which is counted.
LIMIT, LOOK, COUNTED = 400.0, 2.0, 40.0
#: Looks in a row at which nodes stay where they are, before it is counted.
SETTLED = 40


def main(argv: Sequence[str]) -> int:
    """Prints what came of it; 64 for wrong arguments, 69 if something is missing."""
    parser = common.parser("goodput", "Two real trainings, planned by learning.", EXAMPLES)
    parser.add_argument("--objectives", default="scaling-efficiency,goodput")
    parser.add_argument("--lacuna", help="the program (default: of target/release, else of PATH)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    host = common.host()
    if host is None:
        return 69
    if options.worker:
        return _train(*map(float, options.worker.split(",")))
    program = Up.program(options.lacuna)
    if program is None:
        return 69
    found = {}
    for objective in options.objectives.split(","):
        with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
            found[objective] = _watched(program, objective, Path(folder))
    if options.json:
        print(json.dumps({"host": host, "objectives": found}, indent=2))
        return 0
    for objective, trainers in found.items():
        print(f"objective {objective}:")
        for name, trainer in trainers.items():
            print(
                f"  {name:<10} {trainer['nodes']} nodes, batch {trainer['batch']}, noise scale "
                f"{trainer['noise_scale']:.0f} samples; learns {trainer['learns']:.0f} samples of "
                f"its user's batch a second; by nodes it would "
                + ", ".join(f"{size['rate']:.0f} ({size['batch']})" for size in trainer["sizes"])
            )
    print(", ".join(f"{key} {value}" for key, value in host.items()))
    return 0


def _watched(program: str, objective: str, folder: Path) -> dict[str, Any]:
    """What the trainers have, and learn, when the plan has settled."""
    with Up(program, folder, f'[planner]\nobjective = "{objective}"\n') as up:
        lacuna = up.lacuna
        submit = folder / "trainers.toml"
        submit.write_text("\n".join(_spec(*trainer) for trainer in TRAINERS.items()))
        lacuna("submit", str(submit))

        def look() -> dict[str, Any]:
            return {name: _seen(lacuna("explain", name, "--json")) for name in TRAINERS}

        # First one node each: from two shares of a batch it is known what a sample costs.
        lacuna("events", "publish", "node.idle", *NODES[:2])
        tabled = lambda: all(one["sizes"] for one in look().values())  # noqa: E731
        until(tabled, LIMIT, "control knows no goodput", LOOK)
        lacuna("events", "publish", "node.idle", *NODES[2:])
        seen: list[Any] = []

        def settled() -> bool:
            trainers = look()
            known = all(one["sizes"] for one in trainers.values())
            seen.append([one["nodes"] for one in trainers.values()] if known else None)
            newest = seen[-SETTLED:]
            return known and len(newest) == SETTLED and all(one == newest[0] for one in newest)

        until(settled, LIMIT, "the plan does not settle", LOOK)
        before, began = look(), time.monotonic()
        time.sleep(COUNTED)
        after, seconds = look(), time.monotonic() - began
        for name, one in after.items():
            one["learns"] = (one["samples"] - before[name]["samples"]) / seconds
        return after


def _spec(name: str, learns: str) -> str:
    arguments = json.dumps(["-m", "benches", "goodput", "--worker", learns])
    env = ", ".join(f"{k} = {json.dumps(v)}" for k, v in common.environment().items())
    return f"""
[[trainer]]
name = "{name}"
launcher = "regroup"
program = {json.dumps(sys.executable)}
arguments = {arguments}
environment = {{ {env} }}
samples = 1e12
min_nodes = 1
max_nodes = {len(NODES)}
scaling = {{ nodes = {[n + 1 for n in range(len(NODES))]}, samples_per_s = {list(CURVE)} }}
rescale = {{ up = "0.2s", down = "0.2s" }}
"""


def _seen(text: str) -> dict[str, Any]:
    found = json.loads(text)
    learning, row = found["learning"] or {}, found["trainer"] or {}
    return {
        "nodes": len(row.get("nodes", [])),
        "samples": row.get("samples", 0.0),
        "batch": learning.get("batch"),
        "noise_scale": learning.get("noise_scale", 0.0),
        "error": learning.get("error"),
        "sizes": (found["goodput"] or {}).get("sizes", []),
    }


def _train(rate: float, apart: float) -> int:
    """The program of a trainer."""
    import torch
    from torch import nn
    from torch.nn import functional

    from lacuna.policy import Adaptive
    from lacuna.run import elastic

    torch.manual_seed(1)
    torch.set_num_threads(1)
    # Two classes of points that overlap.
    y = torch.randint(2, (16_384,))
    x = torch.randn(len(y), 16) + y[:, None] * apart
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    batch = Adaptive(BATCH, MOST, "adascale")
    with elastic(model, optimizer, batch=batch, seed=1, timeout=10.0) as run:
        for points, classes in run.steps((x, y)):
            began = time.monotonic()
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(points), classes)
            device = FIXED + SAMPLE * len(points)
            time.sleep(max(device - (time.monotonic() - began), 0.0))
            loss.backward()
            run.step(loss)
    return 0
