"""Whether the numbers by which a loss is divided follow from the samples that came.

A member's loss and gradient count by its samples. A sum over samples that is divided by a constant
is another number with more members, and so is a mean that is weighed by the samples a second time.
One look cannot tell ``2 * len(x)`` from the batch of two members. Looks at shares of different
sizes can, and nothing is said before.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Callable, Iterator, Optional

import torch

from .losses import A_SUM, MEAN, SUM, after, name_of, names_below

#: Looks after which it is said: so often no count of tokens is the same by chance.
LOOKS = 10
#: Nodes of one number that leave it as it is.
_THROUGH = {"Alias", "Reshape", "ReshapeAlias", "Squeeze", "ToCopy", "Unsqueeze", "View"}


def constant(count: float) -> str:
    """The error for a sum over samples that is divided by a constant."""
    return (
        f"the loss is a sum over samples divided by {count:g}, however many samples came, which is "
        "another one with more members: divide it by those, loss = loss / len(x), or take the "
        "mean, as reduction='mean' gives it"
    )


TWICE = (
    "the loss is a mean over samples that is multiplied by len(x) over a constant: run.step(loss) "
    "weighs each member by its samples already, so leave that out"
)


@dataclass
class _Term:
    """A term of a loss, over all looks: a sum or a mean over ``rows``, times ``factor``."""

    is_sum: bool
    factor: float
    #: The first size of what is added up.
    rows: Optional[int]
    count: int = 0
    is_over_samples: bool = True
    #: Whether the factor has been the same, and whether as many times the samples.
    is_constant: bool = True
    is_proportional: bool = True

    def saw(self, now: "_Term", count: int) -> None:
        same, first = (1e-6 * abs(self.factor)), self.count
        self.is_over_samples &= now.rows == count and now.is_sum == self.is_sum
        self.is_constant &= abs(now.factor - self.factor) <= same
        self.is_proportional &= abs(now.factor * first - self.factor * count) <= same * count

    def wrong(self) -> Optional[str]:
        """The error, once there were shares of different sizes."""
        if not self.is_over_samples or self.factor == 0.0:
            return None
        if self.is_sum:
            if not self.is_constant:
                return None
            return A_SUM if abs(self.factor) == 1.0 else constant(1.0 / abs(self.factor))
        return TWICE if self.is_proportional else None


@dataclass(frozen=True)
class _Pass:
    """A backward pass: its first node, what it is made of, and the samples that it is of."""

    node: Any
    terms: list[_Term]
    count: int
    is_part: bool


class Scales:
    """Looks at losses before their backward passes, until their terms are known."""

    def __init__(self) -> None:
        #: Over all looks, by the number of the pass in its step; those of parts are one.
        self._known: dict[int, list[_Term]] = {}
        self._passes: list[_Pass] = []
        self._looks = 0
        self._counts: set[int] = set()
        #: Whether losses count by their samples.
        self._is_weighed = False
        self._undo: Optional[Callable[[], None]] = None
        #: Samples of this member; 0 outside of the program's own lines.
        self._count = 0

    def begin(self) -> None:
        """A loop begins: its backward passes are looked at."""
        ours, before = self, torch.Tensor.backward

        @wraps(before)
        def backward(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            ours._look(tensor, ours._count, False)
            return before(tensor, *arguments, **options)

        torch.Tensor.backward = backward  # type: ignore[method-assign, assignment]

        def undo() -> None:
            if torch.Tensor.backward is backward:
                torch.Tensor.backward = before  # type: ignore[method-assign]

        self._undo = undo

    def close(self) -> None:
        """Backward passes are as before."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def batch(self, count: int) -> None:
        """A batch of this member begins, of these samples."""
        self._count = count
        self._passes.clear()

    @contextmanager
    def part(self, loss: torch.Tensor, weight: float) -> Iterator[None]:
        """Around the pass of a part of the batch."""
        count, self._count = self._count, 0
        self._look(loss, round(weight * count), True)
        try:
            yield
        finally:
            self._count = count

    def check(self, loss: Any, members: int) -> None:
        """The step ends. Raises RuntimeError for a loss that is another one with more members."""
        passes, self._passes, self._count = self._passes, [], 0
        if self._undo is None:
            return
        if len(passes) > 1:
            # Gradients of others may be cleared, as those that made an adversary.
            nodes = _added(getattr(loss, "grad_fn", None))
            passes = [one for one in passes if one.is_part or one.node in nodes]
        # Parts are weighed at one member too.
        self._is_weighed |= members > 1 or any(one.is_part for one in passes)
        for number, one in enumerate(passes):
            self._counts.add(one.count)
            self._saw(0 if one.is_part else number, one)
        self._looks += 1
        if self._looks < LOOKS or len(self._counts) < 2 or not self._is_weighed:
            return
        found = (term.wrong() for known in self._known.values() for term in known)
        why = next((why for why in found if why is not None), None)
        if why is not None:
            raise RuntimeError(why)
        self.close()

    def _look(self, loss: torch.Tensor, count: int, is_part: bool) -> None:
        if count > 0 and (self._looks < LOOKS or count not in self._counts):
            self._passes.append(_Pass(loss.grad_fn, list(terms(loss)), count, is_part))

    def _saw(self, number: int, one: _Pass) -> None:
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = [replace(term, count=one.count) for term in one.terms]
        if len(known) != len(one.terms):
            # Nothing is said of a loss that is another one at times.
            for term in known:
                term.is_over_samples = False
        for term, now in zip(known, one.terms):
            term.saw(now, one.count)


def _added(node: Any) -> list[Any]:
    """A node, and those of the losses that it adds up."""
    found = [node]
    for one in found:
        if one is not None and len(found) < 64 and name_of(one) in ("Add", "Sub"):
            found += after(one)
    return found


def terms(loss: Any, most: int = 64) -> Iterator[_Term]:
    """The sums and means over samples of which a loss is made, before its backward pass."""
    waiting = [(getattr(loss, "grad_fn", None), 1.0)]
    while waiting and most > 0:
        node, factor = waiting.pop()
        most -= 1
        if node is None:
            continue
        name, below = name_of(node), after(node)
        reduction = getattr(node, "_saved_reduction", None)
        number = _number(node) if name in ("Mul", "Div") and len(below) == 1 else None
        if number is not None:
            waiting.append((below[0], _times(name, factor, number)))
        elif name in _THROUGH or name == "Neg":
            waiting += [(one, factor) for one in below]
        elif name in ("Add", "Sub"):
            waiting += [(one, factor) for one in below]
        elif name in ("Sum", "Mean"):
            sizes = getattr(node, "_saved_self_sym_sizes", None)
            sizes = getattr(node, "_saved_self_sizes", ()) if sizes is None else sizes
            inner = 1.0 if name == "Mean" else _inner(below)
            if sizes and inner is not None:
                yield _Term(name == "Sum", factor * inner, int(sizes[0]))
        elif reduction in (SUM, MEAN) and isinstance(node._saved_self, torch.Tensor):
            sizes = node._saved_self.shape
            yield _Term(reduction == SUM, factor, int(sizes[0]) if sizes else None)


def _inner(nodes: list[Any]) -> Optional[float]:
    """The number by which each sample's loss is multiplied; None if it may be one of its own."""
    factor = 1.0
    while len(nodes) == 1 and (name := name_of(nodes[0])) in {"Mul", "Div", "Neg", *_THROUGH}:
        if name in ("Mul", "Div"):
            number = _number(nodes[0])
            if number is None:
                return None
            factor = _times(name, factor, number)
        nodes = after(nodes[0])
    # Nothing else may hold the number of samples.
    return None if {"Mul", "Div", "..."} & set(names_below(nodes)) else factor


def _times(name: str, factor: float, number: float) -> float:
    return factor * number if name == "Mul" else factor / number if number else 0.0


def _number(node: Any) -> Optional[float]:
    """The number by which a node multiplies or divides, if it is one that has no gradient."""
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, torch.Tensor) or other.numel() != 1 or other.requires_grad:
        return None
    return float(other)
