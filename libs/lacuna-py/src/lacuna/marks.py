"""Whether the gradients of a step are as its backward passes left them."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence

import torch

from .losses import why_not_a_mean
from .misuse import AFTER_STEP, NO_BACKWARD, ZEROS
from .sharding import local

#: Each such step of a process compares the contents of gradients too: ``grad.data.clamp_()`` leaves
#: no trace in their versions.
THOROUGH = 128
#: The sum of a gradient's bits, by the bytes of an element.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Marks:
    """Whether gradients are still as the backward passes of this step left them.

    ``name``: of a parameter, by its place.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        optimizers: Sequence[torch.optim.Optimizer],
        name: Callable[[int], str],
    ) -> None:
        self._parameters = parameters
        self._name = name
        places = {id(p): place for place, p in enumerate(parameters)}
        groups = [optimizer.param_groups for optimizer in optimizers]
        #: The places of each optimiser.
        self._owns = [
            [places[id(p)] for group in of for p in group["params"] if id(p) in places]
            for of in groups
        ]
        self._steps = 0
        #: Whether the contents of this step's gradients are compared.
        self.thorough = False
        #: Whether ``run.backward`` runs, and whether gradients came outside of it.
        self.weighed = False
        self.bare = False
        #: By place: gradient and version after the last pass that reached it.
        self._left: dict[int, tuple[Optional[torch.Tensor], int]] = {}
        self._sums: dict[int, Optional[torch.Tensor]] = {}
        #: Places that the present pass has reached.
        self._reached: list[int] = []
        self._waits = False
        #: By place: the sums after a thorough step.
        self._used: dict[int, Optional[torch.Tensor]] = {}

    def begin(self, again: bool = False) -> None:
        """Begins a step, or ``again`` a turn of it. Raises RuntimeError if gradients were changed
        after the last one."""
        self._check_used()
        if not again:
            self.thorough = self._steps % THOROUGH == 0
            self._steps += 1
        self._forget()

    def came(self, place: int) -> None:
        """A gradient has arrived, in a backward pass."""
        self._reached.append(place)
        if self._waits:
            return
        self._waits = True
        try:
            # Gradients of one pass may be parts of one tensor, and so have one version.
            torch.autograd.Variable._execution_engine.queue_callback(self._passed)
        except RuntimeError:
            # FSDP calls hooks by itself, perhaps when its pass has ended.
            self._passed()

    def moved(self, place: int) -> None:
        """The gradient was put elsewhere, by Lacuna."""
        if place in self._left:
            grad = self._parameters[place].grad
            self._left[place] = (grad, 0 if grad is None else grad._version)

    def _passed(self) -> None:
        self._waits = False
        self.bare |= not self.weighed
        reached, self._reached = self._reached, []
        parameters, left = self._parameters, self._left
        for place in reached:
            grad = parameters[place].grad
            left[place] = (grad, 0 if grad is None else grad._version)
        if self.thorough:
            for place in reached:
                self._sums[place] = _sum(self._parameters[place].grad)

    def _forget(self) -> None:
        self._left.clear()
        self._sums.clear()
        self._reached.clear()
        self._waits = self.bare = False

    def look(self, loss: Any, turn: Optional[int] = None) -> None:
        """Raises RuntimeError for a loss that is no mean over samples, or brought no gradients.

        ``turn``: the place of the optimiser that steps, if it is not all of them.
        """
        if self.thorough and (why := why_not_a_mean(loss)):
            raise RuntimeError(why)
        mine = range(len(self._parameters)) if turn is None else self._owns[turn]
        if self._left.keys().isdisjoint(mine):
            has_loss = isinstance(loss, torch.Tensor) and loss.grad_fn is not None
            if has_loss and not self._any_in(mine):
                raise RuntimeError(NO_BACKWARD)
        if not self._left or turn is not None:
            return
        for own in self._owns if len(self._owns) > 1 else ():
            if self._left.keys().isdisjoint(own) and self._any_in(own) is False:
                raise RuntimeError(ZEROS)

    def _any_in(self, places: Iterable[int]) -> Optional[bool]:
        """Whether gradients of these places have a number that is not zero; None without any."""
        grads = [grad for place in places if (grad := self._parameters[place].grad) is not None]
        return any(bool(local(grad).any()) for grad in grads) if grads else None

    def check(self) -> None:
        """Raises RuntimeError if gradients were changed since the passes. Ends the step."""
        parameters = self._parameters
        changed = [
            place
            for place, (grad, version) in self._left.items()
            if parameters[place].grad is not grad or (grad is not None and grad._version != version)
        ]
        if not changed and self.thorough:
            changed = [
                place
                for place, before in self._sums.items()
                if before is not None and not torch.equal(before, _now(parameters[place]))
            ]
        if changed:
            # A program that catches this finds it again.
            raise RuntimeError(self._words(sorted(changed)))
        self._forget()

    def applied(self) -> None:
        """The step was applied: nothing uses the gradients any more."""
        if self.thorough:
            self._used = {place: _sum(p.grad) for place, p in enumerate(self._parameters)}

    def _check_used(self) -> None:
        """Raises RuntimeError if gradients were changed since the step was applied."""
        used, self._used = self._used, {}
        for place, before in used.items():
            grad = self._parameters[place].grad
            now = _sum(grad)
            if before is None or now is None or torch.equal(before, now):
                continue
            if grad is not None and bool(local(grad).any()):
                raise RuntimeError(f"the gradients of {self._name(place)} {AFTER_STEP}")

    def _words(self, changed: list[int]) -> str:
        grads = [self._parameters[place].grad for place in changed]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        names = self._name(changed[0]) + more
        if all(grad is None or not bool(local(grad).to_dense().any()) for grad in grads):
            return (
                f"the gradients of {names} were cleared between backward() and run.step(loss): "
                "write optimizer.zero_grad() before backward(), or after run.step(loss)"
            )
        return (
            f"the gradients of {names} were changed between backward() and run.step(loss), where "
            "they are those of one member's part of the batch. To clip them write "
            "lacuna.elastic(..., clip_norm=1.0) in place of clip_grad_norm_. What else changes "
            "them is a function that runs on the averaged ones: lacuna.elastic(..., before_step="
            "lambda: clip_grad_value_(model.parameters(), 1.0)). A gradient scaler is given so: "
            "lacuna.elastic(..., scaler=scaler), without unscale_"
        )


def _sum(grad: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """A number that follows from all bits of a gradient; None if it has none."""
    if grad is None or grad.is_sparse:
        return None
    part = local(grad.detach())
    bits = _BITS.get(part.element_size())
    return None if bits is None else part.view(bits).sum()


def _now(parameter: torch.nn.Parameter) -> torch.Tensor:
    found = _sum(parameter.grad)
    return torch.zeros(()) if found is None else found
