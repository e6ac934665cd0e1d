"""Numbers of several members in one: means weighted by samples, sums, extremes."""

from __future__ import annotations

from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Union

import torch

from .data import Source
from .order import Share
from .part import Part

#: The way in which the numbers of several members become one.
How = Literal["mean", "sum", "min", "max"]

#: Which of two numbers is the better one.
Mode = Literal["max", "min"]

#: A weight, and numbers by name; None for a member that did not come.
Given = Optional[list[Any]]


class Bests(Part):
    """By name the best number so far, and the step after which it was found."""

    name = "best"

    def __init__(self) -> None:
        self._held: dict[str, tuple[float, int]] = {}

    @property
    def values(self) -> dict[str, float]:
        """The best numbers by name."""
        return {name: value for name, (value, _) in self._held.items()}

    def is_new(self, name: str, value: float, mode: Mode, step: int) -> bool:
        """Whether a number is better than all before, and keeps it then.

        It is so again where a program asks twice after one step. NaN is no best.
        """
        held = self._held.get(name)
        if held == (value, step):
            return True
        if value != value:
            return False
        if held is not None and not (value > held[0] if mode == "max" else value < held[0]):
            return False
        self._held[name] = (value, step)
        return True

    def state_dict(self) -> dict[str, list[float]]:
        """The numbers and steps by name."""
        return {name: [value, step] for name, (value, step) in self._held.items()}

    def load_state_dict(self, state: Mapping[str, list[float]]) -> None:
        """Takes them over."""
        self._held = {name: (value, int(step)) for name, (value, step) in state.items()}


def numbers(values: Mapping[str, Union[float, torch.Tensor]]) -> dict[str, float]:
    """Values as plain numbers. Raises ValueError for what is none, and names it."""
    found = {}
    for name, value in values.items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{name} is no number: {error}") from None
    return found


def _mean(pairs: list[tuple[float, float]]) -> float:
    """The weighted mean of (weight, value); NaN without any weight."""
    total = sum(weight for weight, _ in pairs)
    if total <= 0.0:
        return float("nan")
    return sum(weight * value for weight, value in pairs if weight > 0.0) / total


_WAYS: dict[str, Callable[[list[tuple[float, float]]], float]] = {
    "mean": _mean,
    "sum": lambda pairs: sum(value for _, value in pairs),
    "min": lambda pairs: min(value for _, value in pairs),
    "max": lambda pairs: max(value for _, value in pairs),
}


def same(name: str, parts: Sequence[Optional[float]]) -> float:
    """The number that all members gave that came. Raises ValueError if they differ."""
    there = [(rank, value) for rank, value in enumerate(parts) if value is not None]
    if any(repr(value) != repr(there[0][1]) for _, value in there):
        given = ", ".join(f"rank {rank} {value}" for rank, value in there)
        raise ValueError(
            f"{name} must be the same number at all members, and is not: {given}. Give it what "
            "run.evaluate(data, judge) or run.reduce(numbers) returns"
        )
    return there[0][1]


def merged(parts: list[Given], how: How) -> dict[str, float]:
    """The numbers of all members that came, by rank, in one. Raises ValueError, at each alike."""
    if how not in _WAYS:
        raise ValueError(f"how must be {', '.join(_WAYS)}, not {how!r}")
    there = [(rank, part) for rank, part in enumerate(parts) if part is not None]
    first, names = there[0][0], list(there[0][1][1])
    for rank, part in there:
        if set(part[1]) != set(names):
            raise ValueError(f"rank {first} has the numbers {names}, rank {rank} {list(part[1])}")
    return {name: _WAYS[how]([(part[0], part[1][name]) for _, part in there]) for name in names}


def means(
    feed: Source,
    size: int,
    number: int,
    count: int,
    judge: Callable[[Any], Mapping[str, Union[float, torch.Tensor]]],
) -> Given:
    """The means of ``judge`` over every ``count``-th batch of ``size`` samples, from ``number`` on.

    None if there are none.
    """
    length = feed.length or 0
    shares = [
        Share(0, at, min(size, length - at), 0, 1, torch.arange(at, min(at + size, length)))
        for at in range(number * size, length, count * size)
    ]
    samples = 0
    totals: dict[str, float] = {}
    for i, share in enumerate(shares):
        _, batch = feed.take(share, lambda i=i: iter(shares[i:]))  # type: ignore[misc]
        found = numbers(judge(batch))
        if totals and set(found) != set(totals):
            raise ValueError(f"judge gave {list(found)} for one batch, {list(totals)} for another")
        for name, value in found.items():
            totals[name] = totals.get(name, 0.0) + share.batch * value
        samples += share.batch
    return [samples, {name: total / samples for name, total in totals.items()}] if samples else None
