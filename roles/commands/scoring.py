"""The scores of nets on the test data, and the scores of an ensemble, whose outputs are the
averages of its members' outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nets import Net, NetError
from nets.data import Batches, Source, StreamBatches
from nets.files.weights import load_weights
from nets.predict import Deployment, Output, Predictor, Seen, Tally, common_classes, for_use
from nets.predict.ensemble import as_seen
from nets.predict.given import deployment_of
from ops import Array
from roles.commands.common import reported, told_beside
from roles.commands.differences import differences
from roles.commands.judging import Counts, Judge, Rows, averaged
from roles.commands.members import Member
from roles.learning.job import Job


@dataclass(frozen=True)
class Asked:
    """The counts that the user asks for, in addition to the scores of the net's layers: top-k with
    `top` best classes, and the confusion matrix. `flips`: outputs are the means of those for an
    image and for its mirror image."""

    top: int | None
    confusion: bool
    flips: bool = False

    @property
    def counts(self) -> bool:
        """True if the rows of outputs are to be counted."""
        return self.top is not None or self.confusion


@dataclass
class Found:
    """The result of one test net, for a member, or for the ensemble (`member` is None). `scores`
    are means over its images, by name. `missing` layers have no weights and kept their first
    values.

    `tally` has top-k and confusion if they were asked for, `names` the names of the classes. `net`
    is a clause that names the test net if there are several. `flips`: outputs are the means of
    those for an image and for its mirror image.
    """

    net: str
    images: int
    member: Member | None
    missing: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    tally: Tally | None = None
    names: Sequence[str] = ()
    flips: bool = False

    def count(self, rows: Rows, asked: Asked, ignored: int | None) -> None:
        """Count a batch as it is asked for."""
        if asked.counts:
            self.tally = self.tally or Tally(rows.outputs.shape[1], asked.top or 1)
            self.tally.add(rows.outputs, rows.labels, ignored)


class TestedNet:
    """The net of one test phase of the job, and its data."""

    def __init__(self, job: Job, phase: str, order: str | None, memory: str) -> None:
        self.job = job
        self.phase = phase
        self.source: Source = reported(job.source(phase))
        self._memory = memory
        self.net = self.build()
        self.judge = Judge(self.net.spec)
        self.batches: Batches | StreamBatches = job.batches(phase, self.source, self.net, more=1)
        self.images = job.test_rows(phase, self.source)
        self.order = "gray" if self.source.shape[0] == 1 else order or self.source.order

    def build(self) -> Net:
        """A net of this phase, for whole batches."""
        shapes = self.job.shapes(self.phase, self.source)
        return self.job.build(self.phase, "all", shapes, memory=self._memory)

    def deployment(self) -> Deployment:
        """The description that a checkpoint of this job has. Raises NetError if its net cannot be
        used for predictions."""
        inputs = {name: shape[1:] for name, shape in self.net.input_shapes.items()}
        spec = self.job.spec(self.job.test_phases[0])  # as when the checkpoint is saved
        seen = Seen(self.source.shape, self.order, (), inputs, self.source.orientation)
        return Deployment.of(spec, seen, self.job.test_transform(spec))

    def read(self) -> Iterator[tuple[int, Sequence[NDArray[Any]]]]:
        """Read the batches: their numbers and arrays, the inputs of the net and then labels that it
        may not take. The last batch may be smaller."""
        size = self.job.rows(self.phase)
        for number in range(-(-self.images // size)):
            yield number, self.batches.read(number, 0, min(size, self.images - number * size))

    def raw(self, number: int, rows: int) -> NDArray[Any]:
        """The images of a batch as the data give them, without any transform. Raises NetError for a
        net of streams, which reads no images."""
        if isinstance(self.batches, StreamBatches):
            raise NetError("ensembles: found a net of streams, expected a net of images")
        low = number * self.job.rows(self.phase)
        images: NDArray[Any] = self.source.read(self.batches.indices(low, low + rows))[0]
        return images


class Passes(Protocol):
    """The passes of one member over the test data."""

    output: Output
    missing: tuple[str, ...]

    def add(self, number: int, fed: Sequence[NDArray[Any]], wanted: bool) -> Rows | None:
        """Compute one batch, and return its rows if they are `wanted`."""

    @property
    def scores(self) -> dict[str, float]:
        """The scores of all batches so far."""


class ByTestNet:
    """A member that computes with the test net of cluster.toml, as a single net does."""

    def __init__(self, tested: TestedNet, member: Member, net: Net, flips: bool) -> None:
        judge = tested.judge
        matched = load_weights(member.files, net.params, net.spec.layers)
        for line in matched.told:
            told_beside("weights", line)
        self.missing = matched.missing
        names = _names(member)
        self.output = Output(member.word, judge.width(net), judge.ending, names)
        self._net, self._judge = net, judge
        self._counts = Counts(judge) if flips else None
        self._sums: dict[str, float] = defaultdict(float)
        self._images = 0
        blobs = {**net.initial_blobs(), **matched.blobs}
        self._blobs = {
            layer: tuple(net.ops.asarray(blob, net.dtype) for blob in of)
            for layer, of in blobs.items()
        }

    def add(self, number: int, fed: Sequence[NDArray[Any]], wanted: bool) -> Rows | None:
        """Compute one batch with the test net."""
        rows = self._pass(number, fed, wanted or self._counts is not None)
        if self._counts is None or rows is None:
            return rows
        mirrored = self._pass(number, [mirror(fed[0]), *fed[1:]], wanted=True)
        assert mirrored is not None
        mean = averaged([rows, mirrored])
        self._counts.add(mean)
        return mean if wanted else None

    def _pass(self, number: int, fed: Sequence[NDArray[Any]], wanted: bool) -> Rows | None:
        """Compute one batch, and return its rows if they are `wanted`."""
        net = self._net
        more = [net.laid_out(array) for array in fed[len(net.inputs) :]]
        net.begin(number, (0, len(fed[0])))
        for name, array in zip(net.inputs, fed, strict=False):
            net.feed_rows(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self._blobs[stage.layer])
            net.forward(stage)
        for name, value in (net.scalars() or _outputs(net, *more)).items():
            self._sums[name] += len(fed[0]) * value
        self._images += len(fed[0])
        return self._judge.rows(net, more) if wanted else None

    @property
    def scores(self) -> dict[str, float]:
        if self._counts is not None:
            return self._counts.scores
        return {name: value / self._images for name, value in self._sums.items()}


class ByOwnNet:
    """A member that computes with its own net and transform, which its checkpoint describes."""

    missing: tuple[str, ...] = ()

    def __init__(self, tested: TestedNet, member: Member, flips: bool) -> None:
        self._tested = tested
        self._flips = flips
        self._seen = replace(tested.deployment(), order=tested.order)  # as the data give them
        batch = tested.job.rows(tested.phase)
        ops = tested.job.backend_ops
        self._predictor = one = Predictor(*for_use(member.files), batch=batch, backend=ops)
        self.output = Output(member.word, one.width, one.deployment.ending, one.classes)
        self._counts = Counts(tested.judge)

    def add(self, number: int, fed: Sequence[NDArray[Any]], wanted: bool) -> Rows | None:
        """Compute one batch from the images as the data give them."""
        tested = self._tested
        raw = tested.raw(number, len(fed[0]))
        images = as_seen(raw, self._seen, self._predictor.deployment)
        labels = tested.judge.labels(tested.net, fed)
        sides = (False, True) if self._flips else (False,)
        rows = averaged(
            [
                Rows(self._predictor.scores(images, mirrored=side).astype(np.float64), labels)
                for side in sides
            ]
        )
        self._counts.add(rows)
        return rows if wanted else None

    @property
    def scores(self) -> dict[str, float]:
        return self._counts.scores


def found_by_test(
    job: Job, phase: str, members: Sequence[Member], asked: Asked, order: str | None
) -> list[Found]:
    """Run a test net over its images: the result of each member, and of the ensemble if there are
    several. `order`: the order of planes that cluster.toml declares."""
    several = len(members) > 1
    wanted = several or asked.counts
    tested = TestedNet(job, phase, order, "kept" if wanted or asked.flips else "reused")
    if asked.flips and len(tested.net.input_shapes[tested.net.inputs[0]]) != 4:
        raise NetError(
            f"{tested.net.spec.path.name}: found input '{tested.net.inputs[0]}' of shape "
            f"{tested.net.input_shapes[tested.net.inputs[0]]}, expected images: only images have "
            "mirror images"
        )
    passes = _passes(tested, members, asked.flips)
    outputs = [one.output for one in passes]
    names = common_classes(outputs) or tested.source.class_names
    of = f", test net {job.test_name(phase)}" if len(job.test_phases) > 1 else ""
    found = [
        Found(of, tested.images, member, one.missing, names=names, flips=asked.flips)
        for member, one in zip(members, passes, strict=True)
    ]
    whole = Found(of, tested.images, None, names=names, flips=asked.flips)
    counts = Counts(tested.judge)
    ignored = tested.judge.judged.ignored
    for number, fed in tested.read():
        rows = [one.add(number, fed, wanted) for one in passes]
        given = [each for each in rows if each is not None]
        for result, each in zip(found, given, strict=False):
            result.count(each, asked, ignored)
        if several:
            mean = averaged(given)
            counts.add(mean)
            whole.count(mean, asked, ignored)
    for result, one in zip(found, passes, strict=True):
        result.scores = one.scores
    whole.scores = counts.scores
    return [*found, whole] if several else found


def mirror(images: NDArray[Any]) -> NDArray[Any]:
    """The mirror images, left and right exchanged."""
    return np.ascontiguousarray(images[..., ::-1])


def _passes(tested: TestedNet, members: Sequence[Member], flips: bool) -> list[Passes]:
    """The passes of each member. In an ensemble, a member that describes another net, transform or
    order of planes than cluster.toml computes with its own."""
    found: list[Passes] = []
    for at, member in enumerate(members):
        if len(members) > 1 and _describes_another(tested, member):
            told_beside("ensemble", f"{member.word}: its own net and transform are used")
            found.append(ByOwnNet(tested, member, flips))
            continue
        if text := _told_of_images(tested, member):
            told_beside("weights", f"{member.word}: {text}")
        # a recurrent net keeps its state from batch to batch, so members cannot share one
        net = tested.build() if at and tested.net.recurrent else tested.net
        found.append(ByTestNet(tested, member, net, flips))
    return found


def _describes_another(tested: TestedNet, member: Member) -> bool:
    said = deployment_of(member.files)
    if said is None:
        return False
    try:
        expected = tested.deployment()
    except NetError:
        return False
    return replace(said, classes=()).to_text() != expected.to_text()


def _told_of_images(tested: TestedNet, member: Member) -> str:
    """A line about other settings of images than in the run of a checkpoint, "" without any."""
    try:
        said = deployment_of(member.files)
        return differences(said, tested.deployment()) if said is not None else ""
    except NetError:
        return ""  # reading the weights gives the error, or the net has no use that is described


def _names(member: Member) -> tuple[str, ...]:
    """The names of the classes in a checkpoint, empty if it has none or cannot be read."""
    try:
        said = deployment_of(member.files)
    except NetError:
        return ()
    return said.classes if said is not None else ()


def _outputs(net: Net, labels: Array | None = None) -> dict[str, float]:
    """Scores of a net that computes none. If the data have `labels`: the share of images whose
    label has the largest number in the only output. Else: the mean of each output."""
    outputs = {name: net.ops.to_host(net.blob(name)) for name in net.outputs}
    name, first = next(iter(outputs.items()))
    classes = (
        first.ndim > 1 and first.size == first.shape[0] * first.shape[1] and first.shape[1] > 1
    )
    if labels is not None and labels.ndim == 1 and len(outputs) == 1 and classes:
        best = first.reshape(len(first), -1).argmax(1)
        return {
            (f"accuracy by the data's labels (largest number of '{name}')"): float(
                np.mean(best == labels)
            )
        }
    return {f"mean of output '{name}'": float(array.mean()) for name, array in outputs.items()}
