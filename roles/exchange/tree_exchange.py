"""Sums of p members' arrays up a tree of the members themselves. The sum goes down the same tree
(FireCaffe 6.2).

    child -> parent   Contribution: the sum of the sender's array and of all arrays below it
    parent -> child   SharedSum: the sum of all

A node adds its own array and its children's arrays level by level, in the order of ranks, in
whatever order they arrive. With fan_in 2 and one network interface for each member, a sum of |W|
bytes takes |W| * 2 log2(p) / BW (equation 4): every level moves |W| once each way. On the way down,
the children with most receivers below them come first. A node sends to one child after the other:
if it sent to all at once, all would have the sum as late as the last, since they share the sender's
interface. `binomial` has the shape of the tree. Each host has a tree for its members, whose root
sums with the roots of the other hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Key as Name
from roles.base.steps import Sending, Step, Steps, Work, sent
from roles.exchange.binomial import Place, place_over
from roles.exchange.exchange import Exchange, ExchangeOptions, Layout, Members
from roles.exchange.partial_sums import (
    BY,
    CLOSED,
    HERE,
    SUM,
    SUMMED,
    Key,
    Summands,
    check_count,
    copied,
)
from roles.messages import Contribution, SharedSum, Taken
from runtime import Actor, Conversation

BELOW = "awaited from below"
ABOVE = "awaited from above"
SUMS = Conversation(
    "a neighbour's sum",
    BY,
    BELOW,
    {(BELOW, Contribution): (HERE,), (ABOVE, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
)


@dataclass(frozen=True, kw_only=True)
class TreeOptions(ExchangeOptions):
    """All `members` by rank, including the receiver of these options. Each node adds the arrays of
    `fan_in` members at each level. `hosts`: the members of each host; empty if all live on one."""

    members: tuple[str, ...]
    fan_in: int
    hosts: tuple[tuple[str, ...], ...] = ()

    def place(self, name: str) -> Place:
        """The members above and below this member."""
        return place_over(self.hosts or (self.members,), name, self.fan_in)

    def copies(self, name: str) -> bool:
        """Does it get the sum and send it to members of its host? Arrays that they read in place
        must lie in its own memory."""
        parent, levels = self.place(name)
        here = next((host for host in self.hosts if name in host), ())
        return parent is not None and any(child in here for level in levels for child in level)

    @property
    def told(self) -> str:
        """A line for the user if hosts are summed first."""
        return (
            (f"sums are made on each of {len(self.hosts)} hosts first, along a tree")
            if self.hosts
            else ""
        )

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its sum goes up, the whole goes down."""
        parent, levels = self.place(name)
        if parent is not None:
            yield parent, Contribution, shapes.number * size
        for children in levels:
            for child in children:
                yield child, SharedSum, shapes.number * size

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """The children's arrays are added at each level."""
        yield from (
            Load("reduce", added=size * len(children)) for children in self.place(name).levels
        )
        if self.copies(name):
            yield Load("gather", added=size)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """The sums of its children are added level by level. Its sum goes up, and the whole goes
        down, to one child after the other."""
        place = self.place(name)
        whole = shapes.number * size
        above: Name = (name, "bucket", bucket)
        for level, below in enumerate(place.levels):
            came = tuple((child, "Contribution", bucket) for child in below)
            yield Step((name, "reduce", bucket, str(level)), Work("reduce"), (above, *came))
            above = (name, "reduce", bucket, str(level))
        if place.parent is not None:
            yield Step((name, "Contribution", bucket), Sending((place.parent,), whole), (above,))
            above = (place.parent, "SharedSum", bucket, name)
            if self.copies(name):
                yield Step((name, "gather", bucket), Work("gather"), (above,))
                above = (name, "gather", bucket)
        children = [child for below in reversed(place.levels) for child in below]
        for child in children:
            told = (name, "SharedSum", bucket, child)
            yield Step(told, Sending((child,), whole), (above,))
            above = sent(told)  # no step waits for the arrival at the last child
            if child != children[-1]:
                above = (child, "Taken", bucket, name)
                yield Step(above, Sending((name,)), (told,))
        yield Step((name, "summed", bucket), None, (above,))


class TreeExchange(Exchange):
    """The exchange along a tree, as one actor runs it; see `exchange.Exchange`."""

    Options = TreeOptions
    repeats = True

    conversations: ClassVar[tuple[Conversation, ...]] = (SUMS,)

    def __init__(
        self,
        actor: Actor,
        options: TreeOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        self._actor = actor
        self._ops = ops
        self._parent, self._levels = options.place(actor.name)
        self._copies = options.copies(actor.name)
        self._children = {child for children in self._levels for child in children}
        self._summands = Summands(SUMS, self._awaited, sizes, dtype)

    def __repr__(self) -> str:
        return f"<tree exchange, {self._parent or 'the root'} above, {len(self._children)} below>"

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to the members above and below it."""
        hosts = tuple(host.members for host in members.hosts)
        options = TreeOptions(members=members.names, fan_in=members.fan_in, hosts=hosts)
        parents = {name: options.place(name).parent for name in members.names}
        return Layout(
            options, tuple((parent, name) for name, parent in parents.items() if parent is not None)
        )

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        step, bucket = key
        total = mine
        for children in self._levels:
            arrays = [total, *[(await self._summands.of(key, child))[0] for child in children]]
            total = await self._actor.compute("reduce", self._add, arrays)
        if self._parent is not None:
            upward = Contribution(number=step, bucket=bucket, values=total, into=())
            await self._actor.tell(self._parent, upward, step=step)
            (total,) = await self._summands.of(key, self._parent)
            if self._copies:
                total = await self._actor.compute("gather", copied, total, self._ops)
        whole = SharedSum(number=step, bucket=bucket, values=(total,))
        *before, last = [child for children in reversed(self._levels) for child in children] or [""]
        for child in before:
            await self._actor.ask(child, whole, Taken, step=step)
        if last:  # nothing is sent after it, so no answer is needed
            await self._actor.tell(last, whole, step=step)
        self._summands.close(key)
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """Take a child's sum."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "memories for a sum", len(message.into), 0)
        self._summands.arrived(message, sender, key, (message.values,))

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take the sum of all."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "arrays", len(message.values), 1)
        self._summands.arrived(message, sender, key, message.values)

    def _awaited(self, bucket: int, sender: str) -> str | None:
        if sender in self._children:
            return BELOW
        return ABOVE if sender == self._parent else None

    def _add(self, arrays: list[Array]) -> Array:
        return self._ops.add_all(arrays, self._ops.empty(arrays[0].shape, arrays[0].dtype))
