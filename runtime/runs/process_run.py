"""A run whose actors live in processes: the resources that the launching process holds for it, from
its sockets to its metrics page.

The supervisor decides which processes count as dead, and what follows.
"""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from runtime.actors.inspection import BeginTrace, EndTrace, Looked, ShowStacks
from runtime.actors.metrics import Metrics, Pages, discovery
from runtime.actors.node import Node
from runtime.cluster.clients import Answer, Clients, Scale
from runtime.cluster.launcher import Early, LaunchPlan
from runtime.cluster.launchers import launcher_of
from runtime.cluster.lifecycle import FIRST, LifeStage
from runtime.cluster.operators.operator_server import OperatorServer
from runtime.cluster.run_tracing import Tracing
from runtime.cluster.supervising.growing import Growing
from runtime.cluster.supervising.sameness import UP
from runtime.cluster.supervising.supervision import Liveness
from runtime.cluster.supervising.supervisor import Supervisor
from runtime.cluster.warnings import WARNING
from runtime.compute import service_times
from runtime.compute.compute import ThreadCompute
from runtime.config.machines import Machine, machine_name
from runtime.errors import ConvoyError, LaunchError, RoleDied
from runtime.machine import descriptors
from runtime.machine.addresses import described, interfaces, is_loopback, on_the_way, only, towards
from runtime.machine.private import PrivateFolder
from runtime.machine.stacks import INTO_FILE
from runtime.machine.versions import build, identity
from runtime.memory.arena import Arena
from runtime.messages.message import Array, Envelope, Lane, Message
from runtime.page.live import LivePage
from runtime.plan.credentials import credentials, credentials_later
from runtime.plan.growth import Growth
from runtime.plan.placement import files_of, placed_later
from runtime.plan.program import program_here, vocabulary_of
from runtime.plan.roads import roads_of
from runtime.plan.run_plan import RunPlan, key_file
from runtime.plan.shared_devices import shared_devices
from runtime.plan.topology import SUPERVISOR, ActorSpec, Placement, ProcessSpec
from runtime.reasons import reason
from runtime.records.target_files import TargetFile
from runtime.report.run_metrics import RunMetrics
from runtime.runs import pages
from runtime.runs.continuing import Continuing
from runtime.runs.execution import Execution, ExecutionContext, Watchers
from runtime.runs.healing import Healing
from runtime.runs.live_machines import LiveMachines
from runtime.runs.observation import Observation
from runtime.serving.visits import LastLook
from runtime.transport import Release
from runtime.transport.inproc import InprocNetwork, InprocTransport
from runtime.transport.sockets import SocketTransport

R = TypeVar("R")
ENDING = (LifeStage.HALTING.value, LifeStage.GONE.value)


class ProcessExecution(Execution):
    """An execution in processes. `early`: processes that were started before the configuration was
    read, see LaunchPlan. `shares`: this process shares memory with the others of this host."""

    _private: PrivateFolder | None = None
    _observation: Observation | None = None
    _pages: Pages | None = None
    _report: LivePage | None = None
    _target_file: TargetFile | None = None

    def __init__(
        self, site: ExecutionContext, early: Early | None = None, *, shares: bool = False
    ) -> None:
        placement = site.placement
        config = site.config
        directory = site.directory
        self._site = site
        self._growth = Growth(placement, self._placed_later)
        self._config = config
        self._directory = directory
        self._limits = site.limits
        self._roads = roads_of(placement, config)
        self._sockets = Path()  # no folder until `open`
        self._here = ""  # the address by which other hosts reach this one
        self._keys = credentials(placement, encrypted=self._roads.encrypted)
        self._node = Node(SUPERVISOR, FIRST, ThreadCompute(), Metrics(observed=config.run.observe))
        arena = Arena(SUPERVISOR) if shares and self._roads.shared_memory else None
        self._node.arena = arena
        self._road = SocketTransport(
            SUPERVISOR,
            self._deliver,
            self._node.reject,
            self._limits,
            incarnation=FIRST,
            bind=self._bind,
            keys=self._keys[SUPERVISOR],
            on_link_lost=self._link_lost,
            arena=arena,
        )
        self._inside = InprocTransport(
            SUPERVISOR, self._node.deliver, self._node.reject, self._limits, InprocNetwork()
        )
        used = {spec.machine for spec in placement.processes}
        machines = tuple(machine for machine in config.machine if machine.name in used)
        plan = LaunchPlan(
            directory.path, placement.topology.program, machines, early, self._keys, config.launcher
        )
        launcher = launcher_of(config.launcher.kind)(plan)
        liveness = Liveness(**config.liveness.model_dump(), grace_seconds=launcher.grace)
        self._watchers = Watchers(site.watcher)
        self._supervisor = Supervisor(
            self._node, self._road, placement, launcher, liveness, self._watchers
        )
        self.began = self._supervisor.began
        self._supervisor.supervised_run.growing = Growing(
            self._supervisor, self._growth, self._prepare, self._discard
        )
        self.healing = Healing(self._supervisor) if config.heals else None
        self._tracing = Tracing(
            self._supervisor,
            self._supervisor.roll,
            placement,
            directory.path,
            config.run.trace,
            self._watchers.event,
        )
        changing = LiveMachines(self._supervisor.lives, directory.path.name)
        self._continuing = Continuing(
            changing.change, site.scale, self._supervisor.save, self._watchers.event
        )
        launcher.on_leaving = self._continuing.machine_leaves
        answers: dict[type[Message], Answer] = {
            Scale: self._continuing.scale,
            ShowStacks: self._show_stacks,
            BeginTrace: self._begin_trace,
            EndTrace: self._end_trace,
        }
        self._clients = Clients(
            self._node, self._supervisor, self.began, self._supervisor.known, self._end, answers
        )
        self._desk = OperatorServer(
            directory.path, site.cards, self._clients.take, self._node.reject, self._clients.lost
        )
        self._clients.read_out = self._desk.read_out
        self._watchers.add(self._clients)
        self._show_run()
        self._watchers.add(self._tracing)
        self._lingers = LastLook(self._tell_of_lingering)

    async def open(self) -> None:
        """Listen, and write down what every process must know. Raises LaunchError if the port of
        the metrics is taken, or another host cannot be reached."""
        self._here = self._address_here()
        descriptors.more()
        self._private = PrivateFolder.make()
        self._sockets = self._private.path
        for spec in self.placement.processes:
            self._keys[spec.name].write(key_file(self._sockets, spec.name))
        if text := self._roads.doubts:
            self._warn(text)
        if self._config.run.observe:
            self._serve_pages()
        self._endpoints = await self._road.open()
        self._plan().write(self._directory.path)
        self._node.connect(SUPERVISOR, FIRST, await self._inside.open(), [SUPERVISOR], self._inside)
        topology = self.placement.topology
        if (program := program_here(topology.program)) is not None:
            self._node.router.vocabulary = vocabulary_of(program.roles, topology)
        self._node.add(SUPERVISOR, SUPERVISOR, self._supervisor)
        self._node.begin([SUPERVISOR])
        self.operators_at = await self._desk.open(self._config.operators)
        # processes on this machine are forked from one nursery
        if not all(map(self._config.is_here, self._config.machine)):
            mine = await asyncio.to_thread(identity, topology.program)
            self._supervisor.beginning.sameness.runs(UP, platform.node(), mine)
        self._observation = Observation(
            self._site, self._supervisor.gauge, ThreadCompute(), self._watchers.event
        )
        self._watchers.add(self._observation)

    def _warn(self, text: str) -> None:
        self._watchers.event(SUPERVISOR, WARNING, {"text": text})

    def _serve_pages(self) -> None:
        metrics = self._config.metrics
        address = pages.address_of(self._config, self._here)
        names = pages.names_of(self._config)
        program = self.placement.topology.program
        now = asyncio.get_running_loop().time
        self._report = pages.live_page(self._config, self._directory.path, program, address, now)
        numbers = self._node.metrics
        more = {"report": self._report}
        self._pages = Pages(
            numbers,
            address,
            metrics.port,
            metrics.readers,
            names,
            applications=more,
            sd=self._targets,
        )
        self.metrics_url = f"http://{address}:{self._pages.port}/sd"
        self.report_url = f"http://{address}:{self._pages.port}/report{self._report.query}"
        self._target_file = pages.target_file(
            self._config, self._directory.path.name, self._targets, self._warn
        )

    async def supervise(self) -> ConvoyError | None:
        error: ConvoyError | None = None
        try:
            error = await self._supervisor.supervise()
            return error
        finally:
            self._run_metrics.ended()
            follows = self._continuing.done or (
                self._config.recovery.restarts > 0 and isinstance(error, RoleDied)
            )
            self._lingers.seconds = 0.0 if follows else self._config.metrics.linger_seconds
            await self._clients.close()
            await self._desk.close()
            await self._continuing.close()

    async def _end(self, now: bool) -> None:
        """End the run for a client."""
        self.asked_to_end = True
        if now:
            self.end_now()
        else:
            await self.wind_down("asked to from outside")

    async def _show_stacks(self, wanted: ShowStacks) -> Looked:
        self._supervisor.signal(wanted.process, INTO_FILE)
        return Looked(lines=())

    async def _begin_trace(self, wanted: BeginTrace) -> Looked:
        await self.began.wait()
        return await self._tracing.begin(wanted.iterations)

    async def _end_trace(self, wanted: EndTrace) -> Looked:
        return await self._tracing.end()

    def _deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        """Deliver a message. The first message of a process of the run links it, and is then judged
        like any other. Messages of clients are relayed."""
        if not self._clients.take(envelope, release, self._road):
            self._supervisor.beginning.admit(envelope)
            self._node.deliver(envelope, size, release)

    def _link_lost(self, process: str) -> None:
        self._supervisor.link_lost(process)
        self._clients.lost(process)

    async def tell(self, actor: str, message: Message) -> None:
        await self._supervisor.tell(actor, message)

    async def ask(self, actor: str, message: Message, answer: type[R], timeout: float | None) -> R:
        return await self._supervisor.ask(actor, message, answer, timeout=timeout)

    def memory(self, size: int) -> Array:
        return self._node.memory(size)

    async def wind_down(self, reason: str) -> None:
        self._lingers.stop()
        await self._supervisor.wind_down(reason)

    async def save(self) -> None:
        await self._supervisor.save()

    def end_now(self) -> None:
        self.ended_now |= not self._supervisor.outcome.done()
        self._lingers.stop(for_good=True)
        self._supervisor.end_now()

    def statuses(self) -> dict[str, dict[str, Any]]:
        return dict(self._supervisor.statuses)

    async def close(self) -> None:
        await self._tracing.close()
        await self._desk.close()  # in case the run was never supervised
        if self._observation is not None:
            await self._observation.close()
        await self._node.stop()
        self._node.compute.close()
        await self._inside.close()
        await self._road.close()
        if self._node.arena is not None:
            self._node.arena.close()
        if self._pages is not None:
            await self._lingers.at(self._pages.visits)
            if self._target_file is not None:
                self._target_file.close()
            self._pages.close()
        if self._report is not None:
            self._report.close()
        if self._private is not None:
            self._private.remove()
        if self._config.run.record_service_times:
            times = service_times.gather(self._directory.path)
            self._directory.write(service_times.FILE, service_times.as_text(times))

    def _address_here(self) -> str:
        """Return the address by which the other hosts of the run reach this one; "" if there are
        none."""
        far = self._roads.far
        engine = self._config.launcher.ray
        if not far:
            return ""
        if self._config.launcher.address:
            return self._config.launcher.address
        ways = (
            on_the_way(machine.address, machine_name(machine.host or machine.name))
            for machine in far
        )
        # a loopback address is that of this host's own name; if there are others, use those
        well = (way for way in ways if way and not (is_loopback(way) and len(far) > 1))
        near = towards(engine.host) if engine is not None and engine.host else ""
        found = next(filter(None, chain(well, (near, only()))), "")
        if not found:
            first = far[0]
            text = (
                f"machine '{first.name}' at {first.address} cannot be reached from here: "
                "no network route leads there"
            )
            what = (
                "set launcher.address to the address by which others reach this host: "
                f"{described(interfaces())}"
            )
            raise LaunchError(f"{text}; {what}")
        return found

    def _bind(self, lane: Lane) -> tuple[str, ...]:
        """Return the addresses at which the supervisor listens."""
        first = self._config.launcher.port
        port = first + 1 + (lane == "bulk") if first else "*"  # agents dial the first port
        far = (f"{self._roads.scheme}://{self._here}:{port}",) if self._here else ()
        return (f"unix://{self._sockets}/{SUPERVISOR}.{lane}", *far)

    def _address_of(self, machine: Machine) -> str:
        """Return the address at which a machine's processes listen. A loopback address belongs to
        this host, which other hosts reach by another address."""
        return self._here if self._here and is_loopback(machine.address) else machine.address

    @property
    def placement(self) -> Placement:
        """The present actors and processes of the run."""
        return self._growth.placement

    def _placed_later(
        self, actor: ActorSpec, linked: Sequence[str], placement: Placement
    ) -> ProcessSpec:
        return placed_later(actor, linked, placement, self._config)

    def _prepare(self, spec: ProcessSpec) -> None:
        """Write down what a process must know that is started while the run goes on."""
        keys = self._keys[spec.name] = credentials_later(self._keys[SUPERVISOR])
        try:
            keys.write(key_file(self._sockets, spec.name))
            self._plan().write(self._directory.path)
        except OSError as error:
            raise LaunchError(f"{error.filename}: {reason(error)}") from None

    def _discard(self, spec: ProcessSpec) -> None:
        """Remove what belonged to a process that has ended. The plan loses it too."""
        self._keys.pop(spec.name, None)
        files = [key_file(self._sockets, spec.name)]
        files += [self._sockets / f"{spec.name}.{lane}" for lane in ("control", "bulk")]
        try:
            for path in files:
                path.unlink(missing_ok=True)
            self._plan().write(self._directory.path)
        except OSError as error:
            text = f"{error.filename}: {reason(error)}: it still names process {spec.name}"
            self._watchers.event(SUPERVISOR, WARNING, {"text": text})

    def _plan(self) -> RunPlan:
        config = self._config
        return RunPlan(
            placement=self.placement,
            import_path=tuple(entry for entry in sys.path if entry),
            supervisor=self._endpoints,
            limits=self._limits,
            heartbeat_seconds=config.liveness.heartbeat_seconds,
            transport=self._roads.transport,
            socket_directory=str(self._sockets),
            addresses={machine.name: self._address_of(machine) for machine in config.machine},
            metrics_address=config.metrics.address,
            metrics_readers=config.metrics.readers,
            metrics_names=pages.names_of(config),
            metrics_ports=config.metrics.process_ports,
            shared_memory=self._roads.shared_memory,
            scheme=self._roads.scheme,
            record_service_times=config.run.record_service_times,
            namespaces={
                machine.name: machine.namespace for machine in config.machine if machine.namespace
            },
            files=files_of(config),
            devices=shared_devices(self.placement.topology, config),
            # later processes join a trace that is under way, see `Tracing`
            trace=config.run.trace > 0 and not self.began.is_set(),
            observe=config.run.observe,
        )

    def _targets(self) -> list[dict[str, Any]]:
        """Return the targets for Prometheus: this process, and every process of the run that has
        greeted and is not ending. The list is empty once the end of the run was read."""
        if self._lingers.was_seen:
            return []
        run = self._directory.path.name
        here = self.metrics_url.removeprefix("http://").removesuffix("/sd")
        found = [(here, {"process": UP, "machine": platform.node(), "run": run})]
        stages = self._stages()
        for spec in self.placement.processes:
            hello = self._supervisor.roll.greetings.get(spec.name)
            if hello is not None and stages.get(spec.name) not in (None, *ENDING):
                labels = {"process": spec.name, "machine": spec.machine, "run": run}
                found.append((f"{hello.metrics_address}:{hello.metrics_port}", labels))
        return discovery(found)

    def _tell_of_lingering(self) -> None:
        until = "every regular reader of its metrics has seen the end; Ctrl-C ends the wait"
        self._watchers.event(
            SUPERVISOR, "stays", {"until": until, "seconds": self._lingers.seconds}
        )

    def _stages(self) -> dict[str, str]:
        return {name: facts["stage"] for name, facts in self._supervisor.known()[0].items()}

    def _show_run(self) -> None:
        """Show on the metrics page what this process is, and the state of the run."""
        metrics = self._node.metrics
        topology = self.placement.topology
        metrics.of_process()
        metrics.info(
            "build",
            (
                "1; `sources` is a checksum of our sources and the program's, "
                "so that a change that is not committed shows."
            ),
            role="node",
            **build(topology.program),
        )
        self._run_metrics = RunMetrics(
            metrics,
            topology.lead,
            self._stages,
            self._site.restarts,
            program=topology.program,
            directory=self._directory.path.name,
        )
        self._watchers.add(self._run_metrics)
        lost = metrics.counter(
            "disk_errors",
            "What could not be written. `journal`: events that are lost (page of `up`).",
            role=SUPERVISOR,
            actor=SUPERVISOR,
            what="journal",
        )
        tell = self._directory.on_trouble

        def count(text: str) -> None:
            lost.inc()
            tell(text)

        self._directory.on_trouble = count
