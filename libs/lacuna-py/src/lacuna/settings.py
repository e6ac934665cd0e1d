"""The settings of :func:`lacuna.elastic`, without the parts that have state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import torch

from .policy import BatchPolicy
from .state import Parts


@dataclass(frozen=True)
class Settings:
    """See :func:`lacuna.elastic`, which documents each."""

    policy: BatchPolicy
    seed: int
    reseed: bool
    timeout: float
    backend: str
    wire: Optional[torch.dtype]
    loaders: Optional[str]
    #: Samples at which Lacuna ends the training.
    total: Optional[float]
    noise: bool
    balance: bool
    clip_norm: Optional[float]
    before_step: Optional[Callable[[], None]]

    @property
    def step_seed(self) -> Optional[int]:
        """The seed of each step's random numbers; None if they are the program's."""
        return self.seed if self.reseed else None

    def exact(self, parts: Parts) -> bool:
        """Whether optimisers step with the gradients that are summed, unchanged."""
        return self.clip_norm is None and self.before_step is None and parts.scaler is None
