"""What the run is that follows another: plain decisions, made in a thread since they plan and read
files.

whole    what cluster.toml said, with all its machines; each decision begins from it
without  the same on other machines
scaled   with other workers, on other machines
goes_on  where the run before has come to
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from runtime.cluster.clients import Scale
from runtime.cluster.warnings import kept_warnings
from runtime.config.sections import ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.plan.open_choice import Chosen
from runtime.plan.placement import cores_of, idle
from runtime.plan.program import planned
from runtime.plan.topology import Placement
from runtime.program_interface import Program
from runtime.runs.checking import Checked, placed, remarks_on_room
from runtime.runs.choosing import settled
from runtime.suggest import hint

AS_BEFORE = "resumes    what the run before did: that left no checkpoint"
NOT_HEALED = "not from memory: "
RESTART = "restart"  # the event of a run that begins anew


def without(checked: Checked, machines: Collection[str]) -> Checked:
    """The same on the other machines. ConfigError if it cannot do without these."""
    config = checked.loaded.config
    return _on(checked, config, _but(config.machine, machines), checked.loaded.options)


def scaled(checked: Checked, whole: ClusterConfig, wish: Scale) -> Checked:
    """With other workers, on other machines of the `whole`; its warnings are about this.
    ConfigError in words if that cannot be."""
    options = checked.loaded.options
    program = checked.loaded.program
    if not program.resumes:
        raise ConfigError(
            [(f"program '{whole.program}' does not say where a run goes on: it has no resumed()")]
        )
    options = _with_workers(program, whole, options, wish)
    names = [machine.name for machine in whole.machine]
    for name in (*wish.without, *wish.including):
        if name not in names:
            raise ConfigError([f"no machine of this run is called '{name}'{hint(name, names)}"])
    present = {machine.name for machine in checked.loaded.config.machine} | {*wish.including}
    with kept_warnings() as told:
        found = _on(
            checked, whole, _but(whole.machine, {*names} - present | {*wish.without}), options
        )
        config = found.loaded.config
        topology = found.placement.topology
        room = remarks_on_room(found.loaded.program, topology, config)
    more = (*told, *idle(found.placement, config), *room, *_crowded(found.placement, config))
    return dataclasses.replace(found, warnings=more)


def goes_on(
    checked: Checked,
    place: Path,
    *,
    saved: bool = False,
    wish: Scale | None = None,
    left: Any = None,
) -> tuple[Checked, list[str]]:
    """What begins where the run in this directory, or memory, has come to; a line for where that
    is, and one for each checkpoint that was skipped. Before its first checkpoint that is where it
    began itself; ConfigError, if it has `saved` one. `wish`: what `checked` was scaled by; `left`:
    the options of the run before. The wish comes last: it counts more than what that run had been
    scaled to."""
    config = checked.loaded.config
    program = checked.loaded.program
    options = checked.loaded.options if wish is None else left
    with kept_warnings():  # they were told when it was planned first
        try:
            options, told = program.resumed(config, options, place)
        except ConfigError:
            if saved:
                raise
            return checked, [AS_BEFORE]
        if wish is not None:
            options = _with_workers(program, config, options, wish)
        topology = planned(program, config, options)
    return settled(checked, Chosen(options, topology, (RESTART, {}))), told


def healed(checked: Checked, memory: Path, directory: Path) -> tuple[Checked, list[str]]:
    """The same from memory; from the run in this directory, if that cannot be read.

    The options stay as they are: they are written into config.toml, and every later run is planned
    from them, when the memory is closed.
    """
    try:
        found, told = goes_on(checked, memory, saved=True)
        return dataclasses.replace(found, loaded=checked.loaded), told
    except ConfigError as error:
        found, told = goes_on(checked, directory)
        return found, [f"{NOT_HEALED}{error.problems[0]}", *told]


def _with_workers(program: Program, config: ClusterConfig, options: Any, wish: Scale) -> Any:
    """The options with the workers and groups that are wished for. ConfigError in words if that
    cannot be."""
    if not (wish.workers or wish.groups):
        return options
    return program.scaled(config, options, wish.workers, wish.groups)


def _but(machines: Collection[Machine], without: Collection[str]) -> tuple[Machine, ...]:
    found = tuple(machine for machine in machines if machine.name not in without)
    if not found:
        raise ConfigError(["it is the only one" if len(without) == 1 else "none would be left"])
    return found


def _on(
    checked: Checked, whole: ClusterConfig, machines: tuple[Machine, ...], options: Any
) -> Checked:
    """Planned and placed on these machines."""
    config = whole.model_copy(update={"machine": machines})
    loaded = checked.loaded
    with kept_warnings():
        topology = planned(loaded.program, config, options)
        try:
            placement = placed(topology, config)
        except ConfigError:
            raise
        except ValueError as error:  # a [[process]] or placement.spread names one that is left out
            raise ConfigError([f"cluster.toml keeps a place there: {error}"]) from None
    return dataclasses.replace(
        checked,
        loaded=dataclasses.replace(loaded, config=config, options=options),
        placement=placement,
        choice=None,
    )


def _crowded(placement: Placement, config: ClusterConfig) -> Iterator[str]:
    """A line for each machine with more workers than cores."""
    spread = {actor.name for actor in placement.topology.actors if actor.spread}
    crowds = Counter(spec.machine for spec in placement.processes if spread & {*spec.actors})
    for machine in config.machine:
        cores = cores_of(machine, config)
        workers = crowds[machine.name]
        if cores is not None and workers > cores:
            yield f"machine '{machine.name}': {workers} processes with workers share {cores} cores"
