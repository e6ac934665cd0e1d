"""The same changes of members under torchft, for :mod:`lacuna.bench`.

One replica group of one process a pretended node, and torchft's lighthouse with short waits: it
looks every 10 ms, waits 100 ms for others, and drops a member after a second without a heartbeat.
torchft orders no data, so each replica takes random rows of its own. Its DistributedDataParallel
ends the survivors of a dead peer by an AssertionError (0.2.0, PyTorch 2.15, gloo), so gradients go
through ``Manager.allreduce`` after the backward pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from .bench_torchrun import Torchruns

#: The kinds of change that torchft knows: a replica that leaves is one that has died.
KINDS = {
    "join": "another replica starts",
    "sigterm": "a replica gets SIGTERM",
    "sigkill": "a replica is killed",
}


@dataclass
class Torchfts(Torchruns):
    """Replicas under a lighthouse, which lives in this process."""

    def __post_init__(self) -> None:
        from torchft.coordination import LighthouseServer

        self._lighthouse = LighthouseServer(
            bind="[::]:0",
            min_replicas=1,
            join_timeout_ms=100,
            quorum_tick_ms=10,
            heartbeat_timeout_ms=1000,
        )
        self.env = {**self.env, "TORCHFT_LIGHTHOUSE": self._lighthouse.address()}

    @property
    def argv(self) -> list[str]:
        """What starts a replica."""
        return [sys.executable, "-m", *self.module]

    def close(self) -> None:
        """Kills all."""
        super().close()
        self._lighthouse.shutdown()


def train(options: argparse.Namespace, model: Any, adam: Any, x: Any, y: Any) -> NoReturn:
    """The program of a replica."""
    import torch
    import torch.distributed as dist
    from torchft import Manager, Optimizer, ProcessGroupGloo

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    limit = timedelta(seconds=options.timeout)

    def take() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": adam.state_dict()}

    def put(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=limit),
        load_state_dict=put,
        state_dict=take,
        min_replica_size=1,
        timeout=limit,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        replica_id=os.environ["LACUNA_NODE"],
        hostname="127.0.0.1",
    )
    optimizer = Optimizer(manager, adam)
    path = os.path.join(os.environ["LACUNA_STEP_LOG"], f"{os.environ['LACUNA_NODE']}.steps")
    members = 1
    with open(path, "a", buffering=1) as log:
        while True:
            optimizer.zero_grad()
            rows = torch.randint(len(x), (options.batch // members,))
            loss = (model(x[rows]) - y[rows]).pow(2).mean()
            time.sleep(options.device)
            loss.backward()
            grads = [p.grad for p in model.parameters()]
            flat = torch.cat([grad.flatten() for grad in grads])
            manager.allreduce(flat).wait()
            for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
                grad.copy_(mean.view_as(grad))
            before = manager.current_step()
            optimizer.step()
            applied = manager.current_step() > before
            members = max(1, manager.num_participants())
            # Runs are numbered by the lighthouse alone.
            line = {"step": before + 1, "ok": applied, "run": manager._quorum_id}
            log.write(json.dumps({**line, "t": time.time(), "members": members}) + "\n")
