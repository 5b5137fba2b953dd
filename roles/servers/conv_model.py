"""The conv model server: holds the conv phase's parameters, publishes versions, applies summed gradients. Where the FC
phase is not merged, it holds those of the whole net, or several such servers some layers each.

The model's version counts iterations that are in it whole. An iteration's staleness is the version at its last
update minus the version when it began to read: 0 with one group, g - 1 on average with g groups (Omnivore section 4).
A single layer, read late and updated early, sees less: that is what pulling layer by layer gains.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from nets import Net
from roles.base.role import Anew, Held, JobOptions, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import model
from roles.learning.gradient_sum import GradientSum
from roles.learning.hogwild import HogwildStore, Races
from roles.learning.job import cpu_ops
from roles.learning.parameter_store import ParameterStore
from roles.learning.resume import restored
from roles.learning.wire_formats import Wire, WireFormat, layers_of
from roles.messages import (
    TRAIN,
    Blobs,
    Done,
    GetState,
    LayerGradient,
    LayerModel,
    PullLayer,
    Rates,
    State,
    Updated,
)
from runtime import Actor, Envelope, MessageError

STALENESS = (0, 1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(JobOptions):
    """The job, the data's image shape, the coordinator's name, which `part` of the net the model is of ("conv" or
    "all"), and which of its `layers` this server holds (None: all).

    With `hogwild`, updates of different groups race over one set of arrays, and these are what workers read (see
    `hogwild`). They lie in host memory and are updated there, whatever the device.
    """

    anew: ClassVar[Anew] = Anew.FROM_STATE
    image_shape: tuple[int, int, int]
    coordinator: str
    part: str = "conv"
    layers: tuple[str, ...] | None = None
    hogwild: bool = False

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Its layers to every worker that names it."""
        for worker, options in shapes.having("models").items():
            for way in options.models:
                if way.server == name:
                    layers = shapes.layers(options.job, options.part, way.layers)
                    yield worker, LayerModel, shapes.size(layers)

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Parameters and histories."""
        return model(self.job, shapes.layers(self.job, self.part, self.layers), shapes)


class ConvModel(Actor):
    """See the module docstring."""

    Options = ModelOptions

    def __init__(self, options: ModelOptions) -> None:
        self._job = replace(options.job, device="cpu") if options.hogwild else options.job
        self._hogwild = options.hogwild
        self._image_shape, self._part, self._layers = options.image_shape, options.part, options.layers
        self._coordinator = options.coordinator
        self._live: HogwildStore  # the store, if updates race
        self._waiting: list[tuple[PullLayer, Envelope]] = []
        # (phase, number, layer) -> (version, blobs, members still to pull): all members read one version
        self._pinned: dict[tuple[str, int, str], tuple[int, Blobs, int]] = {}
        self._version = 0  # iterations that are in the model whole
        self._began: dict[int, int] = {}  # iteration -> version when its pass began to read
        self._read: dict[tuple[int, str], int] = {}  # and the version of each layer it read
        self._applied: defaultdict[tuple[int, str], int] = defaultdict(lambda: -1)  # (group, layer) -> last iteration
        self._layers_in: defaultdict[int, int] = defaultdict(int)  # iteration -> its layers that are in

    async def on_start(self) -> None:
        """Build the parameters; every process that builds them gets the same numbers."""
        self._store = await self.compute("build", self._build)
        self._races = Races()
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
        net: Net = self._job.build(TRAIN, self._part, self._image_shape)
        as_they_are = WireFormat(self._job.dtype.name)  # it sends none
        self._wire, self._sum = Wire(layers_of(net), self._job.host_ops, as_they_are), GradientSum(self._job.host_ops)
        mine = net.params if self._layers is None else {layer: net.params[layer] for layer in self._layers}
        blobs = net.initial_blobs(mine)
        solver, ops = self._job.solver_spec, self._job.backend_ops
        if self._hogwild:
            make_ops = partial(cpu_ops, self._job.kernels, threads=1)
            self._live = HogwildStore(mine, blobs, solver, ops, make_ops)
            return restored(self._live, self._job)
        return restored(ParameterStore(mine, blobs, solver, ops), self._job)

    async def run(self) -> None:
        """End with the first update that fails beside the inbox."""
        await self._races.watched()

    async def on_pull_layer(self, message: PullLayer, envelope: Envelope) -> None:
        """Publish a layer, at once or when the asking group's own earlier updates are in."""
        if message.layer not in self._store.versions:
            raise MessageError("unexpected", f"{message!r} of {envelope.sender}: this server does not hold that layer")
        if self._applied[message.group, message.layer] < message.after:
            self._waiting.append((message, envelope))
        else:
            await self._publish(message, envelope)

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Apply a group's summed gradient to a layer, then serve those who waited for it."""
        layer = message.layer
        key = (message.number, layer)
        if key not in self._read:
            raise MessageError("unexpected", f"{message!r} of {envelope.sender}: it came twice, or nobody read that")
        if self._hogwild:
            total = await self.compute(f"sum {layer}", self._total, message)
            if total is not None:
                self._races.start(self._race(message, total, self._read.pop(key)))
            return
        with self.phase("apply"):
            version = await self.compute(f"update {layer}", self._apply, message)
        if version is not None:
            await self._updated(message, version, self._read.pop(key))

    async def _race(self, message: LayerGradient, total: Blobs, read: int) -> None:
        """Apply a gradient beside those of other groups."""
        with self.phase("apply"):
            await self.race(f"update {message.layer}", self._live.race, message.layer, total)
        await self._updated(message, self._live.count(message.layer), read)

    async def _updated(self, message: LayerGradient, version: int, read: int) -> None:
        """A gradient of a layer that was `read` at that version made this one: count it, serve those who waited."""
        self._applied[message.group, message.layer] = message.number
        self._layer_staleness[message.layer].observe(version - 1 - read)
        await self._count(message)  # before the waiting pulls: they begin to read the version this makes
        ready = [item for item in self._waiting if self._applied[item[0].group, item[0].layer] >= item[0].after]
        self._waiting = [item for item in self._waiting if item not in ready]
        for pull, asked in ready:
            await self._publish(pull, asked)

    def _apply(self, message: LayerGradient) -> int | None:
        """The layer's new version; None if parts of the gradient are missing."""
        total = self._total(message)
        return None if total is None else self._store.apply(message.layer, total)

    def _total(self, message: LayerGradient) -> Blobs | None:
        """The gradient, if this was its last missing part."""
        blobs = self._wire.decode(message.layer, message.formats, message.blobs)
        try:
            return self._sum.add((message.number, message.layer), message.part, message.parts, blobs)
        except ValueError as error:
            raise MessageError("unexpected", str(error)) from None

    async def on_rates(self, message: Rates, envelope: Envelope) -> None:
        """Another learning rate and momentum from now on."""
        self._store.set_rates(message.base_lr, message.momentum)
        await self.reply(envelope, Done())

    async def on_get_state(self, message: GetState, envelope: Envelope) -> None:
        """Hand over everything a checkpoint must hold."""
        state = await self.compute("state", self._store.state)
        version = self._version
        await self.reply(envelope, State(names=tuple(state), arrays=tuple(state.values()), version=version))

    async def _publish(self, pull: PullLayer, envelope: Envelope) -> None:
        key = (pull.phase, pull.number, pull.layer)
        published = self._store.published(pull.layer)
        fresh = (self._store.versions[pull.layer], published, pull.members)
        version, blobs, missing = self._pinned.pop(key, fresh)
        if missing > 1:
            self._pinned[key] = (version, blobs, missing - 1)
        if pull.phase == TRAIN:
            self._began.setdefault(pull.number, self._version)
            self._read[pull.number, pull.layer] = version
        await self.reply(envelope, LayerModel(layer=pull.layer, version=version, blobs=blobs))

    async def _count(self, message: LayerGradient) -> None:
        """When every layer of an iteration is in, the model has a new version: tell the coordinator."""
        number = message.number
        self._layers_in[number] += 1
        if self._layers_in[number] < len(self._store.layers):
            return
        del self._layers_in[number]
        staleness = self._version - self._began.pop(number)
        self._version += 1
        self._staleness.observe(staleness)
        updated = Updated(number=number, version=self._version, staleness=staleness)
        await self.tell(self._coordinator, updated, step=number)
