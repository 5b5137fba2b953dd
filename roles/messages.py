"""What the training roles say to one another. One class per sentence; no logic.

`group` and `rank` name a worker; `position` counts the tickets of a group, so (group, position) names one pass of
one group whatever its kind. `number` is the global number of a training iteration or test batch.
"""

from __future__ import annotations

from runtime.messages import Array, Json, Message, message

TRAIN, TEST, STOP = "TRAIN", "TEST", "STOP"


@message
class NextTicket(Message):
    """Worker asks the coordinator: what is my group's pass number `position`?"""

    group: int
    position: int


@message
class Ticket(Message):
    """Answer: run batch `number` (its first `rows` rows) in this phase; or STOP."""

    phase: str
    number: int
    rows: int


@message
class PullLayer(Message):
    """Worker asks the conv model for a layer's parameters for one pass, once `after` updates of its own group are in.

    All members of the group get the version that the first of them got.
    """

    group: int
    position: int
    phase: str
    layer: str
    after: int


@message
class LayerModel(Message):
    """Answer: a published version of a layer's parameters, weights first. Nobody writes to it again."""

    layer: str
    version: int
    blobs: tuple[Array, ...]


@message
class Activations(Message):
    """Worker asks the FC server: the blobs that cross from conv to FC phase, rows of rank `rank` of the batch."""

    group: int
    rank: int
    position: int
    phase: str
    number: int
    rows: int
    blobs: tuple[Array, ...]


@message
class ActivationGrads(Message):
    """Answer: the gradients of those blobs that have one (none in TEST), and the scores of the whole batch.

    `seconds`: what it took to compute them.
    """

    blobs: tuple[Array, ...]
    scores: Json
    seconds: float


@message
class LayerGradient(Message):
    """The gradient of one layer's parameters, summed over the members below the sender.

    `formats` says how each blob travels; a blob has one array or two (`wire_formats`).
    """

    group: int
    position: int
    number: int
    layer: str
    formats: tuple[str, ...]
    blobs: tuple[Array, ...]


@message
class Updated(Message):
    """A model server tells the coordinator: iteration `number` is in the model, with this staleness in updates."""

    number: int
    version: int
    staleness: int


@message
class PassDone(Message):
    """Worker tells the coordinator: my part of this pass is computed and sent.

    `scores` are means over the worker's own rows, or over the whole batch where one server computed them; `exposed`:
    seconds of the pass in which nobody computed for it.
    """

    group: int
    rank: int
    phase: str
    number: int
    rows: int
    scores: Json
    exposed: float = 0.0


@message
class GetState(Message):
    """Coordinator asks a server for everything a checkpoint must hold. Nothing is under way when it asks."""


@message
class State(Message):
    """Answer: named arrays (parameters `layer.i`, momentum `layer.i.history`) and the server's number of updates."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    version: int


@message
class Contribution(Message):
    """A member of a collective tells the others: my gradients of this bucket, complete for good.

    `into`: from the first member, memory for the sum, where the others may put their shares of it.
    """

    number: int
    bucket: int
    values: Array
    into: tuple[Array, ...]


@message
class SharedSum(Message):
    """A member of a collective tells the others: the sum of all members' gradients, of my share of this bucket.

    No `values`: it is in its place of the memory that the first member gave.
    """

    number: int
    bucket: int
    values: tuple[Array, ...]
