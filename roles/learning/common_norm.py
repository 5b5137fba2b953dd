"""The norm of a gradient whose layers are summed by several actors, for clipping.

Each holder of parameters tells the others the squares of its gradients of an iteration, once they
are complete. All of them add up the same numbers exactly, so they clip by the same factor, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class CommonNorm:
    """The shares of iterations that are under way, as one holder sees them. `peers`: the other
    holders."""

    def __init__(self, actor: Actor, peers: Sequence[str]) -> None:
        self._actor = actor
        self._peers = tuple(peers)
        self._holders = sorted((actor.name, *peers))
        self._parts = Parts(SHARE)
        self._squares: dict[tuple[int, int], list[float]] = {}

    def __repr__(self) -> str:
        return f"<norms of {len(self._squares)} iterations, shared with {', '.join(self._peers)}>"

    async def share(
        self, group: int, number: int, squares: Sequence[float]
    ) -> tuple[float, ...] | None:
        """Tell the others this holder's squares. Returns as `came`."""
        part = self._holders.index(self._actor.name)
        mine = NormShare(
            group=group,
            number=number,
            part=part,
            parts=len(self._holders),
            squares=tuple(squares),
        )
        for peer in self._peers:
            await self._actor.tell(peer, mine, step=number)
        return self.came(mine, self._actor.name)

    def came(self, message: NormShare, sender: str) -> tuple[float, ...] | None:
        """Take a share. Returns the squares of all gradients of the iteration if it was the last
        share. Raises MessageError for a share that came before."""
        key = (message.number, message.group)
        whole = self._parts.came(message, sender, key, message.part, message.parts)
        self._squares.setdefault(key, []).extend(message.squares)
        return tuple(self._squares.pop(key)) if whole else None
