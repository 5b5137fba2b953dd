"""What `up` and the agent of a machine say to one another. One agent per machine and run; it dials,
nobody dials it.

      up                              agent
       |   <------ Joined -----------   here I am, and this is what I have
       |   ------- Piece ----------->   plan.json
       |   ------- Private --------->   the keys of one of its processes
       |   ------- Orders ---------->   that was all; its program
       |   <------ Prepared --------   the folder and the nursery are there
       |   ------- Launch ---------->   a life of a process
       |   <------ Started ----------
       |   ------- Signal ---------->
       |   <------ Piece ------------   a log has grown, a file was written or removed
       |   ------- Got ------------->   so many pieces are copied: more may come
       |   <------ Exited -----------   after the last piece of its log
       |   <------ Leaving ----------   its machine is told to go (SIGTERM)
       |   ------- Close ----------->   the run is over
       |   <------ Closed -----------   after the last piece of all; both let go

Beat comes from both sides all the time. Problem ends the agent: it could not do what it was told.
"""

from __future__ import annotations

from runtime.messages.message import Array, Json, Message, message

UP = "up"  # the name of this end
GROWING = -1  # instead of how many bytes of a file follow: it is a log; it is there no more
GONE = -2
BEAT_SECONDS = 0.25


@message
class Joined(Message):
    """An agent is up. `cores`; bytes of `memory` and of `disk` that are free (-1: not known); its
    `address` on the way to `up`; `sources`: see facts."""

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
    """A file of the private folder. As an array: keys of many peers would not fit a header."""

    name: str
    data: Array


@message
class Orders(Message):
    """The plan and all keys are there."""

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
    """It is born; "" or why it could not be."""

    process: str
    incarnation: int
    error: str


@message
class Signal(Message):
    """Send a signal to a process and whatever it started."""

    process: str
    number: int


@message
class Exited(Message):
    """How a process ended: see `Launched.wait`, and in words."""

    process: str
    incarnation: int
    status: int
    how: str


@message
class Piece(Message):
    """Bytes of a file: `path` below the run directory, where they begin. `rest`: how many follow of
    a file that is copied whole; GROWING: a log, to which they are appended; GONE: its copy is to be
    removed."""

    path: str
    offset: int
    rest: int
    data: Array


@message
class Got(Message):
    """A piece was taken."""


@message
class Beat(Message):
    """Alive."""


@message
class Leaving(Message):
    """A signal tells the machine to go: it stays for so many `seconds` at most, or until Close."""

    seconds: float


@message
class Problem(Message):
    """Why the agent ends."""

    error: str


@message
class Close(Message):
    """Nothing more will be started: send what is left of the files, then end."""


@message
class Closed(Message):
    """Nothing more will come."""
