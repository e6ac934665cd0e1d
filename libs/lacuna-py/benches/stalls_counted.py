"""The programs whose steps :mod:`benches.stalls_cost` compares: with readings and without.

``package`` trains under :func:`lacuna.elastic`, ``unchanged`` is a plain program with
DistributedDataParallel, in front of which ``lacuna stalls`` may have put its wrappers. Both train
an MLP of a million parameters from a loader with a worker of its own, when a line tells them to.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any, Callable, Iterator

from .common import run_first
from .rates import BATCH, FEATURES, PAIR, WIDTHS

#: Whose steps are compared.
KINDS = ("package", "unchanged")
#: Set to ``1``: seconds inside the added code are counted.
COUNT = "LACUNA_BENCH_COUNT"
#: Batches of an epoch.
BATCHES = 1 << 14


class Counter:
    """Seconds inside wrapped functions: by the clock, and of processor time."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._inside = False

    def around(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted. One that a counted function calls is counted once."""

        def counted(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return inner(*arguments, **named)
            self._inside = True
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return inner(*arguments, **named)
            finally:
                self.cpu += time.thread_time() - cpu
                self.wall += time.perf_counter() - began
                self._inside = False

        return counted

    def methods(self, owner: Any, names: tuple[str, ...]) -> None:
        """Counts methods of a class."""
        for name in names:
            setattr(owner, name, self.around(getattr(owner, name)))


def train(kind: str) -> int:
    """One of the processes: it trains as many steps as a line says, and answers with seconds.

    A line of four numbers: the time, processor time, and of both what was inside the added code.
    """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from lacuna.run import elastic
    from lacuna.timing import Timing

    run_first()
    counter = Counter()
    if os.environ.get(COUNT) == "1":
        if kind == "package":
            names = ("asked", "got", "sums", "launched", "ended", "summed", "updated")
            counter.methods(Timing, (*names, "slots", "take", "due"))
        elif "lacuna_stalls.outside" in sys.modules:
            outside: Any = sys.modules["lacuna_stalls.outside"]
            names = ("asked", "got", "launched", "ended", "entered", "left")
            counter.methods(outside.Watch, names)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    width, batch = WIDTHS[1], BATCH["mlp"]
    net: nn.Module = nn.Sequential(
        *(nn.Linear(FEATURES, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 10),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    cross_entropy = nn.CrossEntropyLoss()
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(os.environ["LACUNA_RATES"])
    lines = control.makefile("rw")

    def now() -> tuple[float, ...]:
        return time.perf_counter(), time.process_time(), counter.wall, counter.cpu

    def go(batches: Iterator[Any], net: nn.Module, step: Callable[[Any], Any]) -> None:
        left, began = 0, None
        for x, y in batches:
            if left == 0:
                if began is not None:
                    print(*(b - a for a, b in zip(began, now())), file=lines, flush=True)
                line = lines.readline()
                if not line:
                    return
                left, began = int(line), now()
            optimizer.zero_grad()
            loss = cross_entropy(net(x), y)
            loss.backward()
            step(loss)
            left -= 1

    if kind == "package":
        x, y = torch.randn(2048, FEATURES), torch.randint(10, (2048,))
        data: Any = TensorDataset(x, y)
        with elastic(net, optimizer, batch=PAIR * batch, timeout=60.0) as run:
            go(run.steps(DataLoader(data, num_workers=1)), net, run.step)
        return 0
    torch.distributed.init_process_group("gloo")
    wrapped = nn.parallel.DistributedDataParallel(net)
    loader: Any = DataLoader(_Batches(batch), batch_size=None, num_workers=1)
    go(iter(loader), wrapped, lambda loss: optimizer.step())
    return 0


class _Batches:
    """Batches that are there."""

    def __init__(self, batch: int) -> None:
        import torch

        self._all = torch.randn(8, batch, FEATURES), torch.randint(10, (8, batch))

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Any:
        x, y = self._all
        return x[index % 8], y[index % 8]
