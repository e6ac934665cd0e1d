"""Gradients of all members, averaged in one collective that also carries common decisions.

A member's gradient is the mean over its own share. It is weighted by the share's part of the
step, so that the sum over members is the mean over the whole batch. Behind the gradients the same
message carries sums over members: those that know of a newer run, those that must leave, the loss,
and the parameters with a gradient. So all members decide alike at the same step, without a further
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, Optional

import torch
from torch import nn

#: Numbers before those of the parameters.
_MOVING, _LEAVING, _LOSS, _WEIGHT = range(4)
_HEAD = 4

_NORMS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)

#: Sums a tensor over all members, in place; the reason if it failed.
Reduce = Callable[[torch.Tensor], Optional[str]]


@dataclass(frozen=True)
class Vote:
    """The flags and the loss of one member, or the sums over all members."""

    #: Members that know of a newer run.
    moving: float
    #: Members that must leave.
    leaving: float
    #: Mean loss of the step; None if the program gave none.
    loss: Optional[float]


class Gradients:
    """The gradients of a model, and the running averages of its batch normalisation."""

    def __init__(self, parameters: Iterable[nn.Parameter], model: nn.Module) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._averages = _running_averages(model)
        self._kept: list[torch.Tensor] = []
        if not self._parameters:
            raise ValueError("the model has no parameter that can be trained")

    def begin(self) -> None:
        """Keeps the buffers that the forward pass changes, in case the step is repeated."""
        self._kept = [average.clone() for average in self._averages]

    def undo(self) -> None:
        """Restores these buffers, and drops the gradients."""
        for average, kept in zip(self._averages, self._kept):
            average.copy_(kept)
        for parameter in self._parameters:
            parameter.grad = None

    def forget(self) -> None:
        """A member without a share of the step has no gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def average(self, weight: float, vote: Vote, reduce: Reduce) -> tuple[Optional[Vote], str]:
        """Replaces the gradients by the mean over the group's batch.

        ``weight``: this member's part of the batch. Returns the sums over members, or None and
        the reason if the group broke; then the gradients are invalid.
        """
        values = [*self._parameters, *self._averages]
        head = torch.zeros(_HEAD + len(self._parameters), dtype=torch.float32)
        head[_MOVING], head[_LEAVING] = vote.moving, vote.leaving
        if vote.loss is not None:
            head[_LOSS], head[_WEIGHT] = vote.loss * weight, weight
        for i, parameter in enumerate(self._parameters):
            head[_HEAD + i] = 0.0 if parameter.grad is None else 1.0
        buckets = _buckets(values)
        for bucket in buckets:
            first = bucket is buckets[0]
            flat = torch.cat(
                [_part(values[i], i < len(self._parameters), weight) for i in bucket]
                + ([head.to(values[bucket[0]].device)] if first else [])
            )
            failure = reduce(flat)
            if failure is not None:
                return None, failure
            at = 0
            for i in bucket:
                size = values[i].numel()
                self._put(values[i], i < len(self._parameters), flat[at : at + size])
                at += size
            if first:
                head = flat[at:].cpu()
        for i, parameter in enumerate(self._parameters):
            if head[_HEAD + i] == 0.0:
                # No member had one: the optimiser must skip it, as on one node.
                parameter.grad = None
        total = float(head[_WEIGHT])
        loss = float(head[_LOSS]) / total if total > 0.0 else None
        return Vote(float(head[_MOVING]), float(head[_LEAVING]), loss), ""

    @staticmethod
    def _put(value: torch.Tensor, is_parameter: bool, flat: torch.Tensor) -> None:
        shaped = flat.view(value.shape).to(value.dtype)
        if not is_parameter:
            value.copy_(shaped)
        elif value.grad is None or value.grad.is_sparse:
            value.grad = shaped.clone()
        else:
            value.grad.copy_(shaped)


def _part(value: torch.Tensor, is_parameter: bool, weight: float) -> torch.Tensor:
    source = value.grad if is_parameter else value
    dtype = _wire_dtype(value)
    if source is None:
        return torch.zeros(value.numel(), dtype=dtype, device=value.device)
    dense = source.detach().to_dense() if source.is_sparse else source.detach()
    return dense.reshape(-1).to(dtype) * weight


def _wire_dtype(value: torch.Tensor) -> torch.dtype:
    """Halves are summed as singles: their sums would lose digits, and flags need whole numbers."""
    return torch.float64 if value.dtype == torch.float64 else torch.float32


def _buckets(values: list[torch.Tensor]) -> list[list[int]]:
    """Places of the values, by type and device, singles first since the head goes with them."""
    groups: dict[tuple[bool, str], list[int]] = {}
    for i, value in enumerate(values):
        key = (_wire_dtype(value) == torch.float64, str(value.device))
        groups.setdefault(key, []).append(i)
    return [groups[key] for key in sorted(groups)]


def _running_averages(model: nn.Module) -> list[torch.Tensor]:
    found = []
    for module in model.modules():
        if isinstance(module, _NORMS) and module.track_running_stats:
            found += [t for t in (module.running_mean, module.running_var) if t is not None]
    return found
