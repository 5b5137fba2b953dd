"""The conv model server: holds the conv phase's parameters, publishes versions, applies summed gradients.

With one group a pull for iteration t gets version t and staleness is 0; with g groups the others' updates come in
between, and staleness (version now - version read) is g - 1 on average (Omnivore section 4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from nets import Net
from roles.job import Job
from roles.messages import TRAIN, GetState, LayerGradient, LayerModel, PullLayer, State, Updated
from roles.parameter_store import Blobs, ParameterStore
from roles.resume import restored
from runtime import Actor, Envelope

STALENESS = (0, 1, 2, 4, 8, 16, 32, 64, 128)


class ConvModel(Actor):
    """Options: the job, the data's image shape, the number of members per group, the coordinator's name."""

    def __init__(
        self, *, job: Mapping[str, Any], image_shape: tuple[int, int, int], groups: list[int], coordinator: str
    ) -> None:
        self._job = Job.from_options(job)
        self._image_shape = image_shape
        self._groups = groups
        self._coordinator = coordinator
        self._waiting: list[tuple[PullLayer, Envelope]] = []
        # (group, position, layer) -> (version, blobs, members still to pull): all members read one version
        self._pinned: dict[tuple[int, int, str], tuple[int, Blobs, int]] = {}
        self._read: dict[tuple[int, int, str], int] = {}  # version each training pass read
        self._applied: defaultdict[tuple[int, str], int] = defaultdict(int)  # (group, layer) -> updates of the group
        self._open: defaultdict[int, list[int]] = defaultdict(list)  # iteration -> staleness of its layers so far

    async def on_start(self) -> None:
        """Build the parameters; every process that builds them gets the same numbers."""
        self._store = await self.compute("build", self._build)
        self._staleness = self.histogram(
            "gradient_staleness_updates", "Updates between reading a version and applying its gradient.", STALENESS
        )
        self._updates = self.counter("updates", "Layer updates applied.")

    def _build(self) -> ParameterStore:
        net: Net = self._job.build(TRAIN, "conv", self._image_shape)
        store = ParameterStore(net.params, net.initial_blobs(), self._job.solver_spec, self._job.backend_ops)
        return restored(store, self._job)

    async def on_pull_layer(self, message: PullLayer, envelope: Envelope) -> None:
        """Publish a layer, at once or when the asking group's own earlier updates are in."""
        if self._applied[message.group, message.layer] < message.after:
            self._waiting.append((message, envelope))
        else:
            await self._publish(message, envelope)

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Apply a group's summed gradient to a layer, then serve those who waited for it."""
        layer = message.layer
        with self.phase("apply"):
            version = await self.compute(f"update {layer}", self._store.apply, layer, message.blobs)
        self._applied[message.group, layer] += 1
        staleness = version - 1 - self._read.pop((message.group, message.position, layer))
        self._staleness.observe(staleness)
        self._updates.inc()
        ready = [item for item in self._waiting if self._applied[item[0].group, item[0].layer] >= item[0].after]
        self._waiting = [item for item in self._waiting if item not in ready]
        for pull, asked in ready:
            await self._publish(pull, asked)
        await self._note(message.number, version, staleness)

    async def on_get_state(self, message: GetState, envelope: Envelope) -> None:
        """Hand over everything a checkpoint must hold."""
        state = await self.compute("state", self._store.state)
        version = max(self._store.versions.values(), default=0)
        await self.reply(envelope, State(names=tuple(state), arrays=tuple(state.values()), version=version))

    async def _publish(self, pull: PullLayer, envelope: Envelope) -> None:
        key = (pull.group, pull.position, pull.layer)
        fresh = (self._store.versions[pull.layer], self._store.read(pull.layer), self._groups[pull.group])
        version, blobs, missing = self._pinned.pop(key, fresh)
        if missing > 1:
            self._pinned[key] = (version, blobs, missing - 1)
        if pull.phase == TRAIN:
            self._read[key] = version
        await self.reply(envelope, LayerModel(layer=pull.layer, version=version, blobs=blobs))

    async def _note(self, number: int, version: int, staleness: int) -> None:
        """When every layer of an iteration is updated, tell the coordinator."""
        seen = self._open[number]
        seen.append(staleness)
        if len(seen) == len(self._store.layers):
            del self._open[number]
            mean = sum(seen) / len(seen)
            await self.tell(self._coordinator, Updated(number=number, version=version, staleness=mean), step=number)
