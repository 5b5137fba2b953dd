"""A conv worker's side of the FC phase: it sends activations to the FC server or the FC shards, and
gets their gradients back.

One server computes the whole FC phase. Several shards each hold a share of its units. All shards
get the activations, slice by slice as the scheme says, and the gradients of each shard are a part
of the sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ops import Array, Backend
from roles.base.loads import Load, Loads
from roles.base.role import Sent
from roles.base.shapes import Shapes
from roles.base.sizes import crossing
from roles.base.steps import Key, Sending, Step, Steps, Work
from roles.fc.fc_batches import Span, fc_batches
from roles.learning.confusion import joined
from roles.learning.job import Job
from roles.learning.scoreboard import mean_scores
from roles.messages import TRAIN, ActivationGrads, Activations, ActivationSlice, Blobs, Ticket
from runtime import Actor
from runtime.compute.emulated_device import device_here


class HasFc(Protocol):
    """The options of a worker about the FC phase, and about the part of the net below it."""

    @property
    def job(self) -> Job:
        """The job that gives the rows and the net."""
        ...

    @property
    def part(self) -> str:
        """The part of the net that the worker computes."""
        ...

    @property
    def fc_servers(self) -> tuple[str, ...]:
        """One server, or with a `scheme` all shards."""
        ...

    @property
    def scheme(self) -> str:
        """The scheme of FC batches; "": the batch is not cut."""
        ...


def activations_sent(options: HasFc, name: str, shapes: Shapes) -> Sent:
    """The messages that a worker sends for the FC phase."""
    for server in options.fc_servers:
        size = crossing(shapes.net(options.job, options.part), shapes.rows(name))
        yield server, ActivationSlice if options.scheme else Activations, size


def answers_added(options: HasFc, name: str, shapes: Shapes) -> Loads:
    """The sums over the answers of several FC shards for each slice. Each answer is a part of the
    gradients."""
    if options.scheme:
        net = shapes.net(options.job, options.part)
        others = len(options.fc_servers) - 1
        for _, rows in _slices(options, name, shapes):
            yield Load("add", rows, added=crossing(net, rows, back=True) / shapes.number * others)


def fc_phase(options: HasFc, name: str, shapes: Shapes, above: Key) -> Steps:
    """The steps of a worker in the FC phase, from the end of the step `above` until (name,
    "answered")."""
    kind = "ActivationSlice" if options.scheme else "Activations"
    rows = shapes.rows(name)
    size = crossing(shapes.net(options.job, options.part), rows)
    answered = []
    for part, count in _slices(options, name, shapes):
        yield Step(
            (name, kind, str(part)), Sending(options.fc_servers, size * count // rows), (above,)
        )
        came = tuple((server, "ActivationGrads", str(part), name) for server in options.fc_servers)
        answered.append((name, "add", str(part)))
        yield Step(answered[-1], Work("add", count) if options.scheme else None, came)
    yield Step((name, "answered"), None, tuple(answered))


def _slices(options: HasFc, name: str, shapes: Shapes) -> list[tuple[int, int]]:
    """(FC batch, rows) of the slices of a worker's rows. Without a scheme all rows are one
    slice."""
    if not options.scheme:
        return [(0, shapes.rows(name))]
    rank = shapes.group(name).index(name)
    batches = fc_batches(options.scheme, shapes.cuts(name), options.job.micro_batches)
    return [
        (part, high - low)
        for part, members in enumerate(batches)
        for one, (low, high) in members
        if one == rank
    ]


class FcPhase:
    """The FC phase as one worker sees it. `servers`: one, or with a `scheme` all shards in the
    order of summation. `micro_batches` are those of a reproducible run."""

    def __init__(
        self,
        actor: Actor,
        servers: Sequence[str],
        ops: Backend,
        scheme: str = "",
        micro_batches: int = 0,
    ) -> None:
        self._actor = actor
        self._servers = tuple(servers)
        self._ops = ops
        self._scheme = scheme
        self._micro_batches = micro_batches
        self.counts: tuple[int, ...] = ()  # of labels, in the last answer

    async def run(self, ticket: Ticket, blobs: Blobs) -> ActivationGrads:
        """Send the blobs that cross the cut for this member's rows, and return the answer. Scores
        are means over these rows, or over the whole batch."""
        answer = await (self._slices if self._scheme else self._whole)(ticket, blobs)
        self.counts = answer.counts
        return answer

    async def _whole(self, ticket: Ticket, blobs: Blobs) -> ActivationGrads:
        """Send the activations of all rows to the only server."""
        activations = Activations(
            group=ticket.group,
            rank=ticket.rank,
            members=ticket.members,
            phase=ticket.phase,
            number=ticket.number,
            counted=ticket.counted,
            rows=ticket.rows,
            blobs=blobs,
        )
        return await self._actor.ask(
            self._servers[0], activations, ActivationGrads, step=ticket.number
        )

    async def _slices(self, ticket: Ticket, blobs: Blobs) -> ActivationGrads:
        """Send the slice of every FC batch to all shards at once. Their answers are put side by
        side as they come."""
        first = ticket.mine[0]
        batches = fc_batches(self._scheme, ticket.cuts, self._micro_batches)
        mine = [
            (part, (low - first, high - first))
            for part, members in enumerate(batches)
            for rank, (low, high) in members
            if rank == ticket.rank
        ]
        gradients = _Gradients(self._ops, len(blobs[0]), alone=len(mine) == 1)
        asks = [self._ask(ticket, part, span, blobs, gradients) for part, span in mine]
        answers = await asyncio.gather(*asks)
        rows = [high - low for _, (low, high) in mine]
        scores = mean_scores(
            [(count, dict(answer.scores)) for count, (answer, _) in zip(rows, answers, strict=True)]
        )
        seconds = sum(taken for _, taken in answers)
        found = [answer.counts for answer, _ in answers]
        return ActivationGrads(
            blobs=tuple(gradients.whole), scores=scores, seconds=seconds, counts=joined(found)
        )

    async def _ask(
        self, ticket: Ticket, part: int, span: Span, blobs: Blobs, gradients: _Gradients
    ) -> tuple[ActivationGrads, float]:
        """Send one slice. Returns the first shard's answer, and the computing seconds of the
        slowest shard."""
        low, high = span
        told = ActivationSlice(
            phase=ticket.phase,
            number=ticket.number,
            counted=ticket.counted,
            group=ticket.group,
            rank=ticket.rank,
            part=part,
            cuts=ticket.cuts,
            blobs=tuple(blob[low:high] for blob in blobs),
        )
        asks = [
            self._actor.ask(name, told, ActivationGrads, step=ticket.number)
            for name in self._servers
        ]
        answers = await asyncio.gather(*asks)
        if ticket.phase == TRAIN:
            await self._actor.compute(
                "add", gradients.put, span, [answer.blobs for answer in answers]
            )
        return answers[0], max(answer.seconds for answer in answers)


class _Gradients:
    """The gradients of all rows of a worker, as they come. `alone`: all come in one slice."""

    def __init__(self, ops: Backend, rows: int, *, alone: bool) -> None:
        self._ops = ops
        self._rows = rows
        self._alone = alone
        self.whole: list[Array] = []

    def put(self, span: Span, parts: Sequence[Blobs]) -> None:
        """Add up the shards' parts for the rows of a slice, in the order of the shards. Runs in the
        compute thread."""
        if (device := device_here()) is not None:
            device.piece_is_about(span[1] - span[0])
        if self._alone and len(parts) == 1:
            self.whole = list(parts[0])
            return
        if not self.whole:
            self.whole = [
                self._ops.empty((self._rows, *blob.shape[1:]), blob.dtype) for blob in parts[0]
            ]
        for whole, blobs in zip(self.whole, zip(*parts, strict=True), strict=True):
            if len(blobs) == 1:
                whole[slice(*span)] = blobs[0]
            else:
                self._ops.add_all(blobs, whole[slice(*span)])
