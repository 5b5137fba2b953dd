"""A run on the virtual clock: `up` without processes. The same placement, actors and messages on one event loop.

The run directory is the same as of a real run; its journal tells virtual seconds and repeats itself to the last byte.
What never lives here: how actors are hosted (`simulation`), how time passes (`clock`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Any

from runtime.cluster.versions import versions
from runtime.compute.service_times import FILE, Recorder, ServiceTimes, as_text
from runtime.config.file import ClusterConfig, dump
from runtime.errors import ConfigError, ConvoyError, RoleDied
from runtime.messages.message import Save, WindDown
from runtime.plan.program import actor_of
from runtime.plan.topology import Placement
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked
from runtime.runs.loop_run import told
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import ServiceTime, Simulation
from runtime.transport import Limits
from runtime.transport.inproc import InprocNetwork
from runtime.transport.network_model import Link

LOG = "convoy.log"
MOST_LISTED = 8  # links in an error


def run(checked: Checked, console: RunConsole) -> int:
    """Run to the end on virtual time; returns the exit code, having told the person everything."""
    return _VirtualRun(checked, console).live()


def network_of(placement: Placement, config: ClusterConfig) -> InprocNetwork:
    """The network that [simulation] describes."""
    wanted = config.simulation
    interfaces = None
    if wanted.interfaces != "link":
        by_machine = wanted.interfaces == "machine"
        interfaces = {spec.name: spec.machine if by_machine else spec.name for spec in placement.processes}
    links = tuple(_link(pattern, placement, config) for pattern in wanted.links)
    return InprocNetwork(wanted.latency, float(wanted.bytes_per_second or 0), interfaces, links)


def _link(pattern: str, placement: Placement, config: ClusterConfig) -> Link:
    """An exception of [simulation.links]. ConfigError if it is none, or fits no link."""
    sender, arrow, receiver = (word.strip() for word in pattern.partition("->"))
    rules = config.simulation.links[pattern]
    link = Link(sender, receiver, rules.latency, rules.bytes_per_second)
    names = [spec.name for spec in placement.processes]
    known = [(a, b) for a in names for b in placement.neighbours(a) if a != b]
    if arrow and any(link.fits(a, b) for a, b in known):
        return link
    listed = ", ".join(f"{a} -> {b}" for a, b in known[:MOST_LISTED]) + (", ..." if len(known) > MOST_LISTED else "")
    text = f"fits no link between processes, expected SENDER -> RECEIVER, such as {listed}"
    raise ConfigError([config.raw.problem(("simulation", "links", pattern), text).text])


def service_time_of(placement: Placement, config: ClusterConfig) -> ServiceTime | None:
    """How long array work takes that is really done; None: no time. ConfigError if the profile is wrong."""
    wanted = config.simulation
    if wanted.service_times is None:
        return None
    times = ServiceTimes.read(config.raw.path.parent / wanted.service_times, wanted.seed)
    roles = {actor.name: actor.role for actor in placement.topology.actors}
    return lambda actor, label: times.seconds(actor, roles[actor], label)


class _VirtualRun:
    def __init__(self, checked: Checked, console: RunConsole) -> None:
        self._checked, self._console = checked, console
        self._config, self._placement = checked.loaded.config, checked.placement
        self._network = network_of(self._placement, self._config)
        self._service_time = service_time_of(self._placement, self._config)
        self._recorder = Recorder() if self._config.run.record_service_times else None
        self._now = 0.0
        self._signal = 0
        name = self._config.run.name or self._config.program
        self._directory = RunDirectory(Path(self._config.run.directory), name, lambda: self._now)

    def live(self) -> int:
        """The whole run; an error is told in words."""
        directory = self._directory
        self._console.say(f"run directory {directory.path}")
        directory.write("config.toml", dump(self._config, self._checked.loaded.options))
        directory.write("versions.json", versions())
        directory.write("plan.json", {"clock": "virtual", "placement": json.loads(self._placement.to_json())})
        log = self._open_log()
        try:
            return self._told()
        finally:
            if self._recorder is not None:
                directory.write(FILE, as_text(self._recorder.table()))
            logging.getLogger().removeHandler(log)
            log.close()
            self._console.close()
            directory.close()

    def _told(self) -> int:
        try:
            run_virtual(self._main())
        except ConvoyError as error:
            self._directory.failed(error)
            self._console.failed(error)
            return error.exit_code
        self._console.say(f"simulated {self._now:.6g} s in {self._directory.age:.3g} s")
        return 128 + self._signal if self._signal else 0

    async def _main(self) -> None:
        limits = Limits(self._config.links.credit_bytes, self._config.links.max_message_bytes)
        simulation = Simulation(
            self._placement,
            network=self._network,
            limits=limits,
            service_time=self._service_time,
            directory=self._directory.path,
            watch=self._event,
            recorder=self._recorder,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupted, simulation, number)
        loop.add_signal_handler(signal.SIGHUP, simulation.tell_lead, Save())
        try:
            await simulation.run(lambda spec: actor_of(self._checked.loaded.program, spec))
        except Exception as error:
            raise self._cause(simulation.failed, error) from error
        finally:
            self._now = loop.time()

    def _cause(self, actor: str, error: Exception) -> ConvoyError:
        """The error that ends the run, in the words of a real one."""
        if isinstance(error, ConfigError):
            return error
        found = told(actor or "an actor", error)
        if not isinstance(found, RoleDied):
            return found
        logging.getLogger("convoy").error("%s failed", actor, exc_info=error)
        return RoleDied(f"{found}\n  its log: {self._directory.path / LOG}")

    def _event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        self._now = asyncio.get_running_loop().time()
        self._directory.event(actor, event, fields)
        self._console.event(actor, event, fields)

    def _interrupted(self, simulation: Simulation, number: signal.Signals) -> None:
        """The first signal winds the run down; the second ends it."""
        if self._signal:
            simulation.end()
            return
        self._signal = int(number)
        self._console.say(f"{number.name}: finishing what is under way and saving; once more to end at once")
        simulation.tell_lead(WindDown(reason=number.name))

    def _open_log(self) -> logging.Handler:
        handler = logging.FileHandler(self._directory.path / LOG)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        logging.getLogger().addHandler(handler)
        return handler
