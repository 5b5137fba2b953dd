"""Convoy's runtime: moves messages between actors and looks after their processes. It knows nothing
of nets.

messages/          What actors say
memory/            Memory: what processes of one host share, what a process keeps
transport/         The roads between actors
tracing/           What the actors of a run did and when, as a file that Perfetto and
                   chrome://tracing open
actors/            An actor, the process it lives in, and the way to its peers
compute/           Array work off the event loop
config/            Reading and checking cluster.toml
plan/              The plan of a run, as data
drawing/           A plan for people, in words and pictures
machine/           The machine on which a process runs
serving/           The pages that a process serves over HTTP
cluster/           The life of the processes of a run: their start, their supervision and their end
queueing/          How fast a cluster will be, from how long its parts take
simulation/        A cluster on one event loop
records/           The files that runs leave
runs/              A run from its start to its end
report/            What is known of a run
page/              A report of runs as one HTML page, as a file or served while a run goes on
attached/          A live run, seen from outside of its processes
recovery/          The runs of one `up` command
cli/               What the user types: a command a file
actor_options      Options of an actor
extensions         What installed packages bring
errors             Every error the runtime raises, drawn by what the reader can do about it, and
                   which of several is told
suggest            The nearest name: turns a typing mistake into a hint
regular            The one door to files that a person names
terminal_text      Text for the person's terminal
reasons            Why the system refused something, in words for people
hidden             Is one of Convoy's packages hidden by something else of its name?
defaults           Defaults of keys of cluster.toml that rooms below the configuration need as well
program_interface  What a program offers to the runtime: the one list of it, with the defaults

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

# written from the imports above by `python -m tests.house --write`
_PLACE_OF = {
    "Actor": "runtime.actors.actor",
    "ActorSpec": "runtime.plan.topology",
    "ActorStopped": "runtime.errors",
    "Array": "runtime.messages.message",
    "AskTimeout": "runtime.errors",
    "ConfigError": "runtime.errors",
    "Conversation": "runtime.actors.conversation",
    "ConvoyError": "runtime.errors",
    "Envelope": "runtime.messages.message",
    "Event": "runtime.report.event_stream",
    "GetHolders": "runtime.messages.message",
    "GetReached": "runtime.messages.message",
    "HandOver": "runtime.messages.message",
    "HandedOver": "runtime.messages.message",
    "Holders": "runtime.messages.message",
    "Json": "runtime.messages.message",
    "KeepState": "runtime.messages.message",
    "KeptState": "runtime.messages.message",
    "LaunchError": "runtime.errors",
    "Message": "runtime.messages.message",
    "MessageError": "runtime.errors",
    "ProgramFailed": "runtime.errors",
    "Reached": "runtime.messages.message",
    "Refused": "runtime.errors",
    "RoleDied": "runtime.errors",
    "Run": "runtime.runs.run",
    "Save": "runtime.messages.message",
    "Standing": "runtime.actors.conversation",
    "Topology": "runtime.plan.topology",
    "WindDown": "runtime.messages.message",
    "attach": "runtime.attached.attach",
    "launch": "runtime.runs.scripting",
    "message": "runtime.messages.message",
    "run": "runtime.runs.scripting",
}


def __getattr__(name: str) -> Any:
    if name in _PLACE_OF:
        # first: imported from within `runtime.messages` it takes 40 ms longer
        import_module("numpy")
        found = globals()[name] = getattr(import_module(_PLACE_OF[name]), name)
        return found
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
