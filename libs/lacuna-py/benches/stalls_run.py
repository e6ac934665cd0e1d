"""One run of training with injected stalls, for :mod:`benches.stalls`.

With throttled links each member has a network namespace of its own. A pair of veth devices joins
it to that of the bench, which forwards; tc-tbf(8) limits what the member sends.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional, Sequence

from lacuna.loopback import Loopback
from lacuna.moments import WARM_UP, Reading, Stopwatch
from lacuna.timing import WINDOW

from . import common

#: Emulated device time of a step, its part in the forward pass, and layers.
DEVICE = 0.060
FORWARD = 1 / 3
LAYERS = 5
#: Width of a layer: 2.1 MB of gradients in all.
WIDTH = 324
#: Samples of a member in a step.
SAMPLES = 8
#: Steps of a run: the first ones fill the loader.
FILLS = WARM_UP + 15
STEPS = WINDOW + FILLS
#: Each burst of preparation is one batch in this number.
BURSTS = 4


@dataclass(frozen=True)
class Config:
    """What is injected: seconds of a batch, Mbit/s of links, seconds of the last member."""

    prep: float = 0.0
    fetch: float = 0.0
    link: float = 0.0
    straggler: float = 0.0
    #: The straggler is slow in the backward pass only.
    backward: bool = False
    #: Preparation comes in bursts.
    bursts: bool = False
    nodes: int = 2
    workers: int = 1
    #: Preparation is computed, not slept and declared.
    burn: bool = False
    #: Samples of a member in a step. Times of a batch are those of as many as SAMPLES.
    samples: int = SAMPLES
    device: float = DEVICE
    steps: int = STEPS


def can_throttle() -> bool:
    """Whether links can be throttled here."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "unshare", "nsenter")))


def real_time() -> bool:
    """Whether members may run before all other work of the machine."""
    script = "from benches.common import run_first as r; raise SystemExit(not r())"
    return subprocess.run([sys.executable, "-c", script]).returncode == 0


def one(config: Config, folder: Path, apart: bool) -> dict[str, Any]:
    """Trains, and returns the mean step in seconds and rank 0's report.

    ``apart``: each member has a link. Raises RuntimeError with the words of a member that failed.
    """
    return several([config], folder, apart)[0]


def several(configs: Sequence[Config], folder: Path, apart: bool) -> list[dict[str, Any]]:
    """The same of configurations with the same members and links, one after the other."""
    config = configs[0]
    asked = json.dumps([asdict(one) for one in configs])
    argv = [sys.executable, "-m", "benches", "stalls", "--worker", asked]
    env = common.environment(LACUNA_BENCH_INTO=str(folder))
    names = [f"n{i}" for i in range(config.nodes)]
    links = Links(names, config.link) if apart else None
    try:
        with Loopback(
            argv,
            folder,
            env=env,
            hang_after=60.0,
            place=None if links is None else links.enter,
            host="127.0.0.1" if links is None else Links.HOST,
        ) as cluster:
            for name in names:
                cluster.start(name)
            cluster.join(*names)
            for name in names:
                code = cluster.wait_gone(name, 600.0)
                if code != 0:
                    words = "\n".join(f"{one}: {cluster.words(one)}" for one in names)
                    raise RuntimeError(f"{name} ended with {code}\n{words}")
    finally:
        if links is not None:
            links.close()
    return [_mean(found) for found in json.loads((folder / "found.json").read_text())]


def _mean(found: dict[str, Any]) -> dict[str, Any]:
    times = found["times"]
    last = min(WINDOW, len(times) - FILLS - 1)
    return {"step": (times[-1] - times[-1 - last]) / last, "stalls": found["stalls"]}


class Links:
    """A network namespace and a link for each member; this process forwards between them."""

    #: This process, as members see it.
    HOST = "10.77.0.1"

    def __init__(self, names: list[str], rate: float) -> None:
        self._holders: dict[str, "subprocess.Popen[bytes]"] = {}
        _shell("ip link set lo up; ip addr replace 10.77.0.1/32 dev lo")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for number, name in enumerate(names, start=1):
            holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
            self._holders[name] = holder
            _await_namespace(holder.pid)
            here, there = f"10.77.{number}.1", f"10.77.{number}.2"
            _shell(
                f"ip link add v{number} type veth peer name eth0 netns {holder.pid}; "
                f"ip addr add {here}/24 dev v{number}; ip link set v{number} up"
            )
            script = "ip link set lo up; ip link set eth0 up; "
            script += f"ip addr add {there}/24 dev eth0; ip route add default via {here}"
            if rate > 0.0:
                limit = f"tbf rate {rate:g}mbit burst 64kb latency 400ms"
                script += f"; tc qdisc add dev eth0 root {limit}"
            _shell(script, *self.enter(name))

    def enter(self, name: str) -> list[str]:
        """The command that runs another one in a member's namespace."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net"]

    def close(self) -> None:
        """Ends the namespaces, and their links with them."""
        for number, holder in enumerate(self._holders.values(), start=1):
            subprocess.run(["ip", "link", "del", f"v{number}"], stderr=subprocess.DEVNULL)
            holder.kill()
            holder.wait()


def _shell(script: str, *before: str) -> None:
    subprocess.run([*before, "sh", "-ec", script], check=True)


def _await_namespace(pid: int) -> None:
    mine, end = os.readlink("/proc/self/ns/net"), time.monotonic() + 5.0
    while time.monotonic() < end:
        if os.readlink(f"/proc/{pid}/ns/net") != mine:
            return
        time.sleep(0.005)
    raise RuntimeError("unshare --net has made no namespace")


#: Seconds that were slept in place of computing, by this process.
_declared = [0.0]


class _Declaring(Stopwatch):
    """Counts what was slept in place of computing as computed."""

    def __init__(self) -> None:
        super().__init__()
        self._before = _declared[0]

    def read(self) -> Reading:
        """The reading since this was made."""
        began, ended, prep = super().read()
        return Reading(began, ended, min(prep + _declared[0] - self._before, ended - began))


def burn(seconds: float) -> None:
    """Computes for as many seconds of this thread's processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class _Items:
    """Samples that take their time."""

    def __init__(self, x: Any, config: Config) -> None:
        self._x = x
        self._config = config
        self._count = 0

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> Any:
        config, batch = self._config, self._count // self._config.samples
        self._count += 1
        prep = config.prep / SAMPLES
        if config.bursts:
            prep *= BURSTS if batch % BURSTS == 0 else 0
        if config.burn:
            burn(prep)
        elif prep > 0.0:
            time.sleep(prep)
            _declared[0] += prep
        if config.fetch > 0.0:
            time.sleep(config.fetch / SAMPLES)
        return self._x[index]


def train(configs: Sequence[Config]) -> int:
    """The program on each node. Configurations have the same members."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    from lacuna import reading
    from lacuna.run import elastic

    if not configs[0].burn:
        vars(reading)["Stopwatch"] = _Declaring
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    common.run_first()
    nodes = configs[0].nodes
    last = os.environ["LACUNA_NODE"] == f"n{nodes - 1}" and nodes > 1
    device = _Device(configs[0], last)

    class Computing(torch.autograd.Function):
        """An accelerator that needs no processor."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            time.sleep(device.forward / LAYERS)
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            time.sleep(device.backward / LAYERS)
            return grad

    class Layer(nn.Module):
        """A layer on that accelerator: its gradient is ready after the sleep."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            out: Any = Computing.apply(torch.relu(self.linear(x)))
            return out

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = configs[0].samples * nodes
    found = []
    with elastic(model, optimizer, batch=batch, seed=1, timeout=30.0) as run:
        for number, config in enumerate(configs, start=1):
            device.becomes(config)
            data: Any = _Items(torch.randn(batch * config.steps, WIDTH), config)
            loader: Any = DataLoader(data, shuffle=True, num_workers=config.workers)
            times: list[float] = []
            stalls: Optional[dict[str, Any]] = None
            for x in run.steps(loader, epochs=number):
                optimizer.zero_grad()
                loss = model(x).pow(2).mean()
                loss.backward()
                run.step(loss)
                times.append(time.monotonic())
                # The newest steps are of this configuration alone.
                if len(times) == config.steps:
                    stalls = run.stalls if number == 1 else None
            found.append({"times": times, "stalls": stalls})
        rank = run.rank
    if rank == 0:
        into = Path(os.environ["LACUNA_BENCH_INTO"]) / "found.json"
        into.write_text(json.dumps(found))
    return 0


class _Device:
    """Seconds of the emulated device in a step."""

    def __init__(self, config: Config, is_last: bool) -> None:
        self._is_last = is_last
        self.becomes(config)

    def becomes(self, config: Config) -> None:
        """It computes as fast as that of a configuration; the last member may straggle."""
        extra = config.straggler if self._is_last else 0.0
        computes = config.device * config.samples / SAMPLES
        self.forward = computes * FORWARD + (0.0 if config.backward else extra * FORWARD)
        self.backward = computes + extra - self.forward
