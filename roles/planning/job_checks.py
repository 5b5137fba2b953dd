"""The checks of a job: its nets and its files must fit the preset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nets import Net
from nets.data import Source
from roles.coordination.schedule import Timetable
from roles.coordination.timetable import with_tests
from roles.learning.batch_split import Cutting, Shares
from roles.learning.job import InputShape, Job
from roles.learning.tree import split
from roles.learning.wire_formats import Layers, layers_of
from roles.messages import TRAIN
from roles.planning.compensating import told_of_momentum
from roles.planning.contents import Contents, check_rates
from roles.planning.diagnostics import Diagnostics
from roles.planning.first_test import without_first_test
from roles.planning.job_reading import ReadJob
from roles.planning.layer_patterns import pattern_mistakes, unknown_values
from roles.planning.plan_inputs import PlanInputs
from roles.planning.recurrent_nets import recurrent_mistakes
from roles.planning.solver_fit import named, unfit
from roles.planning.strategies import PRESETS, idle_servers, mistakes_of, options_of
from roles.planning.whitening import with_whitening
from roles.tuning.compensation import Compensation


@dataclass(frozen=True)
class CheckedJob:
    """A job without mistakes.

    `timetable` includes the tests. `layers` are those of the part that the workers compute, whose
    gradients travel. `options` are the preset's. `compensation` is that of `ReadJob`.
    """

    job: Job
    timetable: Timetable
    sources: Mapping[str, Source]
    nets: Mapping[str, Net]
    layers: Layers
    options: Any
    compensation: Compensation | None


def check(inputs: PlanInputs, read: ReadJob, diagnostics: Diagnostics) -> CheckedJob:
    """Check that the job can be laid out, and build every part of its nets once. Raises ConfigError
    with every mistake so far."""
    options = _check_strategy(inputs, read.job, diagnostics)
    diagnostics.stop_if_wrong()
    assert read.timetable is not None
    nets, layers = _check_nets(inputs, read, diagnostics)
    if TRAIN in nets:
        found = [*pattern_mistakes(inputs.train, nets[TRAIN])]
        if not inputs.resuming:
            found += unknown_values(read.job, inputs.train, nets[TRAIN], read.weights)
        for text, keys in found:
            diagnostics.problem(text, "train", *keys)
    for text, keys in idle_servers(inputs.train.strategy, inputs.preset, len(layers)):
        diagnostics.problem(text, "train", *keys)
    _look_into_files(inputs, read, nets, diagnostics)
    inputs.auto.check(diagnostics, read.job, read.timetable)
    diagnostics.stop_if_wrong()
    timetable = with_tests(read.timetable, read.job, read.sources)
    timetable = without_first_test(timetable, read.job, nets, diagnostics)
    _check_tests(inputs, timetable, diagnostics)
    job = read.job
    with diagnostics.reading("train", "net"):
        job = with_whitening(job, nets[TRAIN], read.sources[TRAIN])
    return CheckedJob(job, timetable, read.sources, nets, layers, options, read.compensation)


def _check_strategy(inputs: PlanInputs, job: Job, diagnostics: Diagnostics) -> Any:
    """Return the preset's own options. Notes contradictions between the solver, the strategy and
    the preset."""
    _check_solver(inputs, job, diagnostics)
    strategy = inputs.train.strategy
    groups = inputs.preset.groups(strategy)
    if groups > strategy.workers:
        text = f"found {groups}, expected at most {strategy.workers}, the number of workers"
        diagnostics.problem(text, "train", "strategy", "groups")
        groups = strategy.workers
    if not job.batch:
        return None  # the net could not be read: its batch is not known
    shares = Shares(Cutting(**strategy.cutting))
    too_few = shares.too_few(job.batch)
    if too_few:
        diagnostics.problem(f"found true, but {too_few}", "train", "strategy", "reproducible")
    for members in {*split(strategy.workers, groups)} if not inputs.preset.alone else {1}:
        problem = shares.problem(members, job.batch)
        if problem and problem != too_few:
            text = f"found {strategy.workers}: {problem}"
            diagnostics.problem(text, "train", "strategy", "workers")
    options = None
    try:
        options = options_of(strategy, inputs.preset)
    except ValueError as error:
        diagnostics.options(str(error), strategy.options)
    for text, keys in mistakes_of(strategy, inputs.preset, inputs.train.kernels):
        diagnostics.problem(text, "train", *keys)
    return options


def _check_solver(inputs: PlanInputs, job: Job, diagnostics: Diagnostics) -> None:
    """Refuse rates that are not numbers, and a solver that the preset cannot have."""
    with diagnostics.reading("train", "solver"):
        check_rates(job.solver_spec)
        for text, keys in unfit(inputs.train, inputs.preset, job.solver_spec):
            diagnostics.problem(text, "train", *keys)


def _check_nets(
    inputs: PlanInputs, read: ReadJob, diagnostics: Diagnostics
) -> tuple[dict[str, Net], Layers]:
    """The whole net of each phase, and the layers whose gradients travel."""
    # nothing is computed: no need to import the compiler, 0.2 s
    plain = dataclasses.replace(read.job, kernels="numpy")
    nets: dict[str, Net] = {}
    layers: Layers = {}
    for phase, source in read.sources.items():
        with diagnostics.reading("train", "net"):
            shapes = plain.shapes(phase, source)
            whole = plain.build(phase, "all", shapes)
            layers = _check_parts(inputs, plain, phase, shapes, whole, diagnostics) or layers
            nets[phase] = whole
            read.job.batches(phase, source, whole)
    return nets, layers


def _check_parts(
    inputs: PlanInputs,
    job: Job,
    phase: str,
    shapes: InputShape,
    whole: Net,
    diagnostics: Diagnostics,
) -> Layers:
    """The layers of the part that workers compute; {} if the preset or the net has no such part.

    Presets that cut the net need a conv phase to cut off, and rows that may be divided.
    """
    preset = inputs.preset
    if whole.recurrent:
        found = list(recurrent_mistakes(inputs, job, whole))
        for text, keys in found:
            diagnostics.problem(text, "train", *keys)
        if found:
            return {}
    if preset.alone:
        return {}
    if preset.part == "all":
        return layers_of(whole)
    conv, _ = (job.build(phase, part, shapes) for part in ("conv", "fc"))
    _check_shards(inputs, job, phase, shapes, diagnostics)
    if not conv.params:
        whole_nets = [name for name, preset in PRESETS.items() if preset.part == "all"]
        lacks = "whose conv phase is frozen" if conv.frozen else "without a conv phase that learns"
        text = f"found a net {lacks} ({whole.spec.name}): "
        text += f"only presets {named(whole_nets)} train it"
        diagnostics.problem(text, "train", "strategy", "preset")
    return layers_of(conv)


def _check_shards(
    inputs: PlanInputs, job: Job, phase: str, shapes: InputShape, diagnostics: Diagnostics
) -> None:
    """Note what a divided FC phase cannot do with this net."""
    strategy = inputs.train.strategy
    shards = inputs.preset.shards(strategy)
    if not shards:
        return
    shard = job.build_shard(phase, 0, shards, shapes)
    if strategy.variable_batch and not shard.means:
        text = (
            "found true with a loss whose normalization is NONE: this loss is a sum, and only "
            "the weight of a mean can change"
        )
        diagnostics.problem(text, "train", "strategy", "variable_batch")
    for layer in shard.rounding if strategy.reproducible else ():
        text = (
            f"found true, but layer '{layer}' before an InnerProduct rounds "
            "gradients: FC shards add them up after the layer, a single server before it"
        )
        diagnostics.problem(text, "train", "strategy", "reproducible")


def _look_into_files(
    inputs: PlanInputs, read: ReadJob, nets: Mapping[str, Net], diagnostics: Diagnostics
) -> None:
    """Report all mistakes in files that would end the run soon after its start."""
    contents = Contents(read.job)
    for phase, net in nets.items():
        with diagnostics.reading("train", "data", phase.lower()):
            contents.of_source(phase, read.sources[phase], net, read.sources.get(TRAIN))
    if TRAIN in nets:
        with diagnostics.reading("train", "weights"):
            contents.of_weights(read.weights, nets[TRAIN])
        with diagnostics.reading("train", "resume"):
            contents.of_checkpoint(nets[TRAIN])
    if not diagnostics.problems:
        for text, keys in contents.warnings:
            diagnostics.warn(text, "train", *keys)
        _warn(inputs, read, diagnostics)


def _warn(inputs: PlanInputs, read: ReadJob, diagnostics: Diagnostics) -> None:
    """Warn of keys without effect, and of a momentum that is too high for the number of groups."""
    train = inputs.train
    simulation = inputs.config.simulation
    if not (inputs.auto.momentum or read.compensation) and (
        text := told_of_momentum(read.job.solver_spec, inputs.preset, train.strategy)
    ):
        diagnostics.warn(text, "train", "solver" if train.set_momentum is None else "momentum")
    emulated = any(device.startswith("emulated") for device in train.devices.values())
    if simulation.seed != type(simulation).model_fields["seed"].default and not (
        emulated or simulation.service_times
    ):
        text = "has no effect where nothing is emulated: no service times are drawn"
        diagnostics.warn(text, "simulation", "seed")


def _check_tests(inputs: PlanInputs, timetable: Timetable, diagnostics: Diagnostics) -> None:
    """Check that all workers that are averaged before a test take part in its first batch.

    Raises ConfigError at once, since nothing can be laid out otherwise.
    """
    workers = inputs.train.strategy.workers
    rows = min((min(test.batch, test.rows) for test in timetable.tests[:1]), default=0)
    if inputs.preset.averages and 0 < rows < workers:
        text = (
            f"found {workers}, but they meet in the first batch of a test, which has "
            f"{rows} images, and each worker needs one"
        )
        diagnostics.problem(text, "train", "strategy", "workers")
        diagnostics.stop_if_wrong()
