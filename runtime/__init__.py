"""Convoy's runtime: moves messages between actors and looks after their processes. It knows nothing of nets.

messages  wire  credits        what is said, as bytes, and how much may be under way
transport/                     the roads: in-process, and over sockets (Unix, ZeroMQ)
actor  node  compute  metrics  an actor, the process it lives in, array work, numbers
topology  placing  plan        which actors, in which processes: plain data
lifecycle  agent  process      the life of a role process
supervision  supervisor        who counts as dead; starting and ending everything
launchers/                     where processes are started
config*  toml_*  program       cluster.toml and the module it names, every mistake at its line
clock  simulation              a whole cluster on one event loop, on virtual time
runs/                          a run as an object; its house: processes, this event loop, virtual time
rundir  events  console        what is known of a run: on disk, as a stream, on a terminal
forecast  layout  drawing      what will run: in words, as a drawing
checking  scripting            where a run begins: a file that is checked, a script
signals  up  cli               what the user types

Role processes need no configuration: what starts runs is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.actors.actor import Actor
from runtime.actors.conversation import Conversation, Standing
from runtime.errors import (
    ActorStopped,
    AskTimeout,
    ConfigError,
    ConvoyError,
    LaunchError,
    MessageError,
    ProgramFailed,
    Refused,
    RoleDied,
)
from runtime.messages.message import Array, Envelope, Json, Lost, Message, Save, WindDown, message
from runtime.plan.topology import ActorSpec, Topology

if TYPE_CHECKING:
    from runtime.report.events import Event
    from runtime.runs.attach import attach
    from runtime.runs.run import Run
    from runtime.runs.scripting import launch, run

__all__ = [
    "Actor",
    "ActorSpec",
    "ActorStopped",
    "Array",
    "AskTimeout",
    "ConfigError",
    "Conversation",
    "ConvoyError",
    "Envelope",
    "Event",
    "Json",
    "LaunchError",
    "Lost",
    "Message",
    "MessageError",
    "ProgramFailed",
    "Refused",
    "RoleDied",
    "Run",
    "Save",
    "Standing",
    "Topology",
    "WindDown",
    "attach",
    "launch",
    "message",
    "run",
]

_STARTING = {
    "Event": "report.events",
    "Run": "runs.run",
    "attach": "runs.attach",
    "launch": "runs.scripting",
    "run": "runs.scripting",
}


def __getattr__(name: str) -> Any:
    if name in _STARTING:
        from importlib import import_module

        return getattr(import_module(f"runtime.{_STARTING[name]}"), name)
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
