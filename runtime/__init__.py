"""Convoy's runtime: moves messages between actors and looks after their processes. It knows nothing
of nets.

messages  memory  transport   what is said, as bytes; shared memory; the roads
tracing                       what actors did and when, as a file
actors  compute               an actor and the way to its peers; array work off the event loop
config  plan  drawing         cluster.toml; what will run, as data; the same for people
machine  serving              what the machine is on which a process runs; the pages that it serves
cluster                       the life of processes: agents, the supervisor, launchers
queueing                      how fast a cluster will be, from how long its parts take
simulation                    a cluster on one event loop, on virtual time
records                       the files that runs leave; which is the newest, which lives
runs  report  page            a run from its start to its end; what is known of it, also as a page
attached                      a live run, seen from outside of its processes
recovery                      runs that follow one another: after deaths, and when one is scaled
cli                           what the user types
options  extensions           typed options of roles; what installed packages bring
errors  suggest               every error; the nearest name
regular  terminal_text                 only regular files are opened; text for a terminal
reasons                       why the system refused something
hidden                        packages that others of their name hide

Everything is imported when it is asked for: role processes need no configuration, and `python -m
runtime` hears signals before it imports anything that takes time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.actors.actor import Actor
    from runtime.actors.conversation import Conversation, Standing
    from runtime.attached.attach import attach
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
    from runtime.messages.message import (
        Array,
        Envelope,
        GetHolders,
        GetReached,
        HandedOver,
        HandOver,
        Holders,
        Json,
        KeepState,
        KeptState,
        Message,
        Reached,
        Save,
        WindDown,
        message,
    )
    from runtime.plan.topology import ActorSpec, Topology
    from runtime.report.event_stream import Event
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
    "GetHolders",
    "GetReached",
    "HandOver",
    "HandedOver",
    "Holders",
    "Json",
    "KeepState",
    "KeptState",
    "LaunchError",
    "Message",
    "MessageError",
    "ProgramFailed",
    "Reached",
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

_PLACES = {
    "actors.actor": "Actor",
    "actors.conversation": "Conversation Standing",
    "errors": (
        "ActorStopped AskTimeout ConfigError ConvoyError LaunchError MessageError "
        "ProgramFailed Refused RoleDied"
    ),
    "messages.message": "Array Envelope GetHolders GetReached HandOver HandedOver Holders "
    "Json KeepState KeptState"
    " Message Reached Save WindDown message",
    "plan.topology": "ActorSpec Topology",
    "report.event_stream": "Event",
    "attached.attach": "attach",
    "runs.run": "Run",
    "runs.scripting": "launch run",
}
_PLACE_OF = {name: f"runtime.{place}" for place, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _PLACE_OF:
        # first: imported from within `runtime.messages` it takes 40 ms longer
        import_module("numpy")
        found = globals()[name] = getattr(import_module(_PLACE_OF[name]), name)
        return found
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
