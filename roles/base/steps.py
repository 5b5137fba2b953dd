"""What an actor does in one training iteration of a group, as steps that wait for one another:
times follow from them.

A role says its steps in its own file, beside what it sends (`PredictionOptions.steps`). A step is
named by its actor and by what it is, so that others can wait for it. Messages are steps of their
sender, named by their type:

    ("conv-0-1", "backward", "2")                 Work("backward conv2", 32)
        after ("conv-0-1", "answered")
    ("conv-0-1", "LayerGradient", "conv2")        Sending(("reducer-0",), 9600)
        after ("conv-0-1", "backward", "2")
    ("reducer-0", "reduce", "conv2", "conv-0-1")  Work("reduce")
        after ("conv-0-1", "LayerGradient", "conv2")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Key = tuple[str, ...]  # the actor, what it does, of what
SENT = "sent"
FEW = 4


@dataclass(frozen=True)
class Work:
    """Array work under the name that it has in a profile, on so many rows (0: it is not about
    rows). `beside`: nothing that the actor does waits for it (`Compute.race`)."""

    label: str
    rows: int = 0
    beside: bool = False


@dataclass(frozen=True)
class Sending:
    """A message to each of these actors, with so many bytes of arrays (None: it depends on the
    numbers; 0: it takes the latency only). Several receivers have it at one time."""

    to: tuple[str, ...]
    size: int | None = 0


HANDLED = Work("")  # no array work, but what is in the inbox before it must be done


@dataclass(frozen=True)
class Step:
    """`does` it when all steps of `after` have ended, and those of `since` in the group's iteration
    before; None: that is all. `takes` begins a stretch of this name, in which one iteration of all
    groups is at a time; `gives` ends it.
    """

    name: Key
    does: Work | Sending | None = None
    after: tuple[Key, ...] = ()
    since: tuple[Key, ...] = ()
    takes: str = ""
    gives: str = ""


Steps = Iterable[Step]


def sent(key: Key) -> Key:
    """To wait for until a message may leave (`await tell`), not until it is there."""
    return (*key, SENT)


@dataclass(frozen=True)
class Turn:
    """An iteration of a group: its `members` by rank, and which it is of those after which all
    begins anew (`of`)."""

    members: tuple[str, ...]
    number: int = 0
    of: int = 1

    @property
    def last(self) -> bool:
        """Is it the last of them?"""
        return self.number == self.of - 1


def one_by_one(key: Key, to: Sequence[str], size: int | None, after: Key) -> Steps:
    """The same to each of these, one after the other; to more than FEW at one pace: with a piece
    each, a graph would grow with the square of those who send so. Who waits for it: `arrival`,
    `all_sent`."""
    if len(to) > FEW:
        yield Step(key, Sending(tuple(to), size), (after,))
        return
    for receiver in to:
        yield Step((*key, receiver), Sending((receiver,), size), (after,))
        after = sent((*key, receiver))


def arrival(key: Key, receiver: str, receivers: int) -> Key:
    """The step that ends when what is sent `one_by_one` to so many is with one of them."""
    return key if receivers > FEW else (*key, receiver)


def all_sent(key: Key, to: Sequence[str]) -> tuple[Key, ...]:
    """What to wait for until all that is sent `one_by_one` may leave."""
    return tuple(sent(arrival(key, receiver, len(to))) for receiver in to[-1:])
