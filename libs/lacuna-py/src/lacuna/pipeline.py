"""The parts of a step, in their order."""

from __future__ import annotations

from typing import Any, Optional

from torch import nn

from .alike import Alike
from .finite import Finite
from .gradients import Gradients
from .halves import Halving
from .learning import Learning
from .metrics import Bests
from .misuse import Closed
from .part import Now, Part, Step
from .passes import Passes
from .settings import Settings
from .sharding import Node
from .shares import Shares
from .state import Parts
from .timing import Timing
from .turns import Turns


class Pipeline:
    """The parts of a training run."""

    def __init__(self, parts: Parts, settings: Settings, node: Node) -> None:
        self.learning = Learning(
            settings.policy, parts.optimizers, noise=settings.noise, exact=settings.exact(parts)
        )
        self.shares = Shares(settings.balance)
        self.timing = Timing(self.learning.follows())
        others = [one for one in parts.extra.values() if isinstance(one, nn.Module)]
        self.gradients = Gradients(
            *(parts.model, parts.optimizers, settings.wire, node, self.timing, others)
        )
        self.closed = Closed(parts)
        self.bests = Bests()
        self.turns = Turns(parts.optimizers, self.learning.measures)
        self.passes = Passes(settings.policy, parts.scaler, self.gradients, self.closed, node.count)
        wanted: tuple[Part, ...] = (
            self.timing,  # reads the clock nearest to the moment itself
            self.passes,  # adds up the losses, at which the next ones look
            self.turns,  # says whether the batch ends; passes over a turn that was applied before
            self.closed,  # finds wrong use before it is summed
            Alike(parts, self.bests),  # before any counts the step
            self.learning,  # says whether the gradients are measured, before they begin
            self.gradients,  # begins the sums
            Halving(self.learning),  # takes away what the backward pass has left
            self.shares,  # chooses the next shares
            Finite(),  # names what is not finite, when the sums are here
            self.bests,  # has a state alone
        )
        self._parts = [part for part in wanted if part is not self.shares or self.shares.on]

    def regroup(self, now: Now) -> None:
        """Other members than before."""
        for part in self._parts:
            part.regroup(now)

    def asked(self) -> None:
        """The program asks for a batch."""
        for part in self._parts:
            part.asked()

    def before(self, step: Step) -> None:
        """The batch is here."""
        for part in self._parts:
            part.before(step)

    def called(self, step: Step) -> None:
        """The program calls ``run.step()``."""
        for part in self._parts:
            part.called(step)

    def vote(self, step: Step) -> Optional[bool]:
        """What this member tells the others; or the call's answer, if a part ends it here."""
        for part in self._parts:
            part.vote(step)
            if step.answer is not None:
                return step.answer
        return None

    def agree(self, step: Step) -> None:
        """The sums are here."""
        for part in self._parts:
            part.agree(step)

    def after(self, step: Step) -> None:
        """The step was applied, or a turn of it."""
        for part in self._parts:
            part.after(step)

    def drop(self, step: Step) -> None:
        """The step was not applied."""
        for part in self._parts:
            part.drop(step)

    def news(self, now: Now) -> dict[str, Any]:
        """What goes with this report of progress."""
        found: dict[str, Any] = {}
        for part in self._parts:
            found.update(part.news(now))
        return found

    def state_dict(self) -> dict[str, Any]:
        """The states of the parts that have one, by name."""
        return {part.name: part.state_dict() for part in self._parts if part.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state; checkpoints of earlier releases lack some names."""
        for part in self._parts:
            if part.name and part.name in state:
                part.load_state_dict(state[part.name])

    def close(self) -> None:
        """Takes the hooks off the program's parts."""
        self.closed.close()
        self.gradients.close()
