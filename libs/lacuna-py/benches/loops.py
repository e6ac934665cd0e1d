"""Common training loops, in plain PyTorch and with Lacuna: ``python3 -m benches.loops``.

Each is run plain, on one member, and on two that are real processes with a real group. It must end
with the same numbers, or be refused with an error that shows the line to write.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import textwrap
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Optional

from lacuna.loopback import Loopback

from .common import environment
from .up import Up, until

#: Differences up to this are those of the order of sums.
RIGHT = 1e-6
EXAMPLES = """examples:
  python3 -m benches.loops                         all, on one member and on two
  python3 -m benches.loops --members 1 clipping    one of them, on one
  python3 -m benches.loops --up clipping           the two under the services of lacuna up
"""
#: Seconds after which the members of a loop have failed.
LIMIT = 120.0
#: The nodes of two members.
NODES = ("n1", "n2")
#: What each of two members of a loop by name ends with: in a folder, with an environment.
Two = Callable[[str, Path, dict[str, str]], list[Any]]

BEFORE = """\
{head}for epoch in range(EPOCHS):
    for x, y in batches(BATCH):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
{between}        optimizer.step()
{after}{epoch}"""

AFTER = """\
{head}with lacuna.elastic(model, optimizer, batch=BATCH{options}) as run:
    for x, y in run.steps(data, epochs=EPOCHS, shuffle=False):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
{between}        run.step(loss)
{after}"""


def _lines(text: str, depth: int) -> str:
    return textwrap.indent(text + "\n", " " * depth) if text else ""


def before(between: str = "", after: str = "", epoch: str = "", head: str = "") -> str:
    """A plain loop with further lines: before and after the step, after an epoch, at the top."""
    given = {"between": _lines(between, 8), "after": _lines(after, 8), "epoch": _lines(epoch, 4)}
    return BEFORE.format(head=_lines(head, 0), **given)


def after(between: str = "", after: str = "", options: str = "", head: str = "") -> str:
    """The same with Lacuna; ``options`` of ``lacuna.elastic``."""
    given = {"between": _lines(between, 8), "after": _lines(after, 8), "head": _lines(head, 0)}
    return AFTER.format(options=options and f", {options}", **given)


@dataclass(frozen=True)
class Loop:
    """A loop before and after; ``refused``: words of the error where it is wrong use.

    ``alone``: whether one member is refused too. ``other``: one member trains something else than
    before. ``limit``: two members do, as the page says, and are not refused. ``some``: of two one
    may go on. ``needs``: a part of PyTorch, and its version.
    """

    before: str
    after: str
    refused: Optional[str] = None
    alone: bool = True
    other: bool = False
    limit: bool = False
    some: bool = False
    samples: int = 70
    needs: Optional[tuple[str, str]] = None


CLIP = "clip_grad_norm_(model.parameters(), 0.1)"
VALUE = "clip_grad_value_(model.parameters(), 0.01)"
STEP_LR = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)"
EPOCH_LR = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
PLATEAU = (
    "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.2)"
)
SCALER = "scaler = torch.amp.GradScaler('cpu', init_scale=8.0)"
AMP = """\
{scaler}
for epoch in range(EPOCHS):
    for x, y in batches(BATCH):
        optimizer.zero_grad()
        scaler.scale(loss_of(model(x), y)).backward()
        scaler.unscale_(optimizer)
        {clip}
        scaler.step(optimizer)
        scaler.update()
""".format(scaler=SCALER, clip=CLIP)
AMP_AFTER = """\
{scaler}
with lacuna.elastic(model, optimizer, scaler=scaler, clip_norm=0.1, batch=BATCH) as run:
    for x, y in run.steps(data, epochs=EPOCHS, shuffle=False):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        scaler.scale(loss).backward()
{between}        run.step(loss)
"""
ACCUMULATED = """\
for epoch in range(EPOCHS):
    for i, (x, y) in enumerate(batches(BATCH // 4)):
        loss = loss_of(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
PARTS = """\
with lacuna.elastic(model, optimizer, batch=BATCH) as run:
    for batch in run.steps(data, epochs=EPOCHS, shuffle=False):
        optimizer.zero_grad()
        for x, y in run.parts(batch, BATCH // 4):
            loss = loss_of(model(x), y)
            {line}
        run.step()
"""
BEST = """\
found = judged(model)['loss']
if found < best:
    best = found
    torch.save(model.state_dict(), folder + '/best.pt')"""
BEST_AFTER = """\
if run.epoch_ended:
    found = run.evaluate(data, judge)
    if run.best('loss', found, 'min') and run.rank == 0:
        torch.save(model.state_dict(), folder + '/best.pt')"""
READ_BEST = "model.load_state_dict(torch.load(folder + '/best.pt'))\n"
AVERAGE = """\
for old, new in zip(average.parameters(), model.parameters()):
    old.data.lerp_(new.data, 0.1)"""
GAN = """\
second = torch.optim.Adam(other.parameters(), lr=0.01)
{loop}
        optimizer.zero_grad()
        loss_a = loss_of(other(model(x)), y)
        loss_a.backward()
        second.zero_grad()
        loss_b = loss_of(other(model(x).detach()), -y)
        loss_b.backward()
        {step}
"""
FROZEN = GAN.replace(
    "        loss_a = ", "        other.requires_grad_(False)\n        loss_a = "
).replace("        second.z", "        other.requires_grad_(True)\n        second.z")
TURNS = """\
second = torch.optim.Adam(other.parameters(), lr=0.01)
n = 0
{loop}
        optimizer.zero_grad()
        loss_a = loss_of(other(model(x)), y)
        loss_a.backward()
        {first}
        if {n} % {every} == 0:
            second.zero_grad()
            loss_b = loss_of(other(model(x).detach()), -y)
            loss_b.backward()
            {second}
        {rest}
        n += 1
"""


def turns(first: str, second: str, rest: str = "", optimizers: str = "", every: int = 1) -> Loop:
    """A loop whose optimisers take turns on a batch; ``optimizers``: their list, as it is given."""
    plain = {"first": "optimizer.step()", "second": "second.step()", "rest": "", "n": "n"}
    given = {"first": first, "second": second, "rest": rest, "n": "run.steps_done"}
    loop = ELASTIC_LOOP.format(
        optimizers=optimizers or "[optimizer, second]", options=", state={'other': other}"
    )
    return Loop(
        TURNS.format(loop=PLAIN_LOOP, every=every, **plain),
        TURNS.format(loop=loop, every=every, **given),
    )


CRITIC = """\
second = torch.optim.Adam(other.parameters(), lr=0.01)
n = 0
{loop}
        optimizer.zero_grad()
        second.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        {step}
        if {n} % 2 == 1:
            loss_of(other(y), x[:, :1]).backward()
            {other}
        n += 1
"""
ZERO, STEP = "        optimizer.zero_grad()\n", "run.step(loss)"
BACKWARD, LOSS = "        loss.backward()\n", "loss_of(model(x), y)"
SUM = "(model(x) - y).pow(2).sum()"
CLASSES = """cross_entropy(
            torch.cat([model(x), -model(x)], 1), (y[:, 0] > 0).long(),
            weight=torch.tensor([1.0, 5.0]).double(),
        )"""
OVER_BATCH = "(model(x) - y).pow(2).sum() / BATCH"
OVER_FIVE = """cross_entropy(
            torch.cat([model(x), -model(x)], 1), (y[:, 0] > 0).long(), reduction="sum"
        ) / 5"""
HALF = "((model(x) - y) ** 2).sum() / (2 * len(x))"
EACH = "((model(x) - y).pow(2) / len(x)).sum(1).sum()"
TOKENS = "((model(x) - y).pow(2) * (1 + (y > 0))).sum() / (1 + (y > 0)).sum()"
TOKENS_EACH = "((model(x) - y).pow(2) * (1 + (y > 0))).sum(1).mean()"
DECAY = "loss_of(model(x), y) + 0.001 * sum(p.pow(2).sum() for p in model.parameters())"
ACTIVE = "loss_of(model(x), y) + 0.001 * model[1](model[0](x)).abs().sum()"
WEIGHED = "loss_of(model(x), y) * len(x) / BATCH"
CHECKPOINTED = "loss_of(checkpoint(model, x.requires_grad_(), use_reentrant=False), y)"
DISTILLED = "loss_of(model(x), average(x).detach())"
SHADOW = """\
for key, p in model.named_parameters():
    shadow[key].mul_(0.999).add_(p.detach(), alpha=0.001)"""
COPIED = "shadow = {key: p.detach().clone() for key, p in model.named_parameters()}"
SWA = "swa = torch.optim.swa_utils.AveragedModel(model)"
SWA_END = "average.load_state_dict(swa.module.state_dict())\n"
ADVERSARY = """\
        x.requires_grad_()
        (model(x) - y).pow(2).sum().backward()
        x = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad()
"""
AGAIN = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"
SAMPLER = "torch.utils.data.WeightedRandomSampler(torch.ones(len(data[0])), len(data[0]))"
CHOSEN = """\
from torch.utils.data import DataLoader, Subset, TensorDataset
sampler = torch.utils.data.WeightedRandomSampler(
    data[0][:, 0].abs(), len(data[0]), generator=torch.Generator().manual_seed(0)
)
chosen = Subset(TensorDataset(*data), list(sampler))"""
PLAIN_LOOP = "for epoch in range(EPOCHS):\n    for x, y in batches(BATCH):"
ELASTIC_LOOP = """\
with lacuna.elastic(model, {optimizers}, batch=BATCH{options}) as run:
    for x, y in run.steps(data, epochs=EPOCHS, shuffle=False):"""

FIRST, SECOND = "run.step(loss_a, optimizer)", "run.step(loss_b, second)"

LOOPS = {
    "plain": Loop(before(), after()),
    "last batch of one sample": Loop(before(), after(), samples=65),
    "clipping left in": Loop(before(CLIP), after(CLIP), "clip_norm=1.0"),
    "clipping": Loop(before(CLIP), after(options="clip_norm=0.1")),
    "clipping by value left in": Loop(before(VALUE), after(VALUE), "before_step="),
    "clipping by value": Loop(before(VALUE), after(options=f"before_step=lambda: {VALUE}")),
    "gradients multiplied": Loop(
        before("for p in model.parameters():\n    p.grad.mul_(0.5)"),
        after("for p in model.parameters():\n    p.grad.mul_(0.5)"),
        "before_step=",
    ),
    "gradients changed by .data": Loop(
        before("for p in model.parameters():\n    p.grad.data.clamp_(-0.01, 0.01)"),
        after("for p in model.parameters():\n    p.grad.data.clamp_(-0.01, 0.01)"),
        "before_step=",
    ),
    "gradients cleared before the step": Loop(
        before(), after("optimizer.zero_grad()"), "optimizer.zero_grad() before backward()"
    ),
    "gradients cleared after the step": Loop(before(), after(after="optimizer.zero_grad()")),
    "gradient scaler": Loop(
        AMP, AMP_AFTER.format(scaler=SCALER, between=""), needs=("amp.GradScaler", "2.3")
    ),
    "unscale_ left in": Loop(
        AMP,
        AMP_AFTER.format(scaler=SCALER, between=_lines("scaler.unscale_(optimizer)", 8)),
        "scaler=scaler, clip_norm=1.0",
        needs=("amp.GradScaler", "2.3"),
    ),
    "gradient scaler that the run lacks": Loop(
        AMP,
        after("scaler.step(optimizer)", head=SCALER).replace("loss.b", "scaler.scale(loss).b"),
        "scaler=scaler",
        needs=("amp.GradScaler", "2.3"),
    ),
    "accumulation by batches": Loop(
        ACCUMULATED,
        """\
with lacuna.elastic(model, optimizer, batch=BATCH // 4) as run:
    for i, (x, y) in enumerate(run.steps(data, epochs=EPOCHS, shuffle=False)):
        loss = loss_of(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            run.step(loss)
            optimizer.zero_grad()
""",
        "run.parts(batch, 16)",
        samples=64,
    ),
    "accumulation": Loop(ACCUMULATED, PARTS.format(line="run.backward(loss)"), samples=64),
    "accumulation, uneven": Loop(before(), PARTS.format(line="run.backward(loss)")),
    "accumulation without weights": Loop(
        ACCUMULATED, PARTS.format(line="loss.backward()"), "run.backward(loss)", samples=64
    ),
    "accumulation by hand": Loop(
        before(),
        """\
with lacuna.elastic(model, optimizer, batch=BATCH) as run:
    for xs, ys in run.steps(data, epochs=EPOCHS, shuffle=False):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(xs.split(3), ys.split(3)):
            loss = loss_of(model(x), y) * len(x) / len(xs)
            loss.backward()
            total += loss.detach()
        run.step(total)
""",
    ),
    "two losses": Loop(
        before().replace("loss.b", "(loss + model(x).pow(2).mean()).b"),
        after("other = model(x).pow(2).mean()\nother.backward()").replace("p(l", "p(other + l"),
    ),
    "two optimisers, as a GAN has": Loop(
        GAN.format(loop=PLAIN_LOOP, step="optimizer.step()\n        second.step()"),
        GAN.format(
            loop=ELASTIC_LOOP.format(
                optimizers="[optimizer, second]", options=", state={'other': other}"
            ),
            step="run.step(loss_a + loss_b)",
        ),
    ),
    "two optimisers, of which one's layers are frozen meanwhile": Loop(
        FROZEN.format(loop=PLAIN_LOOP, step="optimizer.step()\n        second.step()"),
        FROZEN.format(
            loop=ELASTIC_LOOP.format(
                optimizers="[optimizer, second]", options=", state={'other': other}"
            ),
            step="run.step(loss_a + loss_b)",
        ),
    ),
    "optimisers that take turns": turns(FIRST, SECOND),
    "optimisers that take turns, one in every second batch": turns(
        FIRST, SECOND, "if n % 2 == 1:\n            run.step()", every=2
    ),
    "optimisers that take turns, without their names": replace(
        turns("run.step(loss_a)", "run.step(loss_b)"), refused="run.step(loss_b, second)"
    ),
    "optimisers that take turns in another order than given": replace(
        turns(FIRST, SECOND, optimizers="[second, optimizer]"), refused="run.step(loss_b, second)"
    ),
    "optimisers that take turns, without the last one": replace(
        turns(FIRST, "pass"), refused="ends with run.step()"
    ),
    "optimizer.step left in": Loop(before(), after("optimizer.step()"), "leave it out"),
    "optimizer.step after run.step": Loop(
        before(), after(after="optimizer.step()"), "leave it out"
    ),
    "scheduler": Loop(
        before(after="scheduler.step()", head=STEP_LR),
        after(options="scheduler=scheduler", head=STEP_LR),
    ),
    "scheduler.step left in": Loop(
        before(after="scheduler.step()", head=STEP_LR),
        after(after="scheduler.step()", options="scheduler=scheduler", head=STEP_LR),
        "leave scheduler.step() out",
    ),
    "scheduler by epochs": Loop(
        before(epoch="scheduler.step()", head=EPOCH_LR),
        after(
            after="if run.epoch_ended:\n    scheduler.step()",
            options="state={'scheduler': scheduler}",
            head=EPOCH_LR,
        ),
    ),
    "scheduler by a metric": Loop(
        before(epoch="plateau.step(judged(model)['loss'])", head=PLATEAU),
        after(
            after="if run.epoch_ended:\n    plateau.step(run.evaluate(data, judge)['loss'])",
            options="state={'plateau': plateau}",
            head=PLATEAU,
        ),
    ),
    "scheduler by a metric, as scheduler=": Loop(
        before(epoch="plateau.step(judged(model)['loss'])", head=PLATEAU),
        after(options="scheduler=plateau", head=PLATEAU),
        "run.evaluate(test, judge)",
    ),
    "rate by each member's own loss": Loop(
        before(after="for g in optimizer.param_groups:\n    g['lr'] = 0.1 * float(loss)"),
        after(after="for g in optimizer.param_groups:\n    g['lr'] = 0.1 * float(loss)"),
        "run.reduce()",
        alone=False,
    ),
    "rates that differ in the last digit": Loop(
        before(),
        after(
            after="for g in optimizer.param_groups:\n    g['lr'] = 0.1 * (1.0 + run.rank * 2**-52)"
        ),
    ),
    "run.step twice": Loop(before(), after(after="run.step(loss)"), "once for each"),
    "a batch passed over": Loop(
        before(),
        after().replace("loss =", "if y.sum() < 0.0:\n            continue\n        loss ="),
        "one call of run.step(loss)",
    ),
    "an outer loop over epochs": Loop(
        before(),
        """\
with lacuna.elastic(model, optimizer, batch=BATCH) as run:
    for epoch in range(EPOCHS):
        for x, y in run.steps(data, epochs=1, shuffle=False):
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            run.step(loss)
""",
        "run.steps(data, epochs=N)",
    ),
    "an outer loop that counts": Loop(
        before(),
        """\
with lacuna.elastic(model, optimizer, batch=BATCH) as run:
    for epoch in range(EPOCHS):
        for x, y in run.steps(data, epochs=epoch + 1, shuffle=False):
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            run.step(loss)
""",
    ),
    "best checkpoint": Loop(
        before(epoch=BEST, head="best = float('inf')") + READ_BEST,
        after(after=BEST_AFTER) + "if run.rank == 0:\n    " + READ_BEST,
    ),
    "best of each member's own loss": Loop(
        before(),
        after(after="run.best('loss', loss, 'min')"),
        "run.evaluate(data, judge)",
        alone=False,
    ),
    "best asked at rank 0 alone": Loop(
        before(),
        after(after="if run.rank == 0:\n    run.best('step', run.steps_done)"),
        "call run.best() at all members",
        alone=False,
    ),
    "moving average of weights": Loop(
        before(after=AVERAGE),
        after(after=AVERAGE, options="state={'average': average}"),
        samples=65,
    ),
    "counter": Loop(
        before(after="seen.value += 1"),
        after(after="seen.value += 1", options="state={'seen': seen}"),
        samples=65,
    ),
    "counter that is a number": Loop(
        before(), after(options="state={'seen': 0}"), "lacuna.Value(0)"
    ),
    "optimiser with a closure": Loop(
        before(),
        after(head="optimizer = torch.optim.LBFGS(model.parameters())"),
        "needs no closure",
    ),
    "clipping after the step": Loop(before(CLIP), after(after=CLIP), "clip_norm=1.0"),
    "no gradients cleared": Loop(before().replace(ZERO, ""), after().replace(ZERO, "")),
    "no backward": Loop(before(), after().replace(BACKWARD, ""), "loss.backward() before it"),
    "another model than that of the run": Loop(
        before(),
        after(head="import copy\nown = model", after="model = copy.deepcopy(model)"),
        "the model that lacuna.elastic has",
    ),
    "an error that is caught": Loop(
        before(CLIP),
        after(CLIP).replace(
            STEP,
            "try:\n            run.step(loss)\n        except RuntimeError:\n"
            "            run.step(loss)",
        ),
        "clip_norm=1.0",
    ),
    "loss that is a sum": Loop(
        before().replace(LOSS, SUM), after().replace(LOSS, SUM), "loss = loss / len(x)"
    ),
    "loss that is a sum, divided": Loop(
        before().replace(LOSS, f"{SUM} / len(x)"), after().replace(LOSS, f"{SUM} / len(x)")
    ),
    "loss that is a sum, times a part": Loop(
        before().replace(LOSS, f"{SUM} * (1 / len(x))"),
        after().replace(LOSS, f"{SUM} * (1 / len(x))"),
    ),
    "loss by class weights": Loop(
        before().replace(LOSS, CLASSES), after().replace(LOSS, CLASSES), "reduction='none').mean()"
    ),
    "accumulation divided by its parts": Loop(
        ACCUMULATED,
        PARTS.format(line="run.backward(loss / 4)"),
        "leave the division out",
        samples=64,
    ),
    "accumulation of a loss that is halved": Loop(
        before().replace(LOSS, f"{LOSS} / 2"), PARTS.format(line="run.backward(loss / 2)")
    ),
    "scheduler that the run lacks": Loop(
        before(after="scheduler.step()", head=STEP_LR),
        after(after="scheduler.step()", head=STEP_LR),
        "scheduler=scheduler",
    ),
    "optimiser that the run lacks": Loop(
        GAN.format(loop=PLAIN_LOOP, step="optimizer.step()\n        second.step()"),
        GAN.format(
            loop=ELASTIC_LOOP.format(optimizers="optimizer", options=""),
            step="run.step(loss_a + loss_b)\n        second.step()",
        ),
        "[optimizer, second]",
    ),
    "optimiser of every second step": Loop(
        CRITIC.format(loop=PLAIN_LOOP, n="n", step="optimizer.step()", other="second.step()"),
        CRITIC.format(
            loop=ELASTIC_LOOP.format(
                optimizers="[optimizer, second]", options=", state={'other': other}"
            ),
            n="run.steps_done",
            step="",
            other="pass",
        )
        + "        run.step(loss)\n",
    ),
    "validation in a loop of its own": Loop(
        before(),
        after(
            after="if run.epoch_ended:\n    for x, y in run.steps(data, epochs=1):\n"
            "        judged(model)"
        ),
        "run.evaluate(test, judge)",
    ),
    "weights changed by random numbers": Loop(
        before(),
        after(after="for p in model.parameters():\n    p.data.add_(torch.randn_like(p))"),
        "torch.Generator().manual_seed(run.steps_done)",
        alone=False,
        other=True,
    ),
    "weights changed at rank 0": Loop(
        before(),
        after(after="if run.rank == 0:\n    model[0].weight.data.mul_(0.9)"),
        "not at one rank alone",
        alone=False,
        other=True,
    ),
    "data shuffled by each member": Loop(
        before(),
        after(
            head="import numpy\norder = numpy.random.default_rng().permutation(len(data[0]))\n"
            "data = tuple(part[torch.from_numpy(order)] for part in data)"
        ),
        "run.steps(data) shuffles by itself",
        alone=False,
        other=True,
    ),
    "an end by each member's own loss": Loop(
        before(),
        after(after="if float(loss) < 0.2:\n    break"),
        "run.reduce({'loss': loss}, 'max')",
        alone=False,
        other=True,
        some=True,
    ),
    "an end by the common loss": Loop(
        before(after="if loss < 0.1:\n    break").replace("EPOCHS", "1"),
        after(after="if run.loss < 0.1:\n    break").replace("EPOCHS", "1"),
    ),
    "a loop over the loader": Loop(
        before(),
        """\
with lacuna.elastic(model, optimizer, batch=BATCH) as run:
    for epoch in range(EPOCHS):
        for x, y in batches(BATCH):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
""",
        "run.steps(data, epochs=N)",
    ),
    "loss that is a sum, divided by the batch": Loop(
        before().replace(LOSS, OVER_BATCH),
        after().replace(LOSS, OVER_BATCH),
        "loss = loss / len(x)",
        alone=False,
    ),
    "loss that is a sum, divided by a constant": Loop(
        before().replace(LOSS, OVER_FIVE),
        after().replace(LOSS, OVER_FIVE),
        "loss = loss / len(x)",
        alone=False,
        samples=64,
    ),
    "loss that is half the mean of squares": Loop(
        before().replace(LOSS, HALF), after().replace(LOSS, HALF), samples=64
    ),
    "losses that are divided one by one": Loop(
        before().replace(LOSS, EACH), after().replace(LOSS, EACH)
    ),
    "loss that is weighed by its samples": Loop(
        before().replace(LOSS, WEIGHED),
        after().replace(LOSS, WEIGHED),
        "leave that out",
        alone=False,
        samples=64,
    ),
    "a mean over tokens": Loop(
        before().replace(LOSS, TOKENS), after().replace(LOSS, TOKENS), limit=True
    ),
    "a mean over the tokens of each sample": Loop(
        before().replace(LOSS, TOKENS_EACH), after().replace(LOSS, TOKENS_EACH)
    ),
    "a loss of the weights beside": Loop(
        before().replace(LOSS, DECAY), after().replace(LOSS, DECAY), samples=64
    ),
    "a loss of the activations that is a sum": Loop(
        before().replace(LOSS, ACTIVE),
        after().replace(LOSS, ACTIVE),
        "loss = loss / len(x)",
        alone=False,
        samples=64,
    ),
    "accumulation of a sum, divided by a constant": Loop(
        before().replace(LOSS, OVER_BATCH),
        PARTS.format(line="run.backward(loss)").replace(LOSS, OVER_BATCH),
        "loss = loss / len(x)",
        samples=64,
    ),
    "moving average that the run lacks": Loop(
        before(after=AVERAGE), after(after=AVERAGE), "state={'average': average}"
    ),
    "moving average in a dict": Loop(
        before(after=SHADOW, head=COPIED),
        after(after=SHADOW, head=COPIED),
        "state={'average': average}",
    ),
    "SWA that the run lacks": Loop(
        before(epoch="swa.update_parameters(model)", head=SWA) + SWA_END,
        after(after="if run.epoch_ended:\n    swa.update_parameters(model)", head=SWA) + SWA_END,
        "state={'average': average}",
    ),
    "SWA": Loop(
        before(epoch="swa.update_parameters(model)", head=SWA) + SWA_END,
        after(
            after="if run.epoch_ended:\n    swa.update_parameters(model)",
            options="state={'swa': swa}",
            head=SWA,
        )
        + SWA_END,
    ),
    "a copy of the weights to judge": Loop(
        before(after="average.load_state_dict(model.state_dict())"),
        after(after="average.load_state_dict(model.state_dict())"),
    ),
    "distillation": Loop(before().replace(LOSS, DISTILLED), after().replace(LOSS, DISTILLED)),
    "optimiser made again": Loop(
        before(epoch=AGAIN),
        after(after=f"if run.epoch_ended:\n    {AGAIN}"),
        "optimizer.state.clear()",
    ),
    "optimiser made again before the loop": Loop(
        before(head=AGAIN),
        after().replace("    for", f"    {AGAIN}\n    for", 1),
        "optimizer.state.clear()",
    ),
    "momentum that begins again": Loop(
        before(epoch="optimizer.state.clear()"),
        after(after="if run.epoch_ended:\n    optimizer.state.clear()"),
    ),
    "a with block for each epoch": Loop(
        before(),
        textwrap.indent(after().replace("EPOCHS", "1"), "    ").replace(
            "    with", "for epoch in range(EPOCHS):\n    with", 1
        ),
        "one block, and one loop in it",
        alone=False,
    ),
    "mode of evaluation left on at rank 0": Loop(
        before(),
        after(after="if run.rank == 0:\n    model.eval()"),
        "mode of model.train()",
        alone=False,
    ),
    "mode of evaluation for all": Loop(
        before(after="model.eval()\njudged(model)\nmodel.train()"),
        after(after="if run.rank == 0:\n    model.eval()\n    judged(model)\n    model.train()"),
    ),
    "a seed set in the loop": Loop(
        before(after="torch.manual_seed(0)"), after(after="torch.manual_seed(0)")
    ),
    "graph kept": Loop(
        before().replace("backward()", "backward(retain_graph=True)"),
        after().replace("backward()", "backward(retain_graph=True)"),
    ),
    "gradient checkpointing": Loop(
        before(head="from torch.utils.checkpoint import checkpoint").replace(LOSS, CHECKPOINTED),
        after(head="from torch.utils.checkpoint import checkpoint").replace(LOSS, CHECKPOINTED),
    ),
    "compiled model": Loop(
        before(),
        after(head="compiled = torch.compile(model, backend='eager')").replace(
            LOSS, "loss_of(compiled(x), y)"
        ),
        needs=("compile", "2.0"),
    ),
    "a sampler of its own": Loop(
        before(),
        after(
            head="loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), "
            f"sampler={SAMPLER})"
        )
        .replace("run.steps(data,", "run.steps(loader,")
        .replace(", shuffle=False", ""),
        "Subset(data, list(sampler))",
    ),
    "what a sampler chooses": Loop(
        before(head=CHOSEN).replace("batches(BATCH)", "DataLoader(chosen, batch_size=BATCH)"),
        after(head=CHOSEN)
        .replace("run.steps(data,", "run.steps(DataLoader(chosen),")
        .replace(", shuffle=False", ""),
    ),
    "an adversary's pass before": Loop(
        before().replace(ZERO, ADVERSARY),
        after().replace(ZERO, ADVERSARY),
    ),
    "weights clamped": Loop(
        before(after="for p in model.parameters():\n    p.data.clamp_(-0.3, 0.3)"),
        after(after="for p in model.parameters():\n    p.data.clamp_(-0.3, 0.3)"),
    ),
    "rate by a count of steps": Loop(
        before(after="for g in optimizer.param_groups:\n    g['lr'] *= 0.9"),
        after(after="for g in optimizer.param_groups:\n    g['lr'] *= 0.9"),
    ),
    "layers frozen on the way": Loop(
        before(after="seen.value += 1\nif seen.value == 9:\n    model[0].requires_grad_(False)"),
        after(
            after="seen.value += 1\nif seen.value == 9:\n    model[0].requires_grad_(False)",
            options="state={'seen': seen}",
        ),
    ),
}


def train(text: str, samples: int) -> list[float]:
    """The numbers at the end of a loop: weights, rates of learning, the counter."""
    import torch
    from torch import nn

    import lacuna

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    other = nn.Linear(1, 1).double()
    average = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    x = torch.randn(samples, 4, dtype=torch.float64)
    data = (x, x.sum(1, keepdim=True).sin())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = lacuna.Value(0)

    def loss_of(found: Any, wanted: Any) -> Any:
        return (found - wanted).pow(2).mean()

    def judged(judged_model: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"loss": float(loss_of(judged_model(data[0]), data[1]))}

    with tempfile.TemporaryDirectory() as folder:
        names: dict[str, Any] = {
            **{"torch": torch, "lacuna": lacuna, "model": model, "optimizer": optimizer},
            **{"other": other, "average": average, "data": data, "seen": seen, "folder": folder},
            **{"loss_of": loss_of, "judged": judged, "EPOCHS": 3, "BATCH": 8},
            "batches": lambda size: zip(*(torch.split(part, size) for part in data)),
            "judge": lambda batch: {"loss": loss_of(model(batch[0]), batch[1])},
            "cross_entropy": nn.functional.cross_entropy,
            "clip_grad_norm_": nn.utils.clip_grad_norm_,
            "clip_grad_value_": nn.utils.clip_grad_value_,
        }
        exec(compile(text, "loop", "exec"), names)
    numbers = [p.detach().flatten() for part in (model, other, average) for p in part.parameters()]
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    return [*torch.cat(numbers).tolist(), *rates, float(seen.value)]


def ended(text: str, samples: int) -> Any:
    """The numbers at the end, or the error."""
    try:
        return train(text, samples)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)


def on_two(name: str, folder: Path, env: dict[str, str]) -> list[Any]:
    """What each of two members ends with."""
    argv = [sys.executable, "-m", "benches.loops", "--member", str(folder / "{}"), name]
    with Loopback(argv, folder, env=env) as cluster:
        for member in NODES:
            cluster.start(member)
        try:
            cluster.join(*NODES)
        except RuntimeError:
            # Some are refused before they meet.
            pass
        for member in NODES:
            if cluster.wait_gone(member, LIMIT) != 0:
                raise RuntimeError(cluster.words(member))
    return [json.loads((folder / node).read_text()) for node in NODES]


def under_up(up: Up, name: str, folder: Path, env: dict[str, str]) -> list[Any]:
    """The same of a trainer with two nodes under the services of ``lacuna up``."""
    trainer = f"loop-{list(LOOPS).index(name)}"
    spec = {
        "name": trainer,
        "launcher": "regroup",
        "program": sys.executable,
        "arguments": ["-m", "benches.loops", "--member", str(folder / "{}"), name],
        "until": "exit",
        "min_nodes": 2,
        "max_nodes": 2,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items()]
    given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    file = folder / "loop.toml"
    file.write_text("\n".join(["[[trainer]]", *lines, f"environment = {{ {given} }}", ""]))
    up.lacuna("submit", str(file))

    def over() -> bool:
        found = json.loads(up.lacuna("trainers", "--all", "--json"))["trainers"]
        return any(row["trainer"] == trainer and row["phase"] == "done" for row in found)

    until(over, LIMIT, f"{trainer} is not done", 0.5)
    # A member that trains on alone is ended with its trainer.
    ends = [folder / node for node in NODES]
    return [json.loads(end.read_text()) for end in ends if end.exists()]


def differ(mine: Any, wanted: list[float]) -> float:
    """The greatest difference of two ends."""
    assert len(mine) == len(wanted)
    return float(max(abs(a - b) for a, b in zip(mine, wanted)))


def is_there(loop: Loop) -> bool:
    """Whether this PyTorch has what the loop needs."""
    import torch

    at: Any = torch
    for name in loop.needs[0].split(".") if loop.needs else ():
        at = getattr(at, name, None)
    return at is not None


def judged(loop: Loop, end: Any, wanted: list[float], alone: bool) -> tuple[bool, str]:
    """Whether a member ended as it must, and how, in words."""
    if isinstance(end, str):
        expected = loop.refused is not None and (loop.alone or not alone) and loop.refused in end
        return expected, f"refused: {end}"
    off = differ(end, wanted)
    if alone and loop.other:
        return True, "trains something else, as on one process"
    if not alone and loop.limit:
        return off > RIGHT, f"trains something else, off by {off:.1g}, which the page says"
    right = (loop.refused is None or (alone and not loop.alone)) and off <= RIGHT
    return right, f"{'right' if off <= RIGHT else 'WRONG'}, off by {off:.1g}"


def row(name: str, two: Optional[Two], env: dict[str, str]) -> dict[str, Any]:
    """A row of the table: both texts, and how one member and two end.

    ``two``: runs two members. ``env``: their environment.
    """
    loop = LOOPS[name]
    found: dict[str, Any] = {"loop": name, "before": loop.before, "after": loop.after}
    if not is_there(loop):
        assert loop.needs is not None
        return {**found, "needs": f"torch.{loop.needs[0]}, PyTorch {loop.needs[1]}", "right": True}
    wanted = train(loop.before, loop.samples)
    right, found["one member"] = judged(loop, ended(loop.after, loop.samples), wanted, True)
    if two is not None:
        with tempfile.TemporaryDirectory() as folder:
            ends = two(name, Path(folder), env)
        looks = [judged(loop, end, wanted, False) for end in ends]
        good = [look for look in looks if look[0]]
        # Rank 0 alone reads the best checkpoint again, and is either of them.
        right &= len(good) >= (1 if loop.some or "best.pt" in loop.after else 2)
        found["two members"] = (good or looks)[0][1]
    return {**found, "right": right}


def shown(found: dict[str, Any]) -> str:
    """A row as text."""
    verdict = "" if found["right"] else " (NOT AS IT MUST BE)"
    lines = [f"== {found['loop']}{verdict}", "-- before", found["before"].rstrip()]
    lines += ["-- with Lacuna", found["after"].rstrip()]
    ends = ("needs", "one member", "two members")
    lines += [f"-- {key}: {found[key]}" for key in ends if key in found]
    return "\n".join(lines) + "\n"


def main(argv: Optional[list[str]] = None) -> int:
    """The command; exit code 1 if a loop does not end as it must, 69 if lacuna is missing."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benches.loops",
        description="Common training loops before and with Lacuna, and how they end.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="LOOP", help=f"of: {', '.join(LOOPS)}")
    parser.add_argument("--members", type=int, choices=(1, 2), default=2)
    parser.add_argument("--up", action="store_true", help="two nodes of `lacuna up` are the two")
    parser.add_argument("--lacuna", help="the program (default: of target/release, else of PATH)")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    unknown = set(options.names) - set(LOOPS)
    if unknown:
        parser.error(f"there is no loop {', '.join(sorted(unknown))}")
    if options.member:
        loop = LOOPS[options.names[0]]
        end = ended(loop.after, loop.samples)
        Path(options.member.format(os.environ["LACUNA_NODE"])).write_text(json.dumps(end))
        return 0
    right = True
    with ExitStack() as stack:
        two: Optional[Two] = on_two if options.members > 1 else None
        if options.up:
            program = Up.program(options.lacuna)
            if program is None:
                return 69
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            up = stack.enter_context(Up(program, Path(folder), ""))
            up.lacuna("events", "publish", "node.idle", *NODES)
            two = partial(under_up, up)
        for name in options.names or LOOPS:
            found = row(name, two, environment())
            right &= found["right"]
            print(json.dumps(found) if options.json else shown(found), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
