"""What is trained: net, solver, data, seed, as plain data that every role gets and builds its own
part from.

Roles build from the same job and so agree on shapes, first parameters and the order of samples
without a word.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import ops
from nets import Net, NetError, NetSpec, ParamSpec, SolverSpec, load_net, load_solver
from nets.data import (
    Augment,
    Batches,
    Prefetcher,
    Source,
    Transform,
    batch_of_net,
    declared,
    first_transforming,
    is_one,
    open_data,
)
from nets.files.shared import Lent, lent
from nets.graph.emulated_net import EmulatedNet, NoBatches
from nets.graph.inputs import DataLayers, check_inputs, data_layers, promised
from nets.graph.warm import warm
from nets.sharding.division import ShardedNet
from nets.sharding.slices import unit_parts
from roles.learning.accumulated import AccumulatedNet, after_passes
from roles.learning.backends import cpu_ops, ops_of
from roles.learning.micro_batches import MicroBatches, WorkerNet
from roles.messages import TEST, TRAIN
from runtime.compute.emulated_device import device_here

# of samples: the first top's, or each top's by name
InputShape = tuple[int, ...] | dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Job:
    """Plain data, a part of what roles are told. Paths are absolute or zoo names.

    `net` "" stands for the nets that the solver names. `data` maps each phase to the configuration
    of what the net's data layers read (`nets.data.of_net`): "TRAIN" and, for each test net, "TEST",
    "TEST 1", ... (`phase_of_test`), perhaps none of these. `batch` is that of one group at the
    beginning, `largest` what it may become (0: it stays), `test_batches` those of the test nets;
    `resume` is a checkpoint to start from, or ""; `weights` are files of first parameters. `device`
    is "cpu", "cuda:N" or "emulated": where the role that gets this job computes; plans say "cuda",
    which computes nothing. `kernels` and `precision` are those of the CPU's operations (see
    `Train`); with "double" the planner has made the kernels "numpy". `micro_batches` of a
    reproducible run, else 0: rows and FC units are cut in so many parts, and every role computes
    with one thread, since sums depend on how threads share them out. `passes`: in how many passes
    workers that hold the whole net compute their rows of a batch (the solver's iter_size;
    `accumulated`). `augment`: what is done to training images by chance. `cudnn` is how a GPU
    chooses convolutions; `rows_here`: how many rows of each phase's batch the role that gets this
    job computes at first, if it has not the whole.
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
    rows_here: Mapping[str, int] = dataclasses.field(default_factory=dict)
    solver_values: Mapping[str, int | float] = dataclasses.field(default_factory=dict)

    def with_batches(self, batch: int | None) -> Job:
        """The job with the batch sizes that its net declares; `batch`, if given, for training."""
        train = batch or batch_of_net(self.spec(TRAIN), TRAIN)
        tests = tuple(batch_of_net(self.spec(phase), TEST) for phase in self.test_phases)
        return dataclasses.replace(self, batch=train, test_batches=tests)

    def moved(self, here: Callable[[str], str], data: str) -> Job:
        """The same job where files lie elsewhere: `here` gives their paths there, relative sources
        begin at `data`."""
        net, solver, resume = map(here, (self.net, self.solver, self.resume))
        weights = tuple(map(here, self.weights))
        return dataclasses.replace(
            self, net=net, solver=solver, resume=resume, weights=weights, base_directory=data
        )

    def rows(self, phase: str) -> int:
        """How many rows a batch of this phase has."""
        return self.batch if phase == TRAIN else self.test_batches[number_of_test(phase)]

    @cached_property
    def net_spec(self) -> NetSpec:
        """The net that is trained, read from its prototxt, with the layers of all phases."""
        return load_net(self.net) if self.net else self.solver_spec.load_net()

    def spec(self, phase: str) -> NetSpec:
        """The net of a phase: the layers that the phase and the solver's train_state or test_state
        leave in."""
        if phase not in self._specs:
            kind, number = (TRAIN, 0) if phase == TRAIN else (TEST, number_of_test(phase))
            own = self.net_spec if self.net or phase == TRAIN else self.solver_spec.load_net(number)
            level, stages = self.solver_spec.state(kind, number)
            self._specs[phase] = own.for_phase(kind, level=level, stages=stages)
        return self._specs[phase]

    @cached_property
    def _specs(self) -> dict[str, NetSpec]:
        return {}

    def test_rows(self, phase: str, source: Source) -> int:
        """How many images a test covers: test_iter batches, as the solver says, but no image twice;
        all of them if it does not say."""
        wanted = self.solver_spec.test_iters[number_of_test(phase)] * self.rows(phase)
        return min(wanted, len(source)) if wanted else len(source)

    def test_name(self, phase: str) -> str:
        """What a test net is called: by the stages of its state, or by its number."""
        number = number_of_test(phase)
        return " ".join(self.solver_spec.state(TEST, number)[1]) or f"#{number}"

    @cached_property
    def solver_spec(self) -> SolverSpec:
        """The solver, read from its prototxt, with the values that cluster.toml overrides."""
        return load_solver(self.solver).override(self.solver_values)

    @cached_property
    def shared(self) -> Lent:
        """Which layers borrow parameters from which."""
        return lent(self.spec(TRAIN).layers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of every number that is computed and sent: activations, parameters, histories, gradients,
        sums."""
        return np.dtype(np.float64 if self.precision == "double" else np.float32)

    @cached_property
    def backend_ops(self) -> ops.Backend:
        """The array backend, chosen here once for everything that computes; first asked for in the
        compute thread. LaunchError if its device cannot be used here."""
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
        """Open the data of a phase: one source, or one for each data layer side by side."""
        config = self.data[phase]
        layers = () if is_one(config) else self._data_layers(phase)
        return open_data(
            config,
            Path(self.base_directory),
            layers,
            self.spec(phase).path.parent if layers else Path(),
        )

    def shapes(self, phase: str, source: Source) -> dict[str, tuple[int, ...]]:
        """What the data layers of a phase promise: top -> shape of its samples, before any
        transform."""
        return promised(self._data_layers(phase), source)

    def all_shapes(self, sources: Mapping[str, Source]) -> InputShape:
        """Those of all phases; where two of them have a top of one name, that of training."""
        return dict(
            itertools.chain.from_iterable(
                self.shapes(p, sources[p]).items() for p in reversed(self.phases)
            )
        )

    def batches(self, phase: str, source: Source, net: Net | None = None, more: int = 0) -> Batches:
        """The global batches of a phase, transformed as the net's data layers say. NetError if they
        are not what `net`, one of that phase, is fed. They have so many `more` arrays than the
        layers have tops, if the source does."""
        spec = self.spec(phase)
        layers = self._data_layers(phase)
        train = phase == TRAIN
        # or one source for all
        mine = layers if len(source.firsts) == len(layers) else [first_transforming(layers)]
        directory = spec.path.parent
        said = declared(spec, spec.phase)
        transforms = [
            Transform.of_layer(layer, directory) if layer else Transform() for layer in mine
        ]
        if train and self.augment:
            transforms = [_augmented(transforms, self.augment, source)]
        found = (NoBatches if self.emulated else Batches)(
            source,
            transforms,
            self.rows(phase),
            shuffle=(self.shuffle and train) or (said is not None and said.shuffle),
            seed=self.seed,
            train=train,
            rand_skip=said.rand_skip if said is not None else 0,
            count=sum(len(layer.proto.top) for layer in layers) + more,
        )
        if net is not None:
            check_inputs(net, found)
        return found

    def reader(self, phase: str, source: Source) -> Prefetcher:
        """Reads the rows of a phase ahead, to where the device of this job takes them from."""
        return Prefetcher(self.batches(phase, source), place=self.backend_ops.staged)

    def _data_layers(self, phase: str) -> DataLayers:
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
        `image_shape`: of the samples of each top of the data layers, or of the first. `memory`: as
        `Net` has it."""
        spec = self.spec(phase)
        net = (kind or self._kind)(
            spec,
            spec.phase,
            ops=self.backend_ops,
            part=part,
            batch=self.rows(phase),
            input_shape=image_shape,
            seed=self.seed,
            dtype=self.dtype,
            memory=memory,
        )
        if self.micro_batches:
            net.cut_units(partial(unit_parts, parts=self.micro_batches))
        _time(net)
        return net

    def working_net(self, phase: str, part: str, image_shape: InputShape) -> WorkerNet:
        """As `build`, for passes: all that it needs is compiled; a reproducible run trains in
        micro-batches."""
        rows = self.rows_here.get(phase, self.rows(phase))
        if self.passes > 1 and phase == TRAIN and not self.emulated:
            accumulated = self.build(phase, part, image_shape, AccumulatedNet)
            assert isinstance(accumulated, AccumulatedNet)
            accumulated.passes = self.passes
            warm(accumulated, -(-rows // self.passes))
            return accumulated

        def build() -> Net:
            net = self.build(phase, part, image_shape)
            warm(net, rows)
            return net

        return (
            MicroBatches(build, self.micro_batches)
            if self.micro_batches and phase == TRAIN
            else build()
        )

    def working_nets(self, part: str, sources: Mapping[str, Source]) -> dict[str, WorkerNet]:
        """Those of all phases, fed from these sources."""
        return {
            phase: self.working_net(phase, part, self.shapes(phase, sources[phase]))
            for phase in self.phases
        }

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
        """Does the role that gets this job compute nothing?"""
        return self.device == "emulated"

    def build_shard(self, phase: str, rank: int, of: int, image_shape: InputShape) -> ShardedNet:
        """Shard `rank` of the net's FC phase, shared out over `of` servers; the rest as `build`."""
        spec = self.spec(phase)
        shard = ShardedNet(
            spec,
            spec.phase,
            rank=rank,
            of=of,
            ops=self.backend_ops,
            batch=self.rows(phase),
            input_shape=image_shape,
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
        """Of the test nets that have data."""
        return tuple(
            phase for phase in map(phase_of_test, range(len(self.data))) if phase in self.data
        )


def _augmented(transforms: Sequence[Transform], augment: Augment, source: Source) -> Transform:
    """The only transform of a source, with what is done besides. NetError if several layers read
    data: what belongs together would be changed apart."""
    if len(transforms) != 1:
        raise NetError(
            f"train.data.augment: found {len(transforms)} data layers that read "
            "images, expected one"
        )
    order = augment.order or source.order
    return dataclasses.replace(transforms[0], augment=dataclasses.replace(augment, order=order))


def phase_of_test(number: int) -> str:
    """How messages and jobs call the passes of test net `number`."""
    return f"{TEST} {number}" if number else TEST


def number_of_test(phase: str) -> int:
    """The number of the test net whose passes are called so."""
    return int(phase.removeprefix(TEST) or 0)


def _time(net: Net) -> None:
    """Let an emulated net tell the device that it is built on how many rows its passes have."""
    device = device_here()
    if isinstance(net, EmulatedNet) and device is not None:
        net.on_rows = device.is_about
