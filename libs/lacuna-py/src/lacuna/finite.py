"""The part that says once that the loss is not finite; that is the user's to end."""

from __future__ import annotations

import logging
import math

from .part import Part, Step

log = logging.getLogger("lacuna")


class Finite(Part):
    """Names the gradients that are not finite, when the loss is not."""

    def __init__(self) -> None:
        self._has_said = False

    def agree(self, step: Step) -> None:
        loss = step.loss if step.sums is None else step.sums.loss
        if loss is None or math.isfinite(loss) or self._has_said:
            return
        self._has_said = True
        names = step.gradients.not_finite()
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        log.warning(
            "the loss of step %d is %s; gradients that are not finite: %s",
            step.now.position.step + 1,
            loss,
            ", ".join(names[:3]) + more or "none",
        )
