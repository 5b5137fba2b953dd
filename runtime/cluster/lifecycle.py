"""The life of a role process: the messages between its agent and the supervisor, and the order in
which they are legal.

      supervisor                         agent (one per process and life)
          |   <------- Hello ---------       sockets are open, program imported; again after a break
          |   -------- Directory ---->       all have sent Hello: the addresses of your peers
          |   <------- Ready ---------       actors are prepared (on_start)
          |   -------- Begin -------->       all are ready: inboxes open, run() begins
          |   <------- Heartbeat -----       from Hello on, every 0.25 s
          |   <------- EventReport ---       something for the journal and the live table
          |   <------- Finished ------       the lead actor's run() has returned
          |   <------- Failure -------       an actor failed
          |   <------- LinkLost ------       the connection to a peer broke
          |   <------- Left ----------       the process was told to go, and ends
          |   -------- Restarting --->       a peer has died and is started again
          |   -------- Gone --------->       a peer has died and will not be back
          |   -------- Halt --------->       stop your actors and exit

LIFE is the whole table of legal steps. Any other step is an error and changes nothing.

A process can be restarted (`revival`). Its peers get Restarting: their open asks end, and new
messages wait. The Hello of a higher incarnation is the step "reborn", and late messages of former
lives are refused. The process gets its own Directory and prepares while the others run. Once it is
ready, its peers get a second Directory with its new addresses, and answer it. Then it begins. If it
cannot be started again and is optional, the run goes on without it, and its peers get Gone.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Self

from runtime.errors import LaunchError, ProgramFailed
from runtime.messages.message import Json, Message, message
from runtime.user_code import told

FIRST = 1  # the incarnation of a process in its first life; each following one counts up


class LifeStage(Enum):
    """The stage of a process in its life."""

    STARTING = "starting"
    GREETED = "greeted"
    READY = "ready"
    RUNNING = "running"
    HALTING = "halting"
    GONE = "gone"


LIFE: dict[tuple[LifeStage, str], LifeStage] = {
    (LifeStage.STARTING, "hello"): LifeStage.GREETED,
    (LifeStage.GREETED, "ready"): LifeStage.READY,
    (LifeStage.READY, "begin"): LifeStage.RUNNING,
    **{(stage, "halt"): LifeStage.HALTING for stage in LifeStage if stage is not LifeStage.GONE},
    **{(stage, "exit"): LifeStage.GONE for stage in LifeStage},
    **{
        (stage, "reborn"): LifeStage.GREETED
        for stage in LifeStage
        if stage is not LifeStage.HALTING
    },
}


_AGENT = "/agent"


def agent_of(process: str) -> str:
    """The name of a process's agent actor."""
    return f"{process}{_AGENT}"


def is_agent(actor: str) -> bool:
    """Whether this is the name of an agent."""
    return actor.endswith(_AGENT)


@message
class Hello(Message):
    """A process has started: the addresses where it listens (see Endpoints) and the versions that
    it runs (see `versions.identity`). `host_name` is for people."""

    process: str
    incarnation: int
    pid: int
    host_name: str
    control: tuple[str, ...]
    bulk: tuple[str, ...]
    arena: str
    host: str
    metrics_address: str
    metrics_port: int
    versions: Json


@message
class Directory(Message):
    """The addresses of a process's peers, or of peers that were restarted: process -> {incarnation,
    actors, and the fields of Endpoints}. `more`: a further message with the rest of the peers
    follows before the process prepares."""

    peers: Json
    more: bool = False


@message
class Ready(Message):
    """The process's actors are prepared. `reads`: its data and files that must be the same on other
    machines, see `sameness`."""

    process: str
    reads: Json = field(default_factory=dict)


@message
class Begin(Message):
    """Every process is ready: open the inboxes."""


@message
class Heartbeat(Message):
    """The event loop of the process lives. Its last beat was `period` seconds ago.

    `progress` counts the messages that its actors have handled and the work that they have
    computed. `busy_seconds` is the age of the array work in progress (0: none), and `usual_seconds`
    is its usual duration. `actors`: name -> the result of Node.status. About once a second, `work`
    has the result of WorkSums.changed and `received` that of Node.received. `holds_lock`: the array
    work in progress may hold the interpreter's lock, so that no beat comes before it ends.
    """

    process: str
    period: float
    progress: int
    busy_seconds: float
    usual_seconds: float
    busy_with: str
    loop_lag: float
    actors: Json
    work: Json = field(default_factory=dict)
    received: Json = field(default_factory=dict)
    holds_lock: bool = False


@message
class EventReport(Message):
    """An event of an actor. `at` is loop time in seconds."""

    actor: str
    event: str
    fields: Json
    at: float


@message
class Restarting(Message):
    """A peer has died, and is started again. Open asks to its actors end, and messages to them wait
    until it is back."""

    process: str


@message
class Gone(Message):
    """A peer has died, and will not be back: the run goes on without it. Open asks to its actors
    end."""

    process: str


@message
class Finished(Message):
    """The lead actor is done."""

    process: str


@message
class Failure(Message):
    """An actor (or the process itself) failed. `cause` is "launch", "program" or "crash"."""

    process: str
    actor: str
    cause: str
    error: str

    @classmethod
    def of(cls, process: str, actor: str, error: BaseException) -> Self:
        """The report of an error."""
        cause = (
            "program"
            if isinstance(error, ProgramFailed)
            else "launch"
            if isinstance(error, LaunchError)
            else "crash"
        )
        return cls(process=process, actor=actor, cause=cause, error=told(error))


@message
class Left(Message):
    """The process was told to go by SIGTERM, and ends now. If the run can go on without it, its
    work is given up at once."""

    process: str


@message
class LinkLost(Message):
    """The connection from a process to one of its peers broke; messages may be lost. `life` is the
    incarnation of the peer, 0 if it is not known."""

    process: str
    peer: str
    life: int = 0


@message
class Halt(Message):
    """Stop your actors and exit."""

    reason: str
