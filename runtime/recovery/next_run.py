"""How the next run is planned from the run before it. These functions only decide. They are called
in a thread, since they plan and read files.

whole    the configuration of cluster.toml with all its machines: each decision starts from it
without  the same run without some machines
scaled   the run with another number of workers, or on other machines
goes_on  the run from the point that the previous run has reached
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from runtime.cluster.clients import Scale
from runtime.cluster.warnings import kept_warnings
from runtime.config.sections import BY_HAND, ClusterConfig, Machine
from runtime.errors import ConfigError
from runtime.plan.open_choice import Chosen
from runtime.plan.placement import cores_of, idle
from runtime.plan.program import planned
from runtime.plan.topology import Placement
from runtime.program_interface import Program
from runtime.runs.checking import Checked, placed, remarks_on_room
from runtime.runs.choosing import settled
from runtime.suggest import hint

AS_BEFORE = "resumes    where the run before began: it left no checkpoint"
NOT_HEALED = "not from memory: "
RESTART = "restart"  # the event of a restarted run


def without(checked: Checked, machines: Collection[str]) -> Checked:
    """Return the run planned without these `machines`. Raises ConfigError if the run cannot do
    without them."""
    config = checked.loaded.config
    return _on(checked, config, _but(config.machine, machines), checked.loaded.options)


def scaled(checked: Checked, whole: ClusterConfig, wish: Scale) -> Checked:
    """Return the run with the workers and machines of `wish`, chosen from all machines of `whole`.

    Its warnings concern the scaled run only. Raises ConfigError, with a text for people, if the run
    cannot be scaled so.
    """
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
    before = {machine.name for machine in checked.loaded.config.machine}
    after = (before | {*wish.including}) - {*wish.without}
    same = [
        *(f"machine '{name}' is in the run" for name in wish.including),
        *(f"machine '{name}' is not in the run" for name in wish.without),
    ]
    if same and after == before and not (wish.workers or wish.groups):
        raise ConfigError([f"nothing is to change: {', '.join(same)}"])
    with kept_warnings() as told:
        found = _on(checked, whole, _but(whole.machine, {*names} - after), options)
        config = found.loaded.config
        topology = found.placement.topology
        room = remarks_on_room(found.loaded.program, topology, config)
    more = (*told, *idle(found.placement, config), *room, *_crowded(found.placement, config))
    if config.launcher.kind == BY_HAND and not all(map(config.is_here, config.machine)):
        more += ("the next run begins once its lines are typed on the machines: `up` prints them",)
    return dataclasses.replace(found, warnings=more)


def goes_on(
    checked: Checked,
    place: Path,
    *,
    saved: bool = False,
    wish: Scale | None = None,
    left: Any = None,
) -> tuple[Checked, list[str]]:
    """Return the run that resumes from the run in directory `place`, or from memory kept there.

    Also returns lines for people: where the run resumes, and one for each checkpoint that was
    skipped. Before its first checkpoint, a run is resumed from where it began itself; with `saved`
    a missing checkpoint raises ConfigError instead. `wish` is the change by which `checked` was
    scaled, and `left` are the options of the run before. The wish is applied last, so it overrides
    the size to which that run had been scaled.
    """
    config = checked.loaded.config
    program = checked.loaded.program
    options = checked.loaded.options if wish is None else left
    with kept_warnings():  # the user saw these warnings when the run was first planned
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
    """Return the run that resumes from memory, or from the run in this directory if the memory
    cannot be read.

    The options of `checked` are kept. They are written into config.toml, and every later run is
    planned from them, at a time when the memory is closed.
    """
    try:
        found, told = goes_on(checked, memory, saved=True)
        return dataclasses.replace(found, loaded=checked.loaded), told
    except ConfigError as error:
        found, told = goes_on(checked, directory)
        return found, [f"{NOT_HEALED}{error.problems[0]}", *told]


def _with_workers(program: Program, config: ClusterConfig, options: Any, wish: Scale) -> Any:
    """Return the options with the numbers of workers and groups in `wish`. Raises ConfigError, with
    a text for people, if the program refuses them."""
    if not (wish.workers or wish.groups):
        return options
    return program.scaled(config, options, wish.workers, wish.groups)


def _but(machines: Collection[Machine], without: Collection[str]) -> tuple[Machine, ...]:
    found = tuple(machine for machine in machines if machine.name not in without)
    if not found:
        raise ConfigError(
            ["it is the only machine" if len(without) == 1 else "no machine would be left"]
        )
    return found


def _on(
    checked: Checked, whole: ClusterConfig, machines: tuple[Machine, ...], options: Any
) -> Checked:
    """Plan and place the run on these machines."""
    config = whole.model_copy(update={"machine": machines})
    loaded = checked.loaded
    with kept_warnings():
        topology = planned(loaded.program, config, options)
        try:
            placement = placed(topology, config)
        except ConfigError:
            raise
        # a [[process]] or [placement] names a machine that is left out
        except ValueError as error:
            raise ConfigError([f"cluster.toml places actors there: {error}"]) from None
    return dataclasses.replace(
        checked,
        loaded=dataclasses.replace(loaded, config=config, options=options),
        placement=placement,
        choice=None,
    )


def _crowded(placement: Placement, config: ClusterConfig) -> Iterator[str]:
    """Yield a line for each machine that runs more workers than it has cores."""
    spread = {actor.name for actor in placement.topology.actors if actor.spread}
    crowds = Counter(spec.machine for spec in placement.processes if spread & {*spec.actors})
    for machine in config.machine:
        cores = cores_of(machine, config)
        workers = crowds[machine.name]
        if cores is not None and workers > cores:
            yield f"machine '{machine.name}': {workers} processes with workers share {cores} cores"
