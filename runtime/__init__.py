"""Convoy's runtime: moves messages between actors and looks after their processes. It knows nothing
of nets.

messages/          Messages: their classes, their wire format and their flow control
memory/            Memory that processes of one host share, and memory that a process keeps
transport/         Transports: the ways on which messages travel between actors
tracing/           The work of a run's actors over time, as a file that Perfetto and
                   chrome://tracing open
actors/            An actor, the process it lives in, and the way to its peers
compute/           Array work off the event loop, and how long it takes
config/            Reading and checking cluster.toml
plan/              The plan of a run, as data
drawing/           The plan of a run in words and pictures
machine/           The machine on which a process runs
serving/           The pages that a process serves over HTTP
cluster/           The life of the processes of a run: their start, their supervision and their end
queueing/          Predictions of how fast a cluster will be, from the times of its parts
simulation/        A whole cluster on one event loop, in real or virtual time
records/           The files that runs leave
pool/              A function called with many items, in the processes of a run
runs/              A run from its start to its end
report/            What is known of a run
page/              A report of runs as one HTML page, as a file or served while a run goes on
attached/          Access to a live run from outside its processes
recovery/          The runs of one `up` command
cli/               The commands that the user types, one in each file
actor_options      Options of an actor
extensions         Extensions from installed packages
errors             Every error that the runtime raises, with the remedy for its reader, and the
                   choice of the error that is shown if there are several
suggest            Suggestions of the nearest known name, which turn a typing mistake into a hint
regular            The opening of files that a user names: only regular files are opened
standard_streams   The standard streams of a command: they are open, and they show any text
heard_signals      The signals that a process may handle
terminal_text      Text that is safe for the user's terminal
reasons            Reasons for which the system refuses something, in words for the user
own_packages       Convoy's packages `ops`, `nets` and `roles`
defaults           Defaults of keys of cluster.toml that packages below the configuration also use
program_interface  The interface of a program to the runtime
counting           Numbers of things in words: "1 image", "2 images"
other_roles        A module `roles` of the user next to a script
user_code          The line of the user's code at which an error was raised, for messages that name
                   it first
typed_name         The name by which the user calls the command line, for messages that show a
                   command
data_waits         The name under which an actor's waits for its data are counted, next to its waits
                   for peers
device_place       The place of an array in the memory of a device that another process shares
durations          Durations for people, in the units of their size

A name is imported when it is first used. So role processes import no configuration, and `python -m
runtime` handles signals before it imports anything that takes time.
"""

# part of convoy-runtime

from __future__ import annotations

from importlib import import_module

from runtime import other_roles

other_roles.name_when_it_is_in_the_way()

TYPE_CHECKING = False  # the import of `typing` takes 4 ms
if TYPE_CHECKING:
    from runtime.actor_options import Peer
    from runtime.actors.actor import Actor
    from runtime.actors.conversation import Conversation, Standing
    from runtime.attached.attach import attach
    from runtime.errors import (
        ActorStopped,
        AskTimeout,
        ConfigError,
        ConvoyError,
        ItemFailed,
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
        GetWork,
        HandedOver,
        HandOver,
        Holders,
        Json,
        KeepState,
        KeptState,
        Message,
        PeerLost,
        Reached,
        Save,
        WindDown,
        WorkTaken,
        message,
    )
    from runtime.plan.topology import ActorSpec, Topology
    from runtime.pool.mapping import map  # noqa: A004  # as it is called: runtime.map
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
    "GetWork",
    "HandOver",
    "HandedOver",
    "Holders",
    "ItemFailed",
    "Json",
    "KeepState",
    "KeptState",
    "LaunchError",
    "Message",
    "MessageError",
    "Peer",
    "PeerLost",
    "ProgramFailed",
    "Reached",
    "Refused",
    "RoleDied",
    "Run",
    "Save",
    "Standing",
    "Topology",
    "WindDown",
    "WorkTaken",
    "attach",
    "launch",
    "map",
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
    "GetWork": "runtime.messages.message",
    "HandOver": "runtime.messages.message",
    "HandedOver": "runtime.messages.message",
    "Holders": "runtime.messages.message",
    "ItemFailed": "runtime.errors",
    "Json": "runtime.messages.message",
    "KeepState": "runtime.messages.message",
    "KeptState": "runtime.messages.message",
    "LaunchError": "runtime.errors",
    "Message": "runtime.messages.message",
    "MessageError": "runtime.errors",
    "Peer": "runtime.actor_options",
    "PeerLost": "runtime.messages.message",
    "ProgramFailed": "runtime.errors",
    "Reached": "runtime.messages.message",
    "Refused": "runtime.errors",
    "RoleDied": "runtime.errors",
    "Run": "runtime.runs.run",
    "Save": "runtime.messages.message",
    "Standing": "runtime.actors.conversation",
    "Topology": "runtime.plan.topology",
    "WindDown": "runtime.messages.message",
    "WorkTaken": "runtime.messages.message",
    "attach": "runtime.attached.attach",
    "launch": "runtime.runs.scripting",
    "map": "runtime.pool.mapping",
    "message": "runtime.messages.message",
    "run": "runtime.runs.scripting",
}


def __getattr__(name: str) -> object:
    if name in _PLACE_OF:
        # first: imported from within `runtime.messages` it would take 40 ms longer
        import_module("numpy")
        found = globals()[name] = getattr(import_module(_PLACE_OF[name]), name)
        return found
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
