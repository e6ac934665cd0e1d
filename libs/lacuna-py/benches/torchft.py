"""The same changes of members under torchft, for :mod:`benches`.

One replica group a pretended node, which torchrun starts as torchft's README does, and torchft's
lighthouse with short waits: it looks every 10 ms, waits 100 ms for others, and drops a member after
half a second without a heartbeat. One of two nodes alone is no majority, so it waits that long.
torchft orders no data, so each worker takes random rows of its own. Its DistributedDataParallel
ends the survivors of a dead peer by an AssertionError (0.2.0, PyTorch 2.15, gloo). So where members
change, gradients go through ``Manager.allreduce`` after the backward pass, and before that through
gloo among the workers of a node.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, Optional

from .torchrun import Torchruns

#: The kinds of change that torchft knows: a replica that leaves is one that has died.
KINDS = {
    "join": "another replica starts",
    "sigterm": "a replica gets SIGTERM",
    "sigkill": "a replica is killed",
}


#: What to do where it is missing.
REMEDY = (
    "`libs/lacuna-py/newer_torch.py FOLDER torchft` makes an environment with it; "
    "then use FOLDER/bin/python"
)


def missing() -> Optional[str]:
    """Why torchft cannot be measured here, and the remedy; None if it can be."""
    # Its servers would log every step.
    os.environ.setdefault("RUST_LOG", "warn")
    try:
        import torchft  # noqa: F401 - not a part of this package.
    except ImportError as error:
        return f"torchft is missing: {error}; {REMEDY}"
    return None


def lighthouse() -> Any:
    """torchft's server, in this process."""
    from torchft.coordination import LighthouseServer

    return LighthouseServer(
        bind="[::]:0",
        min_replicas=1,
        join_timeout_ms=100,
        quorum_tick_ms=10,
        heartbeat_timeout_ms=500,
    )


@dataclass
class Torchfts(Torchruns):
    """Replica groups under a lighthouse, which lives in this process."""

    def __post_init__(self) -> None:
        self._lighthouse = lighthouse()
        self.env = {**self.env, "TORCHFT_LIGHTHOUSE": self._lighthouse.address()}

    @property
    def argv(self) -> list[str]:
        """What starts a replica group."""
        argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes=1"]
        return [*argv, f"--nproc_per_node={self.workers}", "-m", *self.module]

    def close(self) -> None:
        """Kills all."""
        super().close()
        self._lighthouse.shutdown()


def managed(
    model: Any, optimizer: Any, name: str, limit: timedelta, **place: Any
) -> tuple[Any, Any]:
    """torchft's manager of a member's state, and its optimiser.

    ``place``: the worker's rank, and the store of its group, where the environment has no
    torchrun's.
    """
    from torchft import Manager, Optimizer, ProcessGroupGloo

    def take() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def put(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=limit),
        load_state_dict=put,
        state_dict=take,
        min_replica_size=1,
        timeout=limit,
        replica_id=name,
        hostname="127.0.0.1",
        **place,
    )
    return manager, Optimizer(manager, optimizer)


def train(options: argparse.Namespace, model: Any, adam: Any, x: Any, y: Any) -> NoReturn:
    """The program of a worker, under torchrun."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, workers, node = dist.get_rank(), dist.get_world_size(), os.environ["LACUNA_NODE"]
    torch.manual_seed(1 + rank)
    limit = timedelta(seconds=options.timeout)
    manager, optimizer = managed(model, adam, node, limit)
    path = os.path.join(os.environ["LACUNA_STEP_LOG"], f"{node}-{rank}.steps")
    members = workers
    with open(path, "a", buffering=1) as log:
        while True:
            optimizer.zero_grad()
            rows = torch.randint(len(x), (options.batch // members,))
            loss = (model(x[rows]) - y[rows]).pow(2).mean()
            time.sleep(options.device)
            loss.backward()
            grads = [p.grad for p in model.parameters()]
            flat = torch.cat([grad.flatten() for grad in grads])
            if workers > 1:
                dist.all_reduce(flat.div_(workers))
            manager.allreduce(flat).wait()
            for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
                grad.copy_(mean.view_as(grad))
            before = manager.current_step()
            optimizer.step()
            applied = manager.current_step() > before
            members = workers * max(1, manager.num_participants())
            # Runs are numbered by the lighthouse alone.
            line = {"step": before + 1, "ok": applied, "run": manager._quorum_id}
            log.write(json.dumps({**line, "t": time.time(), "members": members}) + "\n")
