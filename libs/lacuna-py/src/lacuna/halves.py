"""A step of one member in two halves, whose gradients are compared.

One member has nothing to compare its gradient with. So now and then it gets its share in two
batches, and the step is applied after the second one with the mean of both gradients.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from .cutting import cut
from .learning import Learning
from .part import Part, Step


def halves(batch: Any, count: int) -> Optional[list[Any]]:
    """A batch of ``count`` samples in two, if it can be cut."""
    return None if count < 2 else cut(batch, count, ((count + 1) // 2, count))


class Halves:
    """The gradients of the first half, until those of the second one are there."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], count: int) -> None:
        self._parameters = parameters
        first = (count + 1) // 2
        self.shares = (first, count - first)
        self._kept: Optional[list[Optional[torch.Tensor]]] = None
        self._loss: Optional[float] = None

    def keep(self, loss: Optional[float]) -> bool:
        """Takes the gradients away, if these are those of the first half."""
        if self._kept is not None:
            return False
        self._kept, self._loss = [], loss
        for parameter in self._parameters:
            grad, parameter.grad = parameter.grad, None
            self._kept.append(grad)
        return True

    def join(self, loss: Optional[float], norm: Any) -> tuple[Optional[float], float, float]:
        """Makes the gradients the mean of both halves.

        ``norm``: the squared norm of a list of gradients. Returns the mean loss, and S and Q of
        :mod:`lacuna.noise`.
        """
        first, second = self.shares
        a, b = first / (first + second), second / (first + second)
        kept = self._kept or []
        local = a * norm(kept) + b * norm([p.grad for p in self._parameters])
        for parameter, grad in zip(self._parameters, kept):
            if parameter.grad is None:
                parameter.grad = None if grad is None else grad * a
            else:
                parameter.grad.mul_(b)
                if grad is not None:
                    parameter.grad.add_(grad, alpha=a)
        whole = norm([p.grad for p in self._parameters])
        if loss is not None and self._loss is not None:
            loss = a * self._loss + b * loss
        return loss, local, whole


class Halving(Part):
    """Gives the program the halves of a batch, and keeps the first one's gradients.

    ``learning`` says for which steps.
    """

    def __init__(self, learning: Learning) -> None:
        self._learning = learning
        #: The halves of this step, if it is one member's and looked at.
        self._halves: Optional[Halves] = None

    def before(self, step: Step) -> None:
        self._halves = None
        now, share = step.now, step.share
        if now.world_size > 1 or not self._learning.is_due_alone(now.position.step, share):
            return
        both = halves(step.batches[0], share.batch)
        if both is not None:
            self._halves = Halves(step.gradients.parameters, share.batch)
            step.batches = both

    def vote(self, step: Step) -> None:
        both = self._halves
        if both is None:
            return
        if both.keep(step.loss):
            # The other half comes next; the step is applied with both.
            step.answer = False
            return
        norm = self._learning.norms_of(step.gradients).of_gradients
        step.loss, local, whole = both.join(step.loss, norm)
        self._learning.alone(both.shares, local, whole)
        self._halves = None
