"""This process's place among the workers of its node, and its device.

A node has one worker, or several with one device each. Under ``regroup`` the agent sets
``LACUNA_LOCAL_RANK`` and ``LACUNA_LOCAL_WORLD_SIZE``; under ``torchrun`` torchrun sets
``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE``. Nodes join and leave with all of their workers, and each
node of a trainer has as many.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Mapping

import torch

log = logging.getLogger("lacuna")


@dataclass(frozen=True)
class Worker:
    """One of the ``count`` workers of a node; ``rank`` is its local rank."""

    rank: int = 0
    count: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Worker":
        """The worker that an environment describes; without a description, the only one.

        Raises ValueError if the two numbers do not fit each other.
        """
        for prefix in ("LACUNA_", ""):
            names = f"{prefix}LOCAL_RANK", f"{prefix}LOCAL_WORLD_SIZE"
            texts = [environment.get(name) or "" for name in names]
            if not any(texts):
                continue
            if not all(text.isdecimal() for text in texts) or int(texts[0]) >= int(texts[1]):
                raise ValueError(
                    f"{names[0]}={texts[0]!r} and {names[1]}={texts[1]!r}: expected "
                    "0 <= rank < count; the launcher sets both or neither"
                )
            return cls(int(texts[0]), int(texts[1]))
        return cls()

    @property
    def device(self) -> torch.device:
        """``cuda:<local rank>`` if there is CUDA, else the CPU.

        Raises RuntimeError if the node has fewer GPUs than workers.
        """
        if not torch.cuda.is_available():
            return torch.device("cpu")
        devices = torch.cuda.device_count()
        if self.rank >= devices:
            raise RuntimeError(
                f"worker {self.rank} of {self.count} has no GPU, this process sees {devices}: "
                f"submit with workers_per_node = {devices}, or look at CUDA_VISIBLE_DEVICES"
            )
        return torch.device("cuda", self.rank)

    def warn(self) -> None:
        """Warns once a node if its workers have less than one core each."""
        cores = len(os.sched_getaffinity(0))
        if self.rank == 0 and 1 < self.count and cores < self.count:
            log.warning("%d workers share %d cores of this node", self.count, cores)


#: The one worker of its node.
ONLY = Worker()


def device() -> torch.device:
    """The device of this worker: ``model.to(lacuna.device())``, before :func:`elastic`.

    ``cuda:<local rank>`` if there is CUDA, else the CPU. Raises RuntimeError if the node has fewer
    GPUs than workers, ValueError if the launcher's variables contradict each other.
    """
    found = Worker.of(os.environ).device
    if found.type == "cuda":
        # Helper threads use the process's device, else a context on the first GPU.
        torch.cuda.set_device(found)
    return found
