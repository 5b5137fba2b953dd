"""The life of a role process: the messages between its agent and the supervisor, and which may come when.

      supervisor                         agent (one per process)
          |   <------- Hello ---------       sockets are open, the program is imported
          |   -------- Directory ---->       everyone has said Hello: here is where your peers are
          |   <------- Ready ---------       actors are prepared (on_start)
          |   -------- Begin -------->       everyone is Ready: inboxes open, run() begins
          |   <------- Heartbeat -----       from Hello on, every half second
          |   <------- EventReport ---       something for the journal and the live table
          |   <------- Finished ------       the lead actor's run() has returned
          |   <------- Failure -------       an actor failed
          |   -------- Halt --------->       stop your actors and exit

LIFE is the whole table of legal steps; anything else is an error and changes nothing.
"""

from __future__ import annotations

from enum import Enum

from runtime.messages.message import Json, Message, message

FIRST = 1  # the incarnation of a process in its first life; each following one counts up


class Stage(Enum):
    """Where a process is in its life."""

    STARTING = "starting"
    GREETED = "greeted"
    READY = "ready"
    RUNNING = "running"
    HALTING = "halting"
    GONE = "gone"


LIFE: dict[tuple[Stage, str], Stage] = {
    (Stage.STARTING, "hello"): Stage.GREETED,
    (Stage.GREETED, "ready"): Stage.READY,
    (Stage.READY, "begin"): Stage.RUNNING,
    **{(stage, "halt"): Stage.HALTING for stage in Stage if stage is not Stage.GONE},
    **{(stage, "exit"): Stage.GONE for stage in Stage},
}


def agent_of(process: str) -> str:
    """The name of a process's agent actor."""
    return f"{process}/agent"


@message
class Hello(Message):
    """A process is up: where it listens and what it runs."""

    process: str
    incarnation: int
    pid: int
    host: str
    control: str
    bulk: str
    arena: str
    metrics_port: int
    versions: Json


@message
class Directory(Message):
    """Where a process finds its peers: process -> {incarnation, control, bulk, arena, actors}."""

    peers: Json


@message
class Ready(Message):
    """The process's actors are prepared."""

    process: str


@message
class Begin(Message):
    """Every process is ready: open the inboxes."""


@message
class Heartbeat(Message):
    """The event loop of the process lives; its last beat was `period` seconds ago.

    `progress` counts what its actors have handled and computed; `busy_seconds` is the age of the array work under way
    (0: none), `usual_seconds` what it usually takes. `actors`: name -> what Node.status says of it.
    """

    process: str
    period: float
    progress: int
    busy_seconds: float
    usual_seconds: float
    busy_with: str
    loop_lag: float
    actors: Json


@message
class EventReport(Message):
    """An event of an actor; `at` is loop time in seconds."""

    actor: str
    event: str
    fields: Json
    at: float


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


@message
class Halt(Message):
    """Stop your actors and exit."""

    reason: str
