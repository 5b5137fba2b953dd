"""The agent: one actor in each process that answers the supervisor and sends reports to it. See
`lifecycle`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import numpy as np

from runtime.actors.actor import Actor
from runtime.actors.device_sharing import OpenDevice
from runtime.actors.inspection import (
    ClockReading,
    GetClock,
    GetSnapshot,
    Snapshot,
    StartTrace,
    StopTrace,
    Traced,
)
from runtime.actors.node import Node
from runtime.actors.snapshot import snapshot
from runtime.cluster.lifecycle import (
    Begin,
    Directory,
    EventReport,
    Failure,
    Finished,
    Gone,
    Halt,
    Heartbeat,
    Hello,
    Left,
    LinkLost,
    Ready,
    Restarting,
)
from runtime.cluster.preparing import PREPARING, LoggedHold, LoggedPreparation, failed_preparation
from runtime.cluster.spawning import Link, Unlink
from runtime.cluster.warnings import WARNING, LoggedWarnings
from runtime.compute.compute import Item
from runtime.compute.work_sums import PROCESSOR, processor_seconds
from runtime.errors import ActorStopped, ConvoyError, MessageError
from runtime.machine.lost_calls import watch_lost_calls
from runtime.messages.message import Envelope, Message
from runtime.plan.topology import SUPERVISOR
from runtime.reasons import reason
from runtime.tracing.tracer import Tracer
from runtime.transport import Endpoints
from runtime.transport.sockets import SocketTransport

MAX_REPORTS = 10_000
TOLD_SECONDS = 2.0  # the longest wait of a library until its announcement is sent
LEAVE_SECONDS = 0.5  # for a process that was told to go to report it
AGAIN_SECONDS = 0.5  # between two calls of an `up` that does not answer yet
WORK_SECONDS = 1.0  # between two heartbeats with the durations of array work


class Agent(Actor):
    """Leads its process through its life.

    `halted` is set when the process may exit. `metrics` is the address and port of its page.
    `compares` is True if there are other machines, whose data must be the same. `tracer(number)`
    makes the tracer of the run's `number`-th trace. `traces` is True if the process is traced from
    the start. `dial()` makes new links to the supervisor. `learn(roles)` is called with new actors
    and their roles.
    """

    def __init__(
        self,
        node: Node,
        road: SocketTransport,
        endpoints: Endpoints,
        *,
        actors: tuple[str, ...],
        metrics: tuple[str, int],
        heartbeat_seconds: float,
        versions: dict[str, str],
        tracer: Callable[[int], Tracer],
        dial: Callable[[], None],
        compares: bool = False,
        traces: bool = False,
        learn: Callable[[Mapping[str, str]], None] = lambda roles: None,
    ) -> None:
        self._home = node
        self._road = road
        self._endpoints = endpoints
        self._actors = actors
        self._metrics = metrics
        self._heartbeat_seconds = heartbeat_seconds
        self._versions = versions
        self._compares = compares
        # events are dropped, counted, beyond MAX_REPORTS
        self._reports: asyncio.Queue[Message] = asyncio.Queue()
        self._linked: dict[str, int] = {}  # peer -> its incarnation
        self._told = False  # whether the addresses of all peers have arrived
        self._dial = dial
        self._cut_off = asyncio.Event()
        self._make_tracer = tracer
        self._traces = traces
        self._learn = learn
        self._tracer: Tracer | None = None
        self._holding: Item | None = None  # the work that may hold the interpreter's lock
        self._beaten = 0.0  # when the last beat was due
        self.halted = asyncio.Event()

    async def on_start(self) -> None:
        """Take over the node's reports, and the warnings that this process logs from now on."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._home.on_event = self._event
        self._home.on_failure = self._failed
        self._heard = (
            LoggedWarnings(self._warned),
            LoggedPreparation(self._prepared),
            LoggedHold(self._holds),
        )
        for handler in self._heard:
            logging.getLogger().addHandler(handler)
        self._end_watch = watch_lost_calls(
            self._loop, lambda error: self._failed(self._home.process, error)
        )
        self._road.on_link_lost = self._link_lost
        self._home.on_finished = lambda: self._reports.put_nowait(
            Finished(process=self._home.process)
        )
        self._lag = self.gauge("loop_lag_seconds", "How late the event loop served its last timer.")
        self._dropped = self.counter(
            "events_dropped", ("Events not reported because too many were queued.")
        )
        self._queue = self.gauge(
            "queue_bytes", ("Bytes sent by the process and not yet granted back.")
        )

    async def on_stop(self) -> None:
        """Stop forwarding log records, and end the trace."""
        for handler in self._heard:
            logging.getLogger().removeHandler(handler)
        await self._end_trace()

    async def run(self) -> None:
        """Greet the supervisor, then send reports and heartbeats until halted."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._greet())
            group.create_task(self._beat())
            group.create_task(self._report())

    async def on_directory(self, message: Directory, envelope: Envelope) -> None:
        """Link the peers and prepare the actors, since all processes have greeted. If some peers
        were restarted, link only these, and answer."""
        self._link(message.peers)
        if self._told or message.more:
            await self.reply(envelope, True)
            return
        self._told = True
        try:
            await self._home.prepare(self._actors)
            reads = await self._home.reads(self._actors) if self._compares else {}
        except Exception as error:  # noqa: BLE001  # a failed preparation is reported like any failure
            self._failed(
                self._home.process, failed_preparation(self._home.process, self._actors, error)
            )
        else:
            await self.tell(SUPERVISOR, Ready(process=self._home.process, reads=reads))

    def _link(self, peers: Mapping[str, Any]) -> None:
        for process, peer in peers.items():
            if process != self._home.process and peer["incarnation"] > self._linked.get(process, 0):
                self._linked[process] = peer["incarnation"]
                self._home.connect(
                    process, peer["incarnation"], Endpoints.of(peer), peer["actors"], self._road
                )

    async def on_link(self, message: Link, envelope: Envelope) -> bool:
        """Link a process that was started while the run goes on."""
        self._learn(message.roles)
        self._link(message.peers)
        return True

    async def on_open_device(self, message: OpenDevice, envelope: Envelope) -> None:
        """Open the memory of a peer on the device of this process."""
        await self.reply(envelope, await self._home.opened(message))

    async def on_unlink(self, message: Unlink, envelope: Envelope) -> bool:
        """Forget a peer that has ended in order."""
        self._home.lost(message.process, in_order=True)
        self._home.router.vocabulary.pop(message.process, None)  # its actor has the same name
        return True

    async def on_begin(self, message: Begin, envelope: Envelope) -> None:
        """Begin, since all processes are ready."""
        if self._traces:
            try:
                self._begin_trace(1)
            except OSError as error:
                self.log.warning(
                    "this process is not traced: %s: %s", error.filename, reason(error)
                )
        self._home.begin(self._actors)

    async def on_restarting(self, message: Restarting, envelope: Envelope) -> None:
        """End the open asks to a peer that has died, and let new messages to it wait."""
        self._home.lost(message.process, returns=True)

    async def on_gone(self, message: Gone, envelope: Envelope) -> None:
        """End everything that waits for a peer that has died."""
        self._home.lost(message.process)

    async def leave(self) -> None:
        """Report that the process was told to go, and let it exit."""
        with suppress(TimeoutError, ConvoyError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.tell(SUPERVISOR, Left(process=self._home.process))
        self.halted.set()

    async def on_halt(self, message: Halt, envelope: Envelope) -> None:
        """Stop the actors. The process exits when this is done."""
        self._end_watch()
        self.log.info("halting: %s", message.reason)
        await self._home.stop(self._actors)
        self.halted.set()

    # -- requests of observers

    async def on_get_snapshot(self, message: GetSnapshot, envelope: Envelope) -> None:
        """Answer with a snapshot of this process."""
        state = json.dumps(snapshot(self._home)).encode()
        await self.reply(envelope, Snapshot(state=np.frombuffer(state, np.uint8)))

    async def on_get_clock(self, message: GetClock, envelope: Envelope) -> None:
        """Answer with the time of this process's clock."""
        await self.reply(envelope, ClockReading(now=self.now()))

    async def on_start_trace(self, message: StartTrace, envelope: Envelope) -> None:
        """Start tracing the actors here."""
        await self._end_trace()
        try:
            self._begin_trace(message.number)
        except OSError as error:
            raise MessageError("no_trace", f"{error.filename}: {reason(error)}") from None
        await self.reply(envelope, Traced(size=0))

    async def on_stop_trace(self, message: StopTrace, envelope: Envelope) -> None:
        """Stop tracing the actors. Answered when the part is written."""
        await self.reply(envelope, Traced(size=await self._end_trace()))

    def _begin_trace(self, number: int) -> None:
        self._tracer = self._make_tracer(number)
        self._home.trace(self._tracer)

    async def _end_trace(self) -> int:
        tracer = self._tracer
        self._tracer = None
        if tracer is None:
            return 0
        self._home.trace(None)
        return await asyncio.to_thread(tracer.close)

    # -- inside

    def _hello(self) -> Hello:
        return Hello(
            process=self._home.process,
            incarnation=self._home.incarnation,
            pid=os.getpid(),
            host_name=socket.gethostname(),
            control=self._endpoints.control,
            bulk=self._endpoints.bulk,
            arena=self._endpoints.arena,
            host=self._endpoints.host,
            metrics_address=self._metrics[0],
            metrics_port=self._metrics[1],
            versions=self._versions,
        )

    async def _greet(self) -> None:
        """Send Hello, and repeat it over new links each time that the links to `up` are lost before
        the addresses of the peers arrived. Lost links are not remade by themselves, and a cable may
        have been unplugged for a moment."""
        while True:
            await self.tell(SUPERVISOR, self._hello())
            await self._cut_off.wait()
            if self._told:
                return
            await asyncio.sleep(AGAIN_SECONDS)
            self._cut_off.clear()
            self._dial()

    def _link_lost(self, peer: str) -> None:
        if peer == SUPERVISOR:
            self._cut_off.set()
        life = self._linked.get(peer, 0)
        self._reports.put_nowait(LinkLost(process=self._home.process, peer=peer, life=life))

    async def _beat(self) -> None:
        due = told = self._beaten = self.now()
        used = processor_seconds()  # seconds of processor time
        while True:
            due += self._heartbeat_seconds
            await asyncio.sleep(max(0.0, due - self.now()))
            lag = max(0.0, self.now() - due)
            due = self.now()
            self._lag.set(lag)
            self._queue.set(sum(self._road.queued_bytes().values()))
            work = {}
            received = {}
            if due - told >= WORK_SECONDS:
                used, before = processor_seconds(), used
                self.took(PROCESSOR, used - before)
                work = self._home.work.changed()
                received = self._home.received()
                told = due
            await self._tell_beat(due, lag, work, received)

    async def _tell_beat(
        self, at: float, lag: float, work: dict[str, Any], received: dict[str, Any]
    ) -> None:
        period = at - self._beaten
        self._beaten = at
        status = self._home.status()
        current = self._home.compute.current
        beat = Heartbeat(
            process=self._home.process,
            period=period,
            progress=self._home.compute.done + sum(entry["handled"] for entry in status),
            busy_seconds=self.now() - current.since if current else 0.0,
            usual_seconds=self._home.compute.usual_seconds(),
            busy_with=f"{current.actor} {current.label}" if current else "",
            loop_lag=lag,
            actors={entry["actor"]: entry for entry in status if entry["actor"] != self.name},
            work=work,
            received=received,
            holds_lock=current is not None and current is self._holding,
        )
        await self.tell(SUPERVISOR, beat)

    def _holds(self) -> None:
        """Send a beat before a library holds the interpreter's lock. Called in the thread of the
        library."""
        if threading.get_ident() == self._thread:
            return
        self._holding = self._home.compute.current
        beat = asyncio.run_coroutine_threadsafe(
            self._tell_beat(self._loop.time(), 0.0, {}, {}), self._loop
        )
        # the process ends, or its loop is overloaded
        with suppress(TimeoutError, CancelledError):
            beat.result(TOLD_SECONDS)

    async def _report(self) -> None:
        while True:
            report = await self._reports.get()
            try:
                await self.tell(SUPERVISOR, report)
            except MessageError as error:  # such as an event with more text than a header holds
                actor = report.actor if isinstance(report, EventReport) else self._home.process
                self._failed(actor, error)

    def _warned(self, text: str) -> None:
        self._logged(WARNING, {"text": text})

    def _prepared(self, how_far: dict[str, Any]) -> None:
        self._logged(PREPARING, how_far)

    def _logged(self, event: str, fields: dict[str, Any]) -> None:
        """Report an event; may be called from any thread."""
        said = {"process": self._home.process, **fields}
        self._loop.call_soon_threadsafe(self._event, self.name, event, said)

    def _event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        if self._reports.qsize() < MAX_REPORTS:
            self._reports.put_nowait(
                EventReport(actor=actor, event=event, fields=fields, at=self.now())
            )
        else:
            self._dropped.inc()

    def _failed(self, actor: str, error: BaseException) -> None:
        if isinstance(error, ActorStopped) and self.halted.is_set():
            return
        trace = "".join(traceback.format_exception(error))
        self.log.error("%s failed:\n%s", actor, trace)
        self._reports.put_nowait(Failure.of(self._home.process, actor, error))
