"""Squared norms of gradients in buckets and of an optimiser's momentum.

For Adam and its relatives a gradient is divided by the root of its running mean square, as the
optimiser does, since that is the geometry in which it learns (AdaptDL does so too). Divisors are
kept for some steps: all members must have the same ones, so they change at agreed steps.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from .buckets import Buckets
from .sharding import local

#: Optimisers that divide by a running mean square: the name of that state, and whether it is
#: corrected for its start.
_SQUARES = {"exp_avg_sq": True, "square_avg": False}
#: Steps after which a running mean square is used, as in AdaptDL.
WARM = 5


def is_adaptive(optimizers: Sequence[torch.optim.Optimizer]) -> Optional[bool]:
    """Whether all divide by a mean square, or none does; None if that is not known."""
    sgd = [isinstance(one, torch.optim.SGD) for one in optimizers]
    names = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta")
    adaptive = [type(one).__name__ in names for one in optimizers]
    return False if all(sgd) else True if all(adaptive) else None


def decay(optimizers: Sequence[torch.optim.Optimizer]) -> float:
    """The decay of the momentum that all optimisers keep; 0 if there is none in common."""
    found = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(optimizer, torch.optim.SGD):
                found.add(float(group["momentum"]))
            elif "betas" in group:
                found.add(float(group["betas"][0]))
            else:
                return 0.0
    return found.pop() if len(found) == 1 else 0.0


class Norms:
    """Squared norms by the buckets of some parameters.

    ``geometry``: ``"sgd"`` for plain norms, ``"adam"`` for those of divided gradients.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        optimizers: Sequence[torch.optim.Optimizer],
        geometry: str,
    ) -> None:
        self._parameters = parameters
        self._optimizers = optimizers
        self.geometry = geometry
        self._buckets: Optional[Buckets] = None
        self._factors: list[torch.Tensor] = []
        self._views: dict[int, torch.Tensor] = {}
        self._scratch: dict[int, torch.Tensor] = {}

    def refresh(self, buckets: Buckets) -> bool:
        """Takes the divisors of this moment. False as long as there are none."""
        self._buckets, self._factors, self._views = buckets, [], {}
        if self.geometry == "sgd":
            return True
        groups = self._groups()
        for bucket in buckets.buckets:
            factor = torch.zeros_like(bucket.flat)
            for place in bucket.members:
                parameter = self._parameters[place]
                of = _divisor(parameter, *groups[id(parameter)])
                if of is None:
                    self._buckets, self._factors = None, []
                    return False
                at = buckets.view(place)
                view = factor.as_strided(at.shape, at.stride(), at.storage_offset())
                torch.reciprocal(of.to(view.dtype), out=view)
                self._views[place] = view
            self._factors.append(factor)
        return True

    def ready(self, buckets: Buckets) -> bool:
        """Whether the divisors are those of these buckets."""
        return self._buckets is buckets

    def of_bucket(self, number: int, flat: torch.Tensor) -> torch.Tensor:
        """The squared norm of a bucket; a tensor of one element, on its device."""
        if self._factors:
            scratch = self._scratch.get(number)
            if scratch is None or scratch.shape != flat.shape:
                scratch = self._scratch[number] = torch.empty_like(flat)
            flat = torch.mul(flat, self._factors[number], out=scratch)
        if flat.dtype in (torch.float16, torch.bfloat16):
            flat = flat.float()
        return torch.dot(flat, flat)

    def of_gradients(self, gradients: Sequence[Optional[torch.Tensor]]) -> float:
        """The squared norm of gradients by the places of their parameters."""
        groups = self._groups() if self.geometry == "adam" else {}
        total = []
        for parameter, grad in zip(self._parameters, gradients):
            if grad is None:
                continue
            flat = local(grad.detach())
            flat = (flat.to_dense() if flat.is_sparse else flat).reshape(-1)
            if self.geometry == "adam":
                of = _divisor(parameter, *groups[id(parameter)])
                if of is None:
                    return float("nan")
                flat = flat / of.reshape(-1)
            flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
            total.append(torch.dot(flat, flat))
        return added(total) if total else 0.0

    def _groups(self) -> dict[int, tuple[torch.optim.Optimizer, dict[str, Any]]]:
        return {
            id(p): (optimizer, group)
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for p in group["params"]
        }

    def of_momentum(self, steps: int) -> Optional[float]:
        """The squared norm of the averaged gradient's running mean after ``steps`` steps of it.

        Weight decay that an optimiser adds to gradients is taken out. None without a momentum.
        """
        beta = decay(self._optimizers)
        if beta <= 0.0:
            return None
        places = {id(p): place for place, p in enumerate(self._parameters)}
        total: list[torch.Tensor] = []
        for optimizer in self._optimizers:
            sgd = isinstance(optimizer, torch.optim.SGD)
            # AdamW decays parameters and not gradients.
            decays = sgd or type(optimizer).__name__ == "Adam"
            for group in optimizer.param_groups:
                # PyTorch's SGD sums beta^k (1 - dampening) g; Adam has the mean.
                scale = (1.0 - beta) / (1.0 - group["dampening"]) if sgd else 1.0
                scale /= 1.0 - beta ** max(1, steps)
                weight = float(group.get("weight_decay", 0.0)) if decays else 0.0
                for parameter in group["params"]:
                    state = optimizer.state.get(parameter, {})
                    kept = state.get("momentum_buffer" if sgd else "exp_avg")
                    if kept is None:
                        if parameter.grad is None:
                            continue
                        return None
                    mean = local(kept)
                    if weight != 0.0:
                        mean = torch.add(mean, local(parameter.detach()), alpha=-weight / scale)
                    view = self._views.get(places.get(id(parameter), -1))
                    if view is not None:
                        mean = mean * view
                    flat = mean.reshape(-1)
                    if flat.dtype in (torch.float16, torch.bfloat16):
                        flat = flat.float()
                    total.append(torch.dot(flat, flat) * (scale * scale))
        return added(total) if total else None


def added(parts: Sequence[torch.Tensor]) -> float:
    """The sum, in double precision."""
    if all(part.device.type == "cpu" for part in parts):
        return float(sum(part.item() for part in parts))
    return float(torch.stack([part.double() for part in parts]).sum())


def _divisor(
    parameter: torch.nn.Parameter, optimizer: torch.optim.Optimizer, group: dict[str, Any]
) -> Optional[torch.Tensor]:
    state = optimizer.state.get(parameter, {})
    for name, corrected in _SQUARES.items():
        if name in state:
            steps = int(state.get("step", 0))
            if steps < WARM:
                return None
            square = local(state[name])
            if corrected:
                square = square / (1.0 - group["betas"][1] ** steps)
            return square.sqrt().add_(group.get("eps", 1e-8))
    return None
