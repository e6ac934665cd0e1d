"""One optimiser step on averaged gradients, and the random numbers of the step."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Optional, Sequence

import torch
from torch import nn

from .order import mixed
from .policy import BatchPolicy
from .state import Parts


@dataclass
class Update:
    """The work between the averaged gradients and the next batch."""

    parts: Parts
    policy: BatchPolicy
    clip_norm: Optional[float]
    before_step: Optional[Callable[[], None]]

    def apply(
        self,
        nodes: int,
        optimizers: Sequence[torch.optim.Optimizer],
        factor: Optional[float] = None,
        ticks: int = 1,
    ) -> None:
        """Clips, calls the program's own function, steps these optimisers and all schedulers.

        With a gradient scaler, optimisers skip the step whose gradients are not finite. These are
        the same at all members, so all skip it. ``factor`` of the learning rate, where the policy
        does not give it; ``ticks``: steps of the schedulers.
        """
        if optimizers:
            self._step(nodes, optimizers, factor)
        for scheduler in self.parts.schedulers:
            for _ in range(ticks):
                scheduler.step()

    def _step(
        self,
        nodes: int,
        optimizers: Sequence[torch.optim.Optimizer],
        factor: Optional[float],
    ) -> None:
        scaler = self.parts.scaler
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        if scaler is not None:
            for optimizer in optimizers:
                scaler.unscale_(optimizer)
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], self.clip_norm)
        if self.before_step is not None:
            self.before_step()
        factor = self.policy.factor(nodes) if factor is None else factor
        # The factor is not left in place: schedulers compute the next rate from the present one.
        rates = [group["lr"] for group in groups]
        if factor != 1.0:
            for group, rate in zip(groups, rates):
                group["lr"] = rate * factor
        for optimizer in optimizers:
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
        if scaler is not None:
            scaler.update()
        if factor != 1.0:
            for group, rate in zip(groups, rates):
                group["lr"] = rate


def reseed(seed: int, step: int, rank: int) -> None:
    """The random numbers of a step follow from the seed, the step and the rank alone.

    So there is no state of a generator to carry to other members, members have different
    numbers, and a step that is done again has the same ones.
    """
    number = mixed(seed, "step", step, rank)
    torch.default_generator.manual_seed(number)
    for seed_all in _seeds_of_devices():
        seed_all(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)


@lru_cache(maxsize=None)
def _seeds_of_devices() -> list[Callable[[int], Any]]:
    """The functions that seed the devices that are there.

    ``torch.manual_seed`` seeds those that are not there too, later: it keeps the stack of each
    call for that, a fifth of a millisecond.
    """
    names = ("cuda", "mtia", "xpu")
    devices = [getattr(torch, name) for name in names if hasattr(torch, name)]
    seeds = [device.manual_seed_all for device in devices if device.is_available()]
    return [*seeds, torch.mps.manual_seed] if torch.backends.mps.is_available() else seeds
