"""An FC shard: one of n servers that share out the FC phase by output units (One weird trick,
section 4).

slices of activations -> per InnerProduct: own columns, the others' -> scores, the loss backward
    -> per InnerProduct, last first: own parameters' gradients, parts of the others' columns
    -> answers to the workers

The parameters of its units never travel and are never stale. Only `run` waits, so that the inbox is
always open: the columns of other shards come through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from nets.graph.warm import warm
from ops import Array
from roles.base.loads import Load, Loads, layers_in
from roles.base.reads import ReadsJob
from roles.base.role import Anew, Held, JobOptions, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import activations, answers, at_once, below, model
from roles.base.steps import Steps, Turn
from roles.fc.fc_batches import Members, late_answers, rows_in
from roles.fc.micro_shards import MicroFcWork, MicroShards
from roles.fc.pass_steps import pass_of_shard
from roles.fc.queue import SLICE, TURN, FcQueue, Key, Slice
from roles.fc.swap import COLUMNS, Columns, ColumnSwap, FcTurn
from roles.fc.work import FcWork
from roles.learning.buffers import in_memory_of
from roles.learning.checkpoint_slices import slices_of_state
from roles.learning.common_norm import ALONE, SHARE, CommonNorm, NormShare, NormShares, norm_sent
from roles.learning.job import InputShape
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.learning.resume import restored
from roles.learning.working_nets import working_shard
from roles.messages import (
    TRAIN,
    ActivationGrads,
    ActivationSlice,
    Blobs,
)
from runtime import Conversation, Envelope, Json


@dataclass(frozen=True, kw_only=True)
class ShardOptions(JobOptions):
    """The job, the shape of the data's images, and the names of all `shards` in the order of
    summation. `scheme` makes the FC batches (`fc_batches`). `variable_batch`: each FC batch has its
    own update.

    `beside_workers`: each shard shares a device with a worker. Some answers then leave after the
    last FC batch of the pass (`late_answers`; docs/decisions/training.md). `norm`: the other
    holders of parameters, if gradients are clipped."""

    anew: ClassVar[Anew] = Anew.FROM_STATE
    any_batch: ClassVar[bool] = True
    apart: ClassVar[bool] = True
    image_shape: InputShape
    shards: tuple[str, ...]
    scheme: str
    variable_batch: bool = False
    beside_workers: bool = False
    norm: NormShares = ALONE

    @property
    def shares_gpu(self) -> str:
        """None: columns and slices go through host memory."""
        return ""

    def kept_plain(self) -> str:
        """Columns travel between the pieces of a pass."""
        return "a shard's pass waits for columns of other shards between its layers"

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Gradients to the workers, as an FC server sends them. Its columns, and its parts of the
        other shards' gradients, to every other shard."""
        yield from norm_sent(self.norm)
        for worker, size in answers(name, shapes):
            yield worker, ActivationGrads, size
        net = shapes.shard(self.job, self.shards.index(name), len(self.shards))
        rows = shapes.rows(name)
        for rank, other in enumerate(self.shards):
            if other != name:
                sent = [net.sent(link, rank) for link in range(net.last)]
                yield (
                    other,
                    Columns,
                    shapes.number * sum(rows * wide + fixed for wide, fixed in sent),
                )

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The steps of `FcShard`, FC batch after FC batch. All shards compute one group's pass at a
        time."""
        mine = [
            member
            for member in turn.members
            if name in getattr(shapes.options[member], "fc_servers", ())
        ]
        return pass_of_shard(self, name, shapes, mine) if mine else ()

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Passes on all rows, and the parameters of its own units. Where several FC batches are
        added up, a second set of gradients."""
        rank = self.shards.index(name)
        of = len(self.shards)
        shards = [shapes.shard(self.job, rank, of, phase) for phase in self.job.phases]
        layers = {
            layer: [(p.shape, p.keep is None) for p in params]
            for layer, params in shards[0].params.items()
        }
        sets = 1 if self.scheme == "a" or self.variable_batch else 2
        passes = activations([net for shard in shards for net in shard.nets], shapes)
        held = {"activations": passes.pop("activations"), "gradients": sets * shapes.size(layers)}
        return at_once(self.job, held | passes) | model(self.job, layers, shapes)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """Its units of one InnerProduct after the other, forward and backward. The last forward
        piece also has the loss and the beginning of the way back."""
        of = len(self.shards)
        rows = self.job.batch
        *links, last = shapes.shard(self.job, self.shards.index(name), of).nets
        taken, given = below(name, shapes, rows)
        yield from (
            Load(
                f"fc {TRAIN}",
                rows,
                forward=layers_in(net),
                share=1 / of,
                copied=taken if net is links[0] else 0,
            )
            for net in links
        )
        back = layers_in(links[-1])
        yield Load(
            f"fc {TRAIN}",
            rows,
            forward=layers_in(last),
            backward=layers_in(last) + back,
            share=1 / of,
        )
        yield from (
            Load("fc backward", rows, backward=layers_in(net), share=1 / of)
            for net in reversed(links[:-1])
        )
        yield Load("fc answers", rows, copied=given)
        layers = tuple(layer for net in links for layer in net.params)
        if self.norm != ALONE:
            yield Load("norm")  # short beside the passes of its layers
        yield Load("update", updated=layers, share=1 / of)


class FcShard(ModelHolder, ReadsJob):
    """The actor that runs one shard of the FC phase; see the module docstring."""

    Options = ShardOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (SLICE, TURN, COLUMNS, SHARE)

    def __init__(self, options: ShardOptions) -> None:
        self._job = options.job
        self._image_shape = options.image_shape
        self._shards = options.shards
        self._scheme = options.scheme
        self._variable = options.variable_batch
        self._keeps = options.beside_workers
        self._shares = options.norm
        self._squares: dict[int, tuple[float, ...]] = {}  # of whole iterations, by number
        self._asked: list[Envelope] = []  # requests that wait until no pass is under way
        self._changed = asyncio.Event()

    async def on_start(self) -> None:
        """Build this shard of the FC phase and its parameters."""
        await self.compute("build", self._build)
        self._norm = CommonNorm(self, self._shares)
        self._swap = ColumnSwap(self, self._shards, self._shard)
        self._images = self.counter("images", "Images trained on.")

    def _build(self) -> None:
        job = self._job
        rank = self._shards.index(self.name)
        of = len(self._shards)
        in_memory_of(self, job.backend_ops)
        self._nets = {
            phase: working_shard(job, phase, rank, of, self._image_shape) for phase in job.phases
        }
        for shard in self._nets.values():
            for net in shard.nets:
                warm(net)
        self._shard = self._nets[TRAIN]
        store = ParameterStore(
            self._shard.params,
            self._shard.initial_blobs(),
            job.solver_spec,
            job.backend_ops,
            in_place=True,
        )
        self._store = restored(store, job, self._shard)
        self._work = FcWork(self._nets, self._store)
        if job.micro_batches:
            build = partial(working_shard, job, TRAIN, rank, of, self._image_shape)
            self._work = MicroFcWork(self._nets, MicroShards(build, job.micro_batches), self._store)
        shapes = {phase: shard.input_shapes for phase, shard in self._nets.items()}
        self._queue = FcQueue(self._scheme, shapes, self._shards[0], job.micro_batches)

    async def run(self) -> None:
        """Do pass after pass in the order that the first shard decides. Answer requests about the
        parameters between two passes."""
        while True:
            await self._until(lambda: bool(self._asked) or self._queue.due)
            if self._queue.due:
                await self._pass(*self._queue.next())
            else:
                await self.answer(self._asked.pop(0))

    async def on_activation_slice(self, message: ActivationSlice, envelope: Envelope) -> None:
        """Take a worker's rows of an FC batch. The first shard gives a pass its turn when the
        pass's first FC batch is complete."""
        begins = self._queue.add(message, envelope)
        if begins and self._swap.rank == 0:
            self._queue.turn(message.phase, message.number)
            for name in self._shards[1:]:
                await self.tell(
                    name, FcTurn(phase=message.phase, number=message.number), step=message.number
                )
        self._changed.set()

    async def on_fc_turn(self, message: FcTurn, envelope: Envelope) -> None:
        """Take the first shard's message about the next pass."""
        self._queue.told(message, envelope.sender)
        self._changed.set()

    async def on_columns(self, message: Columns, envelope: Envelope) -> None:
        """Take another shard's columns, or its part of the gradient of this shard's columns."""
        self._swap.came(message, envelope.sender)
        self._changed.set()

    async def about_model(self, envelope: Envelope) -> None:
        """Answer a request about the parameters once the last update is in."""
        self._asked.append(envelope)
        self._changed.set()

    def slices(self, state: Mapping[str, Array]) -> Json:
        return slices_of_state(state, self._shard)

    async def _pass(self, key: Key, batches: Sequence[Members]) -> None:
        """Do one FC batch after the other. The answers of one batch are under way while the next is
        computed, except late answers, which are kept until the last batch is done."""
        rows = sum(map(rows_in, batches))
        late = late_answers(batches) if self._keeps else set()
        kept: list[tuple[Slice, ActivationGrads]] = []
        async with asyncio.TaskGroup() as answering:
            for part, members in enumerate(batches):
                last = part == len(batches) - 1
                with self.phase("wait_activations"):
                    await self._until(partial(self._queue.complete, key, part))
                slices = self._queue.take(key, part)
                with self.phase("fc"):
                    answers = await self._batch(key, part, rows, members, slices)
                self._queue.answered(slices)
                for slice_, answer in (*zip(slices, answers, strict=True), *(kept if last else ())):
                    if not last and (part, slice_[0].rank) in late:
                        kept.append((slice_, answer))
                    else:
                        answering.create_task(self.reply(slice_[1], answer))
                if key[0] == TRAIN and (last or self._variable):
                    factor = rows / rows_in(members) if self._variable else 1.0
                    squares = await self._all_squares(slices[0][0])
                    await self.compute("update", self._work.update, factor, last, squares)
        if key[0] == TRAIN:
            self._images.inc(rows)

    async def _all_squares(self, of: ActivationSlice) -> tuple[float, ...]:
        """The squares of all gradients of an iteration, once all holders have told theirs. Empty if
        gradients are not clipped."""
        if self._shares == ALONE:
            return ()
        mine = await self.compute("norm", self._work.squares)
        self._known(of.number, await self._norm.share(of.group, of.number, mine))
        with self.phase("wait_norm"):
            await self._until(lambda: of.number in self._squares)
        return self._squares.pop(of.number)

    async def on_norm_share(self, message: NormShare, envelope: Envelope) -> None:
        """Take another holder's share of an iteration's norm."""
        self._known(message.number, self._norm.came(message, envelope.sender))

    def _known(self, number: int, squares: tuple[float, ...] | None) -> None:
        if squares is not None:
            self._squares[number] = squares
            self._changed.set()

    async def _batch(
        self, key: Key, part: int, rows: int, members: Members, slices: list[Slice]
    ) -> list[ActivationGrads]:
        """Run an FC batch of a pass over so many rows forward and, in training, backward. Returns
        the answer to each of its members."""
        phase = key[0]
        counted = slices[0][0].counted
        net = self._nets[phase]
        work = self._work
        busy = self.busy_seconds
        spans = [span for _, span in members]
        blobs = [message.blobs for message, _ in slices]
        columns = await self.compute(f"fc {phase}", work.begin, phase, counted, rows, spans, blobs)
        for link in range(1, net.last):
            whole = await self._swapped(key, part, link - 1, columns)
            columns = await self.compute(f"fc {phase}", work.forward, link, whole)
        whole = await self._swapped(key, part, net.last - 1, columns)
        parts = await self.compute(f"fc {phase}", work.turn, whole)
        for link in reversed(range(1, net.last) if phase == TRAIN else ()):
            if net.exchanges(link):
                parts = await self._exchange((*key, part, link, True), parts)
            parts = await self.compute("fc backward", work.backward, link - 1, parts)
        counts = [rows_in([member]) for member in members]
        scores, answers = await self.compute("fc answers", work.answers, counts)
        seconds = self.busy_seconds - busy
        of_labels = () if phase == TRAIN else net.label_counts()
        return [
            ActivationGrads(
                blobs=answer, scores=scores, seconds=seconds, counts=() if place else of_labels
            )
            for place, answer in enumerate(answers)
        ]

    async def _swapped(self, key: Key, part: int, link: int, columns: Array) -> list[Array]:
        """The columns of all shards at the end of `link`."""
        found = await self._exchange((*key, part, link, False), [(columns,)] * len(self._shards))
        return [blobs[0] for blobs in found]

    async def _exchange(
        self, key: tuple[str, int, int, int, bool], values: Sequence[Blobs]
    ) -> list[Blobs]:
        """Send each shard its values, and return the values that each shard sent to this one."""
        await self._swap.send(key, values)
        with self.phase("wait_columns"):
            await self._until(lambda: self._swap.complete(key))
        return self._swap.take(key)

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Wait for messages until `ready` returns True. Only `run` waits."""
        while not ready():
            self._changed.clear()
            await self._changed.wait()
