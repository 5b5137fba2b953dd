"""A role process, from its fork to its end.

The process imports the program, opens its sockets and metrics page, and starts its agent, which
takes part in the life described in `lifecycle`. Standard input is the launcher's lifeline: when it
closes, the process ends itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from runtime.actors.device_sharing import DeviceOpened, DeviceSharing
from runtime.actors.metrics import Metrics, Pages
from runtime.actors.node import Node
from runtime.cluster.agent import Agent
from runtime.cluster.lifecycle import FIRST, Failure, agent_of
from runtime.cluster.spawning import Spawning
from runtime.compute import threads
from runtime.compute.compute import ThreadCompute
from runtime.compute.emulated_device import Turns, device_of
from runtime.compute.service_times import Recorder
from runtime.errors import ConvoyError, LaunchError
from runtime.machine import descriptors, namespaces, private, stacks
from runtime.machine.loop import event_loop_factory
from runtime.machine.usable_cores import usable
from runtime.machine.versions import build, identity
from runtime.memory.arena import Arena
from runtime.memory.device_arena import DeviceArena
from runtime.plan import cores
from runtime.plan.program import actor_of, import_program, vocabulary_of
from runtime.plan.run_plan import MACHINE, RunPlan
from runtime.plan.topology import SUPERVISOR, ProcessSpec
from runtime.tracing.merging import part_of
from runtime.tracing.tracer import Tracer
from runtime.transport import Endpoints
from runtime.transport.inproc import InprocNetwork, InprocTransport
from runtime.transport.keys import Keys
from runtime.transport.sockets import SocketTransport

ORPHANED = 5  # exit status of a process whose launcher has died


def live(plan: RunPlan, directory: Path, name: str, incarnation: int) -> int:
    """Run this process of the run to its end and return its exit status. `incarnation` counts its
    lives."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, "utf-8")  # the name in `top`; Linux only
    stacks.answer(stacks.stacks_of(directory, name))  # before any other thread
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles Ctrl-C
    descriptors.more()
    planned = next(spec for spec in plan.placement.processes if spec.name == name)
    spec = cores.settled(planned, plan.placement, usable())
    threads.use(spec.threads, cores.free(spec, plan.placement, usable()))
    if spec.cores:
        # before the first thread is started: threads inherit the affinity
        os.sched_setaffinity(0, spec.cores)
    if spec.machine in plan.namespaces:
        namespaces.enter(plan.namespaces[spec.machine])
    threading.Thread(
        target=_lifeline, args=(plan.socket_directory,), name="lifeline", daemon=True
    ).start()
    try:
        keys = Keys.read(plan.key_file(name))
    except LaunchError as error:
        logging.getLogger("convoy").error("%s", error)  # noqa: TRY400  # a mistake of the launcher: no traceback
        return error.exit_code
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(_live(plan, spec, directory, incarnation, keys))


async def _live(
    plan: RunPlan, spec: ProcessSpec, directory: Path, incarnation: int, keys: Keys
) -> int:
    metrics = Metrics(observed=plan.observe)
    node = Node(spec.name, incarnation, ThreadCompute(), metrics)
    node.directory = directory
    node.lead = plan.placement.topology.lead
    recorder = Recorder() if plan.record_service_times else None
    if recorder is not None:
        node.on_work = recorder.note
    node.arena = Arena(spec.name) if plan.shared_memory else None
    device = DeviceArena()
    sharing = DeviceSharing(spec.name, device, plan.near(spec.name), agent_of)
    node.router.host_copies.sharing = sharing if sharing.near else None
    inside = InprocTransport(spec.name, node.deliver, node.reject, plan.limits, InprocNetwork())
    road = SocketTransport(
        spec.name,
        node.deliver,
        node.reject,
        plan.limits,
        incarnation=incarnation,
        bind=lambda lane: plan.bind_addresses(spec.name, lane),
        keys=keys,
        arena=node.arena,
        device=device,
    )
    sharing.shared = road.shared
    me = agent_of(spec.name)
    node.connect(spec.name, incarnation, await inside.open(), [*spec.actors, me], inside)
    dial = partial(node.connect, SUPERVISOR, FIRST, plan.supervisor, [SUPERVISOR], road)
    dial()
    pages = None
    try:
        cores.check(spec, usable())
        endpoints = await road.open()
        address = (
            plan.address(spec.machine) if plan.metrics_address == MACHINE else plan.metrics_address
        )
        metrics.of_process()
        metrics.info(
            "build",
            (
                "1; `sources` is a checksum of our sources and the program's, "
                "so that a change that is not committed shows."
            ),
            role="node",
            **build(plan.placement.topology.program),
        )
        if plan.observe:
            port = plan.metrics_port(spec.name)
            pages = Pages(
                metrics,
                address,
                port,
                plan.metrics_readers,
                plan.metrics_names,
                "metrics.process_ports",
            )
        spawning = _add_actors(node, plan, spec)
        page = (address, pages.port if pages else 0)
        agent = _agent(node, road, endpoints, plan, spec, page, dial, spawning)
        sharing.ask = partial(agent.ask, answer=DeviceOpened)
        leaving: list[asyncio.Task[None]] = []
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: leaving.append(asyncio.create_task(agent.leave()))
        )
        node.add(me, "agent", agent)
        await node.prepare([me])
        node.begin([me])
        if text := private.doubts():
            logging.getLogger("convoy").warning("%s", text)
        await agent.halted.wait()
        return 0
    except Exception as error:
        logging.getLogger("convoy").exception("%s could not start", spec.name)
        await node.send(me, SUPERVISOR, Failure.of(spec.name, spec.name, error))
        return error.exit_code if isinstance(error, ConvoyError) else 1
    finally:
        await node.stop()
        node.compute.close()
        await inside.close()
        await road.close()
        if recorder is not None:
            try:
                recorder.leave(directory, spec.name)
            except OSError:
                logging.getLogger("convoy").exception("%s: its service times are lost", spec.name)
        if node.arena is not None:
            node.arena.close()
        if pages is not None:
            pages.close()


def _add_actors(node: Node, plan: RunPlan, spec: ProcessSpec) -> Spawning:
    program = import_program(plan.placement.topology.program)
    node.router.vocabulary = vocabulary_of(program.roles, plan.placement.topology)
    spawning = node.children = Spawning(node, lambda: program.roles)
    turns = Turns()
    for actor in plan.placement.topology.actors:
        if actor.name in spec.actors:
            made = actor_of(program, actor, plan.files.get(spec.machine))
            node.add(actor.name, actor.role, made, device_of(actor.role, actor.emulated, turns))
    return spawning


def _agent(
    node: Node,
    road: SocketTransport,
    endpoints: Endpoints,
    plan: RunPlan,
    spec: ProcessSpec,
    page: tuple[str, int],
    dial: Callable[[], None],
    spawning: Spawning,
) -> Agent:
    return Agent(
        node,
        road,
        endpoints,
        actors=spec.actors,
        metrics=page,
        heartbeat_seconds=plan.heartbeat_seconds,
        versions={
            **identity(plan.placement.topology.program),
            "loop": type(asyncio.get_running_loop()).__module__,
            "host": platform.node(),
        },
        compares=len({other.machine for other in plan.placement.processes}) > 1,
        tracer=_tracers(plan, spec, node.directory),
        dial=dial,
        traces=plan.trace,
        learn=spawning.learn,
    )


def _tracers(plan: RunPlan, spec: ProcessSpec, directory: Path) -> Callable[[int], Tracer]:
    """Return a function that makes the tracer of the run's `number`-th trace."""
    planned = [process.name for process in plan.placement.processes if not process.number]
    place = len(planned) + spec.number if spec.number else 1 + planned.index(spec.name)
    now = asyncio.get_running_loop().time

    return lambda number: Tracer(
        part_of(directory, spec.name, number), spec.name, place, spec.actors, now
    )


def _lifeline(socket_directory: str) -> None:
    """Wait until the launcher's end of stdin closes, then end the process. This runs in a thread,
    which works even when the event loop is blocked."""
    while os.read(0, 4096):
        pass
    private.discard(Path(socket_directory))  # no other process is left to do it
    os._exit(ORPHANED)
