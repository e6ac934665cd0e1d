"""Measures the rate of training beside plain DDP: ``python3 -m benches rates``.

Two processes train a model under DistributedDataParallel, and two others the same model under
:func:`lacuna.elastic`: two nodes of :mod:`lacuna.loopback`, or one of two workers. All keep their
groups from the first to the last round, and the pairs take turns, so both see the same machine. A
process has one core. All have real-time priority where they may: a round has few steps of a large
model, and other load would decide it. The ratio is that of the two rates of a round. A throttled
link is the loopback of a network namespace of its own, with tc-tbf(8): both directions share its
rate. Further pairs may train under torchft (two replica groups of one process, its manager,
optimiser and DistributedDataParallel, as its README shows them), and under DDP whose gradients are
views of its buckets, ``ddp-views``: that saves the copy back.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from lacuna.loopback import Loopback

from . import common, torchft

EPILOG = """examples:
  python3 -m benches rates                      both models, three sizes, five rounds
  python3 -m benches rates --models mlp --sizes 10 --rounds 9 --json
  python3 -m benches rates --workers 2          one node of two workers, and not two of one
  python3 -m benches rates --link 1gbit         over a throttled link (root, iproute2)
  python3 -m benches rates --under lacuna,torchft
  python3 -m benches rates --under lacuna,ddp-views --no-set-to-none
"""

#: Members of each pair.
PAIR = 2
#: Widths of the MLP (256 features, two hidden layers of squares), by millions of parameters.
WIDTHS = {1: 640, 10: 2170, 100: 7000}
#: Width, layers and heads of the transformer, by millions of parameters.
TRANSFORMERS = {1: (128, 5, 4), 10: (384, 6, 6), 100: (768, 14, 12)}
FEATURES, VOCABULARY, LENGTH = 256, 256, 64
#: Samples of a member in a step.
BATCH = {"mlp": 64, "transformer": 4}
#: Environment variables that tell the processes of a pair apart.
PLACE = {
    "ddp": ["RANK"],
    "ddp-views": ["RANK"],
    "lacuna": ["LACUNA_NODE", "LACUNA_LOCAL_RANK"],
    "torchft": ["RANK"],
}
#: Seconds of silence after which a group breaks.
TIMEOUT = 60.0
#: Steps before the first round.
WARM_UP = 4


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches rates",
        description="Measures the rate of training beside plain DistributedDataParallel.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", default=",".join(BATCH), help="default: %(default)s")
    parser.add_argument("--sizes", default="1,10,100", help="million parameters (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="length of a round (default: %(default)s)"
    )
    parser.add_argument(
        "--set-to-none",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="argument of zero_grad (default: PyTorch's)",
    )
    parser.add_argument(
        "--workers", type=int, choices=[1, PAIR], default=1, help="workers of a node (default: 1)"
    )
    parser.add_argument("--link", metavar="RATE", help="rate of the link, as tc writes it: 1gbit")
    parser.add_argument(
        "--under", default="lacuna", help="of lacuna, ddp-views, torchft (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--worker", choices=list(PLACE), help=argparse.SUPPRESS)
    parser.add_argument("--throttled", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Prints the table; 64 for wrong arguments, 69 if PyTorch or the link is missing."""
    options = arguments().parse_args(argv)
    models = [name for name in options.models.split(",") if name]
    sizes = [int(size) for size in options.sizes.split(",") if size.isdigit()]
    if set(models) - set(BATCH) or not sizes or set(sizes) - set(WIDTHS) or options.rounds < 1:
        print(f"benches: models are {', '.join(BATCH)}, sizes are 1, 10, 100, rounds >= 1")
        return 64
    under = options.under.split(",")
    if set(under) - (set(PLACE) - {"ddp"}) or (options.workers > 1 and "torchft" in under):
        print("benches: --under takes lacuna, ddp-views and, with --workers 1, torchft")
        return 64
    absent = torchft.missing() if "torchft" in under else None
    if absent is not None:
        print(f"benches: {absent}", file=sys.stderr)
        return 69
    if options.link and not options.throttled:
        return _throttled(options.link, argv)
    try:
        import torch
    except ImportError as error:
        print(f"benches: PyTorch is missing: {error}", file=sys.stderr)
        return 69
    if options.worker:
        return _train(options, models[0], sizes[0])
    # All processes inherit it.
    first = common.run_first()
    rows = []
    for model in models:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="lacuna-rates-") as folder:
                rows += _measure(options, under, model, size, Path(folder))
            if not options.json:
                _print_rows(rows[-len(under) :], head=len(rows) == len(under))
    host = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "priority": "real-time" if first else "usual",
        "workers": options.workers,
        "link": options.link or "loopback",
    }
    if options.json:
        print(json.dumps({"host": host, "rows": rows}, indent=2))
    else:
        print(", ".join(f"{key} {value}" for key, value in host.items()))
    return 0


def _throttled(rate: str, argv: Sequence[str]) -> int:
    """Runs the same in a network namespace whose loopback has a rate."""
    script = (
        "ip link set lo up && "
        'tc qdisc add dev lo root tbf rate "$0" burst 256kb latency 100ms && exec "$@"'
    )
    command = ["unshare", "--net", "sh", "-c", script, rate]
    command += [sys.executable, "-m", "benches", "rates", "--throttled", *argv]
    try:
        return subprocess.run(command).returncode
    except OSError as error:
        print(f"benches: a link needs unshare (util-linux): {error}", file=sys.stderr)
        return 69


class Pair:
    """Two processes that train when they are told to, by lines of a socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen(PAIR)
        self._server.settimeout(300.0)
        self._lines: list[Any] = []

    def accept(self) -> None:
        """Waits for both."""
        for _ in range(PAIR):
            connection, _address = self._server.accept()
            self._lines.append(connection.makefile("rw"))

    def ask(self, steps: int) -> list[list[float]]:
        """What each says after this number of steps: seconds, processor seconds, maybe more."""
        for lines in self._lines:
            print(steps, file=lines, flush=True)
        return [[float(word) for word in lines.readline().split()] for lines in self._lines]

    def train(self, steps: int) -> tuple[float, float]:
        """Seconds that the slower of both takes for a step, and processor seconds of both."""
        took = self.ask(steps)
        return max(one[0] for one in took) / steps, sum(one[1] for one in took) / steps

    def close(self) -> None:
        """They end when they read no further line."""
        for lines in self._lines:
            lines.close()
        self._server.close()


def _measure(
    options: argparse.Namespace, under: list[str], model: str, size: int, folder: Path
) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "benches", "rates", "--models", model, "--sizes", str(size)]
    if options.set_to_none is not None:
        argv.append("--set-to-none" if options.set_to_none else "--no-set-to-none")
    pairs = {name: Pair(folder / name) for name in ("ddp", *under)}

    def env(name: str) -> dict[str, str]:
        return common.environment(LACUNA_RATES=str(pairs[name].path))

    with ExitStack() as stack:
        for name in sorted({"ddp", "ddp-views"} & set(pairs)):
            stack.enter_context(_processes([*argv, "--worker", name], env(name), pairs[name]))
        if "torchft" in pairs:
            server = torchft.lighthouse()
            stack.callback(server.shutdown)
            own = {**env("torchft"), "TORCHFT_LIGHTHOUSE": server.address()}
            worker = [*argv, "--worker", "torchft"]
            stack.enter_context(_processes(worker, own, pairs["torchft"]))
        if "lacuna" in pairs:
            worker = [*argv, "--worker", "lacuna"]
            cluster = Loopback(worker, folder, env=env("lacuna"), workers=options.workers)
            stack.enter_context(cluster)
            stack.callback(pairs["lacuna"].close)
            names = [f"n{node}" for node in range(PAIR // options.workers)]
            for name in names:
                cluster.start(name)
            cluster.join(*names)
        for pair in pairs.values():
            pair.accept()
        for pair in pairs.values():
            pair.train(WARM_UP)
        steps = max(2, round(options.seconds / pairs["ddp"].train(WARM_UP)[0]))
        rounds = []
        for i in range(options.rounds):
            # The first of a round is in turn each of them.
            order = list(pairs)
            order = order[i % len(order) :] + order[: i % len(order)]
            rounds.append({name: pairs[name].train(steps) for name in order})
        if "lacuna" in pairs:
            pairs["lacuna"].close()
            for name in names:
                cluster.wait_gone(name)
    return [_summary(name, model, size, steps, rounds) for name in under]


@contextmanager
def _processes(argv: list[str], env: dict[str, str], pair: Pair) -> Iterator[None]:
    """Both processes of a pair, which end by themselves once it is closed."""
    _store, ranks = common.ranks(PAIR)
    processes = [subprocess.Popen(argv, env={**os.environ, **env, **rank}) for rank in ranks]
    try:
        yield
    finally:
        pair.close()
        for process in processes:
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()


def _summary(
    under: str,
    model: str,
    size: int,
    steps: int,
    rounds: list[dict[str, tuple[float, float]]],
) -> dict[str, Any]:
    both = [(took["ddp"], took[under]) for took in rounds]
    ratios = [plain[0] / ours[0] for plain, ours in both]
    cuts = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {
        "under": under,
        "model": model,
        "million_parameters": size,
        "steps": steps,
        "ddp_steps_per_s": statistics.median(1.0 / plain[0] for plain, _ in both),
        "steps_per_s": statistics.median(1.0 / ours[0] for _, ours in both),
        "ratio_median": cuts[1],
        "ratio_quartiles": [cuts[0], cuts[2]],
        "ratios": ratios,
        # On a busy machine these say more.
        "ddp_cpu_s_per_step": statistics.median(plain[1] for plain, _ in both),
        "cpu_s_per_step": statistics.median(ours[1] for _, ours in both),
    }


def _print_rows(rows: list[dict[str, Any]], head: bool) -> None:
    if head:
        print(f"{'under':<11}{'model':<12}{'parameters':>11}{'DDP':>12}{'this':>12}", end="")
        print(f"{'ratio':>8}{'quartiles':>14}{'CPU s a step':>20}")
    for row in rows:
        low, high = row["ratio_quartiles"]
        print(
            f"{row['under']:<11}{row['model']:<12}{row['million_parameters']:>9} M"
            f"{row['ddp_steps_per_s']:>8.3f} /s {row['steps_per_s']:>8.3f} /s "
            f"{row['ratio_median']:>7.3f}   {low:.3f}-{high:.3f}"
            f"{row['ddp_cpu_s_per_step']:>11.4f} {row['cpu_s_per_step']:>8.4f}",
            flush=True,
        )


def _build(model: str, size: int) -> tuple[Any, Any]:
    """A model, and its tensors of samples and targets."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    if model == "mlp":
        width = WIDTHS[size]
        net: nn.Module = nn.Sequential(
            *(nn.Linear(FEATURES, width), nn.ReLU()),
            *(nn.Linear(width, width), nn.ReLU()),
            *(nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, 10),
        )
        return net, (torch.randn(2048, FEATURES), torch.randint(10, (2048,)))
    width, layers, heads = TRANSFORMERS[size]
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    net = nn.Sequential(
        nn.Embedding(VOCABULARY, width),
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        nn.Linear(width, VOCABULARY),
    )
    tokens = torch.randint(VOCABULARY, (512, LENGTH + 1))
    return net, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def _train(options: argparse.Namespace, model: str, size: int) -> int:
    """One of the processes."""
    import torch
    from torch import nn

    from lacuna.run import elastic

    # Under Lacuna a rank comes with the first run: the node's number and the worker's are fixed.
    place = sum(int(os.environ.get(key, "0").lstrip("n")) for key in PLACE[options.worker])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[place % len(cores)]})
    torch.set_num_threads(1)
    net, data = _build(model, size)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    cross_entropy = nn.CrossEntropyLoss()
    zero = {} if options.set_to_none is None else {"set_to_none": options.set_to_none}
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(os.environ["LACUNA_RATES"])
    lines = control.makefile("rw")

    def train(batches: Iterator[Any], net: nn.Module, step: Callable[[Any], Any]) -> None:
        left, began, cpu = 0, 0.0, 0.0
        for x, y in batches:
            if left == 0:
                if began > 0.0:
                    took = (time.perf_counter() - began, time.process_time() - cpu)
                    print(*took, file=lines, flush=True)
                line = lines.readline()
                if not line:
                    return
                left, began, cpu = int(line), time.perf_counter(), time.process_time()
            optimizer.zero_grad(**zero)
            loss = cross_entropy(net(x).flatten(0, -2), y.flatten())
            loss.backward()
            step(loss)
            left -= 1

    if options.worker == "lacuna":
        with elastic(net, optimizer, batch=PAIR * BATCH[model], timeout=TIMEOUT) as run:
            train(run.steps(data), net, run.step)
        return 0
    rank = int(os.environ["RANK"])
    if options.worker == "torchft":
        from torchft import DistributedDataParallel

        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        place = {"rank": 0, "world_size": 1, "store_addr": "127.0.0.1", "store_port": store.port}
        limit = timedelta(seconds=TIMEOUT)
        manager, optimizer = torchft.managed(net, optimizer, f"r{rank}", limit, **place)
        wrapped = DistributedDataParallel(manager, net)
    else:
        torch.distributed.init_process_group("gloo")
        views = options.worker == "ddp-views"
        wrapped = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=views)
    train(_plain_batches(data, BATCH[model], rank), wrapped, lambda loss: optimizer.step())
    sys.stdout.flush()
    # Threads of torchft do not end with it.
    os._exit(0)


def _plain_batches(data: tuple[Any, Any], batch: int, rank: int) -> Iterator[Any]:
    """This member's part of each batch, as a DistributedSampler cuts it."""
    import torch

    while True:
        order = torch.randperm(len(data[0]))[rank::PAIR]
        for indices in order.split(batch):
            if len(indices) == batch:
                yield tuple(tensor[indices] for tensor in data)
