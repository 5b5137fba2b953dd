"""The accumulator: adds up on the CPU what the devices of one machine copied to host memory, and tells them the sum.

That is "collecting and accumulating gradients on CPUs" (section 3): bucket by bucket, during the backward pass.
Arrays are added in pairs of neighbours by rank, and these in pairs, each pair as soon as it is there; every device
updates its own replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ops import Array
from roles.base.role import Held, Sent, SummingOptions
from roles.base.shapes import Shapes
from roles.base.steps import Sending, Step, Steps, Turn, Work
from roles.exchange.partial_sums import check_array, check_count
from roles.learning.gradient_sum import GradientSum
from roles.learning.job import cpu_ops
from roles.learning.parts import Parts, in_parts
from roles.messages import Contribution, SharedSum
from runtime import Actor, Conversation, Envelope

PART = in_parts("a member's array of a sum", "iteration bucket", Contribution)


@dataclass(frozen=True, kw_only=True)
class AccumulatorOptions(SummingOptions):
    """The names of the `members` by rank, the kernels it computes with and the dtype of what it adds up."""

    members: tuple[str, ...]
    dtype: str = "float32"

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Every sum, to every member."""
        for member in self.members:
            for size in shapes.options[member].summed(shapes):
                yield member, SharedSum, shapes.number * size

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """Each member's array is added; with the last one, all are told the sum."""
        for bucket, size in enumerate(shapes.options[self.members[0]].sums(shapes, turn)):
            added = [(name, "accumulate", str(bucket), member) for member in self.members]
            for key in added:
                yield Step(key, Work("accumulate"), ((key[-1], "Contribution", str(bucket)),))
            for member in self.members:
                told = Sending((member,), shapes.number * size)
                yield Step((name, "SharedSum", str(bucket), member), told, tuple(added))

    def holds(self, name: str, shapes: Shapes) -> Held:
        """A sum of each bucket."""
        return {"sums": shapes.number * sum(shapes.options[self.members[0]].summed(shapes))}


class HostAccumulator(Actor):
    """See the module docstring."""

    Options = AccumulatorOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (PART,)

    def __init__(self, options: AccumulatorOptions) -> None:
        self._members, self._kernels, self._dtype = options.members, options.kernels, options.dtype
        self._sizes: dict[int, int] = {}  # bucket -> numbers in it, from the first array that came of it
        self._parts = Parts(PART)

    async def on_start(self) -> None:
        """Prepare the sums."""
        await self.compute("build", self._build)
        self._sums = self.counter("reductions", "Sums made and told.")

    def _build(self) -> None:
        ops = cpu_ops(self._kernels)
        ops.memory = self.memory
        self._sum = GradientSum(ops)

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        """Add a member's array; with the last one, tell everybody the sum."""
        members, sender = self._members, envelope.sender
        rank = members.index(sender) if sender in members else -1
        part = (message.number, message.bucket), rank, len(members)
        self._parts.check(message, sender, *part)
        self._check(message, sender)
        with self.phase("accumulate"):
            total = await self.compute("accumulate", self._add, message, rank)
        self._parts.came(message, sender, *part)
        if total is None:
            return
        self._sums.inc()
        told = SharedSum(number=message.number, bucket=message.bucket, values=(total,))
        for name in self._members:
            await self.tell(name, told, step=message.number)

    def _check(self, message: Contribution, sender: str) -> None:
        """MessageError unless its array is as large as those that came of its bucket before."""
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        check_array(message.values, self._sizes.get(message.bucket, message.values.size), self._dtype, sender)
        self._sizes[message.bucket] = message.values.size

    def _add(self, message: Contribution, rank: int) -> Array | None:
        key = (message.number, message.bucket)
        total = self._sum.add(key, rank, len(self._members), (message.values,))
        return None if total is None else total[0]
