"""Gradients in flat buckets: each bucket is one message, and each gradient a part of one.

Where a gradient has the type of the message it is a view into its bucket, so a sum is in place
when it arrives. Sizes and the small first bucket are those of DistributedDataParallel (Li et al.,
VLDB 2020, section 3.2.3): a bucket is on its way while the backward pass fills the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

import torch

from .sharding import like, local

#: Bytes of the first bucket, and of each later one; a larger gradient has a bucket for itself.
FIRST = 1 << 20
SIZE = 25 << 20
#: Gradients begin at multiples of this many elements, so that vector instructions are aligned.
_ALIGNED = 16


@dataclass(frozen=True)
class Bucket:
    """One message, and the places of its gradients in the list of parameters."""

    flat: torch.Tensor
    members: tuple[int, ...]


class Buckets:
    """The buckets of some parameters, in the order in which they are sent.

    Of a parameter that is sharded, a bucket holds this worker's part.

    ``order``: places of all parameters in the order in which their gradients arrive. ``wire``: the
    type of the messages, None for that of the parameters; halves then travel as singles, since
    their sums would lose digits.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        order: Sequence[int],
        wire: Optional[torch.dtype],
    ) -> None:
        self._parameters = parameters
        self._parts = [local(parameter) for parameter in parameters]
        self._views: dict[int, torch.Tensor] = {}
        #: The views as gradients of their parameters.
        self._grads: dict[int, torch.Tensor] = {}
        #: Parameters whose share of the sum is in its bucket.
        self._filled = [False] * len(parameters)
        self.bucket_of = [0] * len(parameters)
        self.buckets: list[Bucket] = []
        for members in _cut(self._parts, order, wire):
            self._add(members, wire_type(parameters[members[0]], wire))

    def _add(self, members: list[int], dtype: torch.dtype) -> None:
        begins, end = [], 0
        for place in members:
            begins.append(end)
            size = self._parts[place].numel()
            end += -(-size // _ALIGNED) * _ALIGNED
        flat = torch.zeros(end, dtype=dtype, device=self._parameters[members[0]].device)
        for place, begin in zip(members, begins):
            self._views[place] = _like(self._parts[place], flat, begin)
            # A view shares the bucket's version, and sums change that.
            own = self._views[place].data
            self._grads[place] = like(self._parameters[place], own)
            self.bucket_of[place] = len(self.buckets)
        self.buckets.append(Bucket(flat, tuple(members)))

    def begin(self) -> None:
        """Begins a step: no gradient is in its bucket."""
        self._filled = [False] * len(self._parameters)

    def is_filled(self, place: int) -> bool:
        """Whether the parameter's gradient is in its bucket."""
        return self._filled[place]

    def view(self, place: int) -> torch.Tensor:
        """The part of its bucket that a parameter's gradient has."""
        return self._views[place]

    def fill(self, place: int, weight: float) -> None:
        """Puts ``weight`` times the gradient of a parameter into its bucket; zeros without one.

        Raises RuntimeError if the parameter has changed its shape, type or device.
        """
        self._filled[place] = True
        parameter, view = self._parameters[place], self._views[place]
        grad = parameter.grad
        if grad is None:
            view.zero_()
        elif grad is self._grads[place]:
            view.mul_(weight)
        else:
            grad = local(grad.detach())
            if grad.shape != view.shape or grad.device != view.device:
                raise RuntimeError(
                    f"has changed from {tuple(view.shape)} on {view.device} to "
                    f"{tuple(grad.shape)} on {grad.device}"
                )
            if grad.is_sparse:
                grad = grad.to_dense()
            # The product is formed in the wider of the two types, in one pass over memory.
            wider = torch.promote_types(grad.dtype, view.dtype)
            torch.mul(grad.to(wider), weight, out=view)
            if grad.dtype == view.dtype:
                parameter.grad = self._grads[place]

    def deliver(self, place: int) -> None:
        """Makes the sum the gradient of the parameter."""
        parameter, grad = self._parameters[place], self._grads[place]
        if grad.dtype == parameter.dtype:
            if parameter.grad is not grad:
                parameter.grad = grad
        elif parameter.grad is None or parameter.grad.is_sparse:
            parameter.grad = grad.to(parameter.dtype)
        else:
            parameter.grad.copy_(grad)


def wire_type(parameter: torch.Tensor, wire: Optional[torch.dtype]) -> torch.dtype:
    """The type in which a gradient travels."""
    if wire is not None:
        return wire
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32


def _cut(
    parameters: Sequence[torch.Tensor], order: Sequence[int], wire: Optional[torch.dtype]
) -> list[list[int]]:
    """Parameters by bucket: of one type and device, as many as fit, in order of completion."""
    done: list[list[int]] = []
    opened: dict[tuple[torch.dtype, torch.device], tuple[list[int], int]] = {}
    limits: dict[tuple[torch.dtype, torch.device], int] = {}
    for place in order:
        parameter = parameters[place]
        dtype = wire_type(parameter, wire)
        key = (dtype, parameter.device)
        members, size = opened.pop(key, ([], 0))
        members.append(place)
        size += parameter.numel() * torch.empty(0, dtype=dtype).element_size()
        if size >= limits.get(key, FIRST):
            done.append(members)
            limits[key] = SIZE
        else:
            opened[key] = (members, size)
    rank = {place: i for i, place in enumerate(order)}
    done += [members for members, _ in opened.values()]
    return sorted(done, key=lambda members: rank[members[-1]])


def _like(parameter: torch.Tensor, flat: torch.Tensor, begin: int) -> torch.Tensor:
    """A part of ``flat`` with the parameter's shape, and its strides if these leave no gaps.

    An optimiser is slow where a gradient lies otherwise in memory than its parameter.
    """
    expected = 1
    for stride, size in sorted(zip(parameter.stride(), parameter.shape)):
        if size > 1 and stride != expected:
            return flat[begin : begin + parameter.numel()].view(parameter.shape)
        expected *= size
    return flat.as_strided(parameter.shape, parameter.stride(), begin)
