"""What is "auto" in [train]: what the run begins with in its place, what the tuner may choose from,
and the tuner."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from nets import NetError
from roles.base.role import TuningOptions
from roles.coordination.coordinator import CoordinatorOptions
from roles.coordination.schedule import Timetable
from roles.learning.job import Job
from roles.options import AUTO, Train, Tuning
from roles.planning.diagnostics import Diagnostics
from roles.planning.refusals import Problem
from roles.planning.strategies import KINDS, WHY
from roles.presets.request import Preset
from roles.tuning.choices import Choices, counts_up_to
from roles.tuning.record import FILE, Start, read
from roles.tuning.tuner import TunerOptions
from runtime.errors import ConfigError
from runtime.plan.topology import ActorSpec, Topology

TUNER = "tuner"
GROUPS = ("strategy", "groups")
MOMENTUM = ("momentum",)
BASE_LR = ("base_lr",)
BATCH = ("batch",)
# keys of [train.tuning] -> what they say something about
ABOUT = {"momenta": MOMENTUM, "rates": BASE_LR, "batches": BATCH, "momentum_by": MOMENTUM}
UNKNOWN = "nobody holds two gradients of a batch to compare, so nobody knows how noisy they are"


class AutoSettings:
    """What of one [train] is "auto". Falsy if nothing is."""

    def __init__(self, train: Train, preset: Preset, base: Path) -> None:
        self._train = train
        self._preset = preset
        self._base = base
        said: dict[tuple[str, ...], Any] = {GROUPS: train.strategy.groups}
        said |= {MOMENTUM: train.momentum, BASE_LR: train.base_lr, BATCH: train.batch}
        self.keys = [keys for keys, value in said.items() if value == AUTO]

    def __repr__(self) -> str:
        return f"<auto: {', '.join(keys[-1] for keys in self.keys) or 'nothing'}>"

    def __bool__(self) -> bool:
        return bool(self.keys)

    @property
    def _tuning(self) -> Tuning:
        return self._train.tuning

    @property
    def momentum(self) -> bool:
        """Does the tuner choose it?"""
        return MOMENTUM in self.keys

    @property
    def _follows(self) -> bool:
        return self._tuning.momentum_by == "closed-loop" and self.momentum

    @property
    def probes(self) -> bool:
        """Is anything chosen by probes?"""
        return bool(self.keys) and not (self._follows and self.keys == [MOMENTUM])

    @property
    def _can_regroup(self) -> bool:
        return self._preset.uses >= {"groups", "live"}

    @property
    def begun_with(self) -> Train:
        """The same section as the run begins: one group, which can be changed; the solver's rates;
        the net's batch; nothing to tune."""
        values: dict[str, Any] = {keys[0]: None for keys in self.keys if keys != GROUPS}
        values |= {"tuning": Tuning()} if self.keys else {}
        if GROUPS in self.keys:
            values["strategy"] = self._train.strategy.model_copy(
                update={"groups": 1, "live": self._can_regroup}
            )
        return self._train.model_copy(update=values)

    def going_on(self, run: Path) -> Train:
        """The same section of a run that goes on from another, where the tuner begins with what
        that one had chosen, if it had and nothing else is said."""
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
        """What a batch that is so large at the beginning may become; 0: it stays."""
        return batch * max(self._tuning.batches) if BATCH in self.keys else 0

    def mistakes(self) -> Iterator[Problem]:
        """What cannot be chosen here, before any file is read; keys of [train.tuning] that say
        nothing."""
        strategy = self._train.strategy
        for keys in self.keys:
            if strategy.reproducible:
                yield (
                    (
                        "found 'auto', but what is chosen by measured times does not repeat: "
                        "reproducible = false"
                    ),
                    keys,
                )
            if any(device.startswith("emulated") for device in self._train.devices.values()):
                yield "found 'auto', but emulated devices have no losses to compare", keys
        if GROUPS in self.keys:
            if not self._can_regroup:
                yield f"found 'auto', but {WHY['groups'].format(strategy.preset)}", GROUPS
            elif strategy.workers == 1:
                yield "found 'auto', but 1 worker is 1 group", GROUPS
            if "live" in strategy.model_fields_set and not strategy.live:
                yield (
                    ("found false, but groups = 'auto' changes groups while the run goes on"),
                    ("strategy", "live"),
                )
            if strategy.pipeline > 1:
                text = (
                    f"found {strategy.pipeline}, but with groups = 'auto' the tuner says "
                    "how many groups there are"
                )
                yield text, ("strategy", "pipeline")
        if BATCH in self.keys and strategy.workers == 1:
            yield f"found 'auto', but {UNKNOWN}: there is 1 worker", BATCH
        if BATCH in self.keys and self._follows:
            text = (
                "found 'closed-loop', but with it there is one search only, before "
                "anybody knows how noisy gradients"
            )
            yield f"{text} are, and train.batch is 'auto'", ("tuning", "momentum_by")
        for key, field in Tuning.model_fields.items():
            found = getattr(self._tuning, key)
            if found == field.default:
                continue
            if ABOUT.get(key) not in (None, *self.keys):
                yield f"found {found!r}, but {ABOUT[key][0]} is not 'auto'", ("tuning", key)
            elif not self.keys:
                yield (
                    (f"found {found!r}, but nothing is 'auto', so nothing is tuned"),
                    ("tuning", key),
                )
            elif key != "momentum_by" and not self.probes:
                text = (
                    f"found {found!r}, but nothing is probed: momentum alone is 'auto', "
                    "and follows what is measured"
                )
                yield text, ("tuning", key)
            elif key == "epoch_iterations" and self._follows:
                yield (
                    (
                        f"found {found!r}, but with momentum_by = 'closed-loop' there is one "
                        "search only"
                    ),
                    ("tuning", key),
                )

    def check(self, remarks: Diagnostics, job: Job, timetable: Timetable) -> None:
        """Note what this solver does not let choose, a run that pays for no probe or for no whole
        search, a start that does not fit."""
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
            text += "it will end early, with the best of what it saw; raise it or train.max_iter"
            remarks.warn(text, "train", "tuning", "budget")

    def with_tuner(
        self, remarks: Diagnostics, topology: Topology, timetable: Timetable
    ) -> Topology:
        """The topology with the tuner in the coordinator's process, if something is to be chosen.
        Notes if it cannot be changed."""
        if not self.keys:
            return topology
        lead = next(actor for actor in topology.actors if actor.name == topology.lead)
        if GROUPS in self.keys and not (
            isinstance(lead.options, CoordinatorOptions) and lead.options.live.trees
        ):
            text = (
                f"found 'auto', but preset '{self._train.strategy.preset}' lays out "
                "nothing that could be changed"
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
                "that asynchrony brings along"
            )
            text = text.format(self._train.strategy.preset)
            remarks.problem(text, "train", "tuning", "momentum_by")
        options = TunerOptions(
            coordinator=lead.name,
            choices=self._choices(timetable),
            start=self.start,
            measuring=measuring,
            follow=len(lead.options.groups) if self._follows and measuring else 0,
        )
        placed = dataclasses.replace(lead, process=process)
        actors = (*(placed if actor is lead else actor for actor in topology.actors),)
        tuner = ActorSpec(TUNER, "tuner", options, process)
        links = [(TUNER, name) for name in (lead.name, *measuring)]
        return dataclasses.replace(
            topology, actors=(*actors, tuner), links=(*topology.links, *links)
        )

    @cached_property
    def start(self) -> Start | None:
        """The record of another run. ConfigError in words if it is none."""
        return read(self._base / self._tuning.start) if self.keys and self._tuning.start else None

    def _cannot(self, job: Job, timetable: Timetable) -> Iterator[Problem]:
        tuning = self._tuning
        workers = self._train.strategy.workers
        if self.momentum:
            try:
                for momentum in tuning.momenta:
                    job.solver_spec.override({"momentum": momentum})
            except NetError as error:
                yield f"found 'auto', but this solver has none to choose: {error}", MOMENTUM
        if self._follows and job.solver_spec.type not in KINDS:
            text = "found 'closed-loop', but what asynchrony gives adds up with the momentum of "
            text += f"{' and '.join(KINDS)} only: this solver is {job.solver_spec.type}"
            yield text, ("tuning", "momentum_by")
        left = timetable.last - timetable.first
        length = self._choices(timetable).length(left)
        paid = self._paid(timetable)
        if self.probes and length > paid:
            key = "probe_iterations" if tuning.probe_iterations else "budget"
            text = (
                f"found {getattr(tuning, key)}: a probe has {length} iterations, but "
                f"{tuning.budget:g} of the {left} "
            )
            yield (
                (f"{text}that the run has are {paid}: raise train.tuning.budget or train.max_iter"),
                ("tuning", key),
            )
        if self.start and GROUPS in self.keys and self.start.setting.groups > workers:
            text = (
                f"{self.start.file} says {self.start.setting.groups} groups, expected at "
                f"most {workers}, the number"
            )
            yield f"{text} of workers", ("tuning", "start")
        if self.start and BATCH in self.keys and self.start.setting.batch > job.largest:
            text = (
                f"{self.start.file} says a batch of {self.start.setting.batch}, expected "
                f"at most {job.largest}, the"
            )
            yield f"{text} largest of train.tuning.batches", ("tuning", "start")

    def _paid(self, timetable: Timetable) -> int:
        """Iterations of probes that the budget pays for where all take as long."""
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


def _telling(topology: Topology, of: str = "momentum") -> Iterator[str]:
    """The actors that can be asked what gradients say of this."""
    return (
        actor.name
        for actor in topology.actors
        if isinstance(actor.options, TuningOptions) and of in actor.options.tells_of
    )


def _batch_stays(topology: Topology) -> Iterator[str]:
    """Why the batch cannot be chosen here."""
    if not [*_telling(topology, "noise")]:
        yield f"has no model server that could tell how noisy gradients are: {UNKNOWN}"
    fixed = {
        actor.role: actor.name
        for actor in topology.actors
        if isinstance(actor.options, TuningOptions) and not actor.options.any_batch
    }
    for role, name in fixed.items():
        yield f"has actors whose batch is fixed: '{name}' ({role})"
