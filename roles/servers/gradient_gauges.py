"""The statistics of a model server's gradients, shown as metrics and sent to actors that ask:
staleness, momentum and noise. A gauge appears once its value is known."""

from __future__ import annotations

from collections.abc import Iterable

from roles.tuning.gradient_statistics import GetGradientStatistics, statistics_of
from roles.tuning.momentum import expected, total
from roles.tuning.noise import CLEAR
from roles.tuning.watch import GradientWatch
from runtime import Actor, Envelope

STALENESS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
EVERY = 64  # iterations
SURE = 0.1  # the largest standard error of an implicit momentum that is shown


class GradientGauges:
    """The gauges of one model server, which holds `layers`."""

    def __init__(self, actor: Actor, watch: GradientWatch, layers: Iterable[str]) -> None:
        self._actor = actor
        self._watch = watch
        text = "Iterations of other groups between an iteration's first read and last update."
        self._staleness = actor.histogram("gradient_staleness_updates", text, STALENESS)
        text = (
            "Iterations of other groups between the first read of a layer and its"
            " last update: count and sum."
        )
        self._of_layers = {
            layer: actor.summary("layer_staleness_updates", text, layer=layer) for layer in layers
        }
        # requests that wait until the model has reached an iteration
        self._curious: list[tuple[GetGradientStatistics, Envelope]] = []

    def __repr__(self) -> str:
        return f"<gauges of {self._watch!r}>"

    def layer(self, layer: str, staleness: int) -> None:
        """Note that a gradient with this staleness is in a layer."""
        self._of_layers[layer].observe(staleness)

    def iteration(self, staleness: int) -> None:
        """Note that an iteration with this staleness is in the model."""
        self._staleness.observe(staleness)

    def asked(self, message: GetGradientStatistics, envelope: Envelope) -> None:
        """Note a request for all statistics."""
        self._curious.append((message, envelope))

    def show(self, iterations: int, explicit: float) -> None:
        """Set the gauges, every EVERY iterations. `iterations` are in the model; `explicit` is the
        solver's momentum."""
        if iterations % EVERY or not self._watch.updates:
            return
        watch = self._watch
        by_staleness = self._watch.by_staleness()
        self._implicit("groups", expected(watch.groups))
        self._implicit("staleness", by_staleness)
        found = watch.by_gradients()
        if found is not None and found.error <= SURE:
            self._implicit("gradients", found.value)
        text = "The total of the solver's momentum and the momentum by staleness."
        self._actor.gauge("total_momentum_ratio", text).set(total(explicit, by_staleness))
        noise = watch.noise_scale()
        if noise is not None and noise.error <= CLEAR * noise.value:
            text = "The batch whose gradient has as much noise as signal."
            self._actor.gauge("gradient_noise_images", text).set(noise.value)

    async def answer(self, iterations: int, explicit: float) -> None:
        """Set the gauges, and answer the requests that are due when `iterations` are in the
        model."""
        self.show(iterations, explicit)
        due = [asked for asked in self._curious if asked[0].after <= iterations]
        self._curious = [asked for asked in self._curious if asked not in due]
        for _, envelope in due:
            await self._actor.reply(envelope, statistics_of(self._watch, iterations, explicit))

    def _implicit(self, by: str, value: float) -> None:
        text = (
            "The momentum that asynchrony adds, as a model server measures it "
            "by `groups` (1 - 1/g), `staleness` or `gradients` "
            "(docs/tuning.md)."
        )
        self._actor.gauge("implicit_momentum_ratio", text, by=by).set(value)
