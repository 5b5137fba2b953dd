"""The base classes of exchanges, which are ways to sum arrays over workers.

    collective   members add up their shares of all arrays, in memory that all of them see
                 (`collective`)
    per-host     a collective on each host, then one of the others between hosts (`per_host`)
    tree         up a tree of the members themselves and down again (`tree_exchange`, FireCaffe 6.2)
    halving      by halves, with one partner after the other, and back (`halving`)
    ring         piece by piece round a ring of the members (`ring`)
    host         at an accumulator in host memory (`host_accumulate`, `accumulator`)

Every exchange gives all members the same bits, in whatever order their arrays arrive.
`roles.registry` lists the exchanges; `chosen_exchange` makes the one that a worker uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.base.loads import Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.steps import Step, Steps
from roles.exchange.buckets import BUCKET_BYTES
from roles.exchange.partial_sums import Key
from roles.messages import Contribution, SharedSum
from runtime import Actor, ActorSpec
from runtime.plan.topology import Link

# (bytes, name), from few to many bytes: a sum of so many bytes or more uses this exchange
Between = tuple[tuple[int, str], ...]
TREE: Between = ((0, "tree"),)


@dataclass(frozen=True, kw_only=True)
class ExchangeOptions:
    """The base of the options that a worker gets for its exchange: a frozen dataclass, plain data
    in plan.json. A bucket takes layers until it has `bucket_bytes`."""

    bucket_bytes: ClassVar[int] = BUCKET_BYTES

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """The messages that the member `name` sends for one sum of `size` numbers: receiver,
        message type and bytes of arrays."""
        return ()

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """The pieces of array work that the member does for one sum of `size` numbers."""
        return ()

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """The steps of the member in one sum. They begin after (name, "bucket", bucket), when its
        own array is complete, and end with (name, "summed", bucket)."""
        yield Step((name, "summed", bucket), None, ((name, "bucket", bucket),))

    @property
    def told(self) -> str:
        """A line for the user at the start of a run about the way that sums take; "": none."""
        return ""


@dataclass(frozen=True)
class Home:
    """A host with its `members` by rank, and its cores, if they are known."""

    members: tuple[str, ...]
    cores: int | None = None


@dataclass(frozen=True)
class Members:
    """The members of a sum: their `names` by rank. `fan_in` is for trees.

    `kernels`, `dtype` and `server` are for an actor that adds up for the members: its kernels, the
    dtype of the sums, and its name. `cores` are those of the members' host, if known. `hosts`: the
    members of each host, if they live on several; then `between` has the ways of sums from host to
    host.
    """

    names: tuple[str, ...]
    fan_in: int = 2
    kernels: str = "numpy"
    dtype: str = "float32"
    server: str = "accumulator"
    cores: int | None = None
    hosts: tuple[Home, ...] = ()
    between: Between = TREE


@dataclass(frozen=True)
class Layout:
    """An exchange in a topology: the options of each member, the links, and the actors that are not
    members."""

    options: ExchangeOptions
    links: tuple[Link, ...]
    servers: tuple[ActorSpec, ...] = ()


class Exchange(ABC):
    """An exchange as one actor runs it. The actor hands it the messages Contribution and SharedSum.

    `sizes` are the sizes of the buckets in numbers of `dtype`. `ops` compute in host memory.
    """

    Options: ClassVar[type[Any]]
    fans: ClassVar[bool] = True  # it uses the fan-in of its members
    # adds up in pairs of neighbours by rank, and these in pairs: 8 members give the bits of 1
    repeats: ClassVar[bool] = False
    # the exchange that replaces it among members on several hosts; "": itself
    over_hosts: ClassVar[str] = ""
    reads_device: ClassVar[bool] = False  # it takes arrays on a device from actors of its process
    ways: ClassVar[bool] = False  # it can choose among several ways from host to host

    @abstractmethod
    def __init__(
        self, actor: Actor, options: Any, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> None: ...

    @classmethod
    @abstractmethod
    def laid_out(cls, members: Members) -> Layout:
        """The layout of this exchange among these members."""

    @classmethod
    def refuses(cls, members: int) -> str:
        """The reason why so many members cannot sum in this way; "" if they can."""
        return ""

    @abstractmethod
    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Exchange the messages that are needed for the sum of all members' arrays of this key
        (1-D, as `Backend.to_share` returns them).

        Returns a function that gives the sum in the compute thread. Neither the sum nor `mine` may
        be written to.
        """

    @abstractmethod
    def contributed(self, message: Contribution, sender: str) -> None:
        """Take another member's gradients, which are complete. Raises MessageError if they do not
        belong here, or came before."""

    @abstractmethod
    def summed(self, message: SharedSum, sender: str) -> None:
        """Take a sum. Raises MessageError if it does not belong here, or came before."""
