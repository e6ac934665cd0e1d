"""How rows of tables change by their gradients g, element by element; rows without one stay.

    adagrad   h += g * g                          w -= rate * g / (sqrt(h) + 1e-10)
    sgd                                           w -= rate * g
    adam      m += (1 - .9) (g - m)
              h = .999 h + .001 g * g             w -= rate * m' / (sqrt(h') + 1e-8)

with ``m' = m / (1 - .9^step)`` and ``h' = h / (1 - .999^step)``. Each is that of ``torch.optim``
with its default settings. A row without gradients stays under Adam too, as with
``torch.optim.SparseAdam``; dense Adam would move it on. Sources: Duchi et al. 2011, Kingma and Ba
2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch

#: The state of rows by name, and their change by rate, step from 1, gradients and state. The state
#: is changed in place.
State = dict[str, torch.Tensor]
Change = Callable[[float, int, torch.Tensor, State], torch.Tensor]


def _adagrad(rate: float, step: int, gradients: torch.Tensor, state: State) -> torch.Tensor:
    state["squares"] += gradients * gradients
    return rate * gradients / (state["squares"].sqrt() + 1e-10)


def _sgd(rate: float, step: int, gradients: torch.Tensor, state: State) -> torch.Tensor:
    return rate * gradients


def _adam(rate: float, step: int, gradients: torch.Tensor, state: State) -> torch.Tensor:
    means, squares = state["means"], state["squares"]
    means += (1 - 0.9) * (gradients - means)
    squares += (1 - 0.999) * (gradients * gradients - squares)
    root = squares.sqrt() / (1 - 0.999**step) ** 0.5
    return rate / (1 - 0.9**step) * means / (root + 1e-8)


@dataclass(frozen=True)
class Rule:
    """An optimiser: the names of its state, and the change of rows."""

    state: tuple[str, ...]
    change: Change


RULES = {
    "adagrad": Rule(("squares",), _adagrad),
    "sgd": Rule((), _sgd),
    "adam": Rule(("means", "squares"), _adam),
}
