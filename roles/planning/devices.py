"""On which device each actor computes: from [train.devices] and the machines to the options of the
actors. The devices themselves: `ops`, `runtime.compute.emulated_device`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ops
from nets.data import Source
from roles.base.role import EMULATED, DeviceOptions, JobOptions
from roles.base.shapes import Shapes
from roles.formats.format import FORMATS
from roles.learning.backends import GPU_PRECISIONS
from roles.options import DEVICE, DEVICES, Train
from roles.planning.diagnostics import Diagnostics
from roles.planning.refusals import Problem
from runtime.compute.service_times import ServiceTimes
from runtime.config.sections import ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.topology import ActorSpec, Topology


@dataclasses.dataclass(frozen=True)
class Devices:
    """[train.devices], and what emulated devices need: the data's shapes, a seed, the folder of
    profiles."""

    patterns: Mapping[str, str]
    sources: Mapping[str, Source]
    seed: int
    base: Path

    def of(self, actor: ActorSpec) -> tuple[str, DeviceOptions] | None:
        """The pattern that says where an actor computes, and its options there; None: on the CPU.
        An actor that computes nothing has none."""
        if isinstance(actor.options, DeviceOptions):
            for pattern, device in self.patterns.items():
                if fnmatch.fnmatchcase(actor.name, pattern):
                    placed = actor.options.on_device(
                        EMULATED if _emulated(device) else device, self._blank()
                    )
                    if placed is not None:
                        return pattern, placed
        return None

    def placed(self, topology: Topology) -> Topology:
        """Tell each actor that computes where to do so, and the lead if there is no model to
        save."""
        shapes = Shapes(topology)
        actors = tuple(_told_rows(self._placed(actor), shapes) for actor in topology.actors)
        if any(actor.emulated is not None for actor in actors):
            actors = tuple(
                _without_model(actor) if actor.name == topology.lead else actor for actor in actors
            )
        return dataclasses.replace(topology, actors=actors)

    def mistakes(self, topology: Topology, train: Train) -> Iterator[Problem]:
        """Patterns that fit nobody, profiles that are none, what emulated devices cannot do."""
        used = {found[0] for actor in topology.actors if (found := self.of(actor))}
        computing = ", ".join(
            actor.name for actor in topology.actors if isinstance(actor.options, JobOptions)
        )
        for pattern, device in self.patterns.items():
            if pattern not in used:
                yield f"'{pattern}' fits no actor; those that compute are {computing}", ("devices",)
            if profile := self._profile(device):
                try:
                    ServiceTimes.read(Path(profile), self.seed)
                except ConfigError as error:
                    yield from ((problem, ("devices", pattern)) for problem in error.problems)
        if train.precision in GPU_PRECISIONS and not any(
            self.patterns[pattern].startswith("cuda") for pattern in used
        ):
            text = (
                f"found '{train.precision}', which is how GPUs multiply, but every actor "
                "computes on the CPU"
            )
            yield (
                (f"{text}; 'fast' or 'exact' are the CPU's, and train.devices names GPUs"),
                ("precision",),
            )
        if any(map(_emulated, self.patterns.values())):
            yield from _not_emulated(train)

    def _placed(self, actor: ActorSpec) -> ActorSpec:
        found = self.of(actor)
        if found is None:
            return actor
        pattern, options = found
        device = self.patterns[pattern]
        if not _emulated(device):
            return dataclasses.replace(actor, options=options)
        times = {"profile": self._profile(device), "seed": self.seed}
        return dataclasses.replace(actor, options=options, emulated=times)

    def _blank(self) -> dict[str, dict[str, Any]]:
        """Data of the same shapes that nobody has to read."""
        return {
            phase: {
                "format": "blank",
                "shapes": [list(shape) for shape in source.shapes],
                "size": len(source),
            }
            for phase, source in self.sources.items()
        }

    def _profile(self, device: str) -> str:
        """The path of the profile that a device names; "" if it names none."""
        _, _, profile = device.partition(":") if _emulated(device) else ("", "", "")
        return os.path.abspath(self.base / profile) if profile else ""  # noqa: PTH100  # as the planner's paths


def _not_emulated(train: Train) -> Iterator[Problem]:
    """What is about numbers, which emulated devices have not."""
    of_all = train.gradients.format
    of_links = train.gradients.links.values()
    for name in dict.fromkeys((of_all, *of_links)):
        if why := FORMATS[name].needs_numbers:
            yield (
                f"found '{name}', but {why}",
                ("gradients", "format" if name == of_all else "links"),
            )
    if train.strategy.reproducible:
        yield (
            ("found true, but emulated devices have no numbers to repeat"),
            ("strategy", "reproducible"),
        )


def _told_rows(actor: ActorSpec, shapes: Shapes) -> ActorSpec:
    """How many rows it will compute, if it tries convolutions out for them before its first
    pass."""
    options = actor.options
    if (
        not isinstance(options, JobOptions)
        or options.job.cudnn == "off"
        or not options.job.device.startswith("cuda:")
    ):
        return actor
    rows = {phase: shapes.rows(actor.name, phase) for phase in options.job.phases}
    job = dataclasses.replace(options.job, rows_here=rows)
    return dataclasses.replace(actor, options=dataclasses.replace(options, job=job))


def _without_model(lead: ActorSpec) -> ActorSpec:
    """What is trained with emulated gradients is no model, whoever computes the rest."""
    if not isinstance(lead.options, JobOptions):
        return lead
    job = dataclasses.replace(lead.options.job, device=EMULATED)
    return dataclasses.replace(lead, options=dataclasses.replace(lead.options, job=job))


def lacking(config: ClusterConfig, topology: Topology) -> list[str]:
    """What this machine lacks for the devices of actors that will live on it, a line; none where
    others start them."""
    there = (getattr(actor.options, "job", None) for actor in topology.actors)
    devices = sorted(
        {job.device for job in there if job is not None and job.device.startswith("cuda:")}
    )
    why = ops.lacking("cupy") if devices and config.launcher.kind == "local" else None
    if why is None:
        return []
    return [f"{config.raw.place(('train', 'devices'))}: found {', '.join(devices)}, but here {why}"]


def _emulated(device: str) -> bool:
    return device.partition(":")[0] == EMULATED


def by_machine(
    patterns: Mapping[str, str], topology: Topology, config: ClusterConfig, remarks: Diagnostics
) -> Mapping[str, str]:
    """`patterns` of [train.devices], which count first, then worker -> device as its machine says.
    Notes kinds that there are not, and warns of workers that share a device or lists that nobody
    takes from."""
    listing = [machine for machine in config.machine if machine.devices]
    for machine in {machine.entry: machine for machine in listing}.values():
        for device in machine.devices:
            if not re.match(DEVICE, device):
                _note(remarks.problems, config, machine, f"found '{device}', expected {DEVICES}")
    if not listing or remarks.problems:
        return patterns
    try:
        placement = place(topology, config)
    except ConfigError:
        return patterns  # whoever starts it places it next, and is told then
    machine_of = {actor: spec.machine for spec in placement.processes for actor in spec.actors}
    free = [
        actor.name
        for actor in topology.actors
        if isinstance(actor.options, DeviceOptions)
        and actor.spread
        and not any(fnmatch.fnmatchcase(actor.name, pattern) for pattern in patterns)
    ]
    found = dict(patterns)
    for machine in listing:
        mine = [name for name in free if machine_of[name] == machine.name]
        count = len(machine.devices)
        found |= {name: machine.devices[number % count] for number, name in enumerate(mine)}
        if not mine:
            text = (
                f"says nothing: no worker of machine '{machine.name}' is without a device "
                "of train.devices"
            )
            _note(remarks.warnings, config, machine, text)
        elif len(mine) > count and {*machine.devices} != {"cpu"}:
            devices = f"{count} device{'s' * (count > 1)}"
            text = (
                f"machine '{machine.name}' has {len(mine)} workers for {devices}: they "
                "share in turn"
            )
            _note(remarks.warnings, config, machine, text)
    return found


def _note(lines: list[str], config: ClusterConfig, machine: Machine, text: str) -> None:
    line = config.raw.problem(("machine", machine.entry, "devices"), text).text
    if line not in lines:
        lines.append(line)
