"""The reading of a job from [train] and from its files, each of which is opened once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nets.data import Source, folder_names, is_one
from nets.files.shared import Weights
from nets.files.weights import read_each
from roles.coordination.schedule import Timetable
from roles.coordination.timetable import timetable_of
from roles.learning.job import Job
from roles.learning.resume import Place, place_of
from roles.messages import TRAIN
from roles.planning.augmenting import augment_of, check_transform, transform_of
from roles.planning.by_solver import as_the_solver_says
from roles.planning.compensating import compensation_of
from roles.planning.diagnostics import Diagnostics
from roles.planning.epochs import mistakes as timing_mistakes
from roles.planning.epochs import timed
from roles.planning.plan_inputs import PlanInputs
from roles.planning.refusals import mistakes
from roles.planning.solver_sections import doubts, replaced, set_by_recipe, untaken
from roles.planning.written_job import as_written
from roles.tuning.compensation import Compensation


@dataclass(frozen=True)
class ReadJob:
    """A job and the contents of its files: the data of each phase, and the first weights.
    `timetable` is None if the solver cannot be read. `compensation`: the way in which momentum
    follows the number of groups; the job has the momentum of the first groups."""

    job: Job
    timetable: Timetable | None
    sources: Mapping[str, Source]
    weights: Weights
    compensation: Compensation | None


def read(inputs: PlanInputs, diagnostics: Diagnostics) -> ReadJob:
    """Read the job, its data and its first weights. Notes every file that cannot be read."""
    job, compensation = _compensated(read_job(inputs, diagnostics), inputs, diagnostics)
    sources: dict[str, Source] = {}
    timetable = None
    with diagnostics.reading("train", "net"):
        _ = job.net_spec
    # without a readable net, it is not known which data each data layer reads
    readable = not diagnostics.problems
    for phase in (phase for phase in job.phases if readable or is_one(job.data[phase])):
        with diagnostics.reading("train", "data", phase.lower()):
            sources[phase] = job.source(phase)
            for line in sources[phase].told:
                diagnostics.warn(line, "train", "data", phase.lower())
    check_transform(job, inputs.train.data, sources, diagnostics)
    with diagnostics.reading("train", "solver"):
        if TRAIN in sources:
            job = timed(job, inputs.train, inputs.checkpoint, sources[TRAIN], diagnostics)
        timetable = timetable_of(job, _place(job, diagnostics))
    if inputs.train.data.shuffle is None and TRAIN in sources:
        job = dataclasses.replace(job, shuffle=sources[TRAIN].by_class)
    weights: Weights = {}
    with diagnostics.reading("train", "weights"):
        if job.weights:
            found = job.first_weights() if readable else read_each(job.weights)
            weights = found.weights
            for line in found.told:
                diagnostics.warn(line, "train", "weights")
    return ReadJob(job, timetable, sources, weights, compensation)


def read_job(inputs: PlanInputs, diagnostics: Diagnostics) -> Job:
    """Make the job with net, solver and data as cluster.toml names them. Its batches are missing if
    the net cannot be read."""
    train = inputs.train
    auto = inputs.auto.mistakes(inputs.checkpoint)
    for text, keys in (*mistakes(train), *timing_mistakes(train), *auto):
        diagnostics.problem(text, "train", *keys)
    for text, keys in set_by_recipe(train):
        diagnostics.fact(text, "train", *keys)
    job = as_written(inputs, diagnostics)
    with diagnostics.reading("train", "data", "augment"):
        job = dataclasses.replace(
            job, augment=augment_of(train.data), transform=transform_of(train.data)
        )
    with diagnostics.reading("train", "solver"):
        job, wrong, told = as_the_solver_says(job, train)
        for text, keys in (*wrong, *untaken(train, job)):
            diagnostics.problem(text, "train", *keys)
        for text, keys in replaced(train, job):
            diagnostics.fact(text, "train", *keys)
        for text, keys in (*told, *doubts(train, job)):
            diagnostics.warn(text, "train", *keys)
    with diagnostics.reading("train", "net"):
        for phase in dict.fromkeys((TRAIN, *job.test_phases)):
            for text in job.spec(phase).told(sources_read=not is_one(job.data.get(phase, {}))):
                diagnostics.warn(text, "train", "net")
    with diagnostics.reading("train", "data", "train"):
        job = _with_classes(job) if job.test_phases else job
    with diagnostics.reading("train", "net"):
        job = job.with_batches(train.batch)
    with diagnostics.reading("train", "solver"):
        count = job.solver_spec.iter_size
        apart = inputs.preset.part == "all" and not job.micro_batches
        batch = job.batch * count
        passes = count if apart else 1
        job = dataclasses.replace(
            job, batch=batch, passes=passes, largest=inputs.auto.largest(batch)
        )
    return job  # noqa: RET504  # without its batches, if the net could not be read


def _with_classes(job: Job) -> Job:
    """The job with the classes of its training data, which give the folders of tests their labels.
    Raises NetError if the net or the folder cannot be read."""
    config = job.data[TRAIN]
    layers = () if is_one(config) else job.data_layers(TRAIN)
    net_dir = job.spec(TRAIN).path.parent if layers else Path()
    names = folder_names(config, Path(job.base_directory), layers, net_dir)
    return dataclasses.replace(job, classes=names)


def _compensated(
    job: Job, inputs: PlanInputs, diagnostics: Diagnostics
) -> tuple[Job, Compensation | None]:
    """The job with the momentum for its number of groups, where the preset lowers it. A tuner that
    probes momenta begins with it, so that a tie does not keep the solver's."""
    found: Compensation | None = None
    first: Compensation | None = None
    train = inputs.train
    with diagnostics.reading("train", "solver"):
        found = first = compensation_of(job.solver_spec, inputs.preset, train)
        if inputs.auto.momentum and inputs.auto.probes:
            unset = train.model_copy(update={"momentum": None})
            first = compensation_of(job.solver_spec, inputs.preset, unset)
    groups = inputs.preset.groups_in_all(train.strategy)
    if first is not None and groups > 1:
        values = {**job.solver_values, "momentum": first.momentum(groups)}
        job = dataclasses.replace(job, solver_values=values)
    return job, found


def _place(job: Job, diagnostics: Diagnostics) -> Place:
    """The place from which the run resumes."""
    with diagnostics.reading("train", "resume"):
        if job.resume:
            return place_of(job.resume)
    return 0, -1
