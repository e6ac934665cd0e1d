"""The batch and the learning rate when nodes come and go.

Nodes count here, not workers: a node with four workers takes what a node with one takes.

The choice is the user's. The default is the same for the optimiser at any
number of nodes: the batch of a step is fixed, and is cut into as many shares as there are
members. Then the loss curve does not depend on the membership at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Union

#: How the learning rate follows the batch: ``linear`` (Goyal et al. 2017), ``sqrt`` (Krizhevsky
#: 2014), ``none``, or a function of the ratio of the present batch to the reference batch.
LearningRate = Union[str, Callable[[float], float]]


@dataclass(frozen=True)
class WholeGroup:
    """The batch of a step is ``batch`` samples at any number of nodes."""

    batch: int

    def batch_of(self, nodes: int) -> int:
        """Samples of one step of the whole group."""
        return self.batch

    def factor(self, nodes: int) -> float:
        """The factor of the learning rate."""
        return 1.0

    def text(self) -> str:
        """The same at members that agree."""
        return f"whole:{self.batch}"


@dataclass(frozen=True)
class PerNode:
    """Each node takes ``batch`` samples a step; the learning rate follows the group's batch.

    The learning rate of the optimiser is the one for ``reference_nodes`` nodes.
    """

    batch: int
    learning_rate: LearningRate = "linear"
    reference_nodes: int = 1

    def batch_of(self, nodes: int) -> int:
        """Samples of one step of the whole group."""
        return self.batch * nodes

    def factor(self, nodes: int) -> float:
        """The factor of the learning rate."""
        ratio = nodes / self.reference_nodes
        if callable(self.learning_rate):
            return float(self.learning_rate(ratio))
        return {"linear": ratio, "sqrt": math.sqrt(ratio), "none": 1.0}[self.learning_rate]

    def text(self) -> str:
        """The same at members that agree."""
        return f"node:{self.batch}:{self.reference_nodes}"


BatchPolicy = Union[WholeGroup, PerNode]


def checked(batch: Union[int, BatchPolicy]) -> BatchPolicy:
    """A number means :class:`WholeGroup`. Raises ValueError for what makes no sense."""
    if isinstance(batch, bool) or not isinstance(batch, (int, WholeGroup, PerNode)):
        raise ValueError(f"batch must be a number, WholeGroup or PerNode, not {batch!r}")
    policy = WholeGroup(batch) if isinstance(batch, int) else batch
    if policy.batch < 1:
        raise ValueError(f"batch must be at least 1, not {policy.batch}")
    if isinstance(policy, PerNode):
        if policy.reference_nodes < 1:
            raise ValueError(f"reference_nodes must be at least 1, not {policy.reference_nodes}")
        if not callable(policy.learning_rate) and policy.learning_rate not in (
            "linear",
            "sqrt",
            "none",
        ):
            raise ValueError(
                f"learning_rate must be 'linear', 'sqrt', 'none' or a function, "
                f"not {policy.learning_rate!r}"
            )
    return policy
