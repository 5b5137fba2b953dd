"""The conv model server: holds the conv phase's parameters, publishes versions, applies summed gradients.

The model's version counts iterations that are in it whole. An iteration's staleness is the version at its last
update minus the version when it began to read: 0 with one group, g - 1 on average with g groups (Omnivore section 4).
A single layer, read late and updated early, sees less: that is what pulling layer by layer gains.
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
from roles.wire_formats import Wire, layers_of
from runtime import Actor, Envelope, MessageError

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
        self._version = 0  # iterations that are in the model whole
        self._began: dict[tuple[int, int], int] = {}  # (group, position) -> version when the pass began to read
        self._read: dict[tuple[int, int, str], int] = {}  # and the version of each layer it read
        self._applied: defaultdict[tuple[int, str], int] = defaultdict(int)  # (group, layer) -> updates of the group
        self._layers_in: defaultdict[int, int] = defaultdict(int)  # iteration -> its layers that are in

    async def on_start(self) -> None:
        """Build the parameters; every process that builds them gets the same numbers."""
        self._store = await self.compute("build", self._build)
        self._staleness = self.histogram(
            "gradient_staleness_updates",
            "Iterations of others between an iteration's first read and last update.",
            STALENESS,
        )
        self._layer_staleness = {
            layer: self.histogram(
                "layer_staleness_updates", "Updates of a layer between a read and its gradient.", STALENESS, layer=layer
            )
            for layer in self._store.layers
        }

    def _build(self) -> ParameterStore:
        self._job.backend_ops.memory = self.memory
        net: Net = self._job.build(TRAIN, "conv", self._image_shape)
        self._wire = Wire(layers_of(net), self._job.host_ops)
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
        key = (message.group, message.position, layer)
        if key not in self._read:
            raise MessageError("unexpected", f"{message!r} of {envelope.sender}: it came twice, or nobody read that")
        with self.phase("apply"):
            version = await self.compute(f"update {layer}", self._apply, message)
        read = self._read.pop(key)
        self._applied[message.group, layer] += 1
        self._layer_staleness[layer].observe(version - 1 - read)
        await self._count(message)  # before the waiting pulls: they begin to read the version this makes
        ready = [item for item in self._waiting if self._applied[item[0].group, item[0].layer] >= item[0].after]
        self._waiting = [item for item in self._waiting if item not in ready]
        for pull, asked in ready:
            await self._publish(pull, asked)

    def _apply(self, message: LayerGradient) -> int:
        blobs = self._wire.decode(message.layer, message.formats, message.blobs)
        return self._store.apply(message.layer, blobs)

    async def on_get_state(self, message: GetState, envelope: Envelope) -> None:
        """Hand over everything a checkpoint must hold."""
        state = await self.compute("state", self._store.state)
        version = self._version
        await self.reply(envelope, State(names=tuple(state), arrays=tuple(state.values()), version=version))

    async def _publish(self, pull: PullLayer, envelope: Envelope) -> None:
        key = (pull.group, pull.position, pull.layer)
        published = self._store.published(pull.layer)
        fresh = (self._store.versions[pull.layer], published, self._groups[pull.group])
        version, blobs, missing = self._pinned.pop(key, fresh)
        if missing > 1:
            self._pinned[key] = (version, blobs, missing - 1)
        if pull.phase == TRAIN:
            self._began.setdefault((pull.group, pull.position), self._version)
            self._read[key] = version
        await self.reply(envelope, LayerModel(layer=pull.layer, version=version, blobs=blobs))

    async def _count(self, message: LayerGradient) -> None:
        """When every layer of an iteration is in, the model has a new version: tell the coordinator."""
        number = message.number
        self._layers_in[number] += 1
        if self._layers_in[number] < len(self._store.layers):
            return
        del self._layers_in[number]
        staleness = self._version - self._began.pop((message.group, message.position))
        self._version += 1
        self._staleness.observe(staleness)
        updated = Updated(number=number, version=self._version, staleness=staleness)
        await self.tell(self._coordinator, updated, step=number)
