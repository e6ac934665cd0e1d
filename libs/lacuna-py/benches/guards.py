"""The cost of finding wrong use of a training loop: ``python3 -m benches guards``.

One process trains a model of equal tensors under :func:`lacuna.elastic`, in turns as it is and with
the functions of :mod:`lacuna.misuse`, :mod:`lacuna.marks` and :mod:`lacuna.alike` that a step calls
left empty. The ratio is that of the processor time of two rounds in turn. A round has whole periods
of the thorough comparison of gradients.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Callable, Iterator, Sequence
from unittest import mock

import torch

import lacuna
from lacuna import alike, marks, misuse

from . import common

EXAMPLES = """examples:
  python3 -m benches guards                            three models, nine rounds of each
  python3 -m benches guards --models 1000x16 --rounds 15 --json
"""
#: Tensors of a model and numbers in each: many small ones are the worst case.
MODELS = "1000x16,200x1000,20x100000"


def main(argv: Sequence[str]) -> int:
    """Prints the table; 64 for wrong arguments."""
    parser = common.parser("guards", "The cost of finding wrong use of a loop.", EXAMPLES)
    parser.add_argument("--models", default=MODELS, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=9, help="of each way (%(default)s)")
    options = parser.parse_args(argv)
    sizes = [model.split("x") for model in options.models.split(",")]
    if options.rounds < 1 or not all(
        len(size) == 2 and all(part.isdecimal() and int(part) > 0 for part in size)
        for size in sizes
    ):
        print(f"benches: models as {MODELS}; rounds >= 1")
        return 64
    torch.set_num_threads(1)
    rows = []
    for model, size in zip(options.models.split(","), sizes):
        tensors, numbers = map(int, size)
        rounds = [_round(tensors, numbers) for _ in range(options.rounds + 1)][1:]
        ratios = sorted(with_ / without for with_, without in rounds)
        rows.append(
            {
                "model": model,
                "ratio": statistics.median(ratios),
                "least": ratios[0],
                "most": ratios[-1],
                "step_s": statistics.median(without for _, without in rounds),
            }
        )
        if not options.json:
            text = (
                "{model}: {ratio:.3f} of a step without ({least:.3f} to {most:.3f}), {step_s:.5f} s"
            )
            print(text.format(**rows[-1]))
    host = common.host()
    if options.json:
        print(json.dumps({"host": host, "rows": rows}, indent=2))
    elif host is not None:
        print(", ".join(f"{key} {value}" for key, value in host.items()))
    return 0


def _round(tensors: int, numbers: int) -> tuple[float, float]:
    """Processor seconds of a step, with and without."""
    with_ = _step_s(tensors, numbers)
    with _without():
        return with_, _step_s(tensors, numbers)


def _step_s(tensors: int, numbers: int) -> float:
    model = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(numbers)) for _ in range(tensors))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps, began = marks.THOROUGH, 0.0
    # Tensors of the round before would be looked at as averages of the weights.
    gc.collect()
    x = torch.ones(2 * (steps + 1), 1)
    with lacuna.elastic(model, optimizer, batch=2) as run:
        for (part,) in run.steps((x,), epochs=1):
            if run.steps_done == 1:
                began = time.process_time()
            optimizer.zero_grad()
            loss = part.sum() * torch.stack([one.sum() for one in model]).mean()
            loss.backward()
            run.step(loss)
    return (time.process_time() - began) / steps


@contextmanager
def _without() -> Iterator[None]:
    """Leaves the functions that a step calls empty."""

    def nothing(*_: Any) -> None:
        return None

    empty: dict[type, dict[str, Callable[..., Any]]] = {
        marks.Marks: {
            name: nothing for name in ("begin", "came", "moved", "look", "check", "applied")
        },
        misuse.Closed: {
            "_close": nothing,
            "check": nothing,
            "program": lambda *_: nullcontext(),
            "lifted": lambda _: nullcontext(),
        },
    }
    with ExitStack() as stack:
        for owner, functions in empty.items():
            for name, function in functions.items():
                stack.enter_context(mock.patch.object(owner, name, function))
        stack.enter_context(mock.patch.object(alike, "common", lambda *_: {}))
        yield
