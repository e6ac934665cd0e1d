"""Measures what a change of members costs: ``python3 -m benches``.

A small model is trained by real processes on this machine, with a real store and real gloo
groups; :mod:`lacuna.loopback` takes the place of agents and control. The stall is the longest time
without a completed step around the change, so it contains one ordinary step. A step is lost if
its work was thrown away: it had been applied and was done again, or a survivor had computed its
gradients in vain. The state itself counts how often each sample was used.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence

from lacuna.loopback import HANG_AFTER, Loopback

from . import common, torchft, torchrun
from .log import Log, show, summary
from .torchft import Torchfts
from .torchrun import Torchruns

EPILOG = """examples:
  python3 -m benches                          all kinds of change, ten times each
  python3 -m benches --kinds join,sigkill --times 20 --json
  python3 -m benches --nodes 6 --hidden 2048  more members, a larger model
  python3 -m benches --workers 2              two workers a node, which come and go together
  python3 -m benches --workers 1,2,4 --under lacuna,torchrun --device 0.05
                                                   beside torchrun, with 50 ms of emulated device
  python3 -m benches --under lacuna,torchft   beside torchft (newer_torch.py FOLDER torchft)
  python3 -m benches choices                  recommendations beside runs of all candidates
  python3 -m benches data --help              loading by workers, against DDP
  python3 -m benches ends                     50 short trainers, each trained once
  python3 -m benches goodput                  two trainings, planned by what they learn
  python3 -m benches guards                   the cost of finding wrong use of a loop
  python3 -m benches loaders                  loaders on other nodes, and their prediction
  python3 -m benches noise                    cost and errors of the noise scale
  python3 -m benches rates                    the rate beside plain DDP; rates --help
  python3 -m benches stalls                   injected stalls, and those that are found
  python3 -m benches sweep                    equal short trials, beside another release
  python3 -m benches two_stage                tables and dense part apart, beside the plan
"""

#: Samples of an epoch, at most.
SAMPLES = 8192
#: The kinds of change, and the agent's view of each.
KINDS = {
    "join": "a node joins, its program was ready",
    "leave": "a node is asked to leave, control knows at once",
    "sigterm": "the program of a node gets SIGTERM, control hears of its exit",
    "sigkill": "the program of a node is killed, control hears of its exit",
    "worker": "one worker of a node is killed, the agent ends the others",
    "sigstop": "the program of a node is paused, the group breaks after {timeout:g} s",
}
#: Measurements with a command line of their own. Some modules need PyTorch to be read.
OTHERS = "choices data ends goodput guards loaders noise rates stalls sweep two_stage".split()
UNDER = {"lacuna": KINDS, "torchrun": torchrun.KINDS, "torchft": torchft.KINDS}


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches",
        description="Measures the stall of training when its members change.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kinds", help=f"default: all, {','.join(KINDS)}")
    parser.add_argument(
        "--under", default="lacuna", help=f"some of {','.join(UNDER)} (default: %(default)s)"
    )
    parser.add_argument("--times", type=int, default=10, help="of each (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=3, help="nodes (default: %(default)s)")
    parser.add_argument(
        "--workers", default="1", help="workers of a node, as 1,2,4 (default: %(default)s)"
    )
    parser.add_argument(
        "--device", type=float, default=0.0, metavar="SECONDS", help="sleep in each step"
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
    if argv and argv[0] in OTHERS:
        try:
            other = import_module(f".{argv[0]}", __package__)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            print(f"benches: PyTorch is missing: {error}", file=sys.stderr)
            return 69
        code: int = other.main(argv[1:])
        return code
    options = arguments().parse_args(argv)
    under, counts = options.under.split(","), options.workers.split(",")
    kinds = list(KINDS) if options.kinds is None else options.kinds.split(",")
    if set(under) - set(UNDER) or set(kinds) - set(KINDS):
        print(f"benches: kinds are {', '.join(KINDS)}, under what: {', '.join(UNDER)}")
        return 64
    numbered = all(count.isdecimal() and int(count) > 0 for count in counts)
    if not numbered or options.nodes < 2 or options.times < 1 or options.batch > SAMPLES:
        print(f"benches: nodes >= 2, times and workers >= 1, batch <= {SAMPLES}")
        return 64
    try:
        import torch
    except ImportError as error:
        print(f"benches: PyTorch is missing: {error}", file=sys.stderr)
        return 69
    absent = torchft.missing() if "torchft" in under else None
    if absent is not None:
        print(f"benches: {absent}", file=sys.stderr)
        return 69
    if options.train:
        return _train(options)
    host = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "nodes": options.nodes,
        "hidden": options.hidden,
        "batch": options.batch,
        "device": options.device,
    }
    rows: list[dict[str, Any]] = []
    words = []
    if not options.json:
        print(", ".join(f"{key} {value}" for key, value in host.items()))
        show(None)
    for one in under:
        known = [kind for kind in kinds if kind in UNDER[one]]
        words += [f"{one}, {kind}: {UNDER[one][kind]}" for kind in known]
        for workers in map(int, counts):
            measure = _measure if one == "lacuna" else _measure_others
            with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
                log = Log(Path(folder))
                for row in measure(options, one, workers, known, Path(folder), log):
                    rows.append({"under": one, "workers": workers, **row})
                    if not options.json:
                        show(rows[-1])
                samples = log.samples()
            if samples is not None:
                rows[-1]["samples"] = samples
                if not options.json:
                    text = "{wrong} samples not used once, {epochs} ends of epochs"
                    print(text.format(**samples))
    if options.json:
        print(json.dumps({"host": host, "rows": rows}, indent=2))
    else:
        print("\n".join(words).format(timeout=options.timeout))
    return 0


def _measure(
    options: argparse.Namespace,
    under: str,
    workers: int,
    kinds: list[str],
    folder: Path,
    log: Log,
) -> Iterator[dict[str, Any]]:
    argv = [sys.executable, "-m", *_module(options, under)]
    env = {"LACUNA_STEP_LOG": str(folder), "PYTHONPATH": common.searched()}
    with Loopback(argv, folder, env=env, hang_after=options.hang_after, workers=workers) as cluster:
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
                trial = _trial(cluster, log, lambda: cluster.join(name))
                _without(cluster, cluster.members[0])
                return trial
            victim = cluster.members[place]
            trial = _trial(cluster, log, lambda: _change(cluster, kind, victim))
            cluster.wait_gone(victim)
            cluster.join(name)
            _settle(cluster)
            return trial

        # Rank 0, which reports and saves, is the one in turn with the last rank.
        for kind in kinds:
            yield summary(kind, [once(kind, -(i % 2)) for i in range(options.times)])
        # One more epoch ends, with all changes before it.
        _settle(cluster, 2 * SAMPLES // options.batch)


def _measure_others(
    options: argparse.Namespace,
    under: str,
    workers: int,
    kinds: list[str],
    folder: Path,
    log: Log,
) -> Iterator[dict[str, Any]]:
    env = {"LACUNA_STEP_LOG": str(folder), "PYTHONPATH": common.searched()}

    def settle(members: int, since: float) -> None:
        end = time.monotonic() + 300.0
        while time.monotonic() < end:
            done = [line for line in log.lines() if line["ok"]]
            # An older checkpoint may begin with steps that were done before.
            before = max((line["step"] for line in done if line["t"] <= since), default=0)
            lines = [line for line in done if line["t"] > since]
            newest = lines[-1]["run"] if lines else None
            steps = {line["step"] for line in lines if line["run"] == newest}
            steps = {step for step in steps if step > before}
            if len(steps) >= 15 and lines[-1]["members"] == members:
                return
            time.sleep(0.2)
        raise TimeoutError(f"{members} members did not train together; see {folder}")

    with Loopback([], folder, env=env) as stores:
        make = Torchfts if under == "torchft" else Torchruns
        agents = make(_module(options, under), folder, env, stores.store_port, workers)

        def once(kind: str, place: int) -> dict[str, Any]:
            agents.restore(options.nodes)
            settle(options.nodes * workers, time.time())
            return log.judged(agents.trial(kind, place, settle))

        try:
            for kind in kinds:
                yield summary(kind, [once(kind, -(i % 2)) for i in range(options.times)])
        finally:
            agents.close()


def _module(options: argparse.Namespace, under: str) -> list[str]:
    """The program of each member, as arguments of ``python3 -m``."""
    module = ["benches", "--train", "--under", under, "--hidden", str(options.hidden)]
    module += ["--device", str(options.device)]
    return [*module, "--batch", str(options.batch), "--timeout", str(options.timeout)]


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


def _trial(cluster: Loopback, log: Log, change: Callable[[], None]) -> dict[str, Any]:
    run = cluster.run
    began = time.time()
    change()
    cluster.wait(lambda: cluster.run > run, 60.0, "control has opened a new run")
    _settle(cluster)
    return log.judged(began)


def _work(options: argparse.Namespace) -> tuple[Any, Any, Any, Any]:
    """The model, the optimiser and the samples, whose number is a multiple of the batch."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    width = options.hidden
    model = nn.Sequential(
        nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )
    x = torch.randn(SAMPLES // options.batch * options.batch, 32)
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), x, x.sin().sum(1, keepdim=True)


def _train(options: argparse.Namespace) -> int:
    """The program on each node."""
    import torch

    from lacuna.run import elastic

    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    model, adam, x, y = _work(options)
    if options.under == "torchft":
        torchft.train(options, model, adam, x, y)
    # A step adds one to the number of each of its samples: its gradient is -1 / batch.
    used = torch.nn.Parameter(torch.zeros(len(x)))
    model.register_parameter("used", used)
    optimizers = [adam, torch.optim.SGD([used], lr=float(options.batch))]
    # Torchrun numbers no runs, but each meeting of its members has a port of its own.
    port = int(os.environ.get("MASTER_PORT", "0"))
    # Each worker has a file.
    name = f"{os.environ['LACUNA_NODE']}-{os.environ.get('LOCAL_RANK', os.getpid())}"
    path = os.path.join(os.environ["LACUNA_STEP_LOG"], f"{name}.steps")
    with (
        open(path, "a", buffering=1) as log,
        elastic(model, optimizers, batch=options.batch, seed=1, timeout=options.timeout) as run,
    ):
        for a, b, index in run.steps((x, y, torch.arange(len(x)))):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = (model(a) - b).pow(2).mean()
            time.sleep(options.device)
            (loss - used[index].mean()).backward()
            applied = run.step(loss)
            step = run.steps_done if applied else run.steps_done + 1
            line = {"step": step, "ok": applied, "run": run.run_id or port, "t": time.time()}
            line["members"] = run.world_size
            if applied and run.epoch_ended:
                epochs = run.samples // len(x)
                line["wrong"] = int(((used.detach() - epochs).abs() > 0.5).sum())
            log.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
