"""The steps of an actor in one training iteration of a group, from which times are predicted.

A role declares its steps in its own file, next to the bytes that it sends
(`PredictionOptions.steps`). The key of a step has its actor and its action, so that other steps can
wait for it. Messages are steps of their sender, with their type in the key:

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

Key = tuple[str, ...]  # the actor, its action, the object of the action
SENT = "sent"
FEW = 4


@dataclass(frozen=True)
class Work:
    """Array work on `rows` rows (0: it does not work on rows). `label` is its name in a profile.

    `beside`: the work runs next to all other work of the actor, and none of that waits for it
    (`Compute.race`).
    """

    label: str
    rows: int = 0
    beside: bool = False


@dataclass(frozen=True)
class Sending:
    """A message to each of these actors, with `size` bytes of arrays. None: the size depends on the
    values. 0: the message takes only the latency. Several receivers get it at the same time."""

    to: tuple[str, ...]
    size: int | None = 0


HANDLED = Work("")  # no array work, but earlier messages in the inbox are handled first


@dataclass(frozen=True)
class Step:
    """One step. It begins when all steps of `after` have ended, and when those of `since` have
    ended in the group's previous iteration.

    `does` is its work or its message; with None, the step ends as soon as it begins. `takes` begins
    a section of this name, in which only one iteration of all groups may be at a time. `gives` ends
    the section.
    """

    name: Key
    does: Work | Sending | None = None
    after: tuple[Key, ...] = ()
    since: tuple[Key, ...] = ()
    takes: str = ""
    gives: str = ""


Steps = Iterable[Step]


def sent(key: Key) -> Key:
    """The key to wait for until a message may leave (`await tell`). It does not wait for the
    arrival."""
    return (*key, SENT)


@dataclass(frozen=True)
class Turn:
    """One iteration of a group, with the `members` by rank. The steps repeat after `of` iterations,
    and this is number `number` of them, counted from 0."""

    members: tuple[str, ...]
    number: int = 0
    of: int = 1

    @property
    def last(self) -> bool:
        """Is it the last iteration before the steps repeat?"""
        return self.number == self.of - 1


def one_by_one(key: Key, to: Sequence[str], size: int | None, after: Key) -> Steps:
    """Steps that send the same message to each receiver, one after the other. `arrival` and
    `all_sent` give the keys to wait for.

    More than FEW receivers get it in one step, at the same time. With a step for each, a graph
    would grow with the square of the number of such senders.
    """
    if len(to) > FEW:
        yield Step(key, Sending(tuple(to), size), (after,))
        return
    for receiver in to:
        yield Step((*key, receiver), Sending((receiver,), size), (after,))
        after = sent((*key, receiver))


def arrival(key: Key, receiver: str, receivers: int) -> Key:
    """The step that ends when a message sent `one_by_one` to so many receivers has arrived at one
    of them."""
    return key if receivers > FEW else (*key, receiver)


def all_sent(key: Key, to: Sequence[str]) -> tuple[Key, ...]:
    """The keys to wait for until every message that is sent `one_by_one` may leave."""
    return tuple(sent(arrival(key, receiver, len(to))) for receiver in to[-1:])


def norm_steps(name: str, told: tuple[str, ...], after: tuple[Key, ...]) -> Steps:
    """The steps of a holder that computes its share of a norm and tells it: its gradients are
    complete `after` these."""
    yield Step((name, "norm"), Work("norm"), after)
    yield Step((name, "NormShare"), Sending(told), ((name, "norm"),))


def norm_known(name: str, heard: tuple[str, ...]) -> tuple[Key, ...]:
    """The steps after which a holder knows the whole norm. It is told by those of `heard`."""
    return ((name, "norm"), *((other, "NormShare") for other in heard))
