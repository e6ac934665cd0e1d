"""What a step is worth: noise scale, batch, learning rate, progress.

All numbers come from the last message of a step, so every member has the same ones and decides
alike at the same step, without a further message. Rank 0 adds what the step before gave it alone:
the squared norm of the averaged gradient and of the momentum, and the seconds of the step. Each
member adds the seconds that it computed. What was decided belongs to the training state.

Of a sharded model nodes are compared, since the gradient of one worker is nowhere as a whole. Each
worker of the first node adds the squared norms of its parts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import torch

from .choice import Times, choose
from .gradients import Gradients
from .noise import SETTLED, NoiseScale, Sample, Scale
from .norms import Norms, decay, is_adaptive
from .order import Share
from .part import Now, Part, Step
from .policy import BY_NOISE, Adaptive, BatchPolicy, WholeGroup, follows, reference, rule

#: The first steps, in this number, are measured; then one in EVERY.
FIRST, EVERY = 40, 8
#: Steps between two choices of the batch, two divisors of Adam's geometry, two looks of one member.
LOOK, REFRESH, ALONE = 50, 64, 50
#: Seconds between two reports of what a step is worth.
EVERY_NEWS = 30.0
#: Numbers of rank 0 in the message, before the seconds of members.
_VALID, _WHOLE, _STEADY, _MOMENTUM, _PERIOD, _TIMED = range(6)
_OWN = 6


@dataclass(frozen=True)
class Told:
    """What rank 0 knows of the step before."""

    whole: Optional[float] = None
    momentum: Optional[float] = None
    period: Optional[float] = None


class Learning(Part):
    """Says what steps are worth.

    ``noise``: whether the noise scale is measured where the policy does not need it. ``exact``:
    whether the momentum is that of the gradients that are summed: no clipping, no function before
    the step, no scaler.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        optimizers: Sequence[torch.optim.Optimizer],
        *,
        noise: bool = False,
        exact: bool = True,
    ) -> None:
        self._policy = policy
        self._optimizers = optimizers
        self._first = reference(policy)
        self._rule = rule(policy)
        self.counts_progress = self._rule in BY_NOISE
        adaptive = is_adaptive(optimizers)
        if self._rule == "adascale" and adaptive:
            raise ValueError(
                "learning_rate 'adascale' is for SGD, and this optimiser divides by a mean square: "
                "use 'adamscale'"
            )
        if self._rule == "adamscale" and adaptive is False:
            raise ValueError(
                "learning_rate 'adamscale' is for Adam, and this is SGD: use 'adascale'"
            )
        self.measures = noise or self.counts_progress or isinstance(policy, Adaptive)
        self.geometry = "adam" if adaptive else "sgd"
        # Without measurements there is no state to carry.
        self.name = "learning" if self.measures else ""
        self._norms: Optional[Norms] = None
        self._exact = exact
        self._noise = NoiseScale()
        self._pending: Optional[list[float]] = None
        self._measured = 0
        #: Steps since the batch was another one.
        self._steady = 0
        #: Steps of the momentum's mean.
        self._age = 0
        self.progress = 0.0
        self._batch = policy.batch if isinstance(policy, Adaptive) else 0
        self._times = Times()
        self._refresh = True
        self._told = Told()
        self._group_step = 0
        self._next_news = 0.0

    # The part of a step.

    def regroup(self, now: Now) -> None:
        self.new_group(now.world_size)

    def before(self, step: Step) -> None:
        now = step.now
        # One node with a sharded model has nothing to compare its gradient with.
        if now.shards == 1 or now.shards < now.world_size:
            step.norms = self.norms(step.gradients, now.position.step)

    def vote(self, step: Step) -> None:
        step.send(self, self.numbers(step.now, step.took))

    def agree(self, step: Step) -> None:
        share, sums = step.share, step.sums
        if sums is None:
            self.timed(share, step.took, step.period)
        else:
            counts = [sum(some) for some in step.now.by_model(share.counts)]
            self.agreed(share, counts, step.summed(self), sums.squares, step.gradients.measured)
        if step.ends:
            step.worth = self.applies(share)

    def after(self, step: Step) -> None:
        if step.ends:
            self.keep(step.now, step.gradients, step.period)

    def news(self, now: Now) -> dict[str, Any]:
        if (moment := time.monotonic()) < self._next_news:
            return {}
        known = self.report(self.batch(now.nodes)) or {}
        self._next_news = moment + EVERY_NEWS if known else self._next_news
        return known

    # Before a step.

    def batch(self, nodes: int) -> int:
        """Samples of the next step of the whole group."""
        return self._batch if self._batch > 0 else self._policy.batch_of(nodes)

    def scale(self) -> Optional[Scale]:
        """The noise scale, once it is known."""
        return self._noise.estimate(self._first) if self.measures else None

    def norms(self, gradients: Gradients, step: int) -> tuple[Optional[Norms], bool]:
        """What measures this step, if it is measured, and whether with new divisors."""
        if not self.measures or not (self._measured < FIRST or step % EVERY == 0):
            return None, False
        refresh = self._refresh or step % REFRESH == 0
        self._refresh = False
        return self.norms_of(gradients), refresh

    def norms_of(self, gradients: Gradients) -> Norms:
        """What measures the gradients."""
        if self._norms is None:
            self._norms = Norms(gradients.parameters, self._optimizers, self.geometry)
        return self._norms

    def has_enough(self, length: Optional[int], epochs: Optional[int]) -> bool:
        """Whether progress has come to the end, where it does not count in epochs of samples."""
        if epochs is None or not self.counts_progress or length is None:
            return False
        return self.progress >= epochs * math.ceil(length / self._first) - 1e-9

    def is_due_alone(self, step: int, share: Share) -> bool:
        """Whether a member without others looks at two halves of this step."""
        if not self.measures or share.batch < 2:
            return False
        return self._measured < FIRST // 4 or step % ALONE == 0

    def follows(self) -> Any:
        """How the batch follows the members, for who plans at other sizes. None where the program
        chooses it, and where samples count by their worth, which is another one there."""
        if self.counts_progress or isinstance(self._policy, Adaptive):
            return None
        return follows(self._policy)["follows"]

    # In the message.

    def numbers(self, now: Now, seconds: float) -> tuple[float, ...]:
        """This member's numbers for the message."""
        if not self.measures:
            return ()
        own = [0.0] * (_OWN + now.world_size)
        own[_OWN + now.rank] = seconds
        if now.rank < now.shards:
            told = self._told
            if told.whole is not None:
                own[_VALID], own[_WHOLE] = 1.0, told.whole
            if told.momentum is not None:
                own[_STEADY], own[_MOMENTUM] = 1.0, told.momentum
            if told.period is not None:
                own[_TIMED], own[_PERIOD] = 1.0, told.period
        return tuple(own)

    def agreed(
        self,
        share: Share,
        counts: Sequence[int],
        more: Sequence[float],
        squares: float,
        measured: bool,
    ) -> None:
        """Takes the sums of a step that will be applied. ``counts``: samples by whole model."""
        if not self.measures:
            return
        seconds = list(more[_OWN:])
        if self._pending is not None and more[_VALID] > 0.0:
            members, batch, local = self._pending
            steady = more[_MOMENTUM] if more[_STEADY] > 0.0 else None
            beta = decay(self._optimizers)
            sample = Sample(int(members), int(batch), local, more[_WHOLE], steady, beta)
            self._noise.add(sample)
        self._pending = None
        if measured and math.isfinite(squares) and squares > 0.0:
            members = sum(count > 0 for count in counts)
            if members > 1:
                self._pending = [float(members), float(share.batch), squares]
            self._measured += 1
        if all(math.isfinite(one) for one in seconds):
            period = more[_PERIOD] / more[_TIMED] if more[_TIMED] > 0.0 else None
            self._times.add(share.counts, seconds, period)

    def alone(self, shares: Sequence[int], local: float, whole: float) -> None:
        """Takes the squared norms of the parts of a step of one member, and of its mean."""
        self._measured += 1
        if math.isfinite(local) and local > 0.0:
            self._noise.add(Sample(len(shares), sum(shares), local, whole))

    def timed(self, share: Share, seconds: float, period: Optional[float]) -> None:
        """Takes the seconds of a step of one member."""
        if self.measures:
            self._times.add([share.batch], [seconds], period)

    # After it.

    def applies(self, share: Share) -> tuple[Optional[float], int, Optional[int]]:
        """A step is applied: the factor of the learning rate (None: the policy's), the steps of
        schedulers, and the samples that it is worth (None: its own)."""
        self._steady += 1
        self._age += 1
        self._group_step += 1
        ratio = share.batch / self._first
        if not self.counts_progress:
            if self._batch > 0:
                by_batch = {"linear": ratio, "sqrt": math.sqrt(ratio)}
                return by_batch.get(str(self._rule), 1.0), 1, None
            return None, 1, None
        found = self.scale()
        # Without a noise scale a larger batch counts as one step.
        worth = found.gain(ratio) if found is not None else min(1.0, ratio)
        factor = math.sqrt(worth) if self._rule == "adamscale" else worth
        before, self.progress = self.progress, self.progress + worth
        ticks = math.floor(self.progress + 1e-9) - math.floor(before + 1e-9)
        samples = math.floor(self.progress * self._first) - math.floor(before * self._first)
        return factor, ticks, samples

    def keep(self, now: Now, gradients: Gradients, period: Optional[float]) -> None:
        """Behind a step: rank 0 keeps what only it knows, all members choose the next batch."""
        if not self.measures:
            return
        whole = momentum = None
        if now.rank < now.shards < now.world_size and gradients.whole is not None:
            whole = gradients.whole
            beta = decay(self._optimizers)
            settled = beta > 0.0 and self._steady * (1.0 - beta) >= SETTLED
            if settled and self._exact and self._norms is not None:
                momentum = self._norms.of_momentum(self._age)
        self._told = Told(whole, momentum, period)
        if self._group_step % LOOK == 0:
            self.look(now.world_size)

    def look(self, world_size: int) -> None:
        """Chooses the batch for these members. All do so at the same step, with the same state."""
        if not isinstance(self._policy, Adaptive):
            return
        found = self.scale()
        if found is None:
            return
        new = choose(self._policy, self._times, found, self._batch, world_size)
        if new != self._batch:
            self._batch = new
            self._steady = 0

    def new_group(self, world_size: int) -> None:
        """Other members: what was under way is dropped."""
        self._pending = None
        self._told = Told()
        self._times.fresh()
        self._refresh = True
        self._group_step = 0
        if not isinstance(self._policy, WholeGroup):
            self._steady = 0
        self.look(world_size)

    def report(self, batch: int) -> Optional[dict[str, Any]]:
        """What goes with progress: the noise scale with its error, the batch, and the seconds of
        steps by batch and members."""
        found = self.scale()
        if found is None or not math.isfinite(found.phi + found.error):
            return None
        ratio = batch / self._first
        times = self._times.report()
        sizing = {} if times is None else {"sizing": {**follows(self._policy), **times}}
        return {
            "noise": {
                "phi": found.phi,
                "error": found.error,
                "q": found.square,
                "v_per_sample": found.variance * self._first,
                "steps": found.steps,
                "optimiser": self.geometry,
                "critical_batch": found.phi * self._first,
            },
            "batch": {
                "m0": self._first,
                "total": batch,
                "bounds": [self._first, getattr(self._policy, "most", batch)],
                "efficiency": found.gain(ratio) / ratio,
                "counts_progress": self.counts_progress,
                **sizing,
            },
        }

    # State.

    def state_dict(self) -> dict[str, Any]:
        """What members that join, and checkpoints, must know."""
        return {
            "noise": self._noise.state_dict(),
            "measured": self._measured,
            # Read by releases in which shares by speed were no part of their own.
            "changes": 0,
            "age": self._age,
            "progress": self.progress,
            "batch": self._batch,
            "times": self._times.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the state of another member."""
        self._noise.load_state_dict(state["noise"])
        self._measured = int(state["measured"])
        self._age = int(state["age"])
        self.progress = float(state["progress"])
        self._batch = int(state["batch"])
        self._times.load_state_dict(state["times"])
