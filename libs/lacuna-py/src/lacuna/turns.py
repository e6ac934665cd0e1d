"""Optimisers that take turns on one batch: ``run.step(loss, optimizer)``, as a GAN has them."""

from __future__ import annotations

from typing import Optional, Sequence

import torch

from . import misuse
from .part import Part, Step


class Turns(Part):
    """The turns of the present batch.

    A turn is applied at all members or at none, as a step is, and its number belongs to the
    position. If a group breaks between two turns, the batch comes again. Those of its turns that
    were applied are passed over then, so each counts once. ``measured``: whether the program wants
    a noise scale, which is that of one optimiser's step.
    """

    name = "turns"

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], measured: bool) -> None:
        self._optimizers = optimizers
        self._measured = measured
        #: Whether the program has turns; part of the state. Their gradients are summed once a turn
        #: has all of them, since each turn has others.
        self._used = False
        #: How many the program has begun in this batch before the present one.
        self.begun = 0
        #: Whether a turn was not applied, so the rest of them are done with the batch, again.
        self._broken = False
        #: This member's loss of the newest turn.
        self._loss: Optional[float] = None

    def before(self, step: Step) -> None:
        self.begun, self._broken, self._loss = 0, False, None
        step.late = self._used

    def called(self, step: Step) -> None:
        step.turn = self._place(step.optimizer)
        step.ends, step.stepped = self._ends(step.turn), self._stepped(step.turn)
        if not step.ends:
            if self._measured:
                raise ValueError(misuse.NO_TURNS)
            self._used = step.late = True
        if self.begun > 0 and step.turn is None and step.loss is not None:
            raise RuntimeError(misuse.TURNS_END)

    def vote(self, step: Step) -> None:
        if self._broken or (not step.ends and self.begun < step.now.position.turn):
            # The turn was applied before, or its batch comes again.
            step.gradients.undo()
            if not step.ends:
                self.begun += 1
                step.gradients.again(step)
            step.answer = not self._broken
            return
        self._loss = step.loss = self._loss if step.loss is None else step.loss

    def after(self, step: Step) -> None:
        if not step.ends:
            self.begun += 1
            step.now.position.turn = self.begun

    def drop(self, step: Step) -> None:
        self._broken = True

    def state_dict(self) -> bool:
        return self._used

    def load_state_dict(self, state: bool) -> None:
        self._used |= state

    def _place(self, optimizer: Optional[torch.optim.Optimizer]) -> Optional[int]:
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

    def _ends(self, place: Optional[int]) -> bool:
        """Whether the batch ends with this turn: that of the last optimiser, or of none."""
        return place is None or place == len(self._optimizers) - 1

    def _stepped(self, place: Optional[int]) -> Sequence[torch.optim.Optimizer]:
        """The optimisers that step in a turn: all if there are no turns, none in the end of a batch
        without the last one's."""
        if place is not None:
            return self._optimizers[place : place + 1]
        return () if self.begun > 0 else self._optimizers
