"""Messages with which a client inspects a live run. While no client looks, nothing of this is sent
or kept.

    client                supervisor              agent
       |  --- GetSnapshot ----------------------->   what do your actors do now?    <-- Snapshot
       |  --- ShowStacks ------->                    by a signal, which needs no event loop
       |  --- BeginTrace ------->   --- StartTrace ->   record what your actors do from now on
       |                            --- GetClock --->   to agents of other hosts    <-- ClockReading
       |  --- EndTrace --------->   --- StopTrace -->   write the rest                <-- Traced
"""

from __future__ import annotations

from runtime.messages.message import Array, Message, message


@message
class GetSnapshot(Message):
    """Ask an agent what the actors of its process do now."""


@message
class Snapshot(Message):
    """The state of a process's actors, as JSON in a uint8 array; see `actors.snapshot`. It is an
    array because a header could not hold the state of hundreds of actors."""

    state: Array


@message
class ShowStacks(Message):
    """Sent to the supervisor: have a process write the stacks of its threads into the file that
    `machine.stacks` names. Answered with Looked once the process was signalled."""

    process: str


@message
class BeginTrace(Message):
    """Trace every process for `iterations` iterations, or until EndTrace (0)."""

    iterations: int


@message
class EndTrace(Message):
    """Stop tracing, and make a file of the trace."""


@message
class Looked(Message):
    """The request was carried out. `lines` are shown to the user."""

    lines: tuple[str, ...]


@message
class StartTrace(Message):
    """Sent to an agent: start the `number`-th trace of the run."""

    number: int


@message
class StopTrace(Message):
    """Sent to an agent: stop tracing, and write the entries that are not written yet."""


@message
class Traced(Message):
    """An agent's answer to StopTrace: the bytes of its part of the trace."""

    size: int


@message
class GetClock(Message):
    """Sent to an agent: read your clock."""


@message
class ClockReading(Message):
    """An agent's answer to GetClock: the time of its event loop, in seconds."""

    now: float
