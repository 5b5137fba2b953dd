"""A run on the virtual clock: the same placement, actors and messages on one event loop, as a model
of a cluster.

The run directory is like that of a real run. Its journal has virtual seconds, and repeats exactly,
to the last byte.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

from runtime.cluster.warnings import WARNING, LoggedWarnings
from runtime.compute import threads
from runtime.compute.compute import Compute, InlineCompute
from runtime.compute.service_times import FILE, Recorder, ServiceTimes, as_text
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError, ConvoyError, Deadlock, RoleDied
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec
from runtime.runs.execution import ExecutionContext
from runtime.runs.loop_run import HERE, LoopExecution, told
from runtime.simulation.clock import VirtualTimeLoop
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork
from runtime.transport.network_model import LinkRule

LOG = "convoy.log"
MOST_LISTED = 8  # links listed in an error


def planned(
    placement: Placement, config: ClusterConfig
) -> Callable[[ExecutionContext], VirtualExecution]:
    """Return a function that makes the execution that [simulation] describes. Raises ConfigError if
    [simulation] has mistakes."""
    network = network_of(placement, config)
    service_time = service_time_of(placement, config)
    return lambda site: VirtualExecution(site, network, service_time)


def network_of(placement: Placement, config: ClusterConfig) -> InprocNetwork:
    """Make the network that [simulation] describes."""
    wanted = config.simulation
    interfaces = None
    if wanted.interfaces != "link":
        interfaces = {spec.name: _interface(spec, config) for spec in placement.processes}
    links = tuple(_link(pattern, placement, config) for pattern in wanted.links)
    return InprocNetwork(wanted.latency, float(wanted.bytes_per_second or 0), interfaces, links)


def _interface(spec: ProcessSpec, config: ClusterConfig) -> str:
    """Return the name of the network interface of a process."""
    return spec.machine if config.simulation.interfaces == "machine" else spec.name


def _link(pattern: str, placement: Placement, config: ClusterConfig) -> LinkRule:
    """Return an exception of [simulation.links] as a rule. Raises ConfigError if the pattern is not
    of the form SENDER -> RECEIVER or fits no link."""
    if placement.has_link(pattern):
        sender, _, receiver = (word.strip() for word in pattern.partition("->"))
        rules = config.simulation.links[pattern]
        return LinkRule(sender, receiver, rules.latency, rules.bytes_per_second)
    known = placement.pairs()
    listed = ", ".join(f"{a} -> {b}" for a, b in known[:MOST_LISTED]) + (
        ", ..." if len(known) > MOST_LISTED else ""
    )
    text = f"fits no link between processes, expected SENDER -> RECEIVER, such as {listed}"
    raise ConfigError([config.raw.problem(("simulation", "links", pattern), text).text])


class RoleTimes:
    """The service times of actors by their roles. `roles`: actor -> its role."""

    def __init__(self, times: ServiceTimes, roles: dict[str, str]) -> None:
        self._times = times
        self.roles = roles

    def __repr__(self) -> str:
        return f"<service times of {len(self.roles)} actors>"

    def __call__(self, actor: str, label: str) -> float:
        """Return the seconds of the actor's next piece of work with this label."""
        return self._times.seconds(actor, self.roles[actor], label)


def service_time_of(placement: Placement, config: ClusterConfig) -> RoleTimes | None:
    """Return the service time of array work that is really computed. None: it takes no time. Raises
    ConfigError if the profile is wrong."""
    wanted = config.simulation
    if wanted.service_times is None:
        return None
    times = ServiceTimes.read(config.raw.base / wanted.service_times, wanted.seed)
    roles = {actor.name: actor.role for actor in placement.topology.actors}
    return RoleTimes(times, roles)


class VirtualExecution(LoopExecution):
    """An execution on virtual time, with a network and service times. A hang is an error. Real
    seconds have no influence."""

    observes: type[Compute] = InlineCompute

    def __init__(
        self, site: ExecutionContext, network: InprocNetwork, service_time: RoleTimes | None
    ) -> None:
        self._network = network
        self._service_time = service_time
        self._recorder = Recorder() if site.config.run.record_service_times else None
        super().__init__(site)

    def _hosted(self) -> Simulation:
        site = self._site
        return Simulation(
            site.placement,
            network=self._network,
            limits=site.limits,
            service_time=self._service_time,
            directory=site.directory.path,
            watch=self._watchers.event,
            recorder=self._recorder,
            place=self._placed_later,
        )

    def _placed_later(
        self, actor: ActorSpec, linked: Sequence[str], placement: Placement
    ) -> ProcessSpec:
        spec = super()._placed_later(actor, linked, placement)
        if self._network.interfaces is not None:
            self._network.interfaces[spec.name] = _interface(spec, self._site.config)
        if self._service_time is not None:
            self._service_time.roles[actor.name] = actor.role
        return spec

    async def open(self) -> None:
        """Open the run directory's files and the log; see Execution.open."""
        threads.release()
        directory = self._site.directory
        placement = json.loads(self._site.placement.to_json())
        directory.write("plan.json", {"clock": "virtual", "placement": placement})
        self._log = logging.FileHandler(directory.path / LOG)
        self._log.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self._warnings = LoggedWarnings(
            lambda text: self._site.watcher.event(HERE, WARNING, {"text": text})
        )
        for handler in (self._log, self._warnings):
            logging.getLogger().addHandler(handler)
        _loop().on_deadlock = self._stuck
        await super().open()

    async def close(self) -> None:
        """Close the run, and write the recorded service times; see Execution.close."""
        await super().close()
        loop = _loop()
        directory = self._site.directory
        loop.on_deadlock = lambda error: False
        self.summary = f"simulated {loop.time():.6g} s in {directory.age:.3g} s"
        if self._recorder is not None:
            directory.write(FILE, as_text(self._recorder.table()))
        for handler in (self._log, self._warnings):
            logging.getLogger().removeHandler(handler)
            handler.close()

    def _begin(self) -> None:
        """Begin without an event in the journal, which has only the events of actors."""
        self._cluster.begin()
        self.began.set()

    def _stuck(self, error: Deadlock) -> bool:
        first = not self._outcome.done()
        self._end(error)
        return first

    def _told(self, actor: str, error: Exception) -> ConvoyError:
        if isinstance(error, ConfigError):
            return error
        found = told(actor, error)
        if not isinstance(found, RoleDied):
            return found
        logging.getLogger("convoy").error("%s failed", actor, exc_info=error)
        made = RoleDied(f"{found}\n  its log: {self._site.directory.path / LOG}")
        made.__cause__ = error
        return made


def _loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop
