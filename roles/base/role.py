"""The options of a training role, which describe it before it runs: traffic, memory, work and more.

Each role has them in its own file, as a frozen dataclass `Options` on `RoleOptions`:

    fields             the settings of the actor: typed, checked before anything starts
    TrafficOptions     sends: the bytes that it sends in an iteration
    GradientOptions    parents, redirected, with_wires: the links of its gradients, their formats
    MemoryOptions      holds: the bytes that it holds
    PredictionOptions  steps: its steps in an iteration
                       period: the number of iterations after which its steps repeat
                       loads: its array work in an iteration
    RecoveryOptions    anew: how it is restarted after a death
                       keeps_beside: does it keep lasting state that is in no model?
    DeviceOptions      on_device: its options for another device
                       spread: is it a worker, which is spread over the machines?
                       apart: is it a server that computes, and gets a machine without workers?
                       serves: is it a server with much traffic, and avoids other servers?
                       kept_plain: can it replay its passes on a GPU?
                       computes: is it neither, but does much array work, for which it gets cores?
    TuningOptions      any_batch: does it take any batch of up to `Job.largest` rows?
                       tells_of: the statistics of gradients that it can report: momentum, noise
                       most_groups: the most groups that it may ask the run to have

Other code asks these classes and does not know roles by name. Each caller asks only the concern
that it needs, so the options of a role from another package may use some of these classes only.
`RoleOptions` is all of them. By default a role sends, holds and computes nothing. A field `beside`
names the actor on whose machine the role lives if it is neither worker nor server; if it is "" or
missing, the role lives on the first machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self

from roles.base.loads import Loads
from roles.base.shapes import Shapes
from roles.base.steps import Steps, Turn
from roles.learning.job import Job
from roles.learning.wire_formats import Layers, WireFormat
from runtime.messages.message import Message
from runtime.plan.machine_files import Files

Bytes = int | None  # None: it depends on the values
Sent = Iterable[tuple[str, type[Message], Bytes]]  # receiver, message, bytes of arrays
Held = dict[str, int]  # purpose -> bytes

EMULATED = "emulated"


class Anew(Enum):
    """The ways in which a role can be restarted after a death."""

    FROM_OPTIONS = "it keeps no lasting state: its options are enough"
    FROM_STATE = "it holds a part of the model: the state that GetState returned is put back"
    FROM_PEER = "it holds the same state as its peers: the state of any peer is put back"
    WITH_THE_RUN = (
        "all others would have to go back with it: the run resumes from its last checkpoint"
    )


@dataclass(frozen=True)
class Wires:
    """The wire formats of an actor's gradients: the format for each parent, the layers that the
    gradients belong to, and the kernels that encode and decode."""

    to: Mapping[str, WireFormat]
    layers: Layers
    kernels: str


class TrafficOptions:
    """The messages that a role sends, for plans and predictions."""

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The messages that the actor `name` sends in one training iteration: receiver, message
        type and bytes of arrays."""
        return ()


class GradientOptions:
    """The links that a role's gradients travel, and their formats on these links
    (`train.gradients`)."""

    def parents(self) -> tuple[str, ...]:
        """The actors that receive its gradients."""
        return ()

    def redirected(self, through: Callable[[str], str]) -> Self:
        """The same options, with each parent replaced by `through(parent)`."""
        return self

    def with_wires(self, wires: Wires) -> Self:
        """The same options, with the formats in which the gradients travel."""
        return self


class MemoryOptions:
    """The memory that a role takes, for plans and the check that there is enough."""

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Bytes of the arrays that the actor holds, by purpose. Empty: next to none."""
        return {}


class PredictionOptions:
    """The work of a role in an iteration, for predictions of time."""

    @property
    def period(self) -> int:
        """The number of iterations after which the actor's steps repeat."""
        return 1

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The steps of the actor `name` in one training iteration of a group. Where several could
        begin at one time, they begin in this order."""
        return ()

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The pieces of array work that the actor does in one training iteration. A label occurs as
        often as its work is done. Work that only reads data or copies is left out."""
        return ()


class RecoveryOptions:
    """How a role is restarted after a death, and the state that a checkpoint must hold for it."""

    anew: ClassVar[Anew] = Anew.FROM_OPTIONS
    keeps_beside: ClassVar[bool] = False


class DeviceOptions:
    """The device on which a role computes, and the machine on which it lives."""

    spread: ClassVar[bool] = False
    apart: ClassVar[bool] = False
    serves: ClassVar[bool] = False
    computes: ClassVar[bool] = False
    follows: ClassVar[bool] = False

    @property
    def gpu(self) -> str:
        """The GPU that the role computes on; "" for none."""
        return ""

    def kept_plain(self) -> str | None:
        """The reason why the role cannot replay its training passes on a GPU (`train.gpu_step`). ""
        if it replays them, None if it computes none."""
        return None

    @property
    def shares_gpu(self) -> str:
        """The GPU where the role reads arrays of other processes, and they read its own; "" for
        none."""
        return self.gpu

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """The same options for "cpu", "cuda:N" or "emulated"; None if the role computes nothing
        there.

        `blank`: data of the job's shapes that need no file, for emulated devices.
        """
        return None


class TuningOptions:
    """The settings that a role lets the tuner change, and the statistics that the tuner can ask it
    for."""

    any_batch: ClassVar[bool] = True

    @property
    def tells_of(self) -> frozenset[str]:
        """The statistics of gradients that it can report when the tuner asks: "momentum",
        "noise"."""
        return frozenset()

    @property
    def most_groups(self) -> int:
        """The most groups that it may ask the run to have; 0: it never asks."""
        return 0


@dataclass(frozen=True, kw_only=True)
class RoleOptions(
    TrafficOptions,
    GradientOptions,
    MemoryOptions,
    PredictionOptions,
    RecoveryOptions,
    DeviceOptions,
    TuningOptions,
):
    """All concerns, with defaults for a role that only exchanges messages."""


@dataclass(frozen=True, kw_only=True)
class JobOptions(RoleOptions):
    """Options of a role that builds a part of the net, or opens data, from the job."""

    any_batch: ClassVar[bool] = False
    job: Job

    @property
    def gpu(self) -> str:
        """The GPU that the role computes on; "" for none."""
        return self.job.device if self.job.on_gpu else ""

    def at(self, files: Files) -> Self:
        """The same options, with the paths of its files on the machine where it lives."""
        return dataclasses.replace(self, job=self.job.moved(files.here, files.data_root))

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """The same options for any device."""
        data = blank if device == EMULATED else self.job.data
        return dataclasses.replace(
            self, job=dataclasses.replace(self.job, device=device, data=data)
        )


@dataclass(frozen=True, kw_only=True)
class SummingOptions(RoleOptions):
    """Options of a role that only adds up: in host memory, or on a device, that of its process or
    the `device` of its peers."""

    follows: ClassVar[bool] = True
    kernels: str = "numpy"
    beside: str = ""
    device: str = ""

    @property
    def gpu(self) -> str:
        """The GPU that its peers compute on, if it reads their arrays there; "" for none."""
        return self.device

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """The same options for an emulated device, where sums take no time. None for all others:
        sums are made in host memory only."""
        return dataclasses.replace(self, kernels=EMULATED) if device == EMULATED else None
