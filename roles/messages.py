"""What the training roles say to one another. One class per sentence; no logic.

`phase` and `number`, the global number of a training iteration or test batch, name a pass. A group
of `members` workers does it, each by its `rank`. Who is in which group is known from the tickets
alone: servers keep no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from runtime.messages.message import Array, Json, Message, message

TRAIN = "TRAIN"
TEST = "TEST"
STOP = "STOP"
Blobs = tuple[Array, ...]  # of a layer, or of what crosses a cut of the net


@message
class NextTicket(Message):
    """Worker asks the coordinator: what are the next passes of my group?"""


@message
class Ticket(Message):
    """Answer: do pass `number` of this phase, as member `rank` of the group, and `count` - 1 more
    after it; or STOP.

    `cuts` cut each batch's rows among the members: `rank` has those from cuts[rank] up to cuts[rank
    + 1]. `after` is the group's training iteration before `number`, whose update the model must
    hold; -1 for none. `first` is the sample in the batch's first row, counted from the first of the
    run or of the test; `probed` numbers before it were probes'.
    """

    phase: str
    number: int
    group: int = 0
    rank: int = 0
    cuts: tuple[int, ...] = ()
    after: int = -1
    count: int = 1
    first: int = 0
    probed: int = 0

    def each(self) -> Iterator[Ticket]:
        """A ticket for each of the passes, in order."""
        for at, number in enumerate(range(self.number, self.number + self.count)):
            after = number - 1 if self.phase == TRAIN and at else self.after
            yield replace(
                self, number=number, after=after, count=1, first=self.first + at * self.rows
            )

    @property
    def counted(self) -> int:
        """Its number without those of probes: what is random in a pass goes by this, so it comes
        again after them."""
        return self.number - self.probed

    def samples(self, low: int, high: int) -> tuple[int, int]:
        """Those in rows [low, high) of the batch."""
        return self.first + low, self.first + high

    @property
    def members(self) -> int:
        """Workers of the group."""
        return len(self.cuts) - 1

    @property
    def rows(self) -> int:
        """Of the whole batch."""
        return self.cuts[-1]

    @property
    def mine(self) -> tuple[int, int]:
        """The rows [low, high) that are the member's."""
        return self.cuts[self.rank], self.cuts[self.rank + 1]


@message
class PullLayer(Message):
    """Worker asks a model server for a layer's parameters for one pass, once its group's iteration
    `after` is in.

    All members of the group get the version that the first of them got.
    """

    group: int
    members: int
    phase: str
    number: int
    layer: str
    after: int


@message
class LayerModel(Message):
    """Answer: a published version of a layer's parameters, weights first. Nobody writes to it
    again, but a hogwild server does."""

    layer: str
    version: int
    blobs: tuple[Array, ...]


@message
class Activations(Message):
    """Worker asks the FC server: the blobs that cross from conv to FC phase, its rows of a batch of
    `rows`.

    `counted` is the ticket's: what is random in a pass goes by it.
    """

    group: int
    rank: int
    members: int
    phase: str
    number: int
    counted: int
    rows: int
    blobs: tuple[Array, ...]


@message
class ActivationSlice(Message):
    """Worker asks every FC shard: the blobs that cross from conv to FC phase, its rows of FC batch
    `part` of a pass.

    `counted` and `cuts` are the ticket's: with the scheme `cuts` say of which rows FC batches are
    made (`fc_batches`).
    """

    phase: str
    number: int
    counted: int
    rank: int
    part: int
    cuts: tuple[int, ...]
    blobs: tuple[Array, ...]


@message
class ActivationGrads(Message):
    """Answer: the gradients of those blobs that have one (none in TEST), and the scores of the
    whole FC batch.

    Of an FC shard they are one part of a sum. `seconds`: what it took to compute them.
    """

    blobs: tuple[Array, ...]
    scores: Json
    seconds: float


@message
class LayerGradient(Message):
    """The gradient of one layer's parameters, summed over the members below the sender.

    The receiver adds up `parts` of them, in the order of their `part`. `formats` says how each blob
    travels; a blob has one array or two (`wire_formats`). A sum says of how many gradients
    (`leaves`), and the sum of their `squares` (`roles.tuning.watch`).
    """

    group: int
    number: int
    layer: str
    part: int
    parts: int
    formats: tuple[str, ...]
    blobs: tuple[Array, ...]
    leaves: int = 1
    squares: float = 0.0


@message
class Updated(Message):
    """A model server tells the coordinator: iteration `number` is in the model, with this staleness
    in updates."""

    number: int
    version: int
    staleness: int


@message
class PassDone(Message):
    """Worker tells the coordinator: my part of this pass, `rows` rows, is computed and sent.

    `scores` are means over the worker's own rows, or over the whole batch where one server computed
    them; `seconds`: what the worker computed; `exposed`: seconds of the pass in which nobody
    computed for it.
    """

    members: int
    phase: str
    number: int
    rows: int
    scores: Json
    seconds: float = 0.0
    exposed: float = 0.0


@message
class Regroup(Message):
    """Anybody asks the coordinator: from the next iteration on, so many `workers` in so many
    `groups`, these rates, a `batch` of so many images. 0 of these, a negative rate or momentum: as
    it is. Answered with Done once it is so."""

    workers: int = 0
    groups: int = 0
    base_lr: float = -1.0
    momentum: float = -1.0
    batch: int = 0


@message
class Hold(Message):
    """The tuner asks the coordinator: hand out nothing more, and keep the model as it is once the
    iterations under way are in it. Answered with Held once it is so."""


@message
class Held(Message):
    """Answer: the run is held after so many iterations; what it can be tried with."""

    iteration: int
    workers: int
    groups: int
    base_lr: float
    momentum: float
    batch: int


@message
class Probe(Message):
    """The tuner asks the coordinator of a run that is held: train so for `iterations` or until
    `seconds` have passed (0: no limit), then put the model back; samples come again. What is to be
    `kept` and ends before anything else is due is training instead, unless its loss rises, or
    `falls` by a smaller part. 0, negative: as before."""

    iterations: int
    seconds: float = 0.0
    workers: int = 0
    groups: int = 0
    base_lr: float = -1.0
    momentum: float = -1.0
    batch: int = 0
    kept: bool = False
    falls: float = 0.0


@message
class Probed(Message):
    """Answer: the losses of the iterations of a probe, in the order of their ends, and the seconds
    that they took; `pace`: seconds between two ends of the later half, 0: none. It `diverged`: cut
    there; is `kept`: they count."""

    losses: tuple[float, ...]
    seconds: float
    pace: float = 0.0
    diverged: bool = False
    kept: bool = False


@message
class Release(Message):
    """The tuner asks the coordinator of a run that is held: go on from the model that is kept, with
    these groups, rates and batch. 0 and negative: as before the hold. If training diverges within
    `watched` iterations, go back to that model, and hold the run again. Answered with Released,
    once these iterations have ended."""

    workers: int = 0
    groups: int = 0
    base_lr: float = -1.0
    momentum: float = -1.0
    batch: int = 0
    watched: int = 0


@message
class Released(Message):
    """Answer: the run went on, by now for so many iterations; or it `diverged`, and is held where
    it was."""

    iterations: int = 0
    diverged: bool = False


@message
class Place(Message):
    """Coordinator asks a worker or reducer: send gradients for `server` to `parent` from now on, as
    part `part` of `parts`. Nothing is under way when it asks."""

    server: str
    parent: str
    part: int
    parts: int


@message
class Rates(Message):
    """Coordinator asks who holds parameters: go on with these rates, for batches of so many images.
    Nothing is under way."""

    base_lr: float
    momentum: float
    batch: int


@message
class Done(Message):
    """Answer: so it is."""


@message
class GetState(Message):
    """Coordinator asks a server for everything a checkpoint must hold. Nothing is under way when it
    asks."""


@message
class State(Message):
    """Answer: named arrays (parameters `layer.i`, momentum `layer.i.history`) and the server's
    number of updates.

    `slices` are those arrays that are parts of a whole: by name [axis, low, high, total].
    """

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    version: int
    slices: Json = field(default_factory=dict)


@message
class SetState(Message):
    """Who recovers a model asks: go on from this state, as GetState gave it. Nothing is under way
    when it asks."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    version: int


@message
class Contribution(Message):
    """A worker tells those who add up: my gradients of this bucket, and those below me in a tree,
    complete for good.

    `into`: from a collective's first member, memory for the sum, where the others may put their
    shares of it.
    """

    number: int
    bucket: int
    values: Array
    into: tuple[Array, ...]


@message
class Taken(Message):
    """Answer to an array whose sender waits until it is here before it sends the next one
    elsewhere."""


@message
class SharedSum(Message):
    """Answer, to all: the sum of all workers' gradients of this bucket; of a collective's member,
    that of its share.

    No `values`: it is in its place of the memory that the first member gave.
    """

    number: int
    bucket: int
    values: tuple[Array, ...]
