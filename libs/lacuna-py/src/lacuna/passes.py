"""The part for several backward passes of one step: ``run.parts()`` and ``run.backward()``."""

from __future__ import annotations

import math
from typing import Any, Iterator, Optional

import torch

from . import losses, misuse
from .cutting import Accumulation
from .gradients import Gradients
from .misuse import Closed
from .order import TRIED
from .part import Now, Part, Step
from .policy import BatchPolicy, reference
from .state import Scaler


class Passes(Part):
    """Adds up the losses of a batch's passes, each by its samples."""

    def __init__(
        self,
        policy: BatchPolicy,
        scaler: Optional[Scaler],
        gradients: Gradients,
        closed: Closed,
        workers: int,
    ) -> None:
        self._reference = reference(policy)
        self._scaler = scaler
        self._marks = gradients.marks
        self._closed = closed
        #: Workers that share the model.
        self._workers = workers
        #: Of this batch, if run.parts() or run.backward() is used for it.
        self._sum: Optional[Accumulation] = None

    def before(self, step: Step) -> None:
        self._sum = None

    def parts(self, now: Now, batch: Any, size: int) -> Iterator[Any]:
        """The batch in parts of at most ``size`` samples."""
        share = now.share
        if share is None:
            raise RuntimeError("run.parts() belongs to a batch of run.steps()")
        if size < 1:
            raise ValueError(f"a part needs at least one sample, not {size}")
        least = 0
        if self._workers > 1:
            # FSDP's passes need all workers of a node.
            least = -(-max(share.counts) // size)
        elif now.position.step in TRIED and now.world_size == 1:
            # Parts of other sizes show what a loss is divided by, as shares do.
            least = min(-(-share.count // size) + 1, share.count)
        return self._added().parts(batch, size, least)

    def backward(self, now: Now, loss: torch.Tensor, weight: Optional[float]) -> None:
        """The backward pass of a part, weighed."""
        if now.share is None:
            raise RuntimeError("run.backward(loss) belongs to a batch of run.steps()")
        sum_of, marks, scaler = self._added(), self._marks, self._scaler
        why = losses.why_not_a_mean(loss) if marks.thorough else None
        divisor = losses.divisor(loss) if marks.thorough and sum_of.passes else None
        if divisor is not None and divisor > 1.0:
            # The parts of one process. Those of a member follow the members, and a factor does not.
            whole = self._reference / sum_of.size
            why = misuse.divided(divisor) if divisor in (whole, math.ceil(whole)) else why
        if why is not None:
            raise RuntimeError(why)
        part, given = sum_of.weight if weight is None else weight, loss
        loss = loss if part == 1.0 else torch.mul(loss, part)
        sum_of.add(loss)
        marks.weighed = True
        try:
            with self._closed.part(given, part):
                (loss if scaler is None else scaler.scale(loss)).backward()
        finally:
            marks.weighed = False

    def _added(self) -> Accumulation:
        if self._sum is None:
            self._sum = Accumulation()
        return self._sum

    def called(self, step: Step) -> None:
        sum_of, self._sum = self._sum, None
        if sum_of is None:
            return
        if self._marks.bare:
            raise RuntimeError(misuse.BARE)
        if sum_of.left > 0 or sum_of.loss is None:
            raise RuntimeError(misuse.PARTS_LEFT)
        if step.loss is not None:
            raise RuntimeError(misuse.TWO_LOSSES)
        step.loss = sum_of.loss
