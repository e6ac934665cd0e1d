"""Does a batch that follows the nodes learn as well? A real run of `adascale` beside a fixed batch.

A character transformer is trained by one to four members that come and go, once with the user's
batch cut into shares, once with the user's batch at each member and the learning rate by
`adascale`. Members change at the same progress in both. Loss is compared by progress, in steps of
the user's batch, and the time to the same loss. `--device` adds milliseconds for each window, as a
device would take that the members do not share: without it they share this machine's cores.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

import lacuna
from lacuna.loopback import Loopback

from . import HERE, common

sys.path.insert(0, str(HERE / "examples"))
from char_transformer import Transformer, Windows, generated  # noqa: E402

EPILOG = """examples:
  python3 -m benches.adascale                         three seeds of each, some minutes
  python3 -m benches.adascale --seeds 1 --progress 200 --device 0
"""
#: Members from each part of the progress on.
STAGES = [(0.0, 1), (0.1, 4), (0.35, 2), (0.5, 4), (0.9, 3)]
#: Parts of the progress in which losses are compared.
PARTS = 10


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=3, help="of each (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=4, help="windows (default: %(default)s)")
    parser.add_argument(
        "--progress", type=int, default=600, help="steps of that batch (default: %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate of SGD")
    parser.add_argument(
        "--device", type=float, default=3.0, metavar="MS", help="of a window (%(default)s)"
    )
    parser.add_argument("--rule", default="adascale", help="or linear, sqrt (default: adascale)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    worker = ("KIND", "SEED", "FILE")
    parser.add_argument("--worker", nargs=3, metavar=worker, help=argparse.SUPPRESS)
    return parser


def train(options, kind, seed, file):
    """The program of a member; rank 0 writes a line for each step."""
    torch.set_num_threads(1)
    data = Windows(generated(3000, 1), 16)
    torch.manual_seed(seed)
    model = Transformer(len(data.letters), 32, 4, 1, 16, 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    rule = options.rule if kind == "follows" else "none"
    batch = lacuna.PerNode(options.batch, rule) if kind == "follows" else options.batch
    with lacuna.elastic(
        model, optimizer, batch=batch, seed=seed, noise=True, checkpoint_seconds=None, timeout=20.0
    ) as run:
        for x, y in run.steps(data):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            time.sleep(1e-3 * options.device * len(x))
            if run.step(loss) and run.rank == 0:
                # Other rules have no progress of their own: samples stand for it.
                done = run.progress if options.rule == "adascale" else run.samples / options.batch
                found = run.noise
                row = [done, run.loss, run.world_size, time.time(), found and found.phi]
                with open(file, "a") as log:
                    log.write(json.dumps(row) + "\n")
            done = run.progress if options.rule == "adascale" else run.samples / options.batch
            if done >= options.progress:
                break


def trained(options, kind, seed):
    """Rows of one training: progress, loss, members, time, noise scale."""
    with tempfile.TemporaryDirectory(prefix="lacuna-adascale-") as folder:
        rows = Path(folder) / "rows"
        argv = [sys.executable, "-m", "benches.adascale", "--worker", kind, str(seed), str(rows)]
        for name in ("batch", "progress", "rate", "device", "rule"):
            argv += [f"--{name}", str(getattr(options, name))]
        env = {"PYTHONPATH": common.searched()}
        with Loopback(argv, Path(folder), env=env, hang_after=60.0) as cluster:
            # All programs wait from the beginning: a start takes longer than a part of the run.
            spare = [f"n{i}" for i in range(6)]
            for name in spare:
                cluster.start(name)
            for name in spare:
                cluster.wait_ready(name, 300.0)
            for begin, members in STAGES:
                wanted = begin * options.progress * options.batch

                def reached(wanted=wanted):
                    last = cluster.progress[-1] if cluster.progress else None
                    return wanted == 0.0 or last and last["base"] + last["samples"] >= wanted

                cluster.wait(reached, 900.0, f"{kind}: progress {begin}")
                new = spare[: max(0, members - len(cluster.members))]
                del spare[: len(new)]
                if new:
                    cluster.join(*new)
                while len(cluster.members) > members:
                    cluster.leave(cluster.members[-1])
            for name in list(cluster.members):
                cluster.wait_gone(name, 900.0)
        lines = rows.read_text().splitlines()
    return [json.loads(line) for line in lines]


def by_part(rows, progress):
    """Mean loss in each part of the progress; weighted by what a step is worth."""
    sums = [[0.0, 0.0] for _ in range(PARTS)]
    before = 0.0
    for done, loss, *_ in rows:
        part = min(PARTS - 1, int(PARTS * before / progress))
        sums[part][0] += (done - before) * loss
        sums[part][1] += done - before
        before = done
    return [total / weight if weight > 0.0 else math.nan for total, weight in sums]


def seconds_to(rows, loss, width):
    """Seconds until the mean loss over ``width`` of progress has come down to ``loss``."""
    begin = 0
    for i, row in enumerate(rows):
        while rows[begin][0] < row[0] - width:
            begin += 1
        part = [r[1] for r in rows[begin : i + 1]]
        if row[0] > width and statistics.fmean(part) <= loss:
            return row[3] - rows[0][3]
    return math.nan


def main():
    options = arguments().parse_args()
    if options.worker:
        kind, seed, file = options.worker
        return train(options, kind, int(seed), file)
    found = {"fixed": [], "follows": []}
    for seed in range(1, options.seeds + 1):
        for kind, runs in found.items():
            runs.append(trained(options, kind, seed))
            print(f"seed {seed}, {kind}: {len(runs[-1])} steps", file=sys.stderr, flush=True)
    curves = {
        kind: [by_part(rows, options.progress) for rows in runs] for kind, runs in found.items()
    }
    # Each fixed run comes below what the worst of them has in the part before its last one.
    target = max(curve[-2] for curve in curves["fixed"])
    width = options.progress / PARTS
    times = {
        kind: [seconds_to(rows, target, width) for rows in runs] for kind, runs in found.items()
    }
    table = []
    for part in range(PARTS):
        fixed = [curve[part] for curve in curves["fixed"]]
        follows = [curve[part] for curve in curves["follows"]]
        spread = statistics.stdev(fixed) if len(fixed) > 1 else math.nan
        difference = statistics.fmean(follows) - statistics.fmean(fixed)
        table.append([fixed, follows, difference, spread])
    result = {
        "options": {k: v for k, v in vars(options).items() if k not in ("worker", "json")},
        "steps": {kind: [len(rows) for rows in runs] for kind, runs in found.items()},
        "parts": table,
        "seconds_to_the_fixed_batch's_loss": times,
        "phi_at_the_end": [rows[-1][4] for rows in found["follows"]],
        "load": os.getloadavg()[0],
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    print(f"{'progress':<12}{'fixed batch':<28}{options.rule:<28}{'difference':>11}{'scatter':>9}")
    for part, (fixed, follows, difference, spread) in enumerate(table):
        cells = [" ".join(f"{loss:.3f}" for loss in losses) for losses in (fixed, follows)]
        until = round((part + 1) * options.progress / PARTS)
        print(f"{until:<12}{cells[0]:<28}{cells[1]:<28}{difference:>+11.3f}{spread:>9.3f}")
    for kind in found:
        seconds = " ".join(f"{one:.1f}" for one in times[kind])
        print(f"{kind}: {result['steps'][kind]} steps, {seconds} s to a loss of {target:.3f}")
    print(f"noise scale at the end: {result['phi_at_the_end']}; load {result['load']:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
