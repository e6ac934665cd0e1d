"""The batch and the learning rate when nodes come and go.

Nodes count here, not workers: a node with four workers takes what a node with one takes.

The choice is the user's. The default is the same for the optimiser at any
number of nodes: the batch of a step is fixed, and is cut into as many shares as there are
members. Then the loss curve does not depend on the membership at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

#: How the learning rate follows the batch: ``linear`` (Goyal et al. 2017), ``sqrt`` (Krizhevsky
#: 2014), ``none``, or a function of the ratio of the present batch to the reference batch.
#: ``adascale`` (SGD) and ``adamscale`` (Adam and its relatives) follow the noise scale of the
#: gradient (AdaScale, arXiv 2007.05105; the root for Adam as in Pollux): progress then counts in
#: steps of the reference batch, and so do schedulers and epochs.
LearningRate = Union[str, Callable[[float], float]]

#: Rules that follow the noise scale.
BY_NOISE = ("adascale", "adamscale")
_RULES = ("linear", "sqrt", "none", *BY_NOISE)


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
        return _factor(self.learning_rate, ratio)

    def text(self) -> str:
        """The same at members that agree."""
        follows = f":{self.learning_rate}" if self.learning_rate in BY_NOISE else ""
        return f"node:{self.batch}:{self.reference_nodes}{follows}"


@dataclass(frozen=True)
class Adaptive:
    """The batch with the most learning a second, of ``batch`` to ``most`` samples of the group.

    It is chosen again when nodes come or go, and every 50 steps, from the measured times of steps
    and the noise scale of the gradient. It changes only where that is worth more than 5 %.
    ``most_per_worker``: the samples that a worker's memory holds. The learning rate of the
    optimiser is the one for ``batch``.
    Source: Pollux (OSDI 2021).
    """

    batch: int
    most: int
    learning_rate: str = "adascale"
    most_per_worker: Optional[int] = None

    def batch_of(self, nodes: int) -> int:
        """Samples of a step before another batch is chosen."""
        return self.batch

    def factor(self, nodes: int) -> float:
        """The factor of the learning rate at that batch."""
        return 1.0

    def text(self) -> str:
        """The same at members that agree."""
        return f"adaptive:{self.batch}:{self.most}:{self.most_per_worker}:{self.learning_rate}"


BatchPolicy = Union[WholeGroup, PerNode, Adaptive]


def _factor(rule: str, ratio: float) -> float:
    return {"linear": ratio, "sqrt": math.sqrt(ratio)}.get(rule, 1.0)


def reference(policy: BatchPolicy) -> int:
    """The batch for which the user set the learning rate, ``M0``."""
    if isinstance(policy, PerNode):
        return policy.batch * policy.reference_nodes
    return policy.batch


def rule(policy: BatchPolicy) -> LearningRate:
    """How the learning rate follows the batch."""
    return "none" if isinstance(policy, WholeGroup) else policy.learning_rate


def follows(policy: BatchPolicy) -> dict[str, Any]:
    """How the batch follows the nodes, in the words of the agent's vocabulary."""
    if isinstance(policy, Adaptive):
        more = {} if policy.most_per_worker is None else {"most_of_worker": policy.most_per_worker}
        return {"follows": "adaptive", "most": policy.most, **more}
    if isinstance(policy, PerNode):
        return {"follows": {"per_node": {"samples": policy.batch}}, "most": reference(policy)}
    return {"follows": "whole", "most": policy.batch}


def checked(batch: Union[int, BatchPolicy]) -> BatchPolicy:
    """A number means :class:`WholeGroup`. Raises ValueError for what makes no sense."""
    if isinstance(batch, bool) or not isinstance(batch, (int, WholeGroup, PerNode, Adaptive)):
        raise ValueError(f"batch must be a number, WholeGroup, PerNode or Adaptive, not {batch!r}")
    policy = WholeGroup(batch) if isinstance(batch, int) else batch
    if policy.batch < 1:
        raise ValueError(f"batch must be at least 1, not {policy.batch}")
    if isinstance(policy, PerNode):
        if policy.reference_nodes < 1:
            raise ValueError(f"reference_nodes must be at least 1, not {policy.reference_nodes}")
    if isinstance(policy, Adaptive):
        if policy.most < policy.batch:
            raise ValueError(
                f"most is {policy.most} and batch is {policy.batch}: expected batch <= most"
            )
        if policy.most_per_worker is not None and policy.most_per_worker < 1:
            raise ValueError(f"most_per_worker must be at least 1, not {policy.most_per_worker}")
    named = rule(policy)
    if named not in _RULES and not (callable(named) and isinstance(policy, PerNode)):
        raise ValueError(
            f"learning_rate must be {', '.join(map(repr, _RULES))} or, with PerNode, a function, "
            f"not {named!r}"
        )
    return policy
