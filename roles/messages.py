"""The messages of the training roles. One class each; no logic.

`phase` and `number`, the global number of a training iteration or test batch, name a pass. A group
of `members` workers does it, and each has a `rank`. Only the tickets say which workers are in a
group: servers keep no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from runtime.messages.message import Array, Json, Message, message

TRAIN = "TRAIN"
TEST = "TEST"
STOP = "STOP"
Blobs = tuple[Array, ...]  # the blobs of a layer, or the blobs that cross a cut of the net


@message
class NextTicket(Message):
    """Worker asks the coordinator: what are the next passes of my group?"""


@message
class Ticket(Message):
    """Answer: do pass `number` of this phase, as member `rank` of the group, and `count` - 1 more
    passes after it; or STOP.

    `cuts` cut each batch's rows among the members: `rank` has the rows from cuts[rank] up to
    cuts[rank + 1]. `after` is the group's training iteration before `number`, whose update the
    model must hold; -1: none. `first` is the sample in the batch's first row, counted from the
    first sample of the run or of the test. `probed` of the numbers before it belong to probes.
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
        """A ticket for each of the passes, in their order."""
        for at, number in enumerate(range(self.number, self.number + self.count)):
            after = number - 1 if self.phase == TRAIN and at else self.after
            yield replace(
                self, number=number, after=after, count=1, first=self.first + at * self.rows
            )

    @property
    def counted(self) -> int:
        """Its number without the iterations of probes. Random values in a pass depend on this
        number, so that they come again after a probe."""
        return self.number - self.probed

    def samples(self, low: int, high: int) -> tuple[int, int]:
        """The samples in rows [low, high) of the batch."""
        return self.first + low, self.first + high

    @property
    def members(self) -> int:
        """The number of workers in the group."""
        return len(self.cuts) - 1

    @property
    def rows(self) -> int:
        """The rows of the whole batch."""
        return self.cuts[-1]

    @property
    def mine(self) -> tuple[int, int]:
        """The member's rows [low, high)."""
        return self.cuts[self.rank], self.cuts[self.rank + 1]


@message
class PullLayer(Message):
    """Worker asks a model server for a layer's parameters for one pass. They must include the
    update of its group's iteration `after`.

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
    """Answer: a published version of a layer's parameters, weights first. It is never written to
    again, except by a hogwild server."""

    layer: str
    version: int
    blobs: tuple[Array, ...]


@message
class Activations(Message):
    """Worker asks the FC server: here are the blobs that cross from conv to FC phase, for my rows
    of a batch of `rows`.

    `counted` is the ticket's: random values in a pass depend on it.
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
    """Worker asks every FC shard: here are the blobs that cross from conv to FC phase, for my rows
    of FC batch `part` of a pass.

    `counted`, `cuts` and `group` are the ticket's. The scheme and `cuts` determine the rows of FC
    batches (`fc_batches`).
    """

    phase: str
    number: int
    counted: int
    rank: int
    part: int
    cuts: tuple[int, ...]
    blobs: tuple[Array, ...]
    group: int = 0


@message
class ActivationGrads(Message):
    """Answer: the gradients of those blobs that have one (none in TEST), and the scores of the
    whole FC batch.

    The gradients of one FC shard are a part of a sum. `seconds`: the time that computing them took.
    `counts`, in a test: how often each class was found for each label of the FC batch
    (`Net.label_counts`). Only the answer to the batch's first member has them.
    """

    blobs: tuple[Array, ...]
    scores: Json
    seconds: float
    counts: tuple[int, ...] = ()


@message
class LayerGradient(Message):
    """The gradient of one layer's parameters, summed over the members below the sender.

    The receiver adds up `parts` of them, in the order of their `part`. `formats` has the wire
    format of each blob; a blob has one array or two (`wire_formats`). For a sum, `leaves` is the
    number of gradients in it, and `squares` is the sum of their squares (`roles.tuning.watch`).
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
    """A model server tells the coordinator: iteration `number` is in the model, with this
    staleness, counted in updates. With `again`, a former life of the server may have told it, too.
    """

    number: int
    version: int
    staleness: int
    again: bool = False


@message
class PassDone(Message):
    """Worker tells the coordinator: my part of this pass, `rows` rows, is computed and sent.

    `scores` are means over the worker's own rows, or over the whole batch if one server computed
    them. `seconds`: the computing time of the worker. `exposed`: seconds of the pass in which no
    actor computed for the worker. `counts`, in a test: how often each class was found for each
    label (`Net.label_counts`); those of all members add up to those of the batch.
    """

    members: int
    phase: str
    number: int
    rows: int
    scores: Json
    seconds: float = 0.0
    exposed: float = 0.0
    counts: tuple[int, ...] = ()


@message
class Regroup(Message):
    """Any actor asks the coordinator: from the next iteration on, use so many `workers` in so many
    `groups`, these rates, and a `batch` of so many images. 0, or a negative rate or momentum: as it
    is, except that a momentum may follow the groups. Answered with Done once it is so."""

    workers: int = 0
    groups: int = 0
    base_lr: float = -1.0
    momentum: float = -1.0
    batch: int = 0


@message
class Hold(Message):
    """The tuner asks the coordinator: hand out nothing more, and keep the model as it is once the
    iterations under way are in it. Answered with Held once it is kept."""


@message
class Held(Message):
    """Answer: the run is held after so many iterations, with these settings. `since`: the iteration
    from which it has had these workers, groups and batch. `follows`: momentum follows groups."""

    iteration: int
    workers: int
    groups: int
    base_lr: float
    momentum: float
    batch: int
    since: int = 0
    follows: bool = False


@message
class Probe(Message):
    """The tuner asks the coordinator of a held run: train with these settings for `iterations`, or
    until `seconds` have passed (0: no limit), then put the model back. The samples come again. A
    probe that is to be `kept`, and that ends before anything else is due, is training instead,
    unless its loss rises, or `falls` by a smaller part. 0, or negative: as for Regroup."""

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
    that they took. `pace`: seconds between two ends in the later half, 0: none. `diverged`: the
    probe was cut there. `kept`: its iterations count."""

    losses: tuple[float, ...]
    seconds: float
    pace: float = 0.0
    diverged: bool = False
    kept: bool = False


@message
class Release(Message):
    """The tuner asks the coordinator of a held run: go on from the kept model, with these groups,
    rates and batch. 0, or negative: as for Regroup. If training diverges within `watched`
    iterations, go back to that model, and hold the run again. Answered with Released once these
    iterations have ended."""

    workers: int = 0
    groups: int = 0
    base_lr: float = -1.0
    momentum: float = -1.0
    batch: int = 0
    watched: int = 0


@message
class Released(Message):
    """Answer: the run went on, by now for so many iterations. Or it `diverged`, and is held where
    it was before. The settings are those that the run has now, perhaps by a Regroup since the
    release; `follows` as in Held."""

    workers: int
    groups: int
    base_lr: float
    momentum: float
    batch: int
    follows: bool = False
    iterations: int = 0
    diverged: bool = False


@message
class Place(Message):
    """Coordinator asks a worker or reducer: send gradients for `server` to `parent` from now on, as
    part `part` of `parts`. No iteration is under way when it asks."""

    server: str
    parent: str
    part: int
    parts: int


@message
class Rates(Message):
    """Coordinator asks every actor with parameters: use these rates from now on, for batches of so
    many images. No iteration is under way when it asks."""

    base_lr: float
    momentum: float
    batch: int


@message
class Done(Message):
    """Answer: it is done."""


@message
class GetState(Message):
    """Coordinator asks a server for everything that a checkpoint must hold. No iteration is under
    way when it asks."""


@message
class State(Message):
    """Answer: named arrays (parameters `layer.i`, momentum `layer.i.history`) and the server's
    number of updates.

    `slices` are the arrays that are parts of a whole: name -> [axis, low, high, total].
    """

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    version: int
    slices: Json = field(default_factory=dict)


@message
class SetState(Message):
    """The coordinator, putting a model back, asks: go on from this state, as GetState returned it.
    No iteration is under way when it asks."""

    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    version: int


@message
class Contribution(Message):
    """A worker tells the actors that add up: here are my gradients of this bucket, with all
    gradients below me in a tree. They will not change.

    `into`: from a collective's first member, memory for the sum, where the other members may put
    their shares.
    """

    number: int
    bucket: int
    values: Array
    into: tuple[Array, ...]


@message
class Taken(Message):
    """Answer: the array has arrived. The sender waits for this answer before it sends the next
    array to another actor."""


@message
class SharedSum(Message):
    """Answer, to all: the sum of all workers' gradients of this bucket. From a member of a
    collective, the sum of its share.

    No `values`: the sum is in its place in the memory that the first member gave.
    """

    number: int
    bucket: int
    values: tuple[Array, ...]
