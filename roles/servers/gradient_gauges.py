"""What a model server's gradients say of staleness, momentum and noise, as metrics and to who asks.
A gauge is there from when it is known."""

from __future__ import annotations

from collections.abc import Iterable

from roles.tuning.gradient_statistics import GetGradientStatistics, statistics_of
from roles.tuning.momentum import expected, total
from roles.tuning.noise import CLEAR
from roles.tuning.watch import GradientWatch
from runtime import Actor, Envelope

STALENESS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
EVERY = 64  # iterations
SURE = 0.1  # the standard error of an implicit momentum that is shown


class GradientGauges:
    """Of one model server, which holds these layers."""

    def __init__(self, actor: Actor, watch: GradientWatch, layers: Iterable[str]) -> None:
        self._actor = actor
        self._watch = watch
        text = "Iterations of others between an iteration's first read and last update."
        self._staleness = actor.histogram("gradient_staleness_updates", text, STALENESS)
        text = (
            "Iterations of others between the first read of a layer and its"
            " last update: count and sum."
        )
        self._of_layers = {
            layer: actor.summary("layer_staleness_updates", text, layer=layer) for layer in layers
        }
        # who waits until the model is so far
        self._curious: list[tuple[GetGradientStatistics, Envelope]] = []

    def __repr__(self) -> str:
        return f"<gauges of {self._watch!r}>"

    def layer(self, layer: str, staleness: int) -> None:
        """A gradient that was so many updates old is in a layer."""
        self._of_layers[layer].observe(staleness)

    def iteration(self, staleness: int) -> None:
        """An iteration is in the model, so many after it began."""
        self._staleness.observe(staleness)

    def asked(self, message: GetGradientStatistics, envelope: Envelope) -> None:
        """Somebody wants to know all of it."""
        self._curious.append((message, envelope))

    def show(self, iterations: int, explicit: float) -> None:
        """So many iterations are in the model; `explicit` is the solver's momentum."""
        if iterations % EVERY or not self._watch.updates:
            return
        watch = self._watch
        by_staleness = self._watch.by_staleness()
        self._implicit("groups", expected(watch.groups))
        self._implicit("staleness", by_staleness)
        found = watch.by_gradients()
        if found is not None and found.error <= SURE:
            self._implicit("gradients", found.value)
        text = "The solver's momentum and that by staleness together."
        self._actor.gauge("total_momentum_ratio", text).set(total(explicit, by_staleness))
        noise = watch.noise_scale()
        if noise is not None and noise.error <= CLEAR * noise.value:
            text = "The batch whose gradient has as much noise as signal."
            self._actor.gauge("gradient_noise_images", text).set(noise.value)

    async def answer(self, iterations: int, explicit: float) -> None:
        """So many iterations are in the model: `show`, and answer those who asked for what is known
        then."""
        self.show(iterations, explicit)
        due = [asked for asked in self._curious if asked[0].after <= iterations]
        self._curious = [asked for asked in self._curious if asked not in due]
        for _, envelope in due:
            await self._actor.reply(envelope, statistics_of(self._watch, iterations, explicit))

    def _implicit(self, by: str, value: float) -> None:
        text = (
            "Of a model server: the momentum that asynchrony brings along, "
            "by `groups` (1 - 1/g), `staleness` or `gradients` "
            "(docs/tuning.md)."
        )
        self._actor.gauge("implicit_momentum_ratio", text, by=by).set(value)
