"""Ways to sum arrays over workers: what a worker may ask of each, and which there are.

    collective   every member adds up its share of all arrays, in memory that all of them see (`collective`)
    tree         up a tree of the members themselves and down again (`tree_exchange`, FireCaffe 6.2)
    host         at an accumulator in host memory (`host_exchange`, `host_accumulator`)

All give every member the same bits, whoever came first. What never lives here: what the arrays mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import DTypeLike

from ops import Array, Backend
from roles.exchange.collective import Collective
from roles.exchange.host import HostExchange
from roles.exchange.partial_sums import Key
from roles.exchange.tree import TreeExchange
from roles.messages import Contribution, SharedSum
from runtime import Actor


class Exchange(Protocol):
    """For one actor, which hands it the two messages."""

    async def sum(self, key: Key, mine: Array) -> Callable[[], Array]:
        """Exchange what is needed for the sum of all members' arrays of this key (1-D, on the host).

        Returns what gives the sum in the compute thread. Neither the sum nor `mine` must be written to.
        """
        ...

    def contributed(self, message: Contribution, sender: str) -> None:
        """Gradients of others are complete. MessageError if they do not belong here, or came before."""

    def summed(self, message: SharedSum, sender: str) -> None:
        """A sum is there. MessageError if it does not belong here, or came before."""


EXCHANGES: dict[str, Callable[..., Exchange]] = {"collective": Collective, "tree": TreeExchange, "host": HostExchange}


def exchange_of(
    actor: Actor, options: Mapping[str, Any], sizes: Mapping[int, int], ops: Backend, dtype: DTypeLike
) -> Exchange:
    """The exchange that `options` describe: its `kind`, a key of EXCHANGES, and what that kind asks for.

    `sizes` are those of the buckets, in numbers of `dtype`; `ops` compute in host memory.
    """
    given = {key: value for key, value in options.items() if key != "kind"}
    return EXCHANGES[options["kind"]](actor, sizes=sizes, ops=ops, dtype=dtype, **given)
