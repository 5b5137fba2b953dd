"""Sums of workers' arrays at one accumulator in host memory: each worker sends its array, and gets
the sum back.

The accumulator is an actor (`accumulator`). If workers live on several hosts, there is one on each,
and the first one adds up the sums of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Sending, Step, Steps
from roles.exchange.accumulator import AccumulatorOptions
from roles.exchange.exchange import Exchange, ExchangeOptions, Home, Layout, Members
from roles.exchange.partial_sums import BY, CLOSED, HERE, SUM, SUMMED, Key, Summands, check_count
from roles.messages import Contribution, SharedSum
from runtime import Actor, ActorSpec, Conversation

AWAITED = "awaited from the accumulator"
TOTAL = Conversation(
    "the sum of all",
    BY,
    AWAITED,
    {(AWAITED, SharedSum): (HERE,), (HERE, SUM): (SUMMED,)},
    closed=CLOSED,
    never=(Contribution,),
)


@dataclass(frozen=True, kw_only=True)
class HostOptions(ExchangeOptions):
    """The name of the accumulator. `elsewhere`: for members on other hosts than the first, the
    accumulator of their host."""

    accumulator: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """The accumulator of a member."""
        return self.elsewhere.get(name, self.accumulator)

    @property
    def told(self) -> str:
        """A line for the user if hosts are summed first."""
        hosts = len({*self.elsewhere.values()}) + 1
        text = (
            f"sums are made by an accumulator on each of {hosts} hosts first, then by "
            f"{self.accumulator}"
        )
        return text if self.elsewhere else ""

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """Its array goes to the accumulator."""
        yield self.of(name), Contribution, shapes.number * size

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """Its array leaves, the sum comes."""
        given = Sending((self.of(name),), shapes.number * size)
        yield Step((name, "Contribution", bucket), given, ((name, "bucket", bucket),))
        yield Step((name, "summed", bucket), None, ((self.of(name), "SharedSum", bucket, name),))


class HostExchange(Exchange):
    """The exchange at an accumulator, as one actor runs it; see `exchange.Exchange`."""

    Options = HostOptions
    fans = False
    repeats = True
    reads_device = True
    conversations: ClassVar[tuple[Conversation, ...]] = (TOTAL,)

    def __init__(
        self,
        actor: Actor,
        options: HostOptions,
        sizes: Mapping[int, int],
        ops: Backend,
        dtype: DTypeLike,
    ) -> None:
        self._actor = actor
        self._accumulator = options.of(actor.name)
        self._summands = Summands(TOTAL, self._awaited, sizes, dtype)

    @classmethod
    def laid_out(cls, members: Members) -> Layout:
        """Every member talks to the accumulator of its host, and every accumulator to the first
        one."""
        first = members.server
        hosts = members.hosts or (Home(members.names),)
        names = (first, *(f"{first}-{number}" for number in range(1, len(hosts))))
        common = AccumulatorOptions(
            members=members.names, kernels=members.kernels, dtype=members.dtype
        )
        servers = []
        links = []
        elsewhere = dict[str, str]()
        for name, host in zip(names, hosts, strict=True):
            far = name != first
            options = replace(
                common,
                members=host.members,
                above=first if far else "",
                below=() if far else names[1:],
            )
            options = replace(options, beside=host.members[0] if members.hosts else "")
            servers.append(ActorSpec(name, "host_accumulator", options))
            links += [(first, name)] * far + [(name, member) for member in host.members]
            elsewhere |= dict.fromkeys(host.members, name) if far else {}
        return Layout(
            HostOptions(accumulator=first, elsewhere=elsewhere), tuple(links), tuple(servers)
        )

    def __repr__(self) -> str:
        return f"<exchange at {self._accumulator}>"

    def _awaited(self, bucket: int, sender: str) -> str | None:
        return AWAITED if sender == self._accumulator else None

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        step, bucket = key
        await self._actor.tell(
            self._accumulator,
            Contribution(number=step, bucket=bucket, values=mine, into=()),
            step=step,
        )
        del mine  # frees its place on a device
        (total,) = await self._summands.of(key, self._accumulator)
        self._summands.close(key)
        return lambda: total

    def contributed(self, message: Contribution, sender: str) -> None:
        """Refuse gradients of other workers: here they go to the accumulator only."""
        self._summands.size(message, sender, (message.number, message.bucket))

    def summed(self, message: SharedSum, sender: str) -> None:
        """Take the sum of all members from the accumulator."""
        key = (message.number, message.bucket)
        self._summands.size(message, sender, key)
        check_count(message, sender, "arrays", len(message.values), 1)
        self._summands.arrived(message, sender, key, message.values)
