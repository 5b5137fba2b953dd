"""The messages between islands and the outer server."""

from __future__ import annotations

from roles.messages import Blobs
from runtime import Message, message

UNMOVED = -1  # instead of the iterations in an island's outer model: those of the run's beginning
UNKNOWN = -2  # the island has begun a later life, and does not hold the outer model yet


@message
class Gain(Message):
    """Island asks the outer server: my model has changed by these arrays since your last answer, in
    iterations `number` to `number` + `count` - 1 with `rows` samples. Answered with OuterModel.

    The arrays of all layers come one after the other. `arrays` and `formats` have their number and
    the wire formats of the blobs for each layer. Running statistics come as they are. `sequence`
    grows with each gain of the island. With `again`, the server has died since it was asked first,
    and may have merged the gain.
    """

    number: int
    count: int
    rows: int
    layers: tuple[str, ...]
    arrays: tuple[int, ...]
    formats: tuple[str, ...]
    blobs: Blobs
    sequence: int = 0
    again: bool = False


@message
class OuterModel(Message):
    """Answer: the outer model. With `whole`, the arrays are its parameters as they are; else they
    are the encoded difference from the model that the island holds. Fields as in Gain.

    `version`: the number of iterations in it. `merged`: for each island, in the order of ranks, the
    `sequence` of its last gain in it.
    """

    version: int
    whole: bool
    layers: tuple[str, ...]
    arrays: tuple[int, ...]
    formats: tuple[str, ...]
    blobs: Blobs
    merged: tuple[int, ...] = ()


@message
class GetOuter(Message):
    """Island asks the outer server for the whole outer model, which it then holds. None of its
    gains is under way. Answered with OuterModel."""


@message
class GetVersion(Message):
    """Outer server in a new life asks an island: how many iterations are in the outer model that
    you hold? Answered with a number, or UNMOVED or UNKNOWN."""


@message
class GetHeld(Message):
    """Outer server in a new life asks an island for the outer model that it holds, from which the
    server goes on. Answered with OuterModel."""
