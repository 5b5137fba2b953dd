"""Ways to sum arrays over workers: what each of them is, and says of itself.

    collective   every member adds up its share of all arrays, in memory that all of them see
                 (`collective`)
    tree         up a tree of the members themselves and down again (`tree`, FireCaffe 6.2)
    halving      by halves, with one partner after the other, and back (`halving`)
    ring         piece by piece round a ring of them (`ring`)
    host         at an accumulator in host memory (`host`, `accumulator`)

Every exchange gives all members the same bits, whoever came first. Which there are:
`roles.registry`; which one a worker has: `choice`.
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

# from so many bytes on, the exchange of this name; from few bytes on to many
Between = tuple[tuple[int, str], ...]
TREE: Between = ((0, "tree"),)


@dataclass(frozen=True, kw_only=True)
class ExchangeOptions:
    """Base of what a worker is told of its exchange: a frozen dataclass, plain data in plan.json. A
    bucket takes layers until it has `bucket_bytes`."""

    bucket_bytes: ClassVar[int] = BUCKET_BYTES

    def sends(self, name: str, size: int, shapes: Shapes) -> Sent:
        """What the member of this name sends for one sum of `size` numbers: bytes, by receiver and
        message."""
        return ()

    def loads(self, name: str, size: int, shapes: Shapes) -> Loads:
        """The pieces of array work that the member does for one sum of `size` numbers."""
        return ()

    def steps(self, name: str, bucket: str, size: int, shapes: Shapes) -> Steps:
        """What that member does for one sum, from (name, "bucket", bucket) on, when its own array
        is there, until (name, "summed", bucket)."""
        yield Step((name, "summed", bucket), None, ((name, "bucket", bucket),))

    @property
    def told(self) -> str:
        """What a person should know of the way that sums take, when a run starts; "": nothing."""
        return ""


@dataclass(frozen=True)
class Home:
    """A host with `members`, by rank, and its cores, if they are known."""

    members: tuple[str, ...]
    cores: int | None = None


@dataclass(frozen=True)
class Members:
    """Who sums: `names` by rank. `fan_in` is that of trees; `kernels`, `dtype` and `server` are
    those of an actor that adds up for others: how it computes, of what, and its name. `cores`: of
    the host where they live, if known. `hosts`: where they live on several; then `between` says
    which way sums shall take from host to host."""

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
    """An exchange in a topology: what each member is told, who talks to whom, actors besides the
    members."""

    options: ExchangeOptions
    links: tuple[Link, ...]
    servers: tuple[ActorSpec, ...] = ()


class Exchange(ABC):
    """Of one actor, which hands it the two messages. `sizes` are those of the buckets, in numbers
    of `dtype`; `ops` compute in host memory."""

    Options: ClassVar[type[Any]]
    fans: ClassVar[bool] = True  # it looks at the fan-in of its members
    # adds up in pairs of neighbours by rank, and these in pairs: 8 members as 1 does
    repeats: ClassVar[bool] = False
    # the exchange that takes its place among members on several hosts; "": itself
    over_hosts: ClassVar[str] = ""
    ways: ClassVar[bool] = False  # from host to host there are several, of which one is chosen

    @abstractmethod
    def __init__(
        self, actor: Actor, options: Any, sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
    ) -> None: ...

    @classmethod
    @abstractmethod
    def laid_out(cls, members: Members) -> Layout:
        """The exchange among these members."""

    @classmethod
    def refuses(cls, members: int) -> str:
        """Why so many members cannot sum so; "": they can."""
        return ""

    @abstractmethod
    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Exchange what is needed for the sum of all members' arrays of this key (1-D, on the
        host).

        Returns what gives the sum in the compute thread. Neither the sum nor `mine` must be written
        to.
        """

    @abstractmethod
    def contributed(self, message: Contribution, sender: str) -> None:
        """Gradients of others are complete. MessageError if they do not belong here, or came
        before."""

    @abstractmethod
    def summed(self, message: SharedSum, sender: str) -> None:
        """A sum is there. MessageError if it does not belong here, or came before."""
