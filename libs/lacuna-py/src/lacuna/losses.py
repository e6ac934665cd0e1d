"""Whether a loss is a mean over samples, as far as its graph tells.

A member's loss and gradient count by its samples. A sum over samples, or a mean by other weights,
is another number with more members. Nodes of a graph have their names and their ways of reduction
after a backward pass too.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import torch

A_SUM = (
    "the loss is a sum over samples, which is another one with more members: divide it by the "
    "samples that came, loss = loss / len(x), or take the mean, as reduction='mean' gives it"
)
WEIGHED = (
    "cross_entropy(weight=...) divides by the weights of this member's samples, which differ "
    "between members: write loss = cross_entropy(found, wanted, weight=w, reduction='none').mean()"
)
#: Nodes that change neither which samples a loss is of, nor how they are added up.
_THROUGH = {"Add", "Alias", "Mul", "Neg", "Reshape", "Squeeze", "Sub", "ToCopy", "View"}
_THROUGH |= {"Cat", "ReshapeAlias", "Stack", "Unsqueeze"}
#: Where a model begins.
_LAYERS = {"Addmm", "Mm", "Bmm", "Convolution", "Embedding"}
#: Of PyTorch's losses: the values of `reduction`.
MEAN, SUM = 1, 2


def name_of(node: Any) -> str:
    """As ``Mul`` of ``MulBackward0``."""
    name: str = node.name()
    return name.split("Backward")[0]


def after(node: Any) -> list[Any]:
    return [one for one, _ in node.next_functions if one is not None]


def names_below(nodes: Sequence[Any], most: int = 32) -> Iterator[str]:
    """Names of nodes down to the layers of a model; ``...`` for those that are too many."""
    waiting = list(nodes)
    for node in waiting:
        name = name_of(node)
        yield name if len(waiting) <= most else "..."
        if len(waiting) > most:
            return
        if name not in _LAYERS:
            waiting += after(node)


def _ways(nodes: Sequence[Any], most: int = 64) -> Iterator[str]:
    """How each term of a loss adds up samples: ``sum``, ``mean``, ``weighed``, or ``unknown``."""
    waiting = [(node, False) for node in nodes]
    while waiting:
        (node, is_scaled), most = waiting.pop(), most - 1
        name, below = name_of(node), after(node)
        reduction = getattr(node, "_saved_reduction", None)
        # A sum over samples may be multiplied by one over their number, which is gone by now.
        a_sum = "unknown" if is_scaled else "sum"
        if most < 0:
            yield "unknown"
            return
        if name in _THROUGH:
            is_scaled |= name == "Mul" and len(below) == 1
            waiting += [(one, is_scaled) for one in below]
        elif name.startswith("NllLoss") and reduction == MEAN and _has_weights(node):
            yield "weighed"
        elif name == "Mean" or reduction == MEAN:
            yield "mean"
        elif reduction == SUM:
            yield a_sum
        elif name == "Sum":
            # The sum of several losses, or of a mean over samples, is no sum over samples.
            inner = {name_of(one) for one in below}
            # Each sample's may be divided by their number (:mod:`lacuna.scales` knows by what).
            other = {"Mean", "Div"} & set(names_below(below))
            if inner & {"Stack", "Cat"}:
                waiting += [(one, is_scaled) for one in below]
            else:
                yield "unknown" if other else a_sum
        else:
            yield "unknown"


def _has_weights(node: Any) -> bool:
    try:
        return node._saved_weight is not None
    except RuntimeError:
        # Those that were given are freed with the graph.
        return True


def why_not_a_mean(loss: Any) -> Optional[str]:
    """The error for a loss that is no mean over samples; None for one that is, or may be."""
    if not isinstance(loss, torch.Tensor) or loss.grad_fn is None:
        return None
    ways = set(_ways([loss.grad_fn]))
    if "weighed" in ways:
        return WEIGHED
    return A_SUM if ways == {"sum"} else None


def divisor(loss: Any) -> Optional[float]:
    """The number by which a mean over samples is divided, before its backward pass; None if none."""
    node = getattr(loss, "grad_fn", None)
    if node is None or name_of(node) != "Div" or set(_ways(after(node))) != {"mean"}:
        return None
    other = getattr(node, "_saved_other", None)
    return float(other) if isinstance(other, torch.Tensor) and other.numel() == 1 else None
