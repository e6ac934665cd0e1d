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
from typing import Any, Callable, ContextManager, Iterable, Iterator, Optional, Sequence

import torch

from .averages import Averages, alive
from .part import Part, Step
from .scales import Scales
from .state import Parts, Value

ONE_CALL = (
    "each batch needs one call of run.step(loss), also one that is passed over. To add up the "
    "gradients of several backward passes, cut the batch: for x, y in run.parts(batch, 16): ... "
    "run.backward(loss), then run.step(). To judge without training: run.evaluate(data, judge)"
)
NO_BATCH = (
    "run.step(loss) belongs to a batch of run.steps(), once for each: it was called twice, or "
    "outside of the loop. Losses of several backward passes of one batch are added up: "
    "loss_a.backward(); loss_b.backward(); run.step(loss_a + loss_b). Optimisers that take turns: "
    "lacuna.elastic(model, [first, second]), then run.step(loss_a, first), and last "
    "run.step(loss_b, second), which ends the batch"
)
TURNS_LEFT = (
    "the batch has turns of optimisers, and no end: run.step(loss, optimizer) of the last one in "
    "the list of lacuna.elastic() ends it. A batch without that turn ends with run.step()"
)
TURNS_END = (
    "a batch with turns of optimisers ends with that of the last one, run.step(loss, optimizer), "
    "or with run.step() without a loss"
)
NO_TURNS = (
    "run.step(loss, optimizer) has no noise scale: use a batch of samples, or PerNode with "
    "'linear', 'sqrt' or 'none', without noise. Otherwise step all optimisers at once: "
    "run.step(loss_a + loss_b)"
)
WITHIN = (
    "run.steps() within the loop of another, which has not ended: one loop trains at a time. To "
    "judge on other data write found = run.evaluate(test, judge), behind run.step(loss)"
)
NO_LOOP = (
    "the with block of lacuna.elastic has ended without run.steps(): each member has done its own "
    "work, and Lacuna none. Write for x, y in run.steps(data, epochs=N): ... run.step(loss)"
)
NO_BACKWARD = (
    "run.step(loss) has a loss, and no gradient of it has come to a parameter of the optimisers: "
    "write loss.backward() before it, and train the model that lacuna.elastic has. A batch that is "
    "passed over has run.step() without a loss"
)
AFTER_STEP = (
    "were changed after run.step(loss), where nothing uses them any more: clip with "
    "lacuna.elastic(..., clip_norm=1.0), or change them in a function before_step="
)
STRANGER = (
    "an optimiser that lacuna.elastic() was not given is stepped in the loop, on the gradients of "
    "this member alone: give it all of them, lacuna.elastic(model, [optimizer, second], "
    "state={'other': other}), and leave second.step() out"
)
AGAIN = (
    "an optimiser is made within the with block of lacuna.elastic(), for parameters that have one "
    "there: run.step(loss) steps that one, and never this one. For another rate write for group in "
    "optimizer.param_groups: group['lr'] = 0.01. For a momentum that begins again: "
    "optimizer.state.clear()"
)
SECOND = (
    "this program has left a with block of lacuna.elastic() in order, so Lacuna counts its work as "
    "done, on all members: a program has one block, and one loop in it, run.steps(data, epochs=N) "
    "with the number of all epochs, and `if run.epoch_ended:` for what follows each. Another "
    "training is a trainer of its own"
)
ZEROS = (
    "an optimiser has gradients of zero, and no backward pass has reached its parameters in this "
    "step: its momentum would still move them. Write second.zero_grad(set_to_none=True), and it "
    "is left out of the step"
)
OTHER_DATA = (
    "members have different data. What chooses or shuffles samples must be the same at all: "
    "random_split(data, parts, generator=torch.Generator().manual_seed(0)), a seed for numpy. "
    "run.steps(data) shuffles by itself, the same at all"
)
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
NO_SCHEDULER = (
    "a scheduler of this optimiser is not given to lacuna.elastic(), so members that join and "
    "restarts begin it from its start: lacuna.elastic(..., scheduler=scheduler) for one that counts steps, "
    "without scheduler.step(); state={'scheduler': scheduler} for one that counts epochs, and if "
    "run.epoch_ended: scheduler.step()"
)
TWO_LOSSES = "run.backward(loss) has added up the loss of this step: write run.step()"


def divided(parts: float) -> str:
    """A loss that is divided by the number of parts, beside its weight."""
    return (
        f"the loss of a part is divided by {parts:g}, the parts that a batch has on one member: "
        "run.backward(loss) weighs each by its samples already, so leave the division out. A "
        f"factor of another meaning: run.backward({1 / parts:g} * loss)"
    )


def left_alone(step: int, others: Sequence[tuple[int, Optional[int]]]) -> str:
    """A member that has left the loop at another step than others, by rank."""
    shown = ", ".join(
        f"rank {rank} " + ("goes on" if other is None else f"at step {other}")
        for rank, other in others
    )
    return (
        f"this member has left the loop at step {step}, {shown}: a condition to end must be the "
        "same at all members, as run.loss, run.steps_done, or a metric of run.evaluate() or "
        "run.reduce({'loss': loss}, 'max')"
    )


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


class Closed(Part):
    """What the program must not call in the loop, since the run does it: ``optimizer.step()``."""

    def __init__(self, parts: Parts) -> None:
        #: Whether the program's own lines run, in the loop.
        self.on = False
        self._parts = parts
        # Whatever a scheduler holds belongs to its state, so it is counted and not closed.
        self._schedulers = parts.schedulers
        self._strangers: list[Any] = []
        self._counts: tuple[list[Any], list[Any]] = ([], [])
        #: Whether a loop has begun.
        self.looped = False
        self._undo: list[Callable[[], None]] = []
        self._scales = Scales()
        self._averages = Averages(parts)
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

    def begin(self) -> None:
        """The ``with`` block begins: its parameters have their optimisers."""
        ours = {id(p) for one in self._parts.optimizers for p in _parameters(one.param_groups)}
        add = torch.optim.Optimizer.add_param_group

        @wraps(add)
        def guarded(owner: Any, group: Any, *more: Any, **options: Any) -> Any:
            is_open = self.looped and not self.on
            is_new = not any(owner is one for one in self._parts.optimizers)
            add(owner, group, *more, **options)
            if is_new and not is_open and any(id(p) in ours for p in _parameters([group])):
                raise RuntimeError(AGAIN)

        torch.optim.Optimizer.add_param_group = guarded  # type: ignore[method-assign]
        self._undo.append(partial(_put_back_function, guarded, add))

    def loop(self) -> None:
        """A loop begins: optimisers and schedulers that the run was not given are closed too."""
        if self.looped:
            return
        self.looped = True
        self._scales.begin()
        self._averages.find()
        known = {id(one) for one in self._parts.optimizers}
        for optimizer in alive(torch.optim.Optimizer):
            if id(optimizer) not in known:
                self._close(optimizer, "step", STRANGER)
        given = [*self._schedulers, *self._parts.extra.values()]
        if any(_may_hold_a_scheduler(one) for one in given):
            return
        ours = {id(one) for part in given for one in _all_schedulers(part)}
        for scheduler in alive(*_SCHEDULERS):
            if id(getattr(scheduler, "optimizer", None)) in known and id(scheduler) not in ours:
                self._strangers.append(scheduler)

    @contextmanager
    def program(self, samples: int) -> Iterator[None]:
        """Around the program's own lines, for a batch with these samples of this member.

        Raises RuntimeError where they stepped a scheduler, or moved an average that the run lacks.
        """
        self._counts = self._counted()
        self._scales.batch(samples)
        self._averages.begin()
        self.on = True
        try:
            yield
        finally:
            self.on = False
        self._check_schedulers()
        self._averages.check()

    def part(self, loss: torch.Tensor, weight: float) -> ContextManager[None]:
        """Around the backward pass of a part of the batch."""
        return self._scales.part(loss, weight)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Around the run's own calls among them."""
        on, self.on = self.on, False
        try:
            yield
        finally:
            self.on = on
            self._counts = self._counted()

    def called(self, step: Step) -> None:
        self.check(step.loss, step.now.world_size)

    def check(self, loss: Any, members: int) -> None:
        """The step ends. Raises RuntimeError for a scheduler that was stepped, and for a loss that
        is another one with more members."""
        self._check_schedulers()
        self._scales.check(loss, members)

    def _check_schedulers(self) -> None:
        (given, strangers), (now, strange) = self._counts, self._counted()
        if given != now:
            raise RuntimeError(SCHEDULER)
        if strangers != strange:
            raise RuntimeError(NO_SCHEDULER)

    def _counted(self) -> tuple[list[Any], list[Any]]:
        given, strangers = self._schedulers, self._strangers
        return [_steps_of(one) for one in given], [_steps_of(one) for one in strangers]

    def close(self) -> None:
        """Everything may be called again."""
        self.on = False
        self._strangers.clear()
        self._scales.close()
        self._averages.close()
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


_SCHEDULERS = tuple(
    getattr(torch.optim.lr_scheduler, name)
    for name in ("_LRScheduler", "LRScheduler", "ReduceLROnPlateau")
    if hasattr(torch.optim.lr_scheduler, name)
)


def _may_hold_a_scheduler(part: Any) -> bool:
    """Whether a thing of the program's own may have schedulers in its state."""
    plain = (torch.nn.Module, torch.optim.Optimizer, Value, *_SCHEDULERS)
    return not isinstance(part, plain) and not hasattr(part, "scheduler")


def _all_schedulers(part: Any) -> Iterator[Any]:
    """A scheduler, those of which it is made, and that which it wraps."""
    yield part
    wrapped = getattr(part, "scheduler", None)
    for inner in [*getattr(part, "_schedulers", ()), *([] if wrapped is None else [wrapped])]:
        yield from _all_schedulers(inner)


def _steps_of(scheduler: Any) -> list[Any]:
    """How often a scheduler, and those of which it is made, were stepped."""
    own = [getattr(scheduler, name, None) for name in ("_step_count", "last_epoch")]
    return [*own, *map(_steps_of, getattr(scheduler, "_schedulers", ()))]


def _parameters(groups: Iterable[Any]) -> list[Any]:
    """Those of some groups of an optimiser; a group may have one, or an iterator that ends."""
    lists = (group.get("params") for group in groups if isinstance(group, dict))
    return [p for one in lists if isinstance(one, (list, tuple)) for p in one]


def _put_back_function(ours: Any, before: Any) -> None:
    if torch.optim.Optimizer.add_param_group is ours:
        torch.optim.Optimizer.add_param_group = before  # type: ignore[method-assign]


def _put_back(thing: Any, name: str, ours: Any, before: Any) -> None:
    if vars(thing).get(name) is not ours:
        return
    if before is None:
        delattr(thing, name)
    else:
        setattr(thing, name, before)
