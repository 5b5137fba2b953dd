"""From cluster.toml to a topology: reads net, solver and data once; every mistake is told before
anything starts."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

from nets import Net, is_file
from nets.data import Source, is_one
from nets.files.shared import Weights
from nets.files.weights import read_each
from roles.base.shapes import Shapes
from roles.checkpoints.checkpoint_timing import lead_told, with_timing
from roles.checkpoints.finished import finished
from roles.checkpoints.meant import meant
from roles.checkpoints.watching import told_to_lead
from roles.coordination.schedule import Timetable
from roles.coordination.timetable import timetable_of, with_tests
from roles.forecasting.regrouped import at_largest
from roles.learning.batch_split import Cutting, Shares
from roles.learning.job import InputShape, Job
from roles.learning.resume import Place, place_of
from roles.learning.tree import split
from roles.learning.wire_formats import Layers, layers_of
from roles.messages import TRAIN
from roles.options import AUTO, Options
from roles.planning.auto_settings import AutoSettings
from roles.planning.by_solver import as_the_solver_says, augment_of
from roles.planning.contents import Contents, check_rates
from roles.planning.devices import Devices, by_machine
from roles.planning.diagnostics import Diagnostics
from roles.planning.gradient_links import gradient_links, mistakes, with_formats
from roles.planning.host_layout import laid_out
from roles.planning.largest import largest_array
from roles.planning.refusals import DOUBLE
from roles.planning.refusals import mistakes as mistakes_in_double
from roles.planning.strategies import (
    PRESETS,
    idle_servers,
    mistakes_of,
    options_of,
    preset_called,
    told_of_momentum,
)
from roles.presets.request import Preset, Request
from runtime.config.file import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import data_here
from runtime.plan.program import checked
from runtime.plan.topology import Topology


def plan(
    config: ClusterConfig, options: Options, preset: Preset | None = None, *, tell: bool = True
) -> Topology:
    """The topology that trains what `options` describe, laid out by `preset` if one is given;
    `tell`: warn of what is worth it. ConfigError with every mistake of the files it names."""
    planner = _Planner(config, options, preset)
    topology = with_timing(planner.topology(), options.checkpoint, config)
    if tell:
        planner.tell()
    return topology


def job_of(config: ClusterConfig, options: Options) -> Job:
    """The job that `options` describe, for commands that need no topology. ConfigError as
    `plan`."""
    # whatever will be chosen
    preset = preset_called("single") if options.train.strategy.preset == AUTO else None
    planner = _Planner(config, options, preset)
    job = planner.job()
    planner.stop_if_wrong()
    planner.tell()
    return job


def _named(presets: list[str]) -> str:
    *first, last = (f"'{preset}'" for preset in presets)
    return f"{', '.join(first)} and {last}" if first else last


class _Planner(Diagnostics):
    """Collects problems as it goes, so that one run shows them all."""

    def __init__(
        self, config: ClusterConfig, options: Options, preset: Preset | None = None
    ) -> None:
        super().__init__(config.raw)
        train = options.train
        self.checkpoint = options.checkpoint
        self.config = config
        self.base = config.raw.path.resolve().parent
        with self.reading("train", "strategy", "preset"):
            self.preset = preset or preset_called(train.strategy.preset)
        self.stop_if_wrong()
        self.tuned = AutoSettings(train, self.preset, self.base)
        self.train = self.tuned.begun_with
        self.layers: Layers = {}  # of the part that workers compute: what travels
        self.options: Any = None  # of the preset
        self.weights: Weights = {}  # first parameters, if a file is named

    def topology(self) -> Topology:
        """The preset's topology, once everything is read and checked."""
        job = self.job()
        sources: dict[str, Source] = {}
        timetable = None
        with self.reading("train", "net"):
            _ = job.net_spec
        with self.reading("train", "solver"):
            timetable = timetable_of(job, self._place(job))
        # what each data layer reads is not known of a net that cannot be read
        readable = not self.problems
        for phase in (phase for phase in job.phases if readable or is_one(job.data[phase])):
            with self.reading("train", "data", phase.lower()):
                sources[phase] = job.source(phase)
        if self.train.data.shuffle is None and TRAIN in sources:
            job = dataclasses.replace(job, shuffle=sources[TRAIN].by_class)
        with self.reading("train", "weights"):
            if job.weights:
                self.weights = read_each(job.weights, job.shared if readable else {})
        self._check_shape(job)
        self.stop_if_wrong()
        assert timetable is not None
        # nothing is computed: no need to import the compiler, 0.2 s
        plain = dataclasses.replace(job, kernels="numpy")
        nets: dict[str, Net] = {}
        for phase, source in sources.items():
            with self.reading("train", "net"):
                nets[phase] = self._check_net(plain, phase, source)
                job.batches(phase, source, nets[phase])
        for text, keys in idle_servers(self.train.strategy, self.preset, len(self.layers)):
            self.problem(text, "train", *keys)
        self._look_into_files(job, sources, nets)
        self.tuned.check(self, job, timetable)
        self.stop_if_wrong()
        timetable = with_tests(timetable, job, sources)
        self._check_tests(timetable)
        request = Request(
            job=job,
            timetable=timetable,
            display=job.solver_spec.display,
            image_shape=job.all_shapes(sources),
            strategy=self.train.strategy,
            layers={
                layer: sum(math.prod(shape) for shape, _ in blobs)
                for layer, blobs in self.layers.items()
            },
            exchange=self.train.strategy.exchange or self.preset.exchange,
            options=self.options,
            heals=self.config.heals,
        )
        topology = laid_out(self._laid_out, request, self.config, self)
        topology = self._lead_told(topology, job, sources, nets)
        self.stop_if_wrong()
        self._check_messages(topology, nets[TRAIN])
        return self._on_devices(self._with_formats(topology, job), sources)

    def _laid_out(self, request: Request) -> Topology:
        return self.tuned.with_tuner(self, checked(self.preset.layout(request)), request.timetable)

    def _look_into_files(self, job: Job, sources: dict[str, Source], nets: dict[str, Net]) -> None:
        """Whatever would end the run soon after its start is told before it."""
        contents = Contents(job)
        for phase, net in nets.items():
            with self.reading("train", "data", phase.lower()):
                contents.of_source(phase, sources[phase], net)
        if TRAIN in nets:
            with self.reading("train", "weights"):
                contents.of_weights(self.weights, nets[TRAIN])
            with self.reading("train", "resume"):
                contents.of_checkpoint(nets[TRAIN])
        if not self.problems:
            for text, keys in contents.warnings:
                self.warn(text, "train", *keys)
            self._tell(job)

    def _tell(self, job: Job) -> None:
        """Keys that say nothing beside others, and a momentum that is too much with so many
        groups."""
        train = self.train
        simulation = self.config.simulation
        if not self.tuned.momentum and (
            text := told_of_momentum(job.solver_spec, self.preset, train.strategy)
        ):
            self.warn(text, "train", "solver" if train.momentum is None else "momentum")
        emulated = any(device.startswith("emulated") for device in train.devices.values())
        if simulation.seed != type(simulation).model_fields["seed"].default and not (
            emulated or simulation.service_times
        ):
            self.warn(
                ("says nothing where nothing is emulated: no service times are drawn"),
                "simulation",
                "seed",
            )

    def _check_messages(self, topology: Topology, whole: Net) -> None:
        """No message may be larger than the links allow."""
        size, what = largest_array(Shapes(at_largest(topology)), whole)
        if size > (most := self.config.links.max_message_bytes):
            text = f"found {most}, but {what} has {size} bytes and is sent as one"
            raise ConfigError([self.config.raw.problem(("links", "max_message_bytes"), text).text])

    def _with_formats(self, topology: Topology, job: Job) -> Topology:
        """Tell each actor that sends gradients in which format."""
        train = self.train
        for text, keys in mistakes(
            gradient_links(topology), train.gradients, train.strategy.preset
        ):
            self.problem(text, "train", "gradients", *keys)
        self.stop_if_wrong()
        return with_formats(topology, train.gradients, self.layers, job)

    def _on_devices(self, topology: Topology, sources: dict[str, Source]) -> Topology:
        """Tell each actor that computes where to do so."""
        patterns = by_machine(self.train.devices, topology, self.config, self)
        devices = Devices(patterns, sources, self.config.simulation.seed, self.base)
        for text, keys in devices.mistakes(topology, self.train):
            self.problem(text, "train", *keys)
        self.stop_if_wrong()
        return devices.placed(topology)

    def job(self) -> Job:
        """Net, solver and data as cluster.toml names them; problems are noted."""
        train = self.train
        for text, keys in (*mistakes_in_double(train), *self.tuned.mistakes()):
            self.problem(text, "train", *keys)
        values = {"max_iter": train.max_iter, "base_lr": train.base_lr, "momentum": train.momentum}
        job = Job(
            net=self._located(train.net),
            solver=self._located(train.solver),
            data={TRAIN: train.data.train},
            seed=train.seed,
            batch=0,
            test_batches=(),
            base_directory=data_here(self.config),
            shuffle=bool(train.data.shuffle),
            b_p=train.b_p,
            kernels="numpy" if train.precision == DOUBLE else train.kernels,
            precision=train.precision,
            cudnn=train.cudnn,
            micro_batches=train.strategy.cutting["micro_batches"],
            resume=self._beside(train.resume),
            weights=self._weights(train.weights or ""),
            solver_values={name: value for name, value in values.items() if value is not None},
        )
        with self.reading("train", "data", "augment"):
            job = dataclasses.replace(job, augment=augment_of(train.data))
        with self.reading("train", "solver"):
            job, wrong, told = as_the_solver_says(job, train)
            for text, keys in wrong:
                self.problem(text, "train", *keys)
            for text, keys in told:
                self.warn(text, "train", *keys)
        with self.reading("train", "net"):
            for phase in dict.fromkeys((TRAIN, *job.test_phases)):
                for text in job.spec(phase).told(sources_read=not is_one(job.data.get(phase, {}))):
                    self.warn(text, "train", "net")
        with self.reading("train", "net"):
            job = job.with_batches(train.batch)
        with self.reading("train", "solver"):
            count = job.solver_spec.iter_size
            apart = self.preset.part == "all" and not job.micro_batches
            batch = job.batch * count
            passes = count if apart else 1
            job = dataclasses.replace(
                job, batch=batch, passes=passes, largest=self.tuned.largest(batch)
            )
        return job  # noqa: RET504  # without its batches, if the net could not be read

    def _located(self, name: str) -> str:
        """A path beside cluster.toml if there is such a file, otherwise the name as it is (the
        zoo's)."""
        beside = self.base / name
        return self._beside(name) if is_file(beside) else name

    def _beside(self, name: str | None) -> str:
        """A path relative to cluster.toml; "" for none."""
        return os.path.abspath(self.base / name) if name else ""  # noqa: PTH100  # resolve() fails at links in a circle

    def _weights(self, name: str) -> tuple[str, ...]:
        """The file of first weights that cluster.toml names; of a run directory one that is told;
        () for none."""
        found: tuple[str, ...] = ()
        with self.reading("train", "weights"):
            if name:
                file, line = meant(Path(self._beside(name)))
                found = (str(file),)
                if line:
                    self.warn(line, "train", "weights")
        return found

    def _place(self, job: Job) -> Place:
        """From where the run goes on."""
        with self.reading("train", "resume"):
            if job.resume:
                return place_of(job.resume)
        return 0, -1

    def _check_tests(self, timetable: Timetable) -> None:
        """Workers that are averaged before a test must all take part in its first batch."""
        workers = self.train.strategy.workers
        rows = min((min(test.batch, test.rows) for test in timetable.tests[:1]), default=0)
        if self.preset.averages and 0 < rows < workers:
            text = (
                f"found {workers}, but they meet in the first batch of a test, which has "
                f"{rows} images: one for each"
            )
            self.problem(text, "train", "strategy", "workers")
            self.stop_if_wrong()

    def _lead_told(
        self, topology: Topology, job: Job, sources: dict[str, Source], nets: dict[str, Net]
    ) -> Topology:
        """Tell the lead what follows of tests, and what checkpoints are to say of their use."""
        told, wrong = told_to_lead(self.train, self.checkpoint, self.base, job, sources, nets)
        for text, keys in wrong:
            self.problem(text, *keys)
        self.stop_if_wrong()
        topology = lead_told(topology, **told)
        if (over := finished(topology)) is not None:
            self.warn(over[0], "train", "resume")
        return topology

    def _check_net(self, job: Job, phase: str, source: Source) -> Net:
        """Build every part once; returns the whole."""
        whole = job.build(phase, "all", job.shapes(phase, source))
        self._check_parts(job, phase, job.shapes(phase, source), whole)
        return whole

    def _check_parts(self, job: Job, phase: str, shapes: InputShape, whole: Net) -> None:
        """Presets that cut the net need a conv phase to cut off, and rows that may be shared."""
        if self.preset.alone:
            return
        if whole.time_first:
            text = "found a net with recurrent layers, whose rows are steps of time: only "
            text += (
                f"preset {_named([name for name, preset in PRESETS.items() if preset.alone])} "
                "trains it"
            )
            self.problem(text, "train", "strategy", "preset")
            return
        if self.preset.part == "all":
            self.layers = layers_of(whole)
            return
        conv, _ = (job.build(phase, part, shapes) for part in ("conv", "fc"))
        if shards := self.preset.shards(self.train.strategy):
            shard = job.build_shard(phase, 0, shards, shapes)
            if self.train.strategy.variable_batch and not shard.means:
                text = (
                    "found true with a loss whose normalization is NONE: it is no mean, "
                    "whose weight could change"
                )
                self.problem(text, "train", "strategy", "variable_batch")
            for layer in shard.rounding if self.train.strategy.reproducible else ():
                text = (
                    f"found true, but layer '{layer}' before an InnerProduct rounds "
                    "gradients: FC shards add them up"
                )
                self.problem(
                    f"{text} after it, one server before", "train", "strategy", "reproducible"
                )
        self.layers = layers_of(conv)
        if not conv.params:
            whole_nets = [name for name, preset in PRESETS.items() if preset.part == "all"]
            text = f"found a net without a conv phase that learns ({whole.spec.name}): "
            text += f"only presets {_named(whole_nets)} train it"
            self.problem(text, "train", "strategy", "preset")

    def _check_solver(self, job: Job) -> None:
        """Refuse clipping by a norm over all layers where layers are updated apart, and rates that
        are none."""
        with self.reading("train", "solver"):
            check_rates(job.solver_spec)
            if job.solver_spec.clips and not self.preset.joint:
                joint = [name for name, preset in PRESETS.items() if preset.joint]
                text = (
                    "clip_gradients needs the norm of all gradients at once: only "
                    f"presets {_named(joint)} know it"
                )
                self.problem(text, "train", "strategy", "preset")

    def _check_shape(self, job: Job) -> None:
        self._check_solver(job)
        strategy = self.train.strategy
        groups = self.preset.groups(strategy)
        if groups > strategy.workers:
            text = f"found {groups}, expected at most {strategy.workers}, the number of workers"
            self.problem(text, "train", "strategy", "groups")
            groups = strategy.workers
        if not job.batch:
            return  # the net could not be read: its batch is not known
        shares = Shares(Cutting(**strategy.cutting))
        for members in {*split(strategy.workers, groups)} if not self.preset.alone else {1}:
            problem = shares.problem(members, job.batch)
            if problem:
                self.problem(f"found {strategy.workers}: {problem}", "train", "strategy", "workers")
        try:
            self.options = options_of(strategy, self.preset)
        except ValueError as error:
            self.problem(str(error), "train", "strategy", "options")
        for text, keys in mistakes_of(strategy, self.preset, self.train.kernels):
            self.problem(text, "train", *keys)
