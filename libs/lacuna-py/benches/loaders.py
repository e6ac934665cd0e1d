"""Measures remote loaders against the stall model: ``python3 -m benches loaders``.

One member trains, with its own workers and 0, 1, 2 and 4 loaders beside. A sample takes a fixed
time, in which its reader sleeps, so that loading is the limit and not the cores of this machine.
The prediction comes from the run without loaders: its recorded steps, with the times of
preparation and fetching that they measured, are replayed with more workers (``libs/stalls``).
At last a loader is killed in the middle of an epoch, and each sample of the epoch is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Sequence

from lacuna.loopback import Loopback

from . import common
from .stalls import built_tool

EPILOG = """examples:
  python3 -m benches loaders                        0, 1, 2 and 4 loaders, one worker beside
  python3 -m benches loaders --workers 0            the program itself reads, or loaders do
  python3 -m benches loaders --counts 0,3 --rounds 5 --json
"""

#: Steps with all loaders that do not count.
WARM = 12


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches loaders",
        description="Measures loaders on other nodes, against the prediction without them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--counts", default="0,1,2,4", help="loaders (default: %(default)s)")
    parser.add_argument("--item", type=float, default=0.010, help="seconds of a sample")
    parser.add_argument("--device", type=float, default=0.020, help="seconds of a step's device")
    parser.add_argument("--batch", type=int, default=16, help="samples of a step")
    parser.add_argument("--workers", type=int, default=1, help="of the member's own loader")
    parser.add_argument("--steps", type=int, default=60, help="of a run, besides the first ones")
    parser.add_argument("--rounds", type=int, default=1, help="of each count, in turns")
    parser.add_argument("--tool", help="the program of libs/stalls (default: built by cargo)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--train", type=int, metavar="LOADERS", help=argparse.SUPPRESS)
    parser.add_argument("--epoch", type=int, default=0, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints the table; 64 for wrong arguments, 69 if PyTorch or the tool is missing."""
    options = arguments().parse_args(argv)
    counts = [int(text) for text in options.counts.split(",") if text.isdecimal()]
    if 0 not in counts or min(options.rounds, options.steps, options.batch) < 1:
        print("benches: counts contain 0; rounds, steps, batch >= 1", file=sys.stderr)
        return 64
    try:
        import torch
    except ImportError as error:
        print(f"benches: PyTorch is missing: {error}", file=sys.stderr)
        return 69
    if options.train is not None:
        return _train(options)
    tool = options.tool or built_tool()
    if tool is None:
        print("benches: libs/stalls is not here: --tool PROGRAM", file=sys.stderr)
        return 69
    runs: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
    for _ in range(options.rounds):
        for count, found in runs.items():
            found.append(_run(options, count))
    base = [one["stalls"] for one in runs[0]]
    rows = []
    for count, found in runs.items():
        step = statistics.median(one["step"] for one in found)
        own = [one["stalls"] for one in found]
        has = options.workers + count
        predicted = _replayed(tool, base, has) if count else None
        row = {"loaders": count, "step_s": step, "samples_s": options.batch / step}
        row |= {"predicted_samples_s": predicted and options.batch / predicted}
        row |= {"one_more": _replayed(tool, own, has) / _replayed(tool, own, has + 1) - 1.0}
        rows.append(row | {"steps_s": [one["step"] for one in found]})
    result = {
        "host": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
        },
        "settings": {k: v for k, v in vars(options).items() if k not in ("json", "train", "epoch")},
        "rows": rows,
        "killed": [_kill(options) for _ in range(options.rounds)],
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    host, settings = result["host"], result["settings"]
    print(
        f"one member with {settings['workers']} workers on {host['cores']} cores (load "
        f"{host['load']:.1f}), torch {host['torch']}; {1e3 * settings['item']:g} ms a sample, "
        f"batch {settings['batch']}, {1e3 * settings['device']:g} ms of device, "
        f"{settings['steps']} steps, {settings['rounds']} rounds"
    )
    columns = ("step", "samples/s", "predicted", "off", "one more")
    print("loaders  " + "".join(f"{name:>11}" for name in columns))
    for row in result["rows"]:
        predicted, off = "", ""
        if row["predicted_samples_s"]:
            predicted = f"{row['predicted_samples_s']:.1f}"
            off = f"{100.0 * (row['predicted_samples_s'] / row['samples_s'] - 1.0):+.1f} %"
        print(
            f"{row['loaders']:<9}{1e3 * row['step_s']:>8.1f} ms{row['samples_s']:>11.1f}"
            f"{predicted:>11}{off:>11}{100.0 * row['one_more']:>+9.1f} %"
        )
    for one in result["killed"]:
        print(
            f"one of two loaders killed in mid-epoch: {one['samples']} samples, "
            f"{one['lost']} lost, {one['twice']} twice; "
            f"longest step {1e3 * one['longest_s']:.0f} ms, before "
            f"{1e3 * one['before_s']:.0f} ms, after {1e3 * one['after_s']:.0f} ms"
        )


def _replayed(tool: str, stalls: list[dict[str, Any]], workers: int) -> float:
    """Median over rounds of the step with a number of workers, in seconds."""
    steps = []
    for one in stalls:
        # A replay without a change needs no number of workers.
        change = [] if workers == one["workers"] == 0 else ["--workers", str(workers)]
        command = [tool, *change] if change else [tool, "--members", "1"]
        done = subprocess.run(
            command, input=json.dumps(one), stdout=subprocess.PIPE, text=True, check=True
        )
        steps.append(float(done.stdout))
    return statistics.median(steps)


@contextmanager
def _training(options: argparse.Namespace, loaders: int, epoch: int) -> Iterator[Any]:
    """A member that trains with some loaders: its cluster, folder, and the loaders."""
    with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as name:
        folder = Path(name)
        names = ("item", "device", "batch", "workers", "steps")
        settings = [text for one in names for text in (f"--{one}", str(getattr(options, one)))]
        argv = [sys.executable, "-m", "benches", "loaders", "--train", str(loaders)]
        argv += [*settings, "--epoch", str(epoch)]
        join = str(folder / "loaders.json")
        env = {"PYTHONPATH": common.searched(), "LACUNA_LOADERS": join, "LACUNA_BENCH_INTO": name}
        command = [sys.executable, "-m", "lacuna.loader", "--join", join, "--processes", "1", "--"]
        processes = []
        with open(folder / "loaders.out", "ab") as output:
            for _ in range(loaders):
                processes.append(
                    subprocess.Popen(
                        [*command, *argv],
                        env={**os.environ, **env},
                        stderr=output,
                        start_new_session=True,
                    )
                )
        try:
            with Loopback(argv, folder, env=env) as cluster:
                cluster.start("n1")
                cluster.join("n1")
                yield cluster, folder, processes
        finally:
            for process in processes:
                _kill_group(process)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _end(cluster: Loopback, folder: Path) -> list[list[Any]]:
    """The steps of a member that has ended: moments, loaders, indices."""
    if cluster.wait_gone("n1", 600.0) != 0:
        raise RuntimeError(cluster.words("n1") + (folder / "loaders.out").read_text()[-2000:])
    return [json.loads(line) for line in (folder / "steps").read_text().splitlines()]


def _run(options: argparse.Namespace, loaders: int) -> dict[str, Any]:
    """The mean step with all loaders, and the member's report of its steps."""
    with _training(options, loaders, 0) as (cluster, folder, _):
        steps = _end(cluster, folder)
        times = [moment for moment, found, _ in steps if found == loaders][WARM:]
        stalls = json.loads((folder / "stalls").read_text())
    return {"step": (times[-1] - times[0]) / (len(times) - 1), "stalls": stalls}


def _kill(options: argparse.Namespace) -> dict[str, Any]:
    """Kills one of two loaders in the middle of an epoch."""
    epoch = 2 * options.steps + 5
    with _training(options, 2, epoch) as (cluster, folder, processes):
        log = folder / "steps"
        while not log.exists() or len(log.read_text().splitlines()) < epoch // 2:
            if cluster.nodes["n1"].gone:
                break
            time.sleep(0.01)
        killed = time.time()
        _kill_group(processes[0])
        steps = _end(cluster, folder)
    used = Counter(index for *_, indices in steps for index in indices)
    times = [moment for moment, *_ in steps]
    pairs = [(begin, end - begin) for begin, end in zip(times, times[1:])]
    before = [seconds for begin, seconds in pairs[WARM:] if begin + seconds < killed]
    after = [seconds for begin, seconds in pairs if begin + seconds >= killed]
    samples = epoch * options.batch
    return {
        "samples": samples,
        "lost": samples - len(used),
        "twice": sum(count > 1 for count in used.values()),
        "loaders_before": max(found for _, found, _ in steps),
        "longest_s": max(after),
        "before_s": statistics.median(before),
        "after_s": statistics.median(after[len(after) // 2 :]),
    }


class _Items:
    """Samples that take their time."""

    def __init__(self, length: int, seconds: float) -> None:
        self._length = length
        self._seconds = seconds

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        import torch

        time.sleep(self._seconds)
        return torch.full((8,), float(index)), index


def _train(options: argparse.Namespace) -> int:
    """The program of the member, and of its loaders."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    from lacuna.run import elastic

    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    length = options.batch * (options.epoch or 100_000)
    loader: Any = DataLoader(
        _Items(length, options.item),
        shuffle=True,
        num_workers=options.workers,  # type: ignore
    )
    into = Path(os.environ["LACUNA_BENCH_INTO"])
    with elastic(model, optimizer, batch=options.batch, seed=1) as run:
        log, whole = None, 0
        for x, index in run.steps(loader, epochs=1):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            time.sleep(options.device)
            if run.step(loss):
                log = log or open(into / "steps", "a", buffering=1)
                log.write(json.dumps([time.time(), run.loaders, index.tolist()]) + "\n")
                whole += run.loaders == options.train
            if not options.epoch and whole == options.steps + WARM:
                break
        (into / "stalls").write_text(json.dumps(run.stalls))
    return 0
