"""The job that is trained: net, solver, data and seed, as plain data. Every role gets it and builds
its own part from it.

Roles build from the same job. So they agree on shapes, first parameters and the order of samples
without any message.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import ops
from nets import Net, NetSpec, ParamSpec, SolverExtras, SolverSpec, fits, load_net, load_solver
from nets.data import (
    Augment,
    Batches,
    Prefetcher,
    Source,
    StreamBatches,
    Transform,
    TransformKeys,
    batch_of_net,
    declared,
    is_one,
    open_data,
)
from nets.files import checkpoint
from nets.files.shared import Lent, Weights, lent
from nets.files.weights import Several, from_checkpoint, read_each
from nets.graph.emulated_net import EmulatedNet, NoBatches
from nets.graph.inputs import DataLayers, check_inputs, data_layers, promised, rows_given
from nets.graph.streams import is_recurrent, streams_of
from nets.sharding.division import ShardedNet
from nets.sharding.slices import unit_parts
from roles.learning.accumulated import after_passes
from roles.learning.backends import cpu_ops, ops_of
from roles.learning.phases import number_of_test, phase_of_test
from roles.learning.readers import reader_of
from roles.learning.transforms import InputShape as InputShape  # this module exports it
from roles.learning.transforms import mixing_of, transforms_of, with_soft_labels
from roles.messages import TEST, TRAIN
from runtime.compute.emulated_device import device_here


@dataclass(frozen=True)
class Job:
    """The job, as plain data in the options of roles. Paths are absolute or names of the zoo.

    `net`: "" stands for the nets that the solver names. `data` maps each phase to the configuration
    of the data that the net's data layers read (`nets.data.of_net`). The phases are "TRAIN" and,
    for each test net, "TEST", "TEST 1", ... (`phase_of_test`); any of them may be missing. `batch`:
    the batch of one group at the start. `largest`: the largest batch that it may become; 0: it
    stays. `test_batches`: the batches of the test nets. `resume`: a checkpoint to start from, or
    "". `weights`: files of first parameters. `classes` and `orientation`: for `open_data`.

    `device`: "cpu", "cuda:N" or "emulated", where the role with this job computes; "cuda" in plans,
    which compute nothing. `kernels` and `precision` are those of the CPU's operations (see
    `Train`); for "double" the planner sets the kernels to "numpy". `micro_batches`: in a
    reproducible run, the number of parts into which rows and FC units are cut; else 0. Every role
    then computes with one thread, since sums depend on how threads share the work. `passes`: the
    number of passes in which workers with the whole net compute their rows of a batch (the solver's
    iter_size; `accumulated`). `augment`: the random changes to training images. `transform`: the
    keys that replace settings of the net's data layers. `cudnn`: the way in which a GPU chooses
    convolutions. `gpu_step`: "plain", or "replay" for a GPU's steps that are recorded and replayed,
    or "graph" for recorded steps that one call starts. `rows_here`: the rows of each phase's batch
    that the role with this job computes at first, if not all. `extras`: settings of the solver that
    its file lacks. `whitening`: for each layer with that filler, its filters, row after row.
    `freeze`: patterns of layers whose parameters and statistics stay as `resume` or `weights` have
    them. `fresh`: patterns of layers that take nothing from `weights`. `histograms`: the iterations
    between two histograms of the parameters of the role with this job; 0: none.
    """

    net: str
    solver: str
    data: Mapping[str, Mapping[str, Any]]
    seed: int
    batch: int
    test_batches: tuple[int, ...]
    base_directory: str
    shuffle: bool = False
    device: str = "cpu"
    b_p: int | None = None
    kernels: str = "compiled"
    precision: str = "fast"
    resume: str = ""
    weights: tuple[str, ...] = ()
    micro_batches: int = 0
    passes: int = 1
    largest: int = 0
    augment: Augment | None = None
    cudnn: str = "off"
    gpu_step: str = "plain"
    rows_here: Mapping[str, int] = dataclasses.field(default_factory=dict)
    solver_values: Mapping[str, int | float | str] = dataclasses.field(default_factory=dict)
    classes: tuple[str, ...] = ()
    orientation: str = "exif"
    transform: TransformKeys = dataclasses.field(default_factory=TransformKeys)
    extras: SolverExtras = dataclasses.field(default_factory=SolverExtras)
    whitening: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    histograms: int = 0

    def with_batches(self, batch: int | None) -> Job:
        """The job with the batch sizes that its net declares. `batch`, if given, is the size for
        training."""
        train = batch or self.declared_rows(TRAIN)
        tests = tuple(self.declared_rows(phase) for phase in self.test_phases)
        return dataclasses.replace(self, batch=train, test_batches=tests)

    def declared_rows(self, phase: str) -> int:
        """The rows of a batch that the net of a phase declares: its streams, if it has some."""
        spec = self.spec(phase)
        streams = streams_of(spec)
        return batch_of_net(spec, spec.phase) if streams is None else streams.number

    def recurrent(self, phase: str = TRAIN) -> bool:
        """True if the net of a phase has recurrent layers."""
        return is_recurrent(self.spec(phase))

    def moved(self, here: Callable[[str], str], data: str) -> Job:
        """The same job where files lie elsewhere. `here` gives their paths there; relative sources
        start at `data`."""
        net, solver, resume = map(here, (self.net, self.solver, self.resume))
        weights = tuple(map(here, self.weights))
        return dataclasses.replace(
            self, net=net, solver=solver, resume=resume, weights=weights, base_directory=data
        )

    def rows(self, phase: str) -> int:
        """The number of rows of a batch of this phase."""
        return self.batch if phase == TRAIN else self.test_batches[number_of_test(phase)]

    @cached_property
    def net_spec(self) -> NetSpec:
        """The net that is trained, read from its prototxt, with the layers of all phases."""
        return load_net(self.net) if self.net else self.solver_spec.load_net()

    def spec(self, phase: str) -> NetSpec:
        """The net of a phase, with the layers that the phase and the solver's train_state or
        test_state leave in."""
        if phase not in self._specs:
            kind, number = (TRAIN, 0) if phase == TRAIN else (TEST, number_of_test(phase))
            own = self.net_spec if self.net or phase == TRAIN else self.solver_spec.load_net(number)
            level, stages = self.solver_spec.state(kind, number)
            chosen = own.for_phase(kind, level=level, stages=stages)
            self._specs[phase] = self.transform.cropped(chosen).freezing(self.freeze)
        return self._specs[phase]

    @cached_property
    def _specs(self) -> dict[str, NetSpec]:
        return {}

    def test_rows(self, phase: str, source: Source) -> int:
        """The number of images in a test: test_iter batches of the solver, but no image twice.
        Without a test_iter, all images. A net with streams is tested on whole batches. Raises
        NetError if the data have less than one."""
        wanted = self.solver_spec.test_iters[number_of_test(phase)] * self.rows(phase)
        rows = rows_given(self.spec(phase), source)
        return min(wanted, rows) if wanted else rows

    def test_name(self, phase: str) -> str:
        """The name of a test net: the stages of its state, or its number."""
        number = number_of_test(phase)
        return " ".join(self.solver_spec.state(TEST, number)[1]) or f"#{number}"

    @cached_property
    def solver_spec(self) -> SolverSpec:
        """The solver, read from its prototxt, with the values that cluster.toml overrides."""
        return load_solver(self.solver, self.solver_values, self.extras)

    @cached_property
    def shared(self) -> Lent:
        """The layers that borrow parameters, and the layers that lend them."""
        return lent(self.spec(TRAIN).layers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every number that is computed and sent: activations, parameters, histories,
        gradients and sums."""
        return np.dtype(np.float64 if self.precision == "double" else np.float32)

    @cached_property
    def backend_ops(self) -> ops.Backend:
        """The array backend of everything that computes, chosen at the first use, in the compute
        thread. Raises LaunchError if its device cannot be used here."""
        if self.emulated:
            return ops.get_backend("emulated")
        threads = 1 if self.micro_batches else None
        return ops_of(
            self.device,
            self.kernels,
            self.precision,
            b_p=self.b_p,
            threads=threads,
            cudnn=self.cudnn,
        )

    @cached_property
    def host_ops(self) -> ops.Backend:
        """The backend for arrays in host memory, where gradients travel: the same one, unless that
        is a device's."""
        return self.backend_ops if self.backend_ops.on_host else cpu_ops(self.kernels)

    def source(self, phase: str) -> Source:
        """Open the data of a phase: one source, or one for each data layer, side by side."""
        config = self.data[phase]
        layers = () if is_one(config) else self.data_layers(phase)
        net_dir = self.spec(phase).path.parent if layers else Path()
        base = Path(self.base_directory)
        return open_data(config, base, layers, net_dir, self.classes, self.orientation)

    def shapes(self, phase: str, source: Source) -> dict[str, tuple[int, ...]]:
        """The shapes that the data layers of a phase promise: top -> shape of its samples, before
        any transform."""
        return promised(self.data_layers(phase), source)

    def all_shapes(self, sources: Mapping[str, Source]) -> InputShape:
        """The shapes of all phases. If two phases have a top of the same name, training counts."""
        return dict(
            itertools.chain.from_iterable(
                self.shapes(p, sources[p]).items() for p in reversed(self.phases)
            )
        )

    def batches(
        self, phase: str, source: Source, net: Net | None = None, more: int = 0
    ) -> Batches | StreamBatches:
        """The global batches of a phase, transformed according to the net's data layers.

        They have up to `more` arrays more than the layers have tops, if the source has them. Raises
        NetError if they do not fit the inputs of `net`, a net of that phase.
        """
        spec = self.spec(phase)
        layers = self.data_layers(phase)
        train = phase == TRAIN
        said = declared(spec, spec.phase)
        augment = self.augment if train else None
        transforms = transforms_of(layers, spec.path.parent, source, self.transform, augment)
        streams = streams_of(spec)
        read = (NoBatches if self.emulated else Batches)(
            source,
            transforms,
            self.rows(phase) if streams is None else streams.steps,
            shuffle=(self.shuffle and train) or (said is not None and said.shuffle),
            seed=self.seed,
            train=train,
            rand_skip=said.rand_skip if said is not None else 0,
            count=sum(len(layer.proto.top) for layer in layers) + more,
            mixing=mixing_of(augment, spec, source, self.rows(phase)),
        )
        found = read if streams is None else StreamBatches(read, streams.number)
        if net is not None:
            check_inputs(net, found)
        return found

    def reader(
        self, phase: str, source: Source, starved: Callable[[], None] | None = None
    ) -> Prefetcher:
        """A reader that reads the rows of a phase ahead, into memory from which this job's device
        takes them. It calls `starved` if the rows are late again and again."""
        batches = self.batches(phase, source)
        return reader_of(batches, self.backend_ops, starved, on_gpu=self.on_gpu)

    def test_transform(self, spec: NetSpec) -> Transform:
        """The transform of images for a test net with these layers."""
        return self.transform.on(Transform.of_net(spec, TEST))

    def _inputs(self, phase: str, shape: InputShape) -> InputShape:
        """The shapes of samples for the net of a phase, where labels may be probabilities."""
        augment = self.augment if phase == TRAIN else None
        return with_soft_labels(augment, self.spec(phase), shape, self.rows(phase))

    def data_layers(self, phase: str) -> DataLayers:
        """The data layers of the net of a phase."""
        return data_layers(self.spec(phase))

    def build(
        self,
        phase: str,
        part: str,
        image_shape: InputShape,
        kind: type[Net] | None = None,
        memory: str = "reused",
    ) -> Net:
        """The net's part ("all", "conv", "fc") in a phase, for whole batches of that phase.

        `image_shape`: the shape of the samples of each top of the data layers, or of the first top.
        `memory`: as in `Net`.
        """
        spec = self.spec(phase)
        net = (kind or self._kind)(
            spec,
            spec.phase,
            ops=self.backend_ops,
            part=part,
            batch=self.rows(phase),
            input_shape=self._inputs(phase, image_shape),
            seed=self.seed,
            dtype=self.dtype,
            memory=memory,
        )
        if self.micro_batches:
            net.cut_units(partial(unit_parts, parts=self.micro_batches))
        _time(net)
        return net

    def first_weights(self) -> Several:
        """Read the files of first weights, without the layers that start afresh. Raises NetError
        with the mistakes of all files."""
        found = read_each(self.weights, self.spec(TRAIN).layers)
        kept = {layer: of for layer, of in found.weights.items() if not fits(layer, self.fresh)}
        return Several(kept, found.told)

    @cached_property
    def frozen_blobs(self) -> Weights:
        """The parameters of frozen layers: those of the checkpoint to resume, else first weights.
        Layers that the files do not have are missing. Raises NetError if they cannot be read."""
        names = {layer.proto.name for layer in self.spec(TRAIN).layers if layer.frozen}
        if not names or self.emulated:
            return {}
        if self.resume:  # a state in memory has no suffix that names its format
            found = from_checkpoint(checkpoint.load(Path(self.resume))[0], self.resume)
        else:
            found = self.first_weights().weights
        return {layer: of for layer, of in found.items() if layer in names}

    def learned(
        self, params: Mapping[str, tuple[ParamSpec, ...]]
    ) -> dict[str, tuple[ParamSpec, ...]]:
        """A net's parameters as a store updates them, after all passes over a batch."""
        return after_passes(params, self.passes)

    @property
    def _kind(self) -> type[Net]:
        return EmulatedNet if self.emulated else Net

    @property
    def emulated(self) -> bool:
        """True if the role with this job computes nothing."""
        return self.device == "emulated"

    @property
    def on_gpu(self) -> bool:
        """True if the role with this job computes on a GPU."""
        return self.device.startswith("cuda")

    def build_shard(self, phase: str, rank: int, of: int, image_shape: InputShape) -> ShardedNet:
        """Shard `rank` of the net's FC phase, which is divided among `of` servers. Other arguments
        are as in `build`."""
        spec = self.spec(phase)
        shard = ShardedNet(
            spec,
            spec.phase,
            rank=rank,
            of=of,
            ops=self.backend_ops,
            batch=self.rows(phase),
            input_shape=self._inputs(phase, image_shape),
            seed=self.seed,
            dtype=self.dtype,
            memory="reused",
            kind=self._kind,
        )
        if self.micro_batches:
            shard.cut_units(self.micro_batches)
        for net in shard.nets:
            _time(net)
        return shard

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that have data: training, then the test nets."""
        return (*(phase for phase in (TRAIN,) if phase in self.data), *self.test_phases)

    @property
    def test_phases(self) -> tuple[str, ...]:
        """The phases of the test nets that have data."""
        return tuple(
            phase for phase in map(phase_of_test, range(len(self.data))) if phase in self.data
        )


def _time(net: Net) -> None:
    """Let an emulated net report the number of rows of each pass to the device on which it is
    built."""
    device = device_here()
    if isinstance(net, EmulatedNet) and device is not None:
        net.on_rows = device.is_about
