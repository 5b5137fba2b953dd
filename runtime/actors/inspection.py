"""What somebody who looks at a run asks of it. Nothing of it is sent, and nothing kept, while
nobody looks.

client                supervisor              agent
   |  --- GetSnapshot ----------------------->   what do your actors do now?    <-- Snapshot
   |  --- ShowStacks ------->                    by a signal, which needs no event loop
   |  --- BeginTrace ------->   --- StartTrace ->   note what they do from now on
   |                            --- GetClock --->   of processes on other hosts   <-- ClockReading
   |  --- EndTrace --------->   --- StopTrace -->   write the rest                <-- Traced
"""

from __future__ import annotations

from runtime.messages.message import Array, Message, message


@message
class GetSnapshot(Message):
    """What do the actors of this process do now?"""


@message
class Snapshot(Message):
    """JSON as uint8, see `actors.snapshot`: a header could not hold that of hundreds of actors."""

    state: Array


@message
class ShowStacks(Message):
    """Have a process write the stacks of its threads into the file that `machine.stacks` names.
    Answered by Done when it was told to."""

    process: str


@message
class BeginTrace(Message):
    """Trace every process: so many iterations, or until EndTrace (0)."""

    iterations: int


@message
class EndTrace(Message):
    """Trace no more, and make a file of it."""


@message
class Looked(Message):
    """It is so: lines for the person."""

    lines: tuple[str, ...]


@message
class StartTrace(Message):
    """To an agent: the `number`-th trace of the run."""

    number: int


@message
class StopTrace(Message):
    """To an agent: write what is not written yet."""


@message
class Traced(Message):
    """Of an agent: bytes of its part."""

    size: int


@message
class GetClock(Message):
    """To an agent."""


@message
class ClockReading(Message):
    """Of an agent: its loop time, in seconds."""

    now: float
