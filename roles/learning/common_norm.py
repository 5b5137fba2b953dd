"""The norm of a gradient whose layers are summed by several actors, for clipping.

Each holder of parameters tells the others the squares of its gradients of an iteration, once they
are complete. All of them add up the same numbers exactly, so they clip by the same factor, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roles.learning.part_counts import Parts, in_parts
from runtime import Actor, Message, message


@message
class NormShare(Message):
    """A holder of parameters tells the others: the sum of the squares of each of its gradients of a
    group's iteration. Its share is part `part` of `parts`."""

    group: int
    number: int
    part: int
    parts: int
    squares: tuple[float, ...]


SHARE = in_parts("a holder's share of a norm", "number group", NormShare)


@dataclass(frozen=True)
class NormShares:
    """The holders of a topology's gradients, as one actor sees them. `mine`: its own place among
    `holders`; replicas with the same gradients have one place. `told`: the actors that it tells.
    `heard`: those that tell it."""

    holders: int = 1
    mine: int = 0
    told: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()


ALONE = NormShares()


class CommonNorm:
    """The shares of iterations that are under way, as one holder sees them."""

    def __init__(self, actor: Actor, shares: NormShares = ALONE) -> None:
        self._actor = actor
        self._shares = shares
        self._parts = Parts(SHARE)
        self._squares: dict[tuple[int, int], list[float]] = {}

    def __repr__(self) -> str:
        told = ", ".join(self._shares.told) or "no actor"
        return f"<norms of {len(self._squares)} iterations, shared with {told}>"

    async def share(
        self, group: int, number: int, squares: Sequence[float]
    ) -> tuple[float, ...] | None:
        """Tell the others this holder's squares. Returns as `came`."""
        mine = NormShare(
            group=group,
            number=number,
            part=self._shares.mine,
            parts=self._shares.holders,
            squares=tuple(squares),
        )
        for name in self._shares.told:
            await self._actor.tell(name, mine, step=number)
        return self.came(mine, self._actor.name)

    def came(self, message: NormShare, sender: str) -> tuple[float, ...] | None:
        """Take a share. Returns the squares of all gradients of the iteration if it was the last
        share. Raises MessageError for a share that came before."""
        key = (message.number, message.group)
        whole = self._parts.came(message, sender, key, message.part, message.parts)
        self._squares.setdefault(key, []).extend(message.squares)
        return tuple(self._squares.pop(key)) if whole else None


def norm_sent(shares: NormShares) -> Iterator[tuple[str, type[Message], int]]:
    """The messages of one holder about a norm, for plans. They hold no arrays."""
    return ((name, NormShare, 0) for name in shares.told)
