"""The accumulator: adds up on the CPU the arrays that the devices of one machine copied to host
memory, and sends them the sum.

That is "collecting and accumulating gradients on CPUs" (section 3): bucket by bucket, during the
backward pass. Arrays are added in pairs of neighbours by rank, and these sums in pairs, each pair
as soon as it is complete. Every device updates its own replica. Arrays on the device of the
accumulator's process are added up there. With accumulators on several hosts, the first one adds up
the sums of all hosts in the same way:

    member -> accumulator of its host -> the first one -> accumulators -> members
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ops import Array, where
from roles.base.loads import Load, Loads
from roles.base.role import Held, Sent, SummingOptions
from roles.base.shapes import Shapes
from roles.base.steps import Key, Sending, Step, Steps, Turn, Work
from roles.exchange.partial_sums import (
    BY,
    HERE,
    NOT_THEIRS,
    SUM,
    SUMMED,
    check_array,
    check_count,
    copied,
)
from roles.learning.backends import cpu_ops, gpu_ops
from roles.learning.buffers import in_memory_of
from roles.learning.gradient_sum import GradientSum
from roles.learning.part_counts import Parts, in_parts
from roles.messages import Blobs, Contribution, SharedSum
from runtime import Actor, Conversation, Envelope, Standing

PART = in_parts(
    ("a member's array of a sum, or another host's sum"), "iteration bucket", Contribution
)
AWAITED = "awaited from the first accumulator"
NOT_GIVEN = "before this host's sum was given"
TOTAL = Conversation(
    "the sum of all hosts",
    BY,
    AWAITED,
    {(AWAITED, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=(NOT_GIVEN, NOT_THEIRS),
)


@dataclass(frozen=True, kw_only=True)
class AccumulatorOptions(SummingOptions):
    """The names of the `members` by rank, the kernels that the accumulator computes with, and the
    dtype of the arrays that it adds up.

    On several hosts, the first accumulator has the names of the others (`below`), and the others
    have the name of the first (`above`).
    """

    members: tuple[str, ...]
    dtype: str = "float32"
    above: str = ""
    below: tuple[str, ...] = ()

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Each sum goes to every member. Sums of hosts go to the first accumulator, which sends
        back the sum of all."""
        for size in shapes.options[self.members[0]].summed(shapes):
            if self.above:
                yield self.above, Contribution, shapes.number * size
            yield from (
                (told, SharedSum, shapes.number * size) for told in (*self.below, *self.members)
            )

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """Each array is added as it arrives. After the last one, the sum goes to all, or first to
        the accumulator above."""
        for number, size in enumerate(shapes.options[self.members[0]].sums(shapes, turn)):
            bucket = str(number)
            whole = shapes.number * size
            above: tuple[Key, ...] = tuple(
                (name, "accumulate", bucket, sender) for sender in (*self.members, *self.below)
            )
            for key in above:
                yield Step(key, Work("accumulate"), ((key[-1], "Contribution", bucket),))
            if self.above:
                yield Step((name, "Contribution", bucket), Sending((self.above,), whole), above)
                above = ((name, "gather", bucket),)
                yield Step(above[0], Work("gather"), ((self.above, "SharedSum", bucket, name),))
            for told in (*self.below, *self.members):
                yield Step((name, "SharedSum", bucket, told), Sending((told,), whole), above)

    def holds(self, name: str, shapes: Shapes) -> Held:
        """One sum for each bucket."""
        return {"sums": shapes.number * sum(shapes.options[self.members[0]].summed(shapes))}

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """Every array of every bucket is added as it arrives."""
        for size in shapes.options[self.members[0]].summed(shapes):
            arrays = len(self.members) + len(self.below)
            yield from (Load("accumulate", added=size if rank else 0) for rank in range(arrays))
            if self.above:
                yield Load("gather", added=size)


class HostAccumulator(Actor):
    """The actor that adds up in host memory; see the module docstring."""

    Options = AccumulatorOptions
    reads_device = True
    conversations: ClassVar[tuple[Conversation, ...]] = (PART, TOTAL)

    def __init__(self, options: AccumulatorOptions) -> None:
        self._members = options.members
        self._kernels = options.kernels
        self._device = options.device
        self._dtype = options.dtype
        self._above = options.above
        self._below = options.below
        # bucket -> its size in numbers, from the first array that came for it
        self._sizes: dict[int, int] = {}
        # bucket -> iteration of this host's last sum that went to the first accumulator
        self._given: dict[int, int] = {}
        self._done: dict[int, int] = {}  # bucket -> iteration of the last sum of all hosts
        self._parts = Parts(PART)
        self._totals: Standing[tuple[int, int, str]] = Standing(TOTAL, self._unheard)

    async def on_start(self) -> None:
        """Prepare the sums."""
        await self.compute("build", self._build)
        self._sums = self.counter("reductions", "Sums that an accumulator made.")

    def _build(self) -> None:
        self._ops = cpu_ops(self._kernels)
        in_memory_of(self, self._ops, *gpu_ops(self._device))
        self._sum = GradientSum(self._ops)
        self._of_hosts = GradientSum(self._ops)

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        """Add an array. After the last one, send the sum to all members, or to the first
        accumulator."""
        senders = (*self._members, *self._below)
        sender = envelope.sender
        place = senders.index(sender) if sender in senders else -1
        part = (message.number, message.bucket), place, len(senders)
        self._parts.check(message, sender, *part)
        self._check(message, sender)
        with self.phase("accumulate"):
            total = await self.compute("accumulate", self._add, message, place)
        self._parts.came(message, sender, *part)
        if total is None:
            return
        self._sums.inc()
        if self._above:
            self._given[message.bucket] = message.number
            given = Contribution(
                number=message.number, bucket=message.bucket, values=total, into=()
            )
            await self.tell(self._above, given, step=message.number)
        else:
            await self._tell(
                SharedSum(number=message.number, bucket=message.bucket, values=(total,))
            )

    async def on_shared_sum(self, message: SharedSum, envelope: Envelope) -> None:
        """Send the sum of all hosts to the members of this host."""
        sender = envelope.sender
        subject = (message.number, message.bucket, envelope.sender)
        self._totals.check(message, sender, subject)
        check_count(message, sender, "arrays", len(message.values), 1)
        check_array(message.values[0], self._sizes[message.bucket], self._dtype, sender)
        self._totals.hear(message, sender, subject)
        self._done[message.bucket] = message.number
        self._totals.move(SUM, subject)
        total = await self.compute("gather", copied, message.values[0], self._ops)
        await self._tell(replace(message, values=(total,)))

    async def _tell(self, told: SharedSum) -> None:
        """Send a sum to the other accumulators first, since they send it to others."""
        for name in (*self._below, *self._members):
            await self.tell(name, told, step=told.number)

    def _check(self, message: Contribution, sender: str) -> None:
        """Raise MessageError unless the array has the size of earlier arrays for its bucket."""
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        check_array(
            message.values,
            self._sizes.get(message.bucket, message.values.size),
            self._dtype,
            sender,
        )
        self._sizes[message.bucket] = message.values.size

    def _unheard(self, subject: tuple[int, int, str]) -> str:
        step, bucket, sender = subject
        if sender != self._above:
            return NOT_THEIRS
        if step <= self._done.get(bucket, -1):
            return SUMMED
        return AWAITED if step <= self._given.get(bucket, -1) else NOT_GIVEN

    def _add(self, message: Contribution, place: int) -> Array | None:
        """Add a member's array, or another host's sum. When this host's sum is complete, it counts
        as the first of all hosts' sums."""
        key = (message.number, message.bucket)
        members = len(self._members)
        blobs: Blobs | None = (message.values,)
        if place < members:
            blobs = self._sum.add(key, place, members, (message.values,))
            place = members - 1
        if blobs is not None:
            blobs = self._of_hosts.add(key, place - members + 1, 1 + len(self._below), blobs)
        return None if blobs is None else where(blobs, self._ops).to_share(blobs[0])
