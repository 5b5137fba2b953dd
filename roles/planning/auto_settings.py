"""The settings of [train] that are "auto": their first values, the tuner's choices, and the tuner
itself."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from nets import NetError
from roles.base.role import TuningOptions
from roles.coordination.coordinator import CoordinatorOptions
from roles.coordination.schedule import Timetable
from roles.forecasting.tuned_cluster import cluster_of
from roles.learning.job import Job
from roles.options import SOLVER, Checkpoint, Strategy, Train, Tuning, is_auto
from roles.planning.diagnostics import Diagnostics
from roles.planning.epochs import of_open_batch
from roles.planning.refusals import Problem
from roles.planning.solver_sections import of_open_rate
from roles.planning.strategies import WHY
from roles.presets.request import Preset
from roles.tuning.choices import Choices, counts_up_to
from roles.tuning.momentum import KINDS
from roles.tuning.record import FILE, Start, read
from roles.tuning.tuner import TunerOptions
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.topology import ActorSpec, Topology

TUNER = "tuner"
GROUPS = ("strategy", "groups")
MOMENTUM = ("momentum",)
BASE_LR = ("base_lr",)
BATCH = ("batch",)
# keys of [train.tuning] -> the setting that they are about
ABOUT = {"momenta": MOMENTUM, "rates": BASE_LR, "batches": BATCH, "momentum_by": MOMENTUM}
# keys of [train.tuning] with which presets are compared that have several groups
OF_CHOICE = ("learnt", "target")
COMPARES = "numbers of groups are compared only with preset = 'auto' and groups = 'auto'"
UNKNOWN = "no actor holds two gradients of a batch to compare, so their noise is not known"


def named(train: Train, name: str, preset: Preset) -> Train:
    """The section in which the preset of this name stands in place of "auto"."""
    strategy = train.strategy
    workers = 1 if preset.alone else strategy.workers
    named = strategy.model_copy(update={"preset": name, "workers": workers})
    changed = train.model_copy(update={"strategy": named, "tuning": after_choice(train.tuning)})
    if not is_auto(strategy.groups) or can_regroup(named, preset):
        return changed
    return sized(changed, {"groups": Strategy.model_fields["groups"].default})


def after_choice(tuning: Tuning) -> Tuning:
    """The section without the keys that only the choice of a preset uses."""
    return tuning.model_copy(
        update={key: Tuning.model_fields[key].get_default() for key in OF_CHOICE}
    )


def can_regroup(strategy: Strategy, preset: Preset) -> bool:
    """True if the tuner can choose the number of groups of these workers."""
    return _regroups(preset) and strategy.workers > 1


def sized(train: Train, numbers: Mapping[str, int]) -> Train:
    """The section with other numbers of workers or groups. If groups were all that was "auto",
    [train.tuning] is left out."""
    strategy = train.strategy.model_copy(update=dict(numbers))
    others = (strategy.groups, train.momentum, train.base_lr, train.batch)
    tuned = not is_auto(train.strategy.groups) or any(map(is_auto, others))
    tuning = train.tuning if tuned else Tuning()
    return train.model_copy(update={"strategy": strategy, "tuning": tuning})


class AutoSettings:
    """The settings of one [train] that are "auto". Falsy if none is."""

    def __init__(self, train: Train, preset: Preset, base: Path) -> None:
        self._train = train
        self._preset = preset
        self._base = base
        said: dict[tuple[str, ...], Any] = {GROUPS: train.strategy.groups}
        said |= {MOMENTUM: train.momentum, BASE_LR: train.base_lr, BATCH: train.batch}
        self.keys = [keys for keys, value in said.items() if is_auto(value)]

    def __repr__(self) -> str:
        return f"<auto: {', '.join(keys[-1] for keys in self.keys) or 'nothing'}>"

    def __bool__(self) -> bool:
        return bool(self.keys)

    @property
    def _tuning(self) -> Tuning:
        return self._train.tuning

    @property
    def momentum(self) -> bool:
        """True if the tuner chooses momentum."""
        return MOMENTUM in self.keys

    @property
    def _follows(self) -> bool:
        return self._tuning.momentum_by == "closed-loop" and self.momentum

    @property
    def probes(self) -> bool:
        """True if a setting is chosen by probes."""
        return bool(self.keys) and not (self._follows and self.keys == [MOMENTUM])

    @property
    def begun_with(self) -> Train:
        """The section with which the run starts: one group, which can be changed; the solver's
        rates; the net's batch; nothing to tune."""
        values: dict[str, Any] = {keys[0]: None for keys in self.keys if keys != GROUPS}
        values |= {"momentum": SOLVER} if self.momentum else {}
        values |= {"tuning": Tuning()} if self.keys else {}
        if GROUPS in self.keys:
            values["strategy"] = self._train.strategy.model_copy(
                update={"groups": 1, "live": _regroups(self._preset)}
            )
        return self._train.model_copy(update=values)

    def going_on(self, run: Path) -> Train:
        """The section for a run that resumes from `run`. The tuner starts with the choice of that
        run, if it made one and the section names no other start."""
        record = (run / FILE).absolute()
        if self._tuning.start or not self.probes:
            return self._train
        try:
            read(record)
        except ConfigError:  # it had no search
            return self._train
        return self._train.model_copy(
            update={"tuning": self._tuning.model_copy(update={"start": str(record)})}
        )

    def largest(self, batch: int) -> int:
        """The largest batch that a batch of this size may become; 0 if it does not change."""
        return batch * max(self._tuning.batches) if BATCH in self.keys else 0

    def refused(self) -> Iterator[Problem]:
        """Find settings that cannot be chosen here with any preset. No file is read."""
        strategy = self._train.strategy
        for keys in self.keys:
            if strategy.reproducible:
                yield (
                    (
                        "found 'auto', but a choice by measured times cannot be repeated: set "
                        "reproducible = false"
                    ),
                    keys,
                )
            if any(device.startswith("emulated") for device in self._train.devices.values()):
                yield "found 'auto', but emulated devices have no losses to compare", keys
        if GROUPS in self.keys and "live" in strategy.model_fields_set and not strategy.live:
            yield (
                ("found false, but groups = 'auto' changes groups while the run goes on"),
                ("strategy", "live"),
            )

    def mistakes(self, checkpoint: Checkpoint) -> Iterator[Problem]:
        """Find settings that cannot be chosen here, and keys of [train.tuning] without effect. No
        file is read."""
        strategy = self._train.strategy
        yield from self.refused()
        yield from (*of_open_batch(self._train, checkpoint), *of_open_rate(self._train))
        if GROUPS in self.keys:
            if not _regroups(self._preset):
                yield f"found 'auto', but {WHY['groups'].format(strategy.preset)}", GROUPS
            elif strategy.workers == 1:
                yield "found 'auto', but 1 worker is 1 group", GROUPS
            if strategy.pipeline > 1:
                text = (
                    f"found {strategy.pipeline}, but with groups = 'auto' the tuner chooses "
                    "the number of groups"
                )
                yield text, ("strategy", "pipeline")
        if BATCH in self.keys and strategy.workers == 1:
            yield f"found 'auto', but {UNKNOWN}: there is 1 worker", BATCH
        if BATCH in self.keys and self._follows:
            text = (
                "found 'closed-loop', but its only search comes before the noise of "
                "gradients is known,"
            )
            yield f"{text} and train.batch is 'auto'", ("tuning", "momentum_by")
        for key, field in Tuning.model_fields.items():
            found = getattr(self._tuning, key)
            if found == field.default:
                continue
            if key in OF_CHOICE:
                yield f"found {found!r}, but {COMPARES}", ("tuning", key)
            elif ABOUT.get(key) not in (None, *self.keys):
                yield f"found {found!r}, but {ABOUT[key][0]} is not 'auto'", ("tuning", key)
            elif not self.keys:
                yield (
                    (f"found {found!r}, but nothing is 'auto', so nothing is tuned"),
                    ("tuning", key),
                )
            elif key != "momentum_by" and not self.probes:
                text = (
                    f"found {found!r}, but there are no probes: only momentum is 'auto', "
                    "and it follows measurements"
                )
                yield text, ("tuning", key)
            elif key == "epoch_iterations" and self._follows:
                yield (
                    (
                        f"found {found!r}, but with momentum_by = 'closed-loop' there is only "
                        "one search"
                    ),
                    ("tuning", key),
                )

    def check(self, remarks: Diagnostics, job: Job, timetable: Timetable) -> None:
        """Note what this solver does not allow, a budget that does not pay for a probe or for a
        whole search, and a start that does not fit."""
        with remarks.reading("train", "tuning", "start"):
            for text, keys in self._cannot(job, timetable):
                remarks.problem(text, "train", *keys)
        choices = self._choices(timetable)
        paid = self._paid(timetable)
        count = choices.probes(cold=True)
        length = choices.length(timetable.last - timetable.first)
        if self.probes and length <= paid < count * length:
            text = (
                f"it pays for {paid} iterations of probes, and a whole search has about "
                f"{count} probes of {length}: "
            )
            text += "it will end early, with the best setting so far; raise it or train.max_iter"
            remarks.warn(text, "train", "tuning", "budget")

    def with_tuner(
        self,
        remarks: Diagnostics,
        topology: Topology,
        timetable: Timetable,
        config: ClusterConfig,
    ) -> Topology:
        """The topology with the tuner in the coordinator's process, if there is something to
        choose. Notes a topology that cannot be changed."""
        if not self.keys:
            return topology
        lead = next(actor for actor in topology.actors if actor.name == topology.lead)
        if GROUPS in self.keys and not (
            isinstance(lead.options, CoordinatorOptions) and lead.options.live.trees
        ):
            text = (
                f"found 'auto', but the layout of preset '{self._train.strategy.preset}' "
                "cannot be changed"
            )
            remarks.problem(text, "train", *GROUPS)
        process = lead.process or lead.name
        measuring = tuple(_telling(topology))
        if BATCH in self.keys:
            for text in itertools.islice(_batch_stays(topology), 1):
                remarks.problem(
                    (f"found 'auto', but preset '{self._train.strategy.preset}' {text}"),
                    "train",
                    *BATCH,
                )
        if self._follows and not measuring:
            text = (
                "found 'closed-loop', but no actor of preset '{}' measures the momentum "
                "that asynchrony adds"
            )
            text = text.format(self._train.strategy.preset)
            remarks.problem(text, "train", "tuning", "momentum_by")
        chooses_groups = GROUPS in self.keys and bool(measuring)
        cluster = cluster_of(topology, config) if chooses_groups else None
        choices = dataclasses.replace(
            self._choices(timetable), compensation=getattr(lead.options, "compensation", None)
        )
        options = TunerOptions(
            coordinator=lead.name,
            cluster=cluster,
            choices=choices,
            start=self.start,
            measuring=measuring,
            follow=len(lead.options.groups) if self._follows and measuring else 0,
            suited=lead.options.job.solver_spec.momentum,
            saves=bool(timetable.snapshot_interval or timetable.snapshot_last),
        )
        placed = dataclasses.replace(lead, process=process)
        actors = (*(placed if actor is lead else actor for actor in topology.actors),)
        tuner = ActorSpec(TUNER, "tuner", options, process)
        asked = [actor.name for actor in topology.actors] if cluster else measuring
        links = [(TUNER, name) for name in dict.fromkeys((lead.name, *asked))]
        return dataclasses.replace(
            topology, actors=(*actors, tuner), links=(*topology.links, *links)
        )

    @cached_property
    def start(self) -> Start | None:
        """The record of another run; None if the section names none. Raises ConfigError if the file
        is not a record."""
        return read(self._base / self._tuning.start) if self.keys and self._tuning.start else None

    def _cannot(self, job: Job, timetable: Timetable) -> Iterator[Problem]:
        tuning = self._tuning
        workers = self._train.strategy.workers
        if self.momentum:
            try:
                for momentum in tuning.momenta:
                    job.solver_spec.override({"momentum": momentum})
            except NetError as error:
                yield f"found 'auto', but this solver has no momentum: {error}", MOMENTUM
        if self._follows and job.solver_spec.type not in KINDS:
            text = "found 'closed-loop', but only the momentum of "
            text += (
                f"{', '.join(KINDS)} adds up with that of asynchrony: this solver is "
                f"{job.solver_spec.type}"
            )
            yield text, ("tuning", "momentum_by")
        left = timetable.last - timetable.first
        length = self._choices(timetable).length(left)
        paid = self._paid(timetable)
        if self.probes and length > paid:
            key = "probe_iterations" if tuning.probe_iterations else "budget"
            text = (
                f"found {getattr(tuning, key)}: a probe has {length} iterations, but "
                f"{tuning.budget:g} of the run's {left} "
            )
            yield (
                (f"{text}iterations are {paid}: raise train.tuning.budget or train.max_iter"),
                ("tuning", key),
            )
        if self.start and GROUPS in self.keys and self.start.setting.groups > workers:
            text = (
                f"{self.start.file} has {self.start.setting.groups} groups, expected at "
                f"most {workers}, the number"
            )
            yield f"{text} of workers", ("tuning", "start")
        if self.start and BATCH in self.keys and self.start.setting.batch > job.largest:
            text = (
                f"{self.start.file} has a batch of {self.start.setting.batch}, expected "
                f"at most {job.largest}, the"
            )
            yield f"{text} largest of train.tuning.batches", ("tuning", "start")

    def _paid(self, timetable: Timetable) -> int:
        """The iterations of probes that the budget pays for, if all iterations take equally
        long."""
        return int(self._tuning.budget * (timetable.last - timetable.first) + 1e-9)

    def _choices(self, timetable: Timetable) -> Choices:
        tuning = self._tuning
        return Choices(
            groups=counts_up_to(self._train.strategy.workers) if GROUPS in self.keys else (),
            momenta=tuple(sorted(set(tuning.momenta))) if self.momentum and self.probes else (),
            rates=tuple(sorted(set(tuning.rates))) if BASE_LR in self.keys else (),
            batches=tuple(timetable.batch * each for each in sorted({1, *tuning.batches}))
            if BATCH in self.keys
            else (),
            probe_iterations=tuning.probe_iterations or 0,
            epoch_iterations=tuning.epoch_iterations or 0,
            budget=tuning.budget,
            last=timetable.last,
        )


def _regroups(preset: Preset) -> bool:
    return preset.uses >= {"groups", "live"}


def _telling(topology: Topology, of: str = "momentum") -> Iterator[str]:
    """The actors that can be asked for statistics of gradients: momentum or noise."""
    return (
        actor.name
        for actor in topology.actors
        if isinstance(actor.options, TuningOptions) and of in actor.options.tells_of
    )


def _batch_stays(topology: Topology) -> Iterator[str]:
    """The reasons why the batch cannot be chosen here."""
    if not [*_telling(topology, "noise")]:
        yield f"has no model server that could measure the noise of gradients: {UNKNOWN}"
    fixed = {
        actor.role: actor.name
        for actor in topology.actors
        if isinstance(actor.options, TuningOptions) and not actor.options.any_batch
    }
    for role, name in fixed.items():
        yield f"has actors whose batch is fixed: '{name}' ({role})"
