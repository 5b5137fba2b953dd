"""One run, from cluster.toml to exit code: read, plan, place, start, watch, end. The steps of `up` and `check`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import service_times, virtual
from runtime.arena import available
from runtime.compute import ThreadCompute
from runtime.config import ClusterConfig, Loaded, dump, load_with_program
from runtime.console import RunConsole
from runtime.errors import ConvoyError
from runtime.launchers import LocalLauncher, namespaces
from runtime.lifecycle import SUPERVISOR, Heartbeat
from runtime.metrics import Metrics, Pages, discovery
from runtime.node import Node
from runtime.plan import RunPlan
from runtime.process import INCARNATION, event_loop_factory
from runtime.rundir import RunDirectory, make_socket_directory
from runtime.supervision import Liveness
from runtime.supervisor import Supervisor, admitting_deliver
from runtime.topology import Placement, ProcessRule, ProcessSpec, group_into_processes
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport
from runtime.transport.zeromq import ZmqTransport
from runtime.versions import versions


@dataclass(frozen=True)
class Checked:
    """A configuration that was read, planned and placed without a mistake."""

    loaded: Loaded
    placement: Placement


def check(path: Path, overrides: Sequence[str] = ()) -> Checked:
    """Read cluster.toml, plan and place; starts nothing. ConfigError with every mistake."""
    loaded = load_with_program(path, overrides)
    topology = loaded.program.plan(loaded.config, loaded.options)
    return Checked(loaded, place(topology, loaded.config))


def place(topology: Any, config: ClusterConfig) -> Placement:
    """Put the actors into processes and the processes on machines, as cluster.toml says."""
    rules = [
        ProcessRule(rule.name, rule.machine, rule.actors, config.raw.place(("process", index, "actors")))
        for index, rule in enumerate(config.process)
    ]
    together = config.placement.processes == "one"
    groups = group_into_processes(topology, rules, config.machine[0].name, together)
    machines = {machine.name: machine for machine in config.machine}
    here = {name: [group for group in groups if group[1] == name] for name in machines}
    specs = []
    for name, machine, actors in groups:
        settings, crowd = machines[machine], here[machine]
        cores = settings.cores or os.cpu_count() or 1
        threads = max(1, cores // len(crowd)) if settings.threads == "auto" else settings.threads
        # two lanes, two ports per process
        port = settings.port + 2 * crowd.index((name, machine, actors)) if settings.port else 0
        specs.append(ProcessSpec(name, machine, actors, threads, port))
    return Placement(topology, tuple(specs))


def run(checked: Checked, console: RunConsole) -> int:
    """Run to the end; returns the exit code, having told the person everything."""
    config = checked.loaded.config
    if config.simulation.clock == "virtual":
        return virtual.run(checked, console)
    for machine, namespace in namespaces_of(config).items():
        namespaces.check(machine, namespace)
    directory = RunDirectory(Path(config.run.directory), config.run.name or config.program)
    sockets = make_socket_directory()
    console.say(f"run directory {directory.path}")
    try:
        directory.write("config.toml", dump(config, checked.loaded.options))
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            code = runner.run(_Run(checked, console, directory, sockets).live())
        if config.run.record_service_times:
            directory.write(service_times.FILE, service_times.as_text(service_times.gather(directory.path)))
        return code
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
        console.close()
        directory.close()


def namespaces_of(config: ClusterConfig) -> dict[str, str]:
    """Machine -> the network namespace that stands for it."""
    return {machine.name: machine.namespace for machine in config.machine if machine.namespace is not None}


class _Both:
    """Events and heartbeats go to the journal and to the person."""

    def __init__(self, directory: RunDirectory, console: RunConsole) -> None:
        self._watchers = (directory, console)

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        for watcher in self._watchers:
            watcher.event(actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        for watcher in self._watchers:
            watcher.beat(process, heartbeat)

    def failed(self, error: ConvoyError) -> None:
        for watcher in self._watchers:
            watcher.failed(error)


class _Run:
    def __init__(self, checked: Checked, console: RunConsole, directory: RunDirectory, sockets: Path) -> None:
        self._config = checked.loaded.config
        self._placement = checked.placement
        self._console = console
        self._directory = directory
        self._sockets = sockets
        self._namespaces = namespaces_of(self._config)
        self._signal = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def live(self) -> int:
        """Supervise until the end; an error is told in words."""
        config, metrics = self._config, Metrics()
        limits = Limits(config.links.credit_bytes, config.links.max_message_bytes)
        node = Node(SUPERVISOR, INCARNATION, ThreadCompute(), metrics)
        deliver = admitting_deliver(node, lambda: supervisor)
        road = ZmqTransport(
            SUPERVISOR,
            deliver,
            node.reject,
            limits,
            incarnation=INCARNATION,
            bind=lambda lane: f"ipc://{self._sockets}/{SUPERVISOR}.{lane}",
            on_link_lost=lambda process: supervisor.link_lost(process),
        )
        inside = InprocTransport(SUPERVISOR, node.deliver, node.reject, limits, InprocNetwork())
        watcher, liveness = _Both(self._directory, self._console), Liveness(**config.liveness.model_dump())
        launcher = LocalLauncher(self._directory.path)
        supervisor = Supervisor(node, road, self._placement, launcher, liveness, watcher)
        pages = None
        try:
            pages = Pages(metrics, config.metrics.address, config.metrics.port, sd=lambda: self._targets(supervisor))
            self._write_plan(await road.open(), limits)
            self._console.say(f"metrics    http://{config.metrics.address}:{pages.port}/sd lists every process")
            node.connect(SUPERVISOR, INCARNATION, await inside.open(), [SUPERVISOR], inside)
            node.add(SUPERVISOR, SUPERVISOR, supervisor)
            node.begin([SUPERVISOR])
            self._listen(supervisor)
            ended_by = await supervisor.supervise()
        except ConvoyError as error:  # nothing was started yet
            watcher.failed(error)
            ended_by = error
        finally:
            await node.stop()
            node.compute.close()
            await inside.close()
            await road.close()
            if pages is not None:
                pages.close()
        if ended_by is not None:
            return ended_by.exit_code
        return 128 + self._signal if self._signal else 0

    def _write_plan(self, endpoints: Endpoints, limits: Limits) -> None:
        plan = RunPlan(
            placement=self._placement,
            import_path=tuple(entry for entry in sys.path if entry),
            supervisor=endpoints,
            limits=limits,
            heartbeat_seconds=self._config.liveness.heartbeat_seconds,
            transport=self._config.links.transport,
            socket_directory=str(self._sockets),
            addresses={machine.name: machine.address for machine in self._config.machine},
            metrics_address=self._config.metrics.address,
            shared_memory=self._config.links.shared_memory and available() and not self._namespaces,
            record_service_times=self._config.run.record_service_times,
            namespaces=self._namespaces,
        )
        plan.write(self._directory.path)
        self._directory.write("versions.json", versions())

    def _targets(self, supervisor: Supervisor) -> list[dict[str, Any]]:
        """For Prometheus: every process that has said Hello."""
        found = []
        for spec in self._placement.processes:
            hello = supervisor.greetings.get(spec.name)
            if hello is not None:
                labels = {"process": spec.name, "machine": spec.machine, "run": self._directory.path.name}
                found.append((f"{self._config.metrics.address}:{hello.metrics_port}", labels))
        return discovery(found)

    def _listen(self, supervisor: Supervisor) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupted, supervisor, number)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(supervisor.save()))

    def _interrupted(self, supervisor: Supervisor, number: signal.Signals) -> None:
        """The first signal winds the run down; the second ends it."""
        if self._signal:
            supervisor.end_now()
            return
        self._signal = int(number)
        self._console.say(f"{number.name}: finishing what is under way and saving; once more to end at once")
        self._spawn(supervisor.wind_down(number.name))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
