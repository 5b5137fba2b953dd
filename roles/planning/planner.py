"""From cluster.toml to a topology: reads net, solver and data once; every mistake is told before anything starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nets import Net, NetError
from nets.data import Source, is_one
from nets.files.shared import Weights
from nets.files.weights import match, read_weights
from roles.coordination.schedule import Timetable
from roles.learning.batch_split import Cutting, Shares
from roles.learning.job import InputShape, Job
from roles.learning.resume import iteration_of
from roles.learning.tree import split
from roles.learning.wire_formats import Layers, layers_of
from roles.messages import TEST, TRAIN
from roles.options import Options, Train
from roles.planning.devices import Devices
from roles.planning.gradient_links import gradient_links, mistakes, with_formats
from roles.planning.refusals import DOUBLE
from roles.planning.refusals import mistakes as mistakes_in_double
from roles.planning.strategies import PRESETS, mistakes_of, options_of, preset_called
from roles.presets.request import Preset, Request
from runtime.config.file import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.program import checked
from runtime.plan.topology import Topology


def plan(config: ClusterConfig, options: Options, preset: Preset | None = None) -> Topology:
    """The topology that trains what `options` describe, laid out by `preset` if one is given. ConfigError with every
    mistake of the files it names."""
    return _Planner(config, options.train, preset).topology()


def job_of(config: ClusterConfig, options: Options) -> Job:
    """The job that `options` describe, for commands that need no topology. ConfigError as `plan`."""
    planner = _Planner(config, options.train)
    job = planner.job()
    planner.stop_if_wrong()
    return job


def _named(presets: list[str]) -> str:
    *first, last = (f"'{preset}'" for preset in presets)
    return f"{', '.join(first)} and {last}" if first else last


class _Planner:
    """Collects problems as it goes, so that one run shows them all."""

    def __init__(self, config: ClusterConfig, train: Train, preset: Preset | None = None) -> None:
        self.config, self.train = config, train
        self.base = config.raw.path.resolve().parent
        self.problems: list[str] = []
        with self._reading("train", "strategy", "preset"):
            self.preset = preset or preset_called(train.strategy.preset)
        self.stop_if_wrong()
        self.layers: Layers = {}  # of the part that workers compute: what travels
        self.options: Any = None  # of the preset
        self.weights: Weights = {}  # first parameters, if a file is named

    def topology(self) -> Topology:
        """The preset's topology, once everything is read and checked."""
        job = self.job()
        sources: dict[str, Source] = {}
        timetable = None
        with self._reading("train", "net"):
            _ = job.net_spec
        with self._reading("train", "solver"):
            timetable = self._timetable(job)
        readable = not self.problems  # what each data layer reads is not known of a net that cannot be read
        for phase in (phase for phase in job.phases if readable or is_one(job.data[phase])):
            with self._reading("train", "data", phase.lower()):
                sources[phase] = job.source(phase)
        with self._reading("train", "weights"):
            if job.weights:
                self.weights = read_weights(Path(job.weights), job.shared if readable else {})
        self._check_shape(job)
        self.stop_if_wrong()
        assert timetable is not None
        plain = dataclasses.replace(job, kernels="numpy")  # nothing is computed: no need to import the compiler, 0.2 s
        for phase, source in sources.items():
            with self._reading("train", "net"):
                job.batches(phase, source, self._check_net(plain, phase, source))
        self._check_servers()
        self.stop_if_wrong()
        strategy = self.train.strategy
        timetable = self._with_test(timetable, job, sources)
        self._check_tests(timetable)
        request = Request(
            job=job,
            timetable=timetable,
            display=job.solver_spec.display,
            image_shape=job.all_shapes(sources),
            strategy=strategy,
            layers={layer: sum(math.prod(shape) for shape, _ in blobs) for layer, blobs in self.layers.items()},
            exchange=strategy.exchange or self.preset.exchange,
            options=self.options,
        )
        topology = checked(self.preset.layout(request))
        return self._on_devices(self._with_formats(topology, job), sources)

    def _with_formats(self, topology: Topology, job: Job) -> Topology:
        """Tell each actor that sends gradients in which format."""
        train = self.train
        for text, keys in mistakes(gradient_links(topology), train.gradients, train.strategy.preset):
            self._problem(text, "train", "gradients", *keys)
        self.stop_if_wrong()
        return with_formats(topology, train.gradients, self.layers, job)

    def _on_devices(self, topology: Topology, sources: dict[str, Source]) -> Topology:
        """Tell each actor that computes where to do so."""
        devices = Devices(self.train.devices, sources, self.config.simulation.seed, self.base)
        for text, keys in devices.mistakes(topology, self.train):
            self._problem(text, "train", *keys)
        self.stop_if_wrong()
        return devices.placed(topology)

    def job(self) -> Job:
        """Net, solver and data as cluster.toml names them; problems are noted."""
        train = self.train
        for text, keys in mistakes_in_double(train):
            self._problem(text, "train", *keys)
        data: dict[str, dict[str, Any]] = {TRAIN: train.data.train}
        if train.data.test is not None:
            data[TEST] = train.data.test
        values = {"max_iter": train.max_iter, "base_lr": train.base_lr, "momentum": train.momentum}
        job = Job(
            net=self._located(train.net),
            solver=self._located(train.solver),
            data=data,
            seed=train.seed,
            batch=0,
            test_batch=0,
            base_directory=str(self.base),
            shuffle=train.data.shuffle,
            b_p=train.b_p,
            kernels="numpy" if train.precision == DOUBLE else train.kernels,
            precision=train.precision,
            micro_batches=train.strategy.cutting["micro_batches"],
            resume=str((self.base / train.resume).resolve()) if train.resume else "",
            weights=str((self.base / train.weights).resolve()) if train.weights else "",
            solver_values={name: value for name, value in values.items() if value is not None},
        )
        with self._reading("train", "net"):
            job = job.with_batches(train.batch)
        with self._reading("train", "solver"):
            count, apart = job.solver_spec.iter_size, self.preset.part == "all" and not job.micro_batches
            job = dataclasses.replace(job, batch=job.batch * count, passes=count if apart else 1)
        return job  # noqa: RET504  # without its batches, if the net could not be read

    def _located(self, name: str) -> str:
        """A path beside cluster.toml if there is such a file, otherwise the name as it is (the zoo's)."""
        beside = self.base / name
        return str(beside.resolve()) if beside.is_file() else name

    def _timetable(self, job: Job) -> Timetable:
        solver = job.solver_spec
        first = 0
        with self._reading("train", "resume"):
            first = iteration_of(job.resume) if job.resume else 0
        return Timetable(
            first=first,
            last=solver.max_iter,
            batch=job.batch,
            test_interval=solver.test_interval,
            test_batch=job.test_batch,
            test_first=bool(solver.test_interval and solver.proto.test_initialization),
            snapshot_interval=solver.snapshot,
        )

    def _with_test(self, timetable: Timetable, job: Job, sources: dict[str, Source]) -> Timetable:
        """A test covers test_iter batches, as the solver says, but no image twice; all images if it does not say."""
        if TEST not in sources:
            return timetable
        wanted = job.solver_spec.test_iter * job.test_batch
        rows = min(wanted, len(sources[TEST])) if wanted else len(sources[TEST])
        return Timetable(**{**timetable.__dict__, "test_rows": rows})

    def _check_tests(self, timetable: Timetable) -> None:
        """Workers that are averaged before a test must all take part in its first batch."""
        workers, rows = self.train.strategy.workers, min(timetable.test_batch, timetable.test_rows)
        if self.preset.averages and 0 < rows < workers:
            text = f"found {workers}, but they meet in the first batch of a test, which has {rows} images: one for each"
            self._problem(text, "train", "strategy", "workers")
            self.stop_if_wrong()

    def _check_net(self, job: Job, phase: str, source: Source) -> Net:
        """Build every part once; returns the whole."""
        whole = job.build(phase, "all", job.shapes(phase, source))
        self._check_parts(job, phase, job.shapes(phase, source), whole)
        return whole

    def _check_parts(self, job: Job, phase: str, shapes: InputShape, whole: Net) -> None:
        """Presets that cut the net need a conv phase to cut off, and rows that may be shared."""
        if phase == TRAIN and self.weights:
            with self._reading("train", "weights"):
                match(self.weights, whole.params, Path(job.weights).name)
        if self.preset.alone:
            return
        if whole.time_first:
            text = "found a net with recurrent layers, whose rows are steps of time: only "
            text += f"preset {_named([name for name, preset in PRESETS.items() if preset.alone])} trains it"
            self._problem(text, "train", "strategy", "preset")
            return
        if self.preset.part == "all":
            self.layers = layers_of(whole)
            return
        conv, _ = (job.build(phase, part, shapes) for part in ("conv", "fc"))
        if shards := self.preset.shards(self.train.strategy):
            shard = job.build_shard(phase, 0, shards, shapes)
            if self.train.strategy.variable_batch and not shard.means:
                text = "found true with a loss whose normalization is NONE: it is no mean, whose weight could change"
                self._problem(text, "train", "strategy", "variable_batch")
            for layer in shard.rounding if self.train.strategy.reproducible else ():
                text = f"found true, but layer '{layer}' before an InnerProduct rounds gradients: FC shards add them up"
                self._problem(f"{text} after it, one server before", "train", "strategy", "reproducible")
        self.layers = layers_of(conv)
        if not conv.params:
            whole_nets = [name for name, preset in PRESETS.items() if preset.part == "all"]
            text = f"found a net without a conv phase that learns ({whole.spec.name}): "
            text += f"only presets {_named(whole_nets)} train it"
            self._problem(text, "train", "strategy", "preset")

    def _check_servers(self) -> None:
        """Each model server needs a layer to hold."""
        strategy = self.train.strategy
        servers, most = self.preset.servers(strategy), len(self.layers)
        if strategy.servers and not servers:
            text = f"found {strategy.servers}, but preset '{strategy.preset}' does not let you choose how many"
            self._problem(text, "train", "strategy", "servers")
        elif servers > most and not self.preset.shards(strategy):
            text = f"found {servers}, expected at most {most}, the number of layers that have parameters"
            self._problem(text, "train", "strategy", "servers")

    def _check_solver(self, job: Job) -> None:
        """Refuse clipping by a norm over all layers where layers are updated apart."""
        with self._reading("train", "solver"):
            if job.solver_spec.clips and not self.preset.joint:
                joint = [name for name, preset in PRESETS.items() if preset.joint]
                text = f"clip_gradients needs the norm of all gradients at once: only presets {_named(joint)} know it"
                self._problem(text, "train", "strategy", "preset")

    def _check_shape(self, job: Job) -> None:
        self._check_solver(job)
        strategy = self.train.strategy
        groups = self.preset.groups(strategy)
        if groups > strategy.workers:
            text = f"found {groups}, expected at most {strategy.workers}, the number of workers"
            self._problem(text, "train", "strategy", "groups")
            groups = strategy.workers
        if not job.batch:
            return  # the net could not be read: its batch is not known
        shares = Shares(Cutting(**strategy.cutting))
        for members in {*split(strategy.workers, groups)} if not self.preset.alone else {1}:
            problem = shares.problem(members, job.batch)
            if problem:
                self._problem(f"found {strategy.workers}: {problem}", "train", "strategy", "workers")
        try:
            self.options = options_of(strategy, self.preset)
        except ValueError as error:
            self._problem(str(error), "train", "strategy", "options")
        for text, keys in mistakes_of(strategy, self.preset, self.train.kernels):
            self._problem(text, "train", *keys)

    @contextmanager
    def _reading(self, *keys: str) -> Iterator[None]:
        """Turn an error into problems that name the key of cluster.toml it comes from."""
        try:
            yield
        except (NetError, ConfigError) as error:
            for problem in error.problems:
                self._problem(problem, *keys)

    def _problem(self, text: str, *keys: str) -> None:
        problem = self.config.raw.problem(keys, text).text
        if problem not in self.problems:
            self.problems.append(problem)

    def stop_if_wrong(self) -> None:
        """Raise what was noted."""
        if self.problems:
            raise ConfigError(self.problems)
