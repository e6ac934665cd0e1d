"""A step of one member in two halves, whose gradients are compared.

One member has nothing to compare its gradient with. So now and then it gets its share in two
batches, and the step is applied after the second one with the mean of both gradients.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch


def halves(batch: Any, count: int) -> Optional[tuple[Any, Any]]:
    """A batch of ``count`` samples in two, if it is made of tensors whose first size that is."""
    middle = (count + 1) // 2
    return None if count < 2 else _cut(batch, count, middle)


def _cut(part: Any, count: int, middle: int) -> Optional[tuple[Any, Any]]:
    if isinstance(part, torch.Tensor):
        if part.dim() == 0 or part.shape[0] != count:
            return None
        return part[:middle], part[middle:]
    if isinstance(part, dict):
        cut = {key: _cut(one, count, middle) for key, one in part.items()}
        if None in cut.values() or not cut:
            return None
        both = {key: pair for key, pair in cut.items() if pair is not None}
        return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}
    if type(part) in (list, tuple) and part:
        pairs = [_cut(one, count, middle) for one in part]
        if any(pair is None for pair in pairs):
            return None
        known = [pair for pair in pairs if pair is not None]
        return type(part)(a for a, _ in known), type(part)(b for _, b in known)
    return None


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
