"""The messages between `up` and the agent of a machine. There is one agent per machine and run. It
dials `up`; no process dials an agent.

      up                              agent
       |   <------ Joined -----------   the agent has started, with the facts of its machine
       |   ------- Piece ----------->   plan.json
       |   ------- Private --------->   the keys of one of its processes
       |   ------- Orders ---------->   plan and keys are complete; the program
       |   <------ Prepared --------   the folder and the nursery exist
       |   ------- Launch ---------->   a life of a process
       |   <------ Started ----------
       |   ------- Signal ---------->
       |   <------ Piece ------------   a log has grown, a file was written or removed
       |   ------- Got ------------->   a piece is copied: another may be sent
       |   <------ Exited -----------   after the last piece of its log
       |   <------ Leaving ----------   its machine is told to go (SIGTERM)
       |   ------- Close ----------->   the run is over
       |   <------ Closed -----------   after the last piece of all; both ends close

Both ends send Beat all the time. Problem ends the agent: it could not follow an order.
"""

from __future__ import annotations

from runtime.messages.message import Array, Json, Message, message

UP = "up"  # the name of this end
# values of `Piece.rest` instead of the number of bytes that follow
GROWING = -1  # the file is a log, to which the bytes are appended
GONE = -2  # the file was removed
BEAT_SECONDS = 0.25


@message
class Joined(Message):
    """An agent has started. `cores` are the cores that it may use. `memory` and `disk` are free
    bytes (-1: not known). `address` is its own address on the route to `up`. `sources` is the
    checksum of `versions.sources`."""

    machine: str
    host_name: str
    pid: int
    versions: Json
    sources: str
    cores: int
    memory: int
    disk: int
    address: str


@message
class Private(Message):
    """A file of the private folder. The content is an array, since the keys of many peers would not
    fit into a header."""

    name: str
    data: Array


@message
class Orders(Message):
    """The plan and all keys have been sent."""

    program: str


@message
class Prepared(Message):
    """Processes can be started."""


@message
class Launch(Message):
    """Start one life of a process."""

    process: str
    incarnation: int


@message
class Started(Message):
    """The process has started, or `error` says why it could not be started."""

    process: str
    incarnation: int
    error: str


@message
class Signal(Message):
    """Send a signal to a process and its children."""

    process: str
    number: int


@message
class Exited(Message):
    """A process has ended. `status` is explained at `Launched.wait`; `how` describes the end in
    words."""

    process: str
    incarnation: int
    status: int
    how: str


@message
class Piece(Message):
    """Bytes of a file. `path` is relative to the run directory, and `offset` is where the bytes
    begin. `rest` is the number of bytes that follow in a file that is copied whole. GROWING: the
    file is a log, to which the bytes are appended. GONE: the copy is to be removed."""

    path: str
    offset: int
    rest: int
    data: Array


@message
class Got(Message):
    """A piece was copied."""


@message
class Beat(Message):
    """The sender is alive."""


@message
class Leaving(Message):
    """A signal told the machine to go. It stays for at most so many `seconds`, or until Close."""

    seconds: float


@message
class Problem(Message):
    """The error that ends the agent."""

    error: str


@message
class Close(Message):
    """No more processes will be started: send the rest of the files, then end."""


@message
class Closed(Message):
    """No more messages will come."""
