"""The device on which each actor computes: from [train.devices] and the machines to the options of
the actors.

The devices themselves: `ops`, `runtime.compute.emulated_device`.
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
from roles.learning.backends import BFLOAT16, GPU_PRECISIONS
from roles.options import DEVICE, DEVICES, Train
from roles.planning.diagnostics import Diagnostics
from roles.planning.refusals import Problem
from runtime.compute.service_times import ServiceTimes
from runtime.config.sections import ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.topology import ActorSpec, Topology

FAST = "found 'fast': on GPUs TF32 in convolutions, float32 in all else; 'exact' is float32 in all"


@dataclasses.dataclass(frozen=True)
class Devices:
    """[train.devices], and the needs of emulated devices: the data's shapes, a seed, and the folder
    of the profiles."""

    patterns: Mapping[str, str]
    sources: Mapping[str, Source]
    seed: int
    base: Path

    def of(self, actor: ActorSpec) -> tuple[str, DeviceOptions] | None:
        """The pattern that names an actor's device, and the actor's options on that device.

        None if it computes on the CPU, or does not compute.
        """
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
        """Give each actor that computes its device. If a device is emulated, also note for the lead
        that there is no model to save."""
        shapes = Shapes(topology)
        actors = tuple(_told_rows(self._placed(actor), shapes) for actor in topology.actors)
        if any(actor.emulated is not None for actor in actors):
            actors = tuple(
                _without_model(actor) if actor.name == topology.lead else actor for actor in actors
            )
        return dataclasses.replace(topology, actors=actors)

    def mistakes(self, topology: Topology, train: Train) -> Iterator[Problem]:
        """Find patterns that fit no actor, files that are not profiles, and requests that emulated
        devices cannot serve."""
        used = {found[0] for actor in topology.actors if (found := self.of(actor))}
        computing = ", ".join(
            actor.name for actor in topology.actors if isinstance(actor.options, JobOptions)
        )
        for pattern, device in self.patterns.items():
            if pattern not in used:
                yield (
                    f"'{pattern}' fits no actor; the actors that compute are {computing}",
                    ("devices",),
                )
            if profile := self._profile(device):
                try:
                    ServiceTimes.read(Path(profile), self.seed)
                except ConfigError as error:
                    yield from ((problem, ("devices", pattern)) for problem in error.problems)
        if not any(self.patterns[pattern].startswith("cuda") for pattern in used):
            yield from _without_gpus(train)
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
        """Data of the same shapes that need not be read."""
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


def _without_gpus(train: Train) -> Iterator[Problem]:
    """Find a precision that CPUs alone do not have."""
    text = f"found '{train.precision}'"
    if train.precision == BFLOAT16 and train.kernels != "compiled":
        yield (
            f"{text}, but NumPy multiplies in float32; kernels = 'compiled' has it",
            ("precision",),
        )
    elif train.precision in GPU_PRECISIONS and train.precision != BFLOAT16:
        yield (
            f"{text}, a precision of GPUs, but every actor computes on the CPU; 'fast', 'exact' "
            "and 'bf16' are the CPU's; train.devices names GPUs",
            ("precision",),
        )


def _not_emulated(train: Train) -> Iterator[Problem]:
    """Find settings that depend on numbers, which emulated devices do not have."""
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
    """Give an actor its number of rows if it compares convolution algorithms for them before its
    first pass."""
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
    """Mark the lead's job as emulated: a model trained with emulated gradients is useless,
    whichever actors compute the rest."""
    if not isinstance(lead.options, JobOptions):
        return lead
    job = dataclasses.replace(lead.options.job, device=EMULATED)
    return dataclasses.replace(lead, options=dataclasses.replace(lead.options, job=job))


def default_products(topology: Topology) -> Iterator[str]:
    """A line about the products of GPUs, if the run has some and their precision is the default."""
    there = [getattr(actor.options, "job", None) for actor in topology.actors]
    if any(job and job.device.startswith("cuda:") and job.precision == "fast" for job in there):
        yield FAST


def lacking(config: ClusterConfig, topology: Topology) -> list[str]:
    """A line if this machine lacks the software for the GPUs of actors that will live on it, or, in
    a run without GPUs, a processor for its precision. No line where another launcher starts the
    actors."""
    there = [getattr(actor.options, "job", None) for actor in topology.actors]
    jobs = [job for job in there if job is not None]
    devices = sorted({job.device for job in jobs if job.device.startswith("cuda:")})
    if config.launcher.kind != "local":
        return []
    if devices:
        key, found, why = "devices", ", ".join(devices), ops.lacking("cupy")
    elif any(job.precision == BFLOAT16 and job.device == "cpu" for job in jobs):
        key, found = "precision", f"'{BFLOAT16}'"
        why = (reason := ops.lacking("cpu", BFLOAT16)) and f"{reason}; use 'fast'"
    else:
        return []
    return [f"{config.raw.place(('train', key))}: found {found}, but here {why}"] if why else []


def _emulated(device: str) -> bool:
    return device.partition(":")[0] == EMULATED


def by_machine(
    patterns: Mapping[str, str], topology: Topology, config: ClusterConfig, remarks: Diagnostics
) -> Mapping[str, str]:
    """The device of each worker: first the `patterns` of [train.devices], then worker -> device
    from the list of its machine.

    Notes unknown kinds of devices. Warns of workers that share a device, and of lists that no
    worker uses.
    """
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
        return patterns  # the caller places the topology next and gets this error then
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
                f"has no effect: machine '{machine.name}' has no worker without a device of "
                "train.devices"
            )
            _note(remarks.warnings, config, machine, text)
        elif len(mine) > count and {*machine.devices} != {"cpu"}:
            devices = f"{count} device{'s' * (count > 1)}"
            text = (
                f"machine '{machine.name}' has {len(mine)} workers for {devices}: the "
                "workers share them in turn"
            )
            _note(remarks.warnings, config, machine, text)
    return found


def named_devices(patterns: Mapping[str, str], topology: Topology) -> dict[str, str]:
    """Actor -> its device, for the actors that a pattern names."""
    found = {}
    for actor in topology.actors:
        for pattern, device in patterns.items():
            if fnmatch.fnmatchcase(actor.name, pattern):
                found[actor.name] = device
                break
    return found


def _note(lines: list[str], config: ClusterConfig, machine: Machine, text: str) -> None:
    line = config.raw.problem(("machine", machine.entry, "devices"), text).text
    if line not in lines:
        lines.append(line)
