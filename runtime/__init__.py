"""Convoy's runtime: moves messages between actors and looks after their processes. It knows nothing of nets.

messages  wire  credits        what is said, as bytes, and how much may be under way
transport/                     the roads: in-process, ZeroMQ
actor  node  compute  metrics  an actor, the process it lives in, array work, numbers
topology  plan                 which actors, in which processes: plain data
lifecycle  agent  process      the life of a role process
supervision  supervisor        who counts as dead; starting and ending everything
launchers/                     where processes are started
config*  toml_*                cluster.toml, every mistake at its line (only `up` imports these)
clock  simulation              a whole cluster on one event loop, on virtual time
rundir  console  up  cli       what the user touches
"""

from runtime.actor import Actor
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
from runtime.messages import Array, Envelope, Json, Message, Save, WindDown, message
from runtime.topology import ActorSpec, Topology

__all__ = [
    "Actor",
    "ActorSpec",
    "ActorStopped",
    "Array",
    "AskTimeout",
    "ConfigError",
    "ConvoyError",
    "Envelope",
    "Json",
    "LaunchError",
    "Message",
    "MessageError",
    "ProgramFailed",
    "Refused",
    "RoleDied",
    "Save",
    "Topology",
    "WindDown",
    "message",
]
