"""The conv model server: it holds the conv phase's parameters, publishes versions and applies
summed gradients. Where the FC phase is not merged, one server holds the parameters of the whole
net, or several servers hold some layers each.

The model's version is the number of iterations that are in it completely. An iteration's staleness
is the version at its last update minus the version when it started to read: 0 with one group, g - 1
on average with g groups (Omnivore section 4). A single layer, read late and updated early, has less
staleness: this is the gain of pulling layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from nets import Net
from roles.base.loads import Loads, norm_load, updates
from roles.base.reads import ReadsJob
from roles.base.role import Anew, Held, JobOptions, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import model, parts_at
from roles.base.steps import Steps, Turn
from roles.learning.backends import cpu_ops
from roles.learning.buffers import in_memory_of
from roles.learning.common_norm import ALONE, SHARE, NormShares, norm_sent
from roles.learning.gradient_sum import GradientSum
from roles.learning.job import InputShape
from roles.learning.parameter_store import ParameterStore
from roles.learning.resume import restored
from roles.learning.wire_formats import Wire, WireFormat, layers_of
from roles.messages import TRAIN, Blobs, LayerGradient, LayerModel, PullLayer
from roles.servers.clipped_updates import ClippedUpdates
from roles.servers.gradient_gauges import GradientGauges
from roles.servers.hogwild import HogwildStore, Races
from roles.servers.model_ledger import LAYER, PART, TESTED, ModelLedger
from roles.servers.model_steps import served
from roles.tuning.gradient_statistics import GetGradientStatistics
from roles.tuning.watch import GradientWatch
from runtime import Conversation, Envelope


@dataclass(frozen=True, kw_only=True)
class ModelOptions(JobOptions):
    """The job, the data's image shape, the coordinator's name, the `part` of the net that the model
    is of ("conv" or "all"), and the `layers` that this server holds (None: all). `norm`: the
    other holders of parameters, if gradients are clipped.

    With `hogwild`, updates of different groups race over one set of arrays, and workers read these
    arrays (see `hogwild`). They lie in host memory and are updated there, whatever the device.
    """

    anew: ClassVar[Anew] = Anew.FROM_STATE
    any_batch: ClassVar[bool] = True
    serves: ClassVar[bool] = True
    image_shape: InputShape
    coordinator: str
    part: str = "conv"
    layers: tuple[str, ...] | None = None
    hogwild: bool = False
    norm: NormShares = ALONE

    @property
    def shares_gpu(self) -> str:
        """Its GPU. "" if updates race, since the model is then in host memory."""
        return "" if self.hogwild else self.gpu

    @property
    def tells_of(self) -> frozenset[str]:
        """Noise is not measured where updates race, since gradients then arrive while others are
        applied."""
        return frozenset({"momentum"} if self.hogwild else {"momentum", "noise"})

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The server's layers, to every worker that names it. A share of the norm."""
        yield from norm_sent(self.norm)
        for worker, options in shapes.having("models").items():
            for way in options.models:
                if way.server == name:
                    layers = shapes.layers(options.job, options.part, way.layers)
                    yield worker, LayerModel, shapes.size(layers)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """Layers are published and updated."""
        return served(self.job, self.part, name, shapes, turn, races=self.hogwild, norm=self.norm)

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Parameters and histories."""
        return model(self.job, shapes.layers(self.job, self.part, self.layers), shapes)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """One update for each layer, once all parts of its gradient are added up."""
        layers = shapes.layers(self.job, self.part, self.layers)
        parts = parts_at(name, shapes)
        clips = self.job.solver_spec.clips
        sent = [(sender, name) for sender, _ in shapes.senders.get(name, ())]
        pulled = [(name, worker) for worker, _, _ in self.sends(name, shapes)]
        copied = sum(shapes.off_device(shapes.number, links) for links in (sent, pulled))
        yield from updates(layers, parts, apart=self.hogwild or clips, copied=copied)
        if clips:
            yield norm_load(layers)


class ConvModel(ClippedUpdates, ReadsJob):
    """The actor that holds the parameters of some or all layers, and updates them."""

    Options = ModelOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (LAYER, PART, TESTED, SHARE)

    def __init__(self, options: ModelOptions) -> None:
        self._shares = options.norm
        self._job = replace(options.job, device="cpu") if options.hogwild else options.job
        self.reads_device = self._job.on_gpu
        self._hogwild = options.hogwild
        self._image_shape = options.image_shape
        self._part = options.part
        self._layers = options.layers
        self._coordinator = options.coordinator
        self._live: HogwildStore  # the store, if updates race

    async def on_start(self) -> None:
        """Build the parameters; every process that builds them gets the same numbers."""
        self._store = await self.compute("build", self._build)
        self._ledger = ModelLedger(self._store.layers, super().model_version())
        self._races = Races()
        self._share_norm(self._shares)
        self._watch = GradientWatch(
            [] if self._hogwild or self._job.emulated else self._store.layers, self._job.batch
        )
        self._gauges = GradientGauges(self, self._watch, self._store.layers)

    def _build(self) -> ParameterStore:
        in_memory_of(self, self._job.backend_ops)
        net: Net = self._job.build(TRAIN, self._part, self._image_shape)
        as_they_are = WireFormat(self._job.dtype.name)  # this server sends no gradients
        self._wire = Wire(layers_of(net), self._job.host_ops, as_they_are)
        self._sum = GradientSum(self._job.host_ops)
        params = self._job.learned(net.params)
        mine = params if self._layers is None else {layer: params[layer] for layer in self._layers}
        blobs = net.initial_blobs(mine)
        solver = self._job.solver_spec
        ops = self._job.backend_ops
        if self._hogwild:
            make_ops = partial(cpu_ops, self._job.kernels, threads=1)
            self._live = HogwildStore(mine, blobs, solver, ops, make_ops)
            return restored(self._live, self._job)
        return restored(ParameterStore(mine, blobs, solver, ops, publishes=True), self._job)

    async def run(self) -> None:
        """Fail with the first error of an update that runs outside of the inbox."""
        await self._races.watched()

    async def on_pull_layer(self, message: PullLayer, envelope: Envelope) -> None:
        """Publish a layer, at once or when the earlier updates of the asking group are in the
        model."""
        if self._ledger.pull(message, envelope):
            await self._publish(message, envelope)

    async def on_layer_gradient(self, message: LayerGradient, envelope: Envelope) -> None:
        """Apply a group's summed gradient to a layer, then answer the pulls that waited for it."""
        layer = message.layer
        self._ledger.check(message, envelope.sender)
        if self._job.solver_spec.clips:
            total = await self.compute(f"sum {layer}", self._total, message)
            if self._ledger.came(message, envelope.sender) and total is not None:
                await self._wait_for_norm(message, total)
            return
        if self._hogwild:
            total = await self.compute(f"sum {layer}", self._total, message)
            if self._ledger.came(message, envelope.sender) and total is not None:
                self._races.start(self._race(message, total))
            return
        with self.phase("apply"):
            size = message.array_bytes() if self._job.backend_ops.on_host else None
            version = await self.compute(f"update {layer}", self._apply, message, size=size)
        if self._ledger.came(message, envelope.sender) and version is not None:
            await self._updated(message, version)

    async def _apply_clipped(
        self, message: LayerGradient, total: Blobs, squares: tuple[float, ...]
    ) -> None:
        clipped = partial(self._store.clipped, message.layer, total, squares)
        if self._hogwild:
            self._races.start(self._race(message, clipped()))
            return
        with self.phase("apply"):
            work = f"update {message.layer}"
            version = await self.compute(work, lambda: self._store.apply(message.layer, clipped()))
        await self._updated(message, version)

    async def _race(self, message: LayerGradient, total: Blobs) -> None:
        """Apply a gradient at the same time as gradients of other groups."""
        with self.phase("apply"):
            await self.race(f"update {message.layer}", self._live.race, message.layer, total)
        await self._updated(message, self._live.count(message.layer))

    async def _updated(self, message: LayerGradient, version: int) -> None:
        """After a gradient has made this version of a layer: answer the waiting pulls, then report
        the update.

        The pulls come first, because their workers wait for this version.
        """
        layer_staleness, updated = self._ledger.applied(message, version)
        for pull, asked in self._ledger.ready():
            await self._publish(pull, asked)
        self._gauges.layer(message.layer, layer_staleness)
        self._watch.applied(message.layer, message.group, version, layer_staleness)
        if updated is not None:
            self._gauges.iteration(updated.staleness)
            await self.tell(self._coordinator, updated, step=message.number)
            await self._gauges.answer(updated.version, self._store.momentum)

    async def on_get_gradient_statistics(
        self, message: GetGradientStatistics, envelope: Envelope
    ) -> None:
        """Answer with the statistics of the last gradients, at once or when the model has reached
        the asked iteration."""
        self._gauges.asked(message, envelope)
        await self._gauges.answer(self._ledger.version, self._store.momentum)

    def _apply(self, message: LayerGradient) -> int | None:
        """The layer's new version; None if parts of the gradient are missing."""
        total = self._total(message)
        return None if total is None else self._store.apply(message.layer, total)

    def _total(self, message: LayerGradient) -> Blobs | None:
        """The whole gradient, if this was its last missing part."""
        blobs = self._wire.decode(message.layer, message.formats, message.blobs)
        self._watch.part(message, blobs)
        total = self._sum.add((message.number, message.layer), message.part, message.parts, blobs)
        if total is not None:
            self._watch.whole(message.number, message.layer, total)
        return total

    def model_version(self) -> int:
        """The number of iterations that are in the model completely."""
        return self._ledger.version

    def go_on_at(self, version: int) -> None:
        self._ledger.version = version
        self._watch.forget()

    def takes_batches_of(self, images: int) -> None:
        self._watch.takes_batches_of(images)

    async def _publish(self, pull: PullLayer, envelope: Envelope) -> None:
        blobs = self._store.published(pull.layer)
        if pull.phase != TRAIN:
            averages = await self.compute("average", self._store.averaged, pull.layer)
            blobs = blobs if averages is None else averages
        fresh = LayerModel(layer=pull.layer, version=self._store.versions[pull.layer], blobs=blobs)
        await self.reply(envelope, self._ledger.publish(pull, fresh))
