"""Optimisers that take turns on one batch: ``run.step(loss, optimizer)``, as a GAN has them."""

from __future__ import annotations

from typing import Optional, Sequence

import torch


class Turns:
    """The turns of the present batch.

    A turn is applied at all members or at none, as a step is, and its number belongs to the
    position. If a group breaks between two turns, the batch comes again. Those of its turns that
    were applied are passed over then, so each counts once.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        #: Whether the program has turns; part of the state. Their gradients are summed once a turn
        #: has all of them, since each turn has others.
        self.used = False
        #: How many the program has begun in this batch before the present one.
        self.before = 0
        #: Whether a turn was not applied, so the rest of them are done with the batch, again.
        self.broken = False
        #: This member's loss of the newest turn.
        self.loss: Optional[float] = None

    def batch(self) -> None:
        """A batch begins."""
        self.before, self.broken, self.loss = 0, False, None

    def place(self, optimizer: Optional[torch.optim.Optimizer]) -> Optional[int]:
        """The place of an optimiser in the list, None without one. Raises ValueError."""
        if optimizer is None:
            return None
        found = (place for place, one in enumerate(self._optimizers) if one is optimizer)
        place = next(found, None)
        if place is None:
            raise ValueError(
                "run.step(loss, optimizer) names an optimiser that lacuna.elastic() was not given: "
                "lacuna.elastic(model, [optimizer, second])"
            )
        return place

    def ends(self, place: Optional[int]) -> bool:
        """Whether the batch ends with this turn: that of the last optimiser, or of none."""
        return place is None or place == len(self._optimizers) - 1

    def stepped(self, place: Optional[int]) -> Sequence[torch.optim.Optimizer]:
        """The optimisers that step in a turn: all if there are no turns, none in the end of a batch
        without the last one's."""
        if place is not None:
            return self._optimizers[place : place + 1]
        return () if self.before > 0 else self._optimizers
