"""Sums of arrays over members on several hosts: in shared memory on each host, then between the
first members of the hosts.

    member -> adders of its host       Contribution, as in a collective
    adder -> first member of its host  SharedSum: its share is complete
    first member -> first members of the other hosts    the host's sum, along a tree, round a ring
                                                        or by halves
    first member -> rest of its host   SharedSum: the sum of all is complete

So one sum leaves a host and one comes, however many members it has. The bytes of a sum decide its
way between the hosts. The members of each host are added in pairs by rank. Then the hosts are added
in pairs too, except in a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Step, Steps, Work, all_sent, arrival, one_by_one
from roles.exchange.buckets import FAR_BUCKET_BYTES
from roles.exchange.collective import Collective, CollectiveOptions, adders_of, adding
from roles.exchange.exchange import TREE, Between, Exchange, ExchangeOptions, Home, Layout, Members
from roles.exchange.halving import HalvingExchange, HalvingOptions
from roles.exchange.partial_sums import Arrays, Key, copied, shares
from roles.exchange.ring import RingExchange, RingOptions
from roles.exchange.tree_exchange import TreeExchange, TreeOptions
from roles.messages import Contribution, SharedSum
from runtime import Actor, Conversation
from runtime.plan.forecast import shown

FAN_IN = 2  # between hosts: pairs
WAYS: dict[str, type[Exchange]] = {
    "tree": TreeExchange,
    "ring": RingExchange,
    "halving": HalvingExchange,
}
HOW = {"tree": "up a tree and down again", "ring": "round a ring", "halving": "by halves and back"}


@dataclass(frozen=True, kw_only=True)
class PerHostOptions(ExchangeOptions):
    """The members of each host by rank, the receiver of these options among them; the number of
    adders on each host; and the ways of sums between the hosts."""

    bucket_bytes: ClassVar[int] = FAR_BUCKET_BYTES
    hosts: tuple[tuple[str, ...], ...]
    adders: tuple[int, ...]
    between: Between = TREE

    def inside(self, name: str) -> CollectiveOptions:
        """The options of the collective on its host."""
        place = next(place for place, members in enumerate(self.hosts) if name in members)
        return CollectiveOptions(members=self.hosts[place], adders=self.adders[place])

    def way(self, size: int) -> str:
        """The way that a sum of so many bytes takes between the hosts."""
        return next(way for least, way in reversed(self.between) if size >= least)

    def among(self, way: str) -> TreeOptions | RingOptions | HalvingOptions:
        """The options of the first members for this way."""
        firsts = tuple(members[0] for members in self.hosts)
        if way == "tree":
            return TreeOptions(members=firsts, fan_in=FAN_IN)
        return RingOptions(members=firsts) if way == "ring" else HalvingOptions(members=firsts)

    def copies(self, name: str, size: int) -> bool:
        """Does the first member of its host read the sum of so many bytes from another member's
        memory, and send it to the rest?"""
        way = self.among(self.way(size))
        several = len(self.inside(name).members) > 1
        return several and isinstance(way, TreeOptions) and way.place(name).parent is not None

    @property
    def told(self) -> str:
        """A line for the user about the ways of sums between hosts."""
        (_, least), *larger = self.between
        ways = [f"{HOW[way]} from {shown(size)} on" for size, way in reversed(larger)]
        ways.append(f"smaller ones {HOW[least]}" if ways else HOW[least])
        return (
            f"sums are made on each of {len(self.hosts)} hosts first; between them they "
            f"go {', '.join(ways)}"
        )

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its array goes to the adders of its host, and an adder's share to the first member. The
        first member sums between the hosts, and sends the whole to the rest."""
        whole, (first, *rest) = shapes.number * size, self.inside(name).members
        adders = self._adders(name, whole)
        for other in adders:
            if other != name:
                # the first member also sends the memory for the sum
                yield other, Contribution, whole * (2 if name == first else 1)
        if name in adders and name != first:
            yield first, SharedSum, shapes.number * self._share(name, size, shapes)
        if name == first:
            yield from self.among(self.way(whole)).sends(name, size, shapes)
            yield from ((other, SharedSum, whole) for other in rest)

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """An adder's share of its host's arrays, and the first member's part of the sum between the
        hosts."""
        members = self.inside(name).members
        adders = self._adders(name, shapes.number * size)
        if len(members) > 1 and name in adders:
            low, high = shares(size, len(adders))[adders.index(name)]
            yield Load("reduce", added=(len(members) - 1) * (high - low))
        if name == members[0]:
            if len(adders) > 1 and not shapes.shared_memory:
                yield Load("gather", added=size)
            yield from self.among(self.way(shapes.number * size)).loads(name, size, shapes)
            if self.copies(name, shapes.number * size):
                yield Load("gather", added=size)

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Its array goes to the adders. An adder computes its share. The first member sums with
        other hosts, and sends the sum to the rest."""
        members = self.inside(name).members
        whole = shapes.number * size
        first = members[0]
        adders = self._adders(name, whole)
        mine = (name, "bucket", bucket)
        given = (name, "Contribution", bucket)
        told = (name, "SharedSum", bucket)
        others = tuple(other for other in adders if other != name)
        yield from one_by_one(given, others, whole * (2 if name == first else 1), mine)
        above = (mine, *all_sent(given, others))
        if name in adders and len(members) > 1:
            rest = [other for other in members if other != name]
            came = [
                arrival((other, *given[1:]), name, len(adders) - (other in adders))
                for other in rest
            ]
            yield Step((name, "reduce", bucket), Work("reduce"), (*above, *came))
            above = ((name, "reduce", bucket),)
        if name != first:
            share = (name, "share", bucket)
            if name in adders:
                yield from one_by_one(
                    share, (first,), shapes.number * self._share(name, size, shapes), above[0]
                )
            yield Step(
                (name, "summed", bucket),
                None,
                (arrival((first, *told[1:]), name, len(members) - 1),),
            )
            return
        of_others = tuple(arrival((other, "share", bucket), first, 1) for other in others)
        among = f"{bucket} of hosts"
        gathers = len(adders) > 1 and not shapes.shared_memory
        yield Step(
            (name, "bucket", among), Work("gather") if gathers else None, (*above, *of_others)
        )
        yield from self.among(self.way(whole)).steps(name, among, size, shapes)
        here = (name, "here", bucket)
        yield Step(
            here, Work("gather") if self.copies(name, whole) else None, ((name, "summed", among),)
        )
        yield from one_by_one(told, members[1:], whole, here)
        yield Step((name, "summed", bucket), None, (here, *all_sent(told, members[1:])))

    def _adders(self, name: str, size: int) -> tuple[str, ...]:
        """The members of its host that add up a sum of so many bytes."""
        inside = self.inside(name)
        return inside.members[: counted(size, inside)]

    def _share(self, name: str, size: int, shapes: Shapes) -> int:
        """Numbers of an adder's share that travel in a message: none if the share is written into
        the first member's memory."""
        if shapes.shared_memory:
            return 0
        adders = self._adders(name, shapes.number * size)
        low, high = shares(size, len(adders))[adders.index(name)]
        return high - low


def counted(size: int, inside: CollectiveOptions) -> int:
    """The number of members of a host that add up: at least one, since the first member must have
    the sum."""
    return max(1, adding(size, len(inside.members), inside.adders))


class PerHost(Collective):
    """The exchange over hosts, as one actor runs it; see `exchange.Exchange`."""

    Options = PerHostOptions  # type: ignore[assignment]
    reads_device = False
    over_hosts = ""

    conversations: ClassVar[tuple[Conversation, ...]] = (
        *Collective.conversations,
        *TreeExchange.conversations,
        *RingExchange.conversations,
        *HalvingExchange.conversations,
    )

    def __init__(
        self,
        actor: Actor,
        options: PerHostOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        inside = options.inside(actor.name)
        super().__init__(actor, inside, sizes, ops, dtype)
        # bucket -> the exchange between the hosts; the first member of a host alone has them
        self._ways: dict[int, Exchange] = {}
        self._roads: dict[str, Exchange] = {}
        if self._rank:
            return
        number = self._dtype.itemsize
        chosen = {bucket: options.way(size * number) for bucket, size in sizes.items()}
        self._copies = {
            bucket: options.copies(actor.name, size * number) for bucket, size in sizes.items()
        }
        for way in dict.fromkeys(chosen.values()):
            mine = {bucket: sizes[bucket] for bucket in chosen if chosen[bucket] == way}
            self._roads[way] = WAYS[way](actor, options.among(way), mine, ops, dtype)
            self._ways |= dict.fromkeys(mine, self._roads[way])

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to the adders and the first member of its host. The first members have
        the links of their ways."""
        hosts = members.hosts or (Home(members.names, members.cores),)
        of_hosts = tuple(host.members for host in hosts)
        adders = tuple(adders_of(host.members, host.cores) for host in hosts)
        options = PerHostOptions(hosts=of_hosts, adders=adders, between=members.between)
        links = [
            (adder, other)
            for names, count in zip(of_hosts, adders, strict=True)
            for place, adder in enumerate(names[: max(1, count)])
            for other in names[place + 1 :]
        ]
        firsts = Members(tuple(names[0] for names in of_hosts), FAN_IN)
        for _, way in members.between:
            links += WAYS[way].laid_out(firsts).links
        known = {frozenset(link): link for link in reversed(links)}
        return Layout(options, tuple(reversed(known.values())))

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        if len(self._members) > 1:
            return await super().sum(key, mine)
        return await self._ways[key[1]].sum(key, mine)

    async def _share(self, key: Key, arrays: Sequence[Arrays]) -> Callable[[], Array]:
        """Add up this member's share. The first member joins the shares, sums with the other hosts,
        and sends the sum to its host."""
        step, bucket = key
        first = self._members[0]
        whole = arrays[0][1]
        share, in_place = await self._actor.compute("reduce", self._reduce, arrays)
        if self._rank:
            await self._tell(
                (first,), SharedSum(number=step, bucket=bucket, values=() if in_place else (share,))
            )
            (whole,) = await self._sums.of(key, first)
            return lambda: whole
        adders = self._members[: self._counts[bucket]]
        sums = await self._of_all(self._sums, adders, key, () if in_place else (share,))
        if any(sums):
            whole = await self._actor.compute("gather", self._gather, whole, sums)
        total = (await self._ways[bucket].sum(key, whole))()
        if self._copies[bucket]:
            total = await self._actor.compute("gather", copied, total, self._ops)
        await self._tell(self._members[1:], SharedSum(number=step, bucket=bucket, values=(total,)))
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """Take an array of a member of this host, or of another host."""
        if (road := self._road(message, sender)) is None:
            super().contributed(message, sender)
        else:
            road.contributed(message, sender)

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take a sum of a member of this host, or of another host."""
        if (road := self._road(message, sender)) is None:
            super().summed(message, sender)
        else:
            road.summed(message, sender)

    def _road(self, message: Contribution | SharedSum, sender: str) -> Exchange | None:
        """The exchange between the hosts that a message belongs to; None if it is from this
        host."""
        if sender in self._members:
            return None
        return self._roads.get("ring") if message.bucket < 0 else self._ways.get(message.bucket)

    def _joins(self, count: int) -> bool:
        return self._rank == 0

    def _adding(self, size: int) -> int:
        return max(1, super()._adding(size))
