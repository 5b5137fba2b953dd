"""What a role of training says of itself, in its own file, before it runs: `Options`, a frozen
dataclass on `RoleOptions`.

    fields             what the actor is told: typed, checked before anything starts
    TrafficOptions     sends: the bytes that it will send in an iteration
    GradientOptions    parents, redirected, with_wires: the links of its gradients, their formats
    MemoryOptions      holds: the bytes that it will hold
    PredictionOptions  steps: what it does in an iteration
                       period: after how many iterations it begins anew
                       loads: the array work that it does in one
    RecoveryOptions    anew: what becomes of it when it is started anew
                       keeps_beside: does something of it last that is in no model?
    DeviceOptions      on_device: where it can compute
                       spread: is its kind shared out over machines, if nothing else is said?
    TuningOptions      any_batch: does it take the rows of each batch, up to `Job.largest`?
                       tells_of: what it can be asked what gradients say of: momentum, noise
                       most_groups: in how many groups it may want the run to be

Others ask these instead of knowing roles by name, each the concern that it is about: options of
your own may be of some of these classes only. `RoleOptions` is all of them. A role that says
nothing sends, holds and computes nothing. A field `beside` names the actor on whose machine it
lives if it is not spread; "", or no such field: on the first.
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

Bytes = int | None  # None: it depends on the numbers
Sent = Iterable[tuple[str, type[Message], Bytes]]  # receiver, what, how much
Held = dict[str, int]  # what for -> bytes

EMULATED = "emulated"


class Anew(Enum):
    """How a role is started anew."""

    FROM_OPTIONS = "it keeps nothing that lasts: its options are enough"
    FROM_STATE = "it holds a part of the model, which GetState gives: that is put back"
    FROM_PEER = "it holds what each of its peers holds: the state of any of them"
    WITH_THE_RUN = (
        "what it knows, all others would have to forget: the run goes on from its last checkpoint"
    )


@dataclass(frozen=True)
class Wires:
    """What an actor is told of gradients: the format on the way to each parent, the layers they are
    of, the kernels that encode and decode."""

    to: Mapping[str, WireFormat]
    layers: Layers
    kernels: str


class TrafficOptions:
    """The messages that a role sends, for plans and predictions."""

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """What the actor of this name sends in one training iteration: bytes of arrays, by receiver
        and message."""
        return ()


class GradientOptions:
    """The links that a role's gradients travel, and in which formats: `train.gradients`."""

    def parents(self) -> tuple[str, ...]:
        """Who gets its gradients."""
        return ()

    def redirected(self, through: Callable[[str], str]) -> Self:
        """The same, but what went to a parent goes to `through(parent)`."""
        return self

    def with_wires(self, wires: Wires) -> Self:
        """The same, with the formats in which its gradients travel."""
        return self


class MemoryOptions:
    """The memory that a role takes, for plans and the check that there is enough."""

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Bytes of arrays it holds, by what they are for; empty: next to none."""
        return {}


class PredictionOptions:
    """The work of a role in an iteration, for predictions of time."""

    @property
    def period(self) -> int:
        """Iterations after which it does the same again."""
        return 1

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """What the actor of this name does in a training iteration of a group, in the order in
        which it begins what could begin at one time."""
        return ()

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The pieces of array work that it does in one training iteration, as many of a label as it
        does; without those that only read data or copy."""
        return ()


class RecoveryOptions:
    """What becomes of a role after a death, and what of it a checkpoint must hold."""

    anew: ClassVar[Anew] = Anew.FROM_OPTIONS
    keeps_beside: ClassVar[bool] = False


class DeviceOptions:
    """Where a role computes, and on which machine it lives."""

    spread: ClassVar[bool] = False

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """The same, computing on "cpu", "cuda:N" or "emulated"; None: it computes nothing there.
        `blank`: data of the job's shapes that nobody has to read, for emulated devices."""
        return None


class TuningOptions:
    """What a role lets the tuner choose, and what it can be asked while it does so."""

    any_batch: ClassVar[bool] = True

    @property
    def tells_of(self) -> frozenset[str]:
        """Of what it knows when it is asked what gradients say: "momentum", "noise"."""
        return frozenset()

    @property
    def most_groups(self) -> int:
        """In how many groups it may want the run to be while it goes on; 0: it wants nothing."""
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
    """All concerns, with what holds for a role that only talks."""


@dataclass(frozen=True, kw_only=True)
class JobOptions(RoleOptions):
    """Of a role that builds a part of the net, or data, from the job."""

    any_batch: ClassVar[bool] = False
    job: Job

    def at(self, files: Files) -> Self:
        """Its files as they lie on the machine where it lives."""
        return dataclasses.replace(self, job=self.job.moved(files.here, files.data_root))

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """On every device."""
        data = blank if device == EMULATED else self.job.data
        return dataclasses.replace(
            self, job=dataclasses.replace(self.job, device=device, data=data)
        )


@dataclass(frozen=True, kw_only=True)
class SummingOptions(RoleOptions):
    """Of a role that only adds up, in host memory."""

    kernels: str = "numpy"
    beside: str = ""

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        """Its sums can take no time, but they are made nowhere but here."""
        return dataclasses.replace(self, kernels=EMULATED) if device == EMULATED else None
