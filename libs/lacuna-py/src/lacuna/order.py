"""The order of the data, which does not depend on the members that read it.

The order of an epoch's samples follows from the seed and the epoch alone. A step
takes the next samples of that order, as many as the batch policy says, and cuts them into one
contiguous share per member. Where the next step begins is part of the training state, so
whatever joins, leaves or dies, each sample of an epoch is used exactly once, in that order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class Position:
    """How far training has come: part of the state that is broadcast and saved."""

    step: int = 0
    epoch: int = 0
    #: Samples of this epoch that are used already.
    offset: int = 0
    #: Samples used since the trainer's beginning.
    samples: int = 0

    def advance(self, batch: int, length: int) -> None:
        """A step of ``batch`` samples has been applied, of ``length`` in the epoch."""
        self.step += 1
        self.samples += batch
        self.offset += batch
        if self.offset >= length:
            self.epoch += 1
            self.offset = 0


@dataclass(frozen=True)
class Share:
    """One member's part of one step."""

    indices: torch.Tensor
    #: Samples of the step, of all members together.
    batch: int


class Order:
    """The order of ``length`` samples, shuffled again in each epoch if ``shuffle``."""

    def __init__(self, length: int, seed: int, shuffle: bool = True) -> None:
        if length < 1:
            raise ValueError("there are no samples")
        self.length = length
        self._seed = seed
        self.shuffle = shuffle
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.long)

    def of_epoch(self, epoch: int) -> torch.Tensor:
        """Indices of all samples in the order in which the epoch uses them."""
        if epoch != self._epoch:
            if self.shuffle:
                generator = torch.Generator()
                generator.manual_seed(mixed(self._seed, "order", epoch))
                self._order = torch.randperm(self.length, generator=generator)
            else:
                self._order = torch.arange(self.length)
            self._epoch = epoch
        return self._order

    def share(
        self, at: Position, rank: int, world_size: int, batch: int, left: Optional[float] = None
    ) -> Share:
        """The share of a member in the step at a position.

        The batch is cut at the end of the epoch, and at the ``left`` samples that there are
        still to do. The first members take one sample more if it does not come out even; a
        share is empty if there are more members than samples.
        """
        count = min(batch, self.length - at.offset)
        if left is not None:
            count = max(0, min(count, math.ceil(left)))
        small, extra = divmod(count, world_size)
        begin = at.offset + rank * small + min(rank, extra)
        end = begin + small + (1 if rank < extra else 0)
        return Share(self.of_epoch(at.epoch)[begin:end], count)


def mixed(*parts: object) -> int:
    """A seed of 63 bits from anything that has a text, the same on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
