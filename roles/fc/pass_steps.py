"""The steps of an FC shard in a group's iteration (`FcShard._pass`, read from top to bottom)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from nets.sharding.division import ShardedNet
from roles.base.shapes import Shapes
from roles.base.sizes import answers
from roles.base.steps import Key, Sending, Step, Steps, Work, norm_known, norm_steps
from roles.fc.fc_batches import fc_batches, late_answers, rows_in
from roles.learning.common_norm import ALONE, NormShares
from roles.learning.job import Job
from roles.messages import TRAIN


class IsShard(Protocol):
    """The options of a shard that its steps depend on."""

    @property
    def job(self) -> Job:
        """The job that gives the rows and the net."""
        ...

    @property
    def shards(self) -> tuple[str, ...]:
        """All shards, in the order of summation."""
        ...

    @property
    def scheme(self) -> str:
        """The scheme of FC batches."""
        ...

    @property
    def variable_batch(self) -> bool:
        """Does each FC batch have its own update?"""
        ...

    @property
    def norm(self) -> NormShares:
        """The other holders of parameters, if gradients are clipped."""
        ...

    @property
    def beside_workers(self) -> bool:
        """Do the shards share devices with the workers?"""
        ...


def pass_of_shard(options: IsShard, name: str, shapes: Shapes, members: Sequence[str]) -> Steps:
    """The steps of the shard `name` for a group of these members."""
    first = options.shards[0]
    rank = options.shards.index(name)
    of = len(options.shards)
    others = tuple(other for other in options.shards if other != name)
    net = shapes.shard(options.job, rank, of)
    number = shapes.number
    batches = fc_batches(options.scheme, shapes.cuts(members[0]), options.job.micro_batches)
    rows_of = {member: shapes.rows(member) for member in members}
    answer = dict(answers(name, shapes, members))
    above: tuple[Key, ...] = ((first, "turn"), (first, "FcTurn"))
    last = len(batches) - 1
    late = late_answers(batches) if options.beside_workers else set()
    for part, who in enumerate(batches):
        batch = str(part)
        rows = rows_in(who)
        came = tuple((members[one], "ActivationSlice", batch) for one, _ in who)
        if name == first and not part:
            yield from _turns(options.shards, came)
        works = _Batch(name, others, batch, rows, (*above, *came))
        yield from works.run(net, number)
        for one, (low, high) in who:
            size = answer[members[one]] * (high - low) // rows_of[members[one]]
            grads = (name, "ActivationGrads", batch, members[one])
            done = (_done(name, last),) if (part, one) in late else works.above
            yield Step(grads, Sending((members[one],), size), done)
        above = works.above
        if part == last and options.norm != ALONE:
            yield from norm_steps(name, options.norm.told, above)
            above = norm_known(name, options.norm.heard)
        if options.variable_batch or part == last:
            yield Step((name, "update", batch), Work("update"), above)
            above = ((name, "update", batch),)
    yield Step((name, "passed"), None, above)


def _done(name: str, batch: int) -> Key:
    """The step that ends a shard's work on an FC batch."""
    return (name, "fc answers", str(batch), "")


def _turns(shards: Sequence[str], came: tuple[Key, ...]) -> Iterator[Step]:
    """A pass gets its turn at the first shard when its first FC batch is complete there. The first
    shard then tells the others."""
    first, *others = shards
    yield Step((first, "whole"), None, came)
    yield Step((first, "FcTurn"), Sending(tuple(others)), ((first, "whole"),))
    yield Step((first, "turn"), None, ((first, "whole"),), takes=first)
    yield Step((first, "over"), None, tuple((shard, "passed") for shard in shards), gives=first)


class _Batch:
    """The steps of one FC batch at a shard: piece after piece, with an exchange of columns between
    them."""

    def __init__(
        self, name: str, others: tuple[str, ...], batch: str, rows: int, above: tuple[Key, ...]
    ) -> None:
        self._name = name
        self._others = others
        self._batch = batch
        self._rows = rows
        self.above = above

    def run(self, net: ShardedNet, number: int) -> Iterator[Step]:
        """Forward, backward, answers. `number`: bytes of one number."""
        phase = f"fc {TRAIN}"
        yield self._work(phase, "0")
        for link in range(net.last):  # the last piece includes the loss and its gradient
            yield self._columns("on", link, number * self._rows * net.sent_on(link))
            yield self._work(phase, str(link + 1))
        for link in reversed(range(1, net.last)):
            if net.exchanges(link):
                wide, once = net.sent_back(link, (net.rank + 1) % net.of)
                yield self._columns("back", link, number * (self._rows * wide + once))
            yield self._work("fc backward", str(link))
        yield self._work("fc answers", "")

    def _work(self, label: str, which: str) -> Step:
        made = Step((self._name, label, self._batch, which), Work(label, self._rows), self.above)
        self.above = (made.name,)
        return made

    def _columns(self, way: str, link: int, size: int) -> Step:
        """Columns for all others. The next steps also wait for the columns of all others."""
        what = ("Columns", self._batch, way, str(link))
        made = Step((self._name, *what), Sending(self._others, size), self.above)
        self.above = (*self.above, *((other, *what) for other in self._others))
        return made
