"""What all members must have alike: rates of learning, counters, weights."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import torch

from .marks import THOROUGH
from .metrics import Bests
from .part import Part, Step
from .sharding import local
from .state import Parts, Value

#: Weights of two members are apart where they differ by more than this share of their size: more
#: than processors of two kinds come to by rounding.
APART = 1e-3


def common(
    parts: Parts, bests: Mapping[str, float], modes: bool, turn: Optional[int] = None
) -> dict[str, float]:
    """Numbers by name that a program may change, and that all members must have alike.

    ``modes``: whether those of the modules are among them. ``turn``: the optimiser that steps, if
    it is not all of them.
    """
    found: dict[str, float] = {}
    if turn is not None:
        found["the place of the optimiser in run.step(loss, optimizer)"] = turn
    if modes:
        there = sum(one.training for one in parts.model.modules())
        found["the number of modules in the mode of model.train()"] = there
    for i, optimizer in enumerate(parts.optimizers):
        for j, group in enumerate(optimizer.param_groups):
            for name, value in group.items():
                of = f"{name} of optimiser {i}, group {j}"
                if type(value) in (float, int):
                    found[of] = _short(value)
                elif isinstance(value, torch.Tensor):
                    # A number on a device would be waited for.
                    if value.numel() == 1 and value.device.type == "cpu":
                        found[of] = _short(float(value))
                elif type(value) is tuple:
                    numbers = (_short(part) for part in value if type(part) in (float, int))
                    found.update((f"{of}, number {k}", part) for k, part in enumerate(numbers, 1))
    for name, part in parts.extra.items():
        if isinstance(part, Value) and isinstance(part.value, (float, int)):
            found[f"state[{name!r}].value"] = part.value
    for name, value in bests.items():
        found[f"run.best({name!r})"] = value
    return found


def _short(number: float) -> float:
    """Without the last digits, in which a cosine differs between processors and libraries."""
    return float(f"{number:.6g}")


def mark(numbers: Mapping[str, float]) -> float:
    """A whole number of 20 bits that differs where the numbers do; sums of its square are exact."""
    # The hash of a NaN is that of its place in memory, and that of a name differs by process.
    values = tuple(v if v == v else -1e300 for _, v in sorted(numbers.items()))
    return float(hash(values) & 0xFFFFF)


def differences(members: Sequence[Optional[Mapping[str, float]]]) -> str:
    """The error for members whose numbers differ, by rank."""
    there = [(rank, one) for rank, one in enumerate(members) if one is not None]
    names = sorted({name for _, one in there for name in one})
    for name in names:
        values = [(rank, one.get(name)) for rank, one in there]
        if any(repr(value) != repr(values[0][1]) for _, value in values):
            text = ", ".join(
                f"rank {rank} {'none' if value is None else value}" for rank, value in values
            )
            break
    else:
        name, text = "a number of the optimisers", "not all of them answered"
    return (
        f"members differ in {name}: {text}. What it follows from must be the same at all: a metric "
        "of run.evaluate() or run.reduce(), run.steps_done, run.epoch; call run.best() at all "
        "members, and give schedulers to lacuna.elastic(scheduler=) or state="
    )


def is_due(step: int) -> bool:
    """Whether members compare their weights at this step of the training."""
    return step % THOROUGH == 0 or step & (step - 1) == 0


def places(parameters: Sequence[torch.nn.Parameter]) -> list[tuple[float, float]]:
    """By parameter a sum of its numbers with signs in turn, and its size: the root of that of their
    squares. Numbers of few digits are left out, since these differ by more."""
    found = []
    for parameter in parameters:
        flat = local(parameter.detach()).flatten()
        if flat.dtype not in (torch.float32, torch.float64):
            flat = flat[:0].float()
        even, odd = (flat[at::2].sum(dtype=torch.float64) for at in (0, 1))
        found.append((float(even - odd), float(flat.norm())))
    return found


def place(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The same of all parameters together."""
    return sum(at for at, _ in found), sum(size * size for _, size in found) ** 0.5


def apart(members: Sequence[Optional[Sequence[Any]]], names: Sequence[str]) -> str:
    """The error for members whose weights are apart: by rank, what :func:`places` gave."""
    there = [(rank, one) for rank, one in enumerate(members) if one is not None]

    def spread(i: int) -> float:
        at = [one[i][0] for _, one in there]
        return (max(at) - min(at)) / (there[0][1][i][1] or 1.0)

    most = max(range(len(names)), key=spread)
    sizes = ", ".join(f"rank {rank} {one[most][1]:.6g}" for rank, one in there)
    return (
        f"members have different weights, most in {names[most]}, of these norms: {sizes}. What "
        "changes weights in the loop must be the same at all members: not at one rank alone, and "
        "with random numbers that are the same at all, as of "
        "torch.Generator().manual_seed(run.steps_done)"
    )


class Alike(Part):
    """Compares what members must have alike, in each step the numbers, now and then the weights.

    A shard is compared with no other one.
    """

    def __init__(self, parts: Parts, bests: Bests) -> None:
        self._parts = parts
        self._bests = bests
        self._common: dict[str, float] = {}
        self._places: list[tuple[float, float]] = []
        self._size = 0.0

    def vote(self, step: Step) -> None:
        now = step.now
        due = is_due(now.position.step)
        self._common = common(self._parts, self._bests.values, due, step.turn)
        looked_at = now.shards == 1 and due
        self._places = places(step.gradients.parameters) if looked_at else []
        number, (at, self._size) = mark(self._common), place(self._places)
        step.send(self, (number, number * number, at, at * at))

    def agree(self, step: Step) -> None:
        members, sums = step.now.world_size, step.summed(self)
        if not sums:
            return
        marks, marks_squared, at, at_squared = sums
        if members * marks_squared != marks * marks:
            raise RuntimeError(differences(step.all_of(self._common)))
        if members * at_squared - at * at > (members * APART * self._size) ** 2:
            raise RuntimeError(apart(step.all_of(self._places), step.gradients.names))
