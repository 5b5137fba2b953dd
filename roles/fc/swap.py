"""The messages between FC shards: each shard sends columns to every other, and goes on when all
columns have come."""

from __future__ import annotations

from collections.abc import Sequence

from nets.sharding.sharded_net import Shard
from ops import Array
from roles.messages import Blobs
from runtime import Actor, Conversation, Message, MessageError, Standing, message

MISSING = "missing"
HERE = "here"
TAKEN = "taken"
NO_SHARD = "not another shard's"
TAKE = "take"


@message
class FcTurn(Message):
    """The first FC shard tells the others: this pass is the next one of the passes that have no
    turn yet."""

    phase: str
    number: int


@message
class Columns(Message):
    """An FC shard tells another, after `link` of FC batch `part` of a pass. Forward: its columns of
    the InnerProduct at the end of the link. Backward: its part of the gradient of the receiver's
    columns that the link read, and of parameters that all shards have."""

    phase: str
    number: int
    part: int
    link: int
    backward: bool
    values: tuple[Array, ...]


COLUMNS = Conversation(
    "a shard's columns for this one",
    "phase number part link backward sender",
    MISSING,
    {(MISSING, Columns): (HERE,), (HERE, TAKE): (TAKEN,)},
    closed=(NO_SHARD,),
)

Key = tuple[str, int, int, int, bool]  # phase, number, part, link, backward


class ColumnSwap:
    """The exchange of columns for one of the `shards`, which are in the order of ranks. Its actor
    hands `Columns` to `came`. `net` checks their shapes."""

    def __init__(self, actor: Actor, shards: Sequence[str], net: Shard) -> None:
        self._actor = actor
        self._shards = tuple(shards)
        self._net = net
        self.rank = self._shards.index(actor.name)
        self._open: dict[Key, dict[int, Blobs]] = {}
        self._standing: Standing[tuple[str, int, int, int, bool, str]] = Standing(
            COLUMNS, self._unheard
        )
        # shard -> the last key that was taken: a shard never sends the same columns twice
        self._taken: dict[str, Key] = {}

    def __repr__(self) -> str:
        return f"<shard {self.rank} of {len(self._shards)}, {len(self._open)} swaps open>"

    async def send(self, key: Key, values: Sequence[Blobs]) -> None:
        """Send each other shard its values. `values` are in the order of ranks, and include this
        shard's own."""
        phase, number, part, link, backward = key
        self._open.setdefault(key, {})[self.rank] = values[self.rank]
        for rank, name in enumerate(self._shards):
            if rank != self.rank:
                told = Columns(
                    phase=phase,
                    number=number,
                    part=part,
                    link=link,
                    backward=backward,
                    values=values[rank],
                )
                await self._actor.tell(name, told, step=number)

    def came(self, message: Columns, sender: str) -> None:
        """Take another shard's columns. Raises MessageError if the sender is not a shard, has sent
        them before, or if the columns do not fit."""
        key = (message.phase, message.number, message.part, message.link, message.backward)
        self._standing.check(message, sender, (*key, sender))
        rank = self._shards.index(sender)
        if not self._net.fits(message.link, rank, message.values, backward=message.backward):
            raise MessageError(
                "bad_shape",
                (f"{message!r} of {sender}: no columns of that link, or of another shape or type"),
            )
        self._standing.move(Columns, (*key, sender))
        self._open.setdefault(key, {})[rank] = message.values

    def complete(self, key: Key) -> bool:
        """Have the columns of all shards come?"""
        return len(self._open.get(key, ())) == len(self._shards)

    def take(self, key: Key) -> list[Blobs]:
        """The columns of all shards for this one, in the order of ranks."""
        found = self._open.pop(key)
        for rank, name in enumerate(self._shards):
            if rank != self.rank:
                self._taken[name] = key
                self._standing.move(TAKE, (*key, name))
        return [found[rank] for rank in range(len(self._shards))]

    def _unheard(self, subject: tuple[str, int, int, int, bool, str]) -> str:
        *key, sender = subject
        if sender not in self._shards or sender == self._shards[self.rank]:
            return NO_SHARD
        return TAKEN if self._taken.get(sender) == tuple(key) else MISSING
