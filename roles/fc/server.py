"""The merged FC server: runs the FC phase of every group on whole batches, and updates its own
model at once.

One machine computes the FC phase and holds its parameters. So they never travel and are never stale
(Omnivore section 5.1): only activations and their gradients cross the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roles.base.loads import Load, Loads, layers_in, norm_load
from roles.base.reads import ReadsJob
from roles.base.role import Anew, Held, JobOptions, Sent
from roles.base.shapes import Shapes
from roles.base.sizes import answers, below, model, passes
from roles.base.steps import Sending, Step, Steps, Turn, Work, norm_known, norm_steps
from roles.learning.buffers import gradient_buffers, in_memory_of, joined_rows
from roles.learning.common_norm import ALONE, SHARE, CommonNorm, NormShare, NormShares, norm_sent
from roles.learning.confusion import counts_of
from roles.learning.job import InputShape
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.learning.part_counts import Parts, Whole, in_parts
from roles.learning.plain_pass import PlainPass
from roles.learning.recordings import kept_plain
from roles.learning.replayed_pass import parts_of
from roles.learning.resume import restored
from roles.learning.working_nets import working_net
from roles.messages import TRAIN, ActivationGrads, Activations, Blobs
from runtime import Conversation, Envelope

PART = in_parts("a member's part of a pass", "number phase group", Activations)


@dataclass(frozen=True, kw_only=True)
class FcOptions(JobOptions):
    """The job, and the shape of the data's images. `norm`: the other holders of parameters, if
    gradients are clipped."""

    anew: ClassVar[Anew] = Anew.FROM_STATE
    any_batch: ClassVar[bool] = True
    apart: ClassVar[bool] = True
    image_shape: InputShape
    norm: NormShares = ALONE

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """Every worker that names this server gets the gradients of its activations. A share of the
        norm."""
        for worker, size in answers(name, shapes):
            yield worker, ActivationGrads, size
        yield from norm_sent(self.norm)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The FC phase on the whole batch, once the activations of all members are here."""
        mine = [
            member
            for member in turn.members
            if name in getattr(shapes.options[member], "fc_servers", ())
        ]
        clips = self.norm != ALONE
        if mine:
            rows = self.job.rows(TRAIN)
            yield Step(
                (name, "fc"),
                Work("fc TRAIN", rows),
                tuple((member, "Activations", "0") for member in mine),
                since=((name, "clip"),) if clips else (),
            )
        if mine and clips:
            yield from norm_steps(name, self.norm.told, ((name, "fc"),))
            yield Step((name, "clip"), Work("clip"), norm_known(name, self.norm.heard))
        sizes = dict(answers(name, shapes, mine))
        for member in mine:
            yield Step(
                (name, "ActivationGrads", "0", member),
                Sending((member,), sizes[member]),
                ((name, "fc"),),
            )

    def holds(self, name: str, shapes: Shapes) -> Held:
        """Passes on whole batches, gradients, parameters and histories. Clipped gradients wait for
        their norm in a copy."""
        layers = shapes.layers(self.job, "fc")
        sets = 2 if self.norm != ALONE else 1
        held = passes(self.job, "fc", shapes) | {"gradients": sets * shapes.size(layers)}
        return held | model(self.job, layers, shapes)

    def kept_plain(self) -> str:
        """The recorded pass ends before the update."""
        return kept_plain(self.job)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """The FC phase of a whole batch, forward and backward, and its update. Activations are
        copied to the device, and their gradients to host memory."""
        net = shapes.net(self.job, "fc")
        layers = layers_in(net)
        batch = self.job.batch
        copied = sum(below(name, shapes, batch))
        copied = shapes.off_device(copied, [(name, to) for to, _ in answers(name, shapes)])
        params = tuple(net.params)
        clips = self.norm != ALONE
        updated = () if clips else params
        yield Load(f"fc {TRAIN}", batch, layers, layers, updated=updated, copied=copied)
        if clips:
            yield norm_load(shapes.layers(self.job, "fc"))
            yield Load("clip", updated=params)


class FcServer(ModelHolder, ReadsJob):
    """The actor that runs the whole FC phase; see the module docstring."""

    Options = FcOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (PART, SHARE)

    def __init__(self, options: FcOptions) -> None:
        self._shares = options.norm
        # group -> gradients of its last iteration that wait for their norm
        self._unclipped: dict[int, dict[str, Blobs]] = {}
        self._waiting: list[Whole] = []  # passes that wait for these updates
        self._curious: list[Envelope] = []  # requests about the model that wait for them
        self._job = options.job
        self.reads_device = options.job.on_gpu
        self._image_shape = options.image_shape
        self._parts = Parts(PART)
        self._asked: dict[Whole, dict[int, tuple[Activations, Envelope]]] = {}  # by pass and rank

    async def on_start(self) -> None:
        """Build the FC phase of the net and its parameters."""
        await self.compute("build", self._build)
        self._norm = CommonNorm(self, self._shares)
        self._images = self.counter("images", "Images trained on.")

    def _build(self) -> None:
        job = self._job
        in_memory_of(self, job.backend_ops)
        self._nets = {
            phase: working_net(job, phase, "fc", self._image_shape) for phase in job.phases
        }
        net = self._nets[TRAIN]
        store = ParameterStore(
            net.params, net.initial_blobs(), job.solver_spec, job.backend_ops, in_place=True
        )
        self._parts_of = parts_of(self._nets, job, 2)  # forward and backward
        self._gradients = gradient_buffers(net)
        self._store = restored(store, job)

    async def on_activations(self, message: Activations, envelope: Envelope) -> None:
        """Collect the parts of a group. After the last one, run the FC phase and answer each
        member."""
        whole: Whole = (message.number, message.phase, message.group)
        again = message.phase != TRAIN
        complete = self._parts.came(
            message, envelope.sender, whole, message.rank, message.members, again=again
        )
        self._asked.setdefault(whole, {})[message.rank] = (message, envelope)
        if complete:
            self._waiting.append(whole)
            await self._go_on()

    async def _go_on(self) -> None:
        """Run the passes that wait for no update. A pass of a group must see the group's last
        update, and a test must see all."""
        free = [whole for whole in self._waiting if not self._must_wait(whole)]
        self._waiting = [whole for whole in self._waiting if whole not in free]
        for whole in free:
            await self._pass(whole)

    def _must_wait(self, whole: Whole) -> bool:
        _, phase, group = whole
        return group in self._unclipped if phase == TRAIN else bool(self._unclipped)

    async def _pass(self, whole: Whole) -> None:
        """Run a complete pass, and answer each member."""
        asked_by = self._asked.pop(whole)
        ordered = [asked_by[rank] for rank in sorted(asked_by)]
        message = ordered[0][0]
        busy = self.busy_seconds
        with self.phase("fc"):
            scores, gradients = await self.compute(
                f"fc {message.phase}", self._run, [part for part, _ in ordered]
            )
        seconds = self.busy_seconds - busy
        if message.phase == TRAIN:
            self._images.inc(message.rows)
        counts = counts_of(self._nets[message.phase])
        low = 0
        for part, asked in ordered:
            high = low + len(part.blobs[0])
            rows = tuple(gradient[low:high] for gradient in gradients)
            answer = ActivationGrads(
                blobs=rows, scores=scores, seconds=seconds, counts=() if low else counts
            )
            await self.reply(asked, answer)
            low = high
        if self._shares != ALONE and message.phase == TRAIN:
            squares, self._unclipped[message.group] = await self.compute("norm", self._keep)
            known = await self._norm.share(message.group, message.number, squares)
            await self._clip(message.group, known)

    def _keep(self) -> tuple[list[float], dict[str, Blobs]]:
        """The squares of the gradients, and a copy of them. Runs in the compute thread."""
        kept = {layer: tuple(g.copy() for g in of) for layer, of in self._gradients.items()}
        return self._store.squares(kept), kept

    async def on_norm_share(self, message: NormShare, envelope: Envelope) -> None:
        """Take another holder's share of an iteration's norm."""
        await self._clip(message.group, self._norm.came(message, envelope.sender))
        await self._go_on()

    async def _clip(self, group: int, squares: tuple[float, ...] | None) -> None:
        """Apply the gradients of a group's iteration, clipped, once all squares are known. Then
        answer requests about the model."""
        if squares is None:
            return
        await self.compute("clip", self._apply, self._unclipped.pop(group), squares)
        while self._curious and not self._unclipped:
            await self.answer(self._curious.pop(0))

    def _apply(self, gradients: dict[str, Blobs], squares: tuple[float, ...]) -> None:
        for layer, of in gradients.items():
            self._store.apply(layer, self._store.clipped(layer, of, squares))

    async def about_model(self, envelope: Envelope) -> None:
        """Answer once no gradient waits for its norm."""
        if self._unclipped:
            self._curious.append(envelope)
        else:
            await self.answer(envelope)

    def _run(self, parts: list[Activations]) -> tuple[dict[str, float], Blobs]:
        """Run one FC pass over the whole batch. Returns scores and, in training, the gradients of
        the blobs that crossed the cut."""
        phase = parts[0].phase
        counted = parts[0].counted
        rows = parts[0].rows
        passes = self._parts_of[phase]
        net = passes.net
        if phase == TRAIN:
            net.batch = rows
        net.begin(counted, (0, rows))
        for index, name in enumerate(net.inputs):
            net.feed_rows(name, joined_rows(net.ops, [part.blobs[index] for part in parts]))
        for layer in net.params:
            net.load(layer, self._store.read(layer, phase))
        passes.begin()
        passes.forward(net.stages)
        gradients = self._backward(passes) if phase == TRAIN else ()
        return passes.scalars(), gradients

    def _backward(self, passes: PlainPass) -> Blobs:
        """Run backward through all stages first, with the parameters of the forward pass. Then
        update them."""
        net = passes.net
        found = passes.backward(
            tuple(reversed(net.stages)),
            self._gradients,
            lambda: [net.grad_rows(name) for name in net.boundary_grads],
        )
        for layer, gradients in {} if self._shares != ALONE else self._gradients.items():
            self._store.apply(layer, gradients)
        return tuple(map(net.ops.to_share, found))  # to be sent
