"""Schedules of PyTorch, and other parts whose state_dict has more than state, go on after an end."""

import functools
import inspect
import logging
import math
import os
import subprocess
import sys
import threading
import types
import weakref

import pytest
import torch
from torch.optim import lr_scheduler as schedules

import lacuna
from conftest import SOURCE, data
from lacuna.order import Position
from lacuna.state import Parts, frozen
from lacuna.tree import pack, unpack


def halved(step):
    return 0.5**step


class Wave:
    """A schedule that is called, and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return 1.0 + 0.5 * math.sin(self.calls)


def constant(optimizer):
    return schedules.ConstantLR(optimizer, 0.5, total_iters=3)


def one_cycle(optimizer, steps=32):
    return schedules.OneCycleLR(optimizer, 0.1, total_steps=steps)


#: By class of PyTorch.
MADE = {
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: schedules.StepLR(o, 3),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [3, 9]),
    "ConstantLR": constant,
    "LinearLR": lambda o: schedules.LinearLR(o, total_iters=12),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [constant(o), schedules.CyclicLR(o, 0.01, 0.2)], milestones=[4]
    ),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 32, power=2.0),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 32),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler([constant(o), one_cycle(o)]),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.001, 0.1, step_size_up=3, mode="triangular2"),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 5),
    "OneCycleLR": one_cycle,
    "ReduceLROnPlateau": lambda o: schedules.ReduceLROnPlateau(o, patience=0),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.01, anneal_epochs=6),
}
#: Other ways to make them.
MORE = {
    "CyclicLR by a function": lambda o: schedules.CyclicLR(o, 0.001, 0.1, 3, scale_fn=halved),
    "CyclicLR by an object": lambda o: schedules.CyclicLR(o, 0.001, 0.1, 3, scale_fn=Wave()),
    "LambdaLR by an object": lambda o: schedules.LambdaLR(o, Wave()),
    "OneCycleLR, linear": lambda o: schedules.OneCycleLR(
        o, 0.1, total_steps=32, anneal_strategy="linear", three_phase=True
    ),
    "a warm-up around another one": lambda o: Warmup(o, one_cycle(o, 36)),
}


class Warmup(schedules.LambdaLR):
    """As libraries have it: it keeps the schedule that follows as an attribute."""

    def __init__(self, optimizer, after):
        self.after, self.log, self.lock = after, logging.getLogger(), threading.Lock()
        super().__init__(optimizer, lambda step: (step + 1) / 4)

    def step(self, *given):
        started = getattr(self, "last_epoch", -1) >= 0
        if started and self.last_epoch >= 3:
            self.after.step()
            self.last_epoch += 1
        else:
            super().step(*given)


def train(folder, make, epochs, *, wrapped=True):
    """The rate of each step: 8 steps an epoch, plain or by Lacuna."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler, rates, rows = make(optimizer), [], torch.randn(64, 4)

    def rate():
        rates.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))

    # It wants a metric, so the program steps it.
    plateau = isinstance(scheduler, schedules.ReduceLROnPlateau)
    if not wrapped:
        for step in range(8 * epochs):
            optimizer.step()
            if not plateau:
                scheduler.step()
            elif step % 8 == 7:
                scheduler.step(1.0)
            rate()
        return rates
    settings = {"state": {"plateau": scheduler}} if plateau else {"scheduler": scheduler}
    with lacuna.elastic(
        model, optimizer, batch=8, checkpoint_dir=str(folder), **settings
    ) as run:
        for x in run.steps(rows, epochs=epochs):
            optimizer.zero_grad()
            loss = (model(x) - x).pow(2).mean()
            loss.backward()
            run.step(loss)
            if plateau and run.epoch_ended:
                scheduler.step(1.0)
            rate()
    return rates


@pytest.mark.parametrize("name", [*MADE, *MORE])
def test_a_program_that_starts_again_goes_on_with_its_schedule(name, tmp_path):
    make = {**MADE, **MORE}[name]
    begun, rest = train(tmp_path, make, 2), train(tmp_path, make, 4)
    assert len(begun) == len(rest) == 16
    assert begun + rest == train(tmp_path, make, 4, wrapped=False)
    assert len(set(begun + rest)) > 1


def test_each_schedule_of_pytorch_is_tried():
    classes = inspect.getmembers(schedules, inspect.isclass)
    there = {
        name
        for name, one in classes
        if one.__module__ == schedules.__name__ and hasattr(one, "load_state_dict")
    }
    there -= {"LRScheduler", *(name for name in there if name.startswith("_"))}
    assert len(there) > 12 and there <= set(MADE), there - set(MADE)


@pytest.mark.parametrize("name", ["OneCycleLR", "CyclicLR"])
def test_the_case_has_the_rate_of_a_plain_loop(name, tmp_path):
    program = data("cases/lr-scheduler-cycles/input.py")
    env = {**os.environ, "PYTHONPATH": SOURCE, "LACUNA_CHECKPOINT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(program), name], env=env, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.1, momentum=0.9)
    given = {"OneCycleLR": {"max_lr": 0.1, "total_steps": 16}}
    given["CyclicLR"] = {"base_lr": 0.001, "max_lr": 0.1}
    scheduler = getattr(schedules, name)(optimizer, **given[name])
    for _ in range(16):
        optimizer.step()
        scheduler.step()
    assert done.stdout == f"{name} ok {optimizer.param_groups[0]['lr']}\n"


def part(**attributes):
    """A part of a program that gives all of its attributes as its state."""
    made = types.SimpleNamespace(**attributes)
    take, put = lambda: dict(vars(made)), lambda state: vars(made).update(state)
    return types.SimpleNamespace(at=made, state_dict=take, load_state_dict=put)


def parts(one):
    model = torch.nn.Linear(2, 2)
    return Parts(model, [torch.optim.SGD(model.parameters(), lr=0.1)], [], None, {"one": one})


def carried(state):
    """As a checkpoint or a message has it."""
    return unpack(*pack(frozen(state)))


def test_what_is_no_state_stays_that_of_the_new_object():
    def made(count):
        inner = torch.nn.BatchNorm1d(3)
        kept = [len, math.cos, torch.relu, halved, math, Wave, functools.partial(halved, 3)]
        kept += [weakref.ref(inner), inner.forward, weakref.WeakMethod(inner.forward)]
        kept += [logging.getLogger("x"), threading.RLock(), torch.add]
        return part(count=count, inner=inner, kept=kept, deep={"fn": (halved, count)})

    old, new = made(3), made(0)
    with torch.no_grad():
        old.at.inner.running_mean.fill_(7.0)
    kept, inner = list(new.at.kept), new.at.inner
    parts(new).put(carried(parts(old).take(Position())))
    assert new.at.count == 3 and new.at.deep == {"fn": (halved, 3)}
    assert all(one is other for one, other in zip(new.at.kept, kept)) and new.at.inner is inner
    assert torch.equal(inner.running_mean, torch.full((3,), 7.0))


def test_a_part_that_knows_the_model_does_not_save_it_twice():
    one = part(model=None)
    whole = parts(one)
    one.at.model = whole.model
    text, tensors = pack(whole.take(Position()))
    assert len(tensors) == 2
    whole.put(unpack(text, tensors))
    assert one.at.model is whole.model


@pytest.mark.parametrize("value", [object(), torch.Generator(), {"deep": [object()]}, iter(())])
def test_what_may_be_state_and_cannot_be_saved_is_refused(value):
    with pytest.raises(TypeError, match=r"state\['extra'\]\['one'\]\['value'\].*subclass"):
        pack(parts(part(value=value)).take(Position()))


def test_a_function_that_changes_in_the_course_of_training_is_an_error():
    one = part(fn=halved)
    whole = parts(one)
    whole.take(Position())
    for fn in (lambda step: 1.0, Wave, functools.partial(halved, 1)):
        one.at.fn = fn
        with pytest.raises(RuntimeError, match=r"state\['extra'\]\['one'\]\['fn'\] is another fun"):
            whole.take(Position())
    one.at.fn, one.at.late = halved, halved
    with pytest.raises(RuntimeError, match="'late'"):
        whole.take(Position())


def test_an_object_that_the_program_does_not_make_again_is_an_error():
    state = carried(parts(part(inner=torch.nn.BatchNorm1d(3), fn=halved)).take(Position()))
    with pytest.raises(RuntimeError, match=r"object at state\['extra'\]\['one'\]\['inner'\]"):
        parts(part(fn=halved)).put(state)
    new = part(inner=torch.nn.BatchNorm1d(3))
    # Another version of a library may do without a function.
    parts(new).put(state)
    assert not hasattr(new.at, "fn")
