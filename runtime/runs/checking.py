"""Checks of a configuration, from cluster.toml to a placed topology. Reads and plans; starts
nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cluster.launchers import launcher_of
from runtime.cluster.warnings import kept_warnings
from runtime.config import slurm_environment
from runtime.config.file import Loaded, load_with_program
from runtime.config.recorded import check_plannable
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.machine import descriptors
from runtime.machine.memory import MachineMemory
from runtime.plan import room
from runtime.plan.placement import idle, place
from runtime.plan.program import planned
from runtime.plan.rented import on_rented
from runtime.plan.roads import roads_of
from runtime.plan.topology import SUPERVISOR, Placement, Topology
from runtime.program_interface import Program

if TYPE_CHECKING:
    from runtime.plan.open_choice import Choice
    from runtime.report.console import RunConsole


OF_KINDS = (
    "machine.kind: `plan` predicts with the figures of the kinds; `up` starts the same processes "
    "on whatever these machines are, and neither checks their speed nor limits their network"
)


@dataclass(frozen=True)
class Resume:
    """A request that a run resumes from `run`, a run directory or its name. None: from the last
    run."""

    run: Path | None = None


@dataclass(frozen=True)
class Checked:
    """A configuration that was read, planned and placed without a mistake.

    - `warnings`: for the user.
    - `choice`: the settings that the program leaves open until `up`. The other fields are then
      about the expected choice.
    - `resumed`: lines that describe the resumed state, and the parts that are not resumed.
    - `finished`: the checkpoint after which nothing is left to do. The program has warned of it.
    """

    loaded: Loaded
    placement: Placement
    warnings: tuple[str, ...] = ()
    choice: Choice | None = None
    resumed: tuple[str, ...] = ()
    finished: Path | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Settings that follow from what the user asked for, and decisions that the program made by
        itself, one line each: not warnings, but worth knowing."""
        topology = self.placement.topology
        decided = self.loaded.program.decided(topology)
        kinds = any(machine.kind for machine in self.loaded.config.machine)
        return (*topology.facts, *decided, *([OF_KINDS] if kinds else []))

    def tell(self, console: RunConsole) -> None:
        """Show the warnings, the decisions, and the facts about the choice. For commands that start
        nothing."""
        for warning in (*self.warnings, *slurm_environment.told(self.loaded.config)):
            console.warn(warning)
        for note in self.notes:
            console.say(note)
        if self.choice is not None:
            for event in (*self.choice.told, self.choice.expected.why):
                console.event(SUPERVISOR, *event)


def check(
    path: Path,
    overrides: Sequence[str] = (),
    resume: Resume | None = None,
    *,
    starts: bool = True,
    rented: bool = False,
) -> Checked:
    """Read cluster.toml, plan and place: `load_with_program`, then `check_plan`. Raises ConfigError
    with every mistake."""
    with kept_warnings() as told:
        loaded = load_with_program(path, overrides)
    return check_plan(loaded, resume, starts=starts, rented=rented, told=told)


def check_plan(
    loaded: Loaded,
    resume: Resume | None = None,
    *,
    starts: bool = True,
    rented: bool = False,
    told: Sequence[str] = (),
) -> Checked:
    """Plan and place what cluster.toml describes. Raises ConfigError with every mistake.

    Warnings logged meanwhile are kept for the user, after the warnings `told` during loading.
    `resume`: the run resumes from another. `starts`: the run shall start on this machine, so
    anything that the machine lacks is a mistake. A plan alone may be for other machines. `rented`:
    the plan is placed on machines that could be rented (`on_rented`).
    """
    check_plannable(loaded.config.raw)
    with kept_warnings() as more:
        _restarts(loaded)
        loaded, resumed = _resumed(loaded, resume)
        if rented:
            with kept_warnings():
                config, _ = on_rented(loaded.config, lambda config: _planned(loaded, config)[2])
        else:
            config = loaded.config
        loaded, choice, topology = _planned(loaded, config)
        program = loaded.program
        placement = placed(topology, config)
        if starts:
            _check_machine(program, topology, placement, config)
        remarks = remarks_on_room(program, topology, config, starts=starts)
        warnings = (*told, *loaded.unused, *more, *idle(placement, config), *remarks)
        end = program.finished(topology)
        finished = None if end is None else end[1]
        return Checked(loaded, placement, warnings, choice, resumed, finished)


def _check_machine(
    program: Program, topology: Topology, placement: Placement, config: ClusterConfig
) -> None:
    """Raise ConfigError with everything that the program or `up` needs and this machine lacks."""
    lacking = [*program.lacking(config, topology)]
    if config.simulation.clock == "real":
        lacking += filter(None, [descriptors.lacking(len(placement.processes))])
    if lacking:
        raise ConfigError(lacking)


def _planned(loaded: Loaded, config: ClusterConfig) -> tuple[Loaded, Choice | None, Topology]:
    """Plan for the machines of `config`. Returns the options that are planned, the open choice and
    the topology."""
    choice: Choice | None = loaded.program.choice(config, loaded.options)
    if choice is not None:
        loaded = dataclasses.replace(loaded, options=choice.expected.options)
    return loaded, choice, planned(loaded.program, config, loaded.options)


def _restarts(loaded: Loaded) -> None:
    """Check that a run that may be restarted has a program that can resume. Raises ConfigError."""
    config = loaded.config
    if (
        config.recovery.restarts
        and config.simulation.clock == "real"
        and not loaded.program.resumes
    ):
        text = (
            f"program '{config.program}' cannot resume a run: set it to 0, or define resumed() in "
            "the program"
        )
        raise ConfigError([f"{config.raw.place(('recovery', 'restarts'))}: {text}"])


def _resumed(loaded: Loaded, resume: Resume | None) -> tuple[Loaded, tuple[str, ...]]:
    """Return the configuration with the options of the resumed run, and lines about it for the
    user. Raises ConfigError if the program cannot resume."""
    if resume is None:
        return loaded, ()
    if not loaded.program.resumes:
        raise ConfigError(
            [
                (
                    f"--resume: program '{loaded.config.program}' cannot resume a run: it has no "
                    "resumed()"
                )
            ]
        )
    options, told = loaded.program.resumed(loaded.config, loaded.options, resume.run)
    return dataclasses.replace(loaded, options=options), tuple(told)


def remarks_on_room(
    program: Program | None, topology: Topology, config: ClusterConfig, *, starts: bool = True
) -> list[str]:
    """Return remarks about memory, if the program says how much its actors hold and they will live
    on this machine. A plan for machines of given kinds is not for this one. Raises ConfigError if
    the machine can never have enough."""
    if program is None or config.launcher.kind != "local":
        return []
    if not starts and any(machine.kind for machine in config.machine):
        return []
    held = program.memory(topology)
    if held is None:
        return []
    memory = MachineMemory()
    return room.warned(held, memory.total, memory.available)


def placed(topology: Topology, config: ClusterConfig) -> Placement:
    """Place a topology; see `place`. Raises ConfigError also if the launcher does not exist, or if
    links must be encrypted and cannot be."""
    try:
        launcher_of(config.launcher.kind)
    except ConfigError as error:
        where = config.raw.place(("launcher", "kind"))
        raise ConfigError([f"{where}: {problem}" for problem in error.problems]) from None
    placement = place(topology, config)
    roads = roads_of(placement, config)
    if roads.encrypted:
        # ZeroMQ takes a tenth of a second to import
        from runtime.transport.zeromq import can_encrypt

        if not can_encrypt():
            machine = roads.far[0]
            where = config.raw.place(("links", "encryption"))
            why = (
                f"machine '{machine.name}' at {machine.address} is another host, and this "
                "pyzmq cannot encrypt links"
            )
            mend = (
                "(it was built without libsodium): install its wheel, or set "
                "links.encryption = 'none'"
            )
            raise ConfigError([f"{where}: {why} {mend}"])
    return placement
