"""Runs from Python: a topology, built by any code, is launched without a cluster.toml.

async with launch(topology) as run:              result = run(topology, on_event=print)
    async for event in run.events(): ...
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from runtime.config.file import of_script
from runtime.config.problems import unknown_key
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError, ConvoyError
from runtime.plan.program import (
    MAIN,
    checked,
    is_script,
    main_program,
    program_here,
    stop_if_loading,
)
from runtime.plan.topology import Placement, ProcessSpec, Topology
from runtime.report.console import RunConsole
from runtime.report.event_stream import Event
from runtime.runs.checking import placed, remarks_on_room
from runtime.runs.loop_run import HERE
from runtime.runs.run import Run
from runtime.runs.script_record import record_of
from runtime.runs.signals import Signals

SAID_OTHERWISE = ("program", "run", "placement")  # sections whose keys are arguments here
Processes = Literal["one-per-actor", "per-device", "one", "here"]


def launch(
    topology: Topology,
    *,
    directory: str | Path = "runs",
    name: str | None = None,
    processes: Processes = "one-per-actor",
    show: bool = False,
    shared_arrays: bool = False,
    **sections: Any,
) -> Run:
    """Make a run of this topology, not started yet: `async with` it, or await its `start()`.

    Its run directory is made in `directory`, and its name ends with `name`. Actors live in a
    process each, in "one" process, or "here", on this event loop. `show` prints what `up` prints.
    With `shared_arrays` the script and the actors of this machine read each other's large arrays
    in place: those that an actor answers with, and those that the script makes in `run.memory`.
    `sections` are those of cluster.toml by their names, as dicts: machine=[{"name": "a", "cores":
    2}], process=[{"name": "servers", "actors": ["fc*"]}], links={"transport": "tcp"},
    liveness={...}, metrics={"port": 9464}, simulation={"clock": "virtual"}.

    A run on virtual time needs an event loop on virtual time: `runtime.run` makes one, and so does
    `run.loop_factory`. Raises ConfigError with every mistake in the sections or in the topology's
    options. Also raises it if the topology's program is a script without a file, or if this machine
    can never have the memory that the program says its actors hold. If the machine only lacks free
    memory now, a warning is logged.
    """
    stop_if_loading()
    here = processes == HERE
    simulation = sections.get("simulation")
    virtual = isinstance(simulation, dict) and simulation.get("clock") == "virtual"
    program = topology.program if here or virtual or topology.program != MAIN else main_program()
    called = (topology.title or _called(program)) if name is None else name
    config = _config(program, directory, called, "one" if here else processes, sections)
    record = record_of(config, topology)
    topology = dataclasses.replace(checked(topology), program=program)
    placement = placed(topology, config)
    for line in remarks_on_room(program_here(program), topology, config):
        logging.getLogger("convoy").warning("%s", line)
    if here:
        actors = tuple(actor.name for actor in topology.actors)
        placement = Placement(
            topology, (ProcessSpec(HERE, placement.processes[0].machine, actors),)
        )
    console = partial(_with_facts, topology.facts) if show else None
    return Run(placement, config, record=record, here=here, console=console, shares=shared_arrays)


def _with_facts(facts: Iterable[str]) -> RunConsole:
    """A console that has shown the facts about the topology, as the console of `up` does."""
    console = RunConsole()
    for fact in facts:
        console.say(fact)
    return console


def run(
    topology: Topology, *, on_event: Callable[[Event], object] | None = None, **settings: Any
) -> dict[str, Any]:
    """Run a topology to its end. `settings` are those of `launch`. Returns the fields of the lead
    actor's last event.

    `on_event` is called with every event. The first SIGINT or SIGTERM lets the run finish what is
    under way and save, the second ends it at once. Then the signal is raised for the script: a
    KeyboardInterrupt, or its end. Raises the ConvoyError that ended the run.
    """
    current = launch(topology, **settings)
    if on_a_loop():
        raise ConvoyError(
            "an event loop runs here, as in a notebook: use `async with runtime.launch(...)`"
        )

    async def main() -> tuple[dict[str, Any], int]:
        async with current:
            with Signals(current) as signals:
                async for event in current.events():
                    if on_event is not None:
                        on_event(event)
            return await current.result(), signals.number

    with asyncio.Runner(loop_factory=current.loop_factory) as runner:
        try:
            result, number = runner.run(main())
        except ConvoyError as error:
            raise error.with_traceback(None)  # noqa: B904  # its frames are Convoy's
    if number:
        signal.raise_signal(number)
    return result


def on_a_loop() -> bool:
    """Whether an event loop runs in this thread, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _config(
    program: str, directory: str | Path, name: str, processes: str, sections: dict[str, Any]
) -> ClusterConfig:
    known = [key for key in ClusterConfig.model_fields if key not in SAID_OTHERWISE]
    problems = [
        (f"launch(): {key}: {unknown_key(key, known)}") for key in sections if key not in known
    ]
    if problems:
        raise ConfigError(problems)
    tables = {
        "program": program,
        "run": {"directory": str(directory), "name": name},
        "placement": {"processes": processes},
        **sections,
    }
    return of_script("launch()", tables, Path.cwd())


def _called(program: str) -> str:
    """Return the name of a run: its program's name, with only characters that fit a file name."""
    stem = Path(program).stem if is_script(program) else program
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:64] or "script"
