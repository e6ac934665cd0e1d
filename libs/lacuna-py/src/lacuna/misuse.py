"""Wrong use of a training loop, found where it happens: an error that shows the line to write.

A loop that was written for one process goes on to run with Lacuna, and trains something else, if a
line of it stays that :meth:`~lacuna.run.Elastic.step` does in its place, or that looks at gradients
of one member as if they were those of the batch.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial, wraps
from types import MethodType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import torch

from .sharding import local
from .state import Parts, Value

#: Each such step of a process compares the contents of gradients too: ``grad.data.clamp_()`` leaves
#: no trace in their versions.
THOROUGH = 128
#: The sum of a gradient's bits, by the bytes of an element.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

ONE_CALL = (
    "each batch needs one call of run.step(loss), also one that is passed over. To add up the "
    "gradients of several backward passes, cut the batch: for x, y in run.parts(batch, 16): ... "
    "run.backward(loss), then run.step(). To judge without training: run.evaluate(data, judge)"
)
NO_BATCH = (
    "run.step(loss) belongs to a batch of run.steps(), once for each: it was called twice, or "
    "outside of the loop. Losses of several backward passes of one batch are added up: "
    "loss_a.backward(); loss_b.backward(); run.step(loss_a + loss_b)"
)
WITHIN = "run.steps() belongs between batches: this one had no run.step(loss) yet"
BARE = (
    "one step has loss.backward() and run.backward(loss), which counts a part by its samples: "
    "write run.backward(loss) for each part"
)
PARTS_LEFT = (
    "run.parts() has parts left, or none of them had run.backward(loss): let the loop over the "
    "parts end, with run.backward(loss) for each, before run.step()"
)
SCHEDULER = (
    "run.step(loss) steps the scheduler too, once a step: leave scheduler.step() out. One that "
    "counts epochs: lacuna.elastic(..., state={'scheduler': scheduler}) in place of scheduler=, "
    "and if run.epoch_ended: scheduler.step()"
)
TWO_LOSSES = "run.backward(loss) has added up the loss of this step: write run.step()"


def all_done(epochs: int) -> str:
    """A second loop that has nothing to do."""
    return (
        f"all {epochs} epochs are done: `epochs` counts from the beginning of the training; write "
        "one loop, run.steps(data, epochs=N) with the number of all epochs, in place of the outer "
        "loop over epochs, and `if run.epoch_ended:` for what follows each"
    )


def refuse(parts: Parts) -> None:
    """Raises ValueError or TypeError for parts with which no loop would be right."""
    for optimizer in parts.optimizers:
        if "closure" in _required(optimizer):
            raise ValueError(
                f"{type(optimizer).__name__} calls the model several times a step, which members "
                "cannot do together: use an optimiser whose step() needs no closure, such as AdamW"
            )
    for scheduler in parts.schedulers:
        name = type(scheduler).__name__
        if "metrics" in _required(scheduler):
            raise ValueError(
                f"{name} is stepped with a metric, and not once a step: write "
                "lacuna.elastic(..., state={'scheduler': scheduler}) in place of scheduler=, and "
                "in the loop: if run.epoch_ended: "
                "scheduler.step(run.evaluate(test, judge)['loss'])"
            )
    for name, part in parts.extra.items():
        if not hasattr(part, "state_dict"):
            shown = repr(part) if isinstance(part, (int, float, str)) else "..."
            raise TypeError(
                f"state[{name!r}] is a {type(part).__name__} without a state_dict: write "
                f"{name} = lacuna.Value({shown}), state={{{name!r}: {name}}}, and {name}.value"
            )


def _required(part: Any) -> list[str]:
    """Names of the arguments without which ``step`` of a thing cannot be called."""
    try:
        given = inspect.signature(type(part).step).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in given if one.default is one.empty and one.kind in positional]


class Closed:
    """What the program must not call in the loop, since the run does it: ``optimizer.step()``."""

    def __init__(self, parts: Parts) -> None:
        #: Whether the program's own lines run, in the loop.
        self.on = False
        # Whatever a scheduler holds belongs to its state, so it is counted and not closed.
        self._schedulers = parts.schedulers
        self._counts: list[Any] = []
        self._undo: list[Callable[[], None]] = []
        scaled = "" if parts.scaler is None else ", scaler.step() and scaler.update()"
        for optimizer in parts.optimizers:
            self._close(
                optimizer,
                "step",
                f"run.step(loss) is in place of optimizer.step(){scaled}: leave it out. A gradient "
                "scaler is given so: lacuna.elastic(..., scaler=scaler)",
            )
        for name in ("unscale_", "step", "update") if parts.scaler is not None else ():
            self._close(
                parts.scaler,
                name,
                f"run.step(loss) does scaler.{name}() for all members: leave it out. To clip "
                "gradients write lacuna.elastic(..., scaler=scaler, clip_norm=1.0)",
            )

    @contextmanager
    def program(self) -> Iterator[None]:
        """Around the program's own lines. Raises RuntimeError where they stepped a scheduler."""
        self._counts = self._counted()
        self.on = True
        try:
            yield
        finally:
            self.on = False
        self.check()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Around the run's own calls among them."""
        on, self.on = self.on, False
        try:
            yield
        finally:
            self.on = on
            self._counts = self._counted()

    def check(self) -> None:
        """Raises RuntimeError if the program has stepped a scheduler."""
        if self._counts != self._counted():
            raise RuntimeError(SCHEDULER)

    def _counted(self) -> list[Any]:
        return [_steps_of(scheduler) for scheduler in self._schedulers]

    def close(self) -> None:
        """Everything may be called again."""
        self.on = False
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _close(self, thing: Any, name: str, words: str) -> None:
        method = getattr(thing, name)
        # A scheduler has put a function without an owner in place of its optimiser's method.
        function = getattr(method, "__func__", None)

        @wraps(method if function is None else function)
        def guarded(owner: Any, *arguments: Any, **options: Any) -> Any:
            if self.on:
                raise RuntimeError(words)
            if function is None:
                return method(*arguments, **options)
            return function(owner, *arguments, **options)

        before = vars(thing).get(name)
        # Schedulers that are made later look for the function of a method.
        ours = MethodType(guarded, thing)
        setattr(thing, name, ours)
        self._undo.append(partial(_put_back, thing, name, ours, before))


def _steps_of(scheduler: Any) -> list[Any]:
    """How often a scheduler, and those of which it is made, were stepped."""
    own = [getattr(scheduler, name, None) for name in ("_step_count", "last_epoch")]
    return [*own, *map(_steps_of, getattr(scheduler, "_schedulers", ()))]


def _put_back(thing: Any, name: str, ours: Any, before: Any) -> None:
    if vars(thing).get(name) is not ours:
        return
    if before is None:
        delattr(thing, name)
    else:
        setattr(thing, name, before)


class Marks:
    """Whether gradients are still as the backward passes of this step left them.

    ``name``: of a parameter, by its place.
    """

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], name: Callable[[int], str]
    ) -> None:
        self._parameters = parameters
        self._name = name
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

    def begin(self) -> None:
        """Begins a step."""
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
        self._forget()
        if changed:
            raise RuntimeError(self._words(sorted(changed)))

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


# What is the same at all members.


def common(parts: Parts, bests: Mapping[str, float]) -> dict[str, float]:
    """Numbers by name that a program may change, and that all members must have alike."""
    found: dict[str, float] = {}
    for i, optimizer in enumerate(parts.optimizers):
        for j, group in enumerate(optimizer.param_groups):
            for name, value in group.items():
                if type(value) in (float, int):
                    found[f"{name} of optimiser {i}, group {j}"] = value
    for name, part in parts.extra.items():
        if isinstance(part, Value) and isinstance(part.value, (float, int)):
            found[f"state[{name!r}].value"] = part.value
    for name, value in bests.items():
        found[f"run.best({name!r})"] = value
    return found


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
