"""What a step does besides the program's passes and the update: parts with one interface.

A part is a class that owns its state. The methods of :class:`Part` stand in the order in which
they are called; of one method, those of all parts are called in the order of
:mod:`lacuna.pipeline`. A part that has nothing to do at a moment leaves that method out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, TypeVar

import torch

from .order import Order, Position, Share
from .progress import Span

if TYPE_CHECKING:
    from .data import Source
    from .gradients import Gradients, Vote
    from .group import Group
    from .norms import Norms

T = TypeVar("T")


@dataclass
class Now:
    """Where the training stands here."""

    #: Workers of a node, and those over which the model is sharded.
    workers: int = 1
    shards: int = 1
    position: Position = field(default_factory=Position)
    order: Optional[Order] = None
    group: "Optional[Group]" = None
    span: Span = field(default_factory=lambda: Span(0, 1, 0))
    rank: int = 0
    #: This member's part of the present batch, and that of the last one.
    share: Optional[Share] = None
    last_share: Optional[Share] = None
    #: Whether the step of the last share was applied.
    applied: bool = False
    #: Mean loss of the last step.
    loss: Optional[float] = None

    @property
    def world_size(self) -> int:
        """Members of the present group, or of the last one."""
        return self.span.world_size

    @property
    def nodes(self) -> int:
        """Their nodes."""
        return max(1, self.world_size // self.workers)

    def by_model(self, numbers: Sequence[T]) -> list[Sequence[T]]:
        """The numbers of members, together where they have the shards of one model."""
        return [numbers[at : at + self.shards] for at in range(0, len(numbers), self.shards)]


@dataclass
class Step:
    """One batch at this member, from its arrival to its step. Parts write into it."""

    now: Now
    share: Share
    #: How the batch was read.
    source: "Source"
    gradients: "Gradients"
    #: Gives the same thing of all members, by rank, for the words of an error.
    all_of: Callable[[Any], list[Any]]
    #: What the program gets, one after the other: the batch, or its halves.
    batches: list[Any]
    #: What measures the gradients, and whether with new divisors.
    norms: "tuple[Optional[Norms], bool]" = (None, False)
    #: Whether sums begin when the program has called ``run.step()``, and not before.
    late: bool = False
    #: What the program gave to ``run.step()``; behind ``called`` a tensor is a number.
    loss: Any = None
    optimizer: Optional[torch.optim.Optimizer] = None
    #: Place of the optimiser that takes a turn, the optimisers that step, and whether the batch
    #: ends with them.
    turn: Optional[int] = None
    stepped: Sequence[torch.optim.Optimizer] = ()
    ends: bool = True
    #: Seconds from the batch to ``run.step()``, with what its loss waits for.
    took: float = 0.0
    #: What ``run.step()`` returns, if a part has ended the call before the sums.
    answer: Optional[bool] = None
    numbers: list[float] = field(default_factory=list)
    _cuts: "dict[Part, slice]" = field(default_factory=dict)
    #: The sums over all members; None for one member.
    sums: "Optional[Vote]" = None
    #: Seconds since the step before, if there was one in this group.
    period: Optional[float] = None
    #: The factor of the learning rate (None: the policy's), the steps of schedulers, and the
    #: samples that the step is worth (None: its own).
    worth: tuple[Optional[float], int, Optional[int]] = (None, 0, None)

    def called(self, loss: Any, optimizer: Optional[torch.optim.Optimizer]) -> None:
        """The program calls ``run.step()``."""
        self.loss, self.optimizer = loss, optimizer
        self.answer, self.sums, self.worth = None, None, (None, 0, None)
        self.numbers, self._cuts = [], {}

    def send(self, part: "Part", numbers: Sequence[float]) -> None:
        """Puts a part's numbers into the message of which all members get the sums."""
        self._cuts[part] = slice(len(self.numbers), len(self.numbers) + len(numbers))
        self.numbers += numbers

    def summed(self, part: "Part") -> Sequence[float]:
        """The sums of a part's numbers."""
        return () if self.sums is None else self.sums.more[self._cuts[part]]


class Part:
    """A part of a step that does nothing."""

    #: Its place in the saved state; empty if it has none.
    name = ""

    def regroup(self, now: Now) -> None:
        """Other members than before."""

    def asked(self) -> None:
        """The program asks for a batch."""

    def before(self, step: Step) -> None:
        """The batch is here, and the program's lines come next."""

    def called(self, step: Step) -> None:
        """The program calls ``run.step()``. Raises for a wrong call, and changes no training."""

    def vote(self, step: Step) -> None:
        """What this member tells the others. With ``step.answer`` the call ends here."""

    def agree(self, step: Step) -> None:
        """The sums are here, and the update comes next. Raises where members differ."""

    def after(self, step: Step) -> None:
        """The step was applied, or a turn of it (``not step.ends``)."""

    def drop(self, step: Step) -> None:
        """The step was not applied, and comes again."""

    def news(self, now: Now) -> dict[str, Any]:
        """What goes with this report of progress; empty if nothing is due."""
        return {}

    def state_dict(self) -> Any:
        """What members that join, and checkpoints, must know, if the part has a name."""

    def load_state_dict(self, state: Any) -> None:
        """Takes over the state of another member, or of a checkpoint."""
