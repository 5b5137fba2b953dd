"""What a model server's gradients say of momentum and noise, as metrics. A gauge is there from when it is known."""

from __future__ import annotations

from roles.tuning.momentum import expected, total
from roles.tuning.noise import CLEAR
from roles.tuning.watch import GradientWatch
from runtime import Actor

EVERY = 64  # iterations
SURE = 0.1  # the standard error of an implicit momentum that is shown


class GradientGauges:
    """Of one model server."""

    def __init__(self, actor: Actor, watch: GradientWatch) -> None:
        self._actor, self._watch = actor, watch

    def __repr__(self) -> str:
        return f"<gauges of {self._watch!r}>"

    def show(self, iterations: int, explicit: float) -> None:
        """So many iterations are in the model; `explicit` is the solver's momentum."""
        if iterations % EVERY:
            return
        watch, by_staleness = self._watch, self._watch.by_staleness()
        self._implicit("groups", expected(watch.groups))
        self._implicit("staleness", by_staleness)
        found = watch.by_gradients()
        if found is not None and found.error <= SURE:
            self._implicit("gradients", found.value)
        text = "Explicit and implicit momentum together, the latter by staleness."
        self._actor.gauge("total_momentum_ratio", text).set(total(explicit, by_staleness))
        noise = watch.noise_scale()
        if noise is not None and noise.error <= CLEAR * noise.value:
            text = "The batch whose gradient has as much noise as signal."
            self._actor.gauge("gradient_noise_images", text).set(noise.value)

    def _implicit(self, by: str, value: float) -> None:
        text = "Momentum that comes from asynchrony."
        self._actor.gauge("implicit_momentum_ratio", text, by=by).set(value)
