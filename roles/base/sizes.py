"""Bytes that training roles send and hold, for their declarations (`role`).

The memory does not count the interpreter and its libraries, rows that the host reads ahead,
messages under way, and old versions of a published model that readers still hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from nets import Net
from ops import get_backend
from roles.base.role import Bytes, Held
from roles.base.shapes import Read, Shapes
from roles.learning.job import Job
from roles.learning.recordings import PLAIN
from roles.learning.wire_formats import Layers, WireFormat, format_of, plain_beside
from roles.messages import TRAIN
from runtime.plan.forecast import HOST


def crossing(net: Net, rows: int, *, back: bool = False) -> int:
    """Bytes that cross the cut of the net for so many rows: the blobs of a conv part, or (`back`)
    the gradients that come back."""
    names = net.boundary_grads if back else net.boundary
    number: int = net.dtype.itemsize
    return number * rows * sum(math.prod(net.row_shape(name)) for name in names)


def below(server: str, shapes: Shapes, rows: int) -> tuple[int, int]:
    """Bytes of the activations that an FC server gets for so many rows, and of the gradients that
    it returns."""
    options = next(
        options for options in shapes.having("fc_servers").values() if server in options.fc_servers
    )
    net = shapes.net(options.job, options.part)
    return crossing(net, rows), crossing(net, rows, back=True)


def answers(
    server: str, shapes: Shapes, workers: Sequence[str] | None = None
) -> Iterator[tuple[str, int]]:
    """Yield (worker, bytes) of the gradients that the FC `server` returns to each worker that names
    it, or only to those in `workers`."""
    for worker, options in shapes.having("fc_servers").items():
        if server in options.fc_servers and (workers is None or worker in workers):
            net = shapes.net(options.job, options.part)
            yield worker, crossing(net, shapes.rows(worker), back=True)


def encoded(layers: Layers, wire: WireFormat) -> Bytes:
    """Bytes of the gradients of these layers in a wire format; None if it depends on the values."""
    ops = get_backend("numpy")
    sent = format_of(wire, ops)
    plain = plain_beside(wire, ops)
    blobs = itertools.chain.from_iterable(layers.values())
    return _sum((sent if learned else plain).size(math.prod(shape)) for shape, learned in blobs)


def _sum(sizes: Iterator[Bytes]) -> Bytes:
    known, counted = itertools.tee(sizes)
    return None if any(size is None for size in known) else sum(size or 0 for size in counted)


def arriving(reducer: str, shapes: Shapes) -> Layers:
    """The layers whose gradients arrive at a reducer. They are the same for every child."""
    for name, way in shapes.senders.get(reducer, ()):
        options = shapes.options[name]
        return (
            arriving(name, shapes)
            if way is options
            else shapes.layers(options.job, options.part, way.layers)
        )
    return {}


def parts_at(receiver: str, shapes: Shapes) -> int:
    """The number of parts in which each layer's gradient arrives at a reducer or model server in an
    iteration."""
    return max((getattr(way, "parts", 1) for _, way in shapes.senders.get(receiver, ())), default=1)


def children(
    parent: str, shapes: Shapes, members: Sequence[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """The actors that send gradients to a reducer or model server in an iteration of these members,
    each with the layers that it sends."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for member in members:
        options = shapes.options[member]
        ways = [way for way in getattr(options, "models", ()) if way.parent == parent]
        found += [
            (member, tuple(shapes.layers(options.job, options.part, way.layers))) for way in ways
        ]
    for name, options in shapes.options.items():
        if getattr(options, "parent", None) == parent and (
            below := children(name, shapes, members)
        ):
            found.append((name, below[0][1]))
    return found


def passes(job: Job, part: str, shapes: Shapes, worker: str = "") -> Held:
    """The arrays of a pass in each phase, for the worker's share of the rows, or for all rows if no
    worker is named."""
    job = shapes.same(job)
    nets = [
        shapes.net(job, part, rows_at_once(job, shapes, worker, phase), phase)
        for phase in job.phases
    ]
    held = at_once(job, activations(nets, shapes))
    return held | images_ahead(nets) if worker else held


def images_ahead(nets: Sequence[Net]) -> Held:
    """Bytes of a device for images on their way to it, as numbers of the net: for the largest batch
    of all phases. Images of bytes take a quarter, unless they are cropped to less than that."""
    inputs = [shape for net in nets for shape in net.input_shapes.values() if len(shape) == 4]
    largest = max(map(math.prod, inputs), default=0) * nets[0].dtype.itemsize
    size = nets[0].ops.rooms_ahead * largest
    return {"images read ahead": size} if size else {}


def rows_at_once(job: Job, shapes: Shapes, worker: str, phase: str) -> int:
    """The rows of one pass of a worker. 0, which stands for all rows, if no worker is named."""
    rows = shapes.rows(worker, phase) if worker else 0
    return -(-rows // job.passes) if phase == TRAIN else rows


def at_once(job: Job, held: Held) -> Held:
    """Return `held`, with the number of passes in the name of its activations if all iter_size
    passes hold theirs at once."""
    count = job.solver_spec.iter_size // job.passes
    return (
        held if count == 1 else {f"activations of {count} passes": held.pop("activations")} | held
    )


def gradients(job: Job, layers: Layers, shapes: Shapes) -> int:
    """Bytes of a worker's gradients: those of one pass and, if there are several passes, their
    sum."""
    return shapes.size(layers) * (1 if job.passes == 1 else 2)


def leaving(job: Job, pieces: Sequence[int], read: Read) -> Held:
    """Bytes of a worker's gradients that leave it in `pieces` during the backward pass. On a GPU
    the device holds one piece at a time, and host memory holds the copies of all. If the copies lie
    on the GPU instead, they are counted by `forecasting.plan_forecast`. Readers in the worker's own
    process need none, so all pieces stay. The sums of several passes stay on the device, and so do
    the gradients of a pass that is replayed."""
    whole = sum(pieces)
    replayed = job.on_gpu and job.gpu_step != PLAIN
    stay = whole if job.passes > 1 or replayed else 0
    if not job.on_gpu or read is Read.HERE:
        return {"gradients": stay + whole}
    held = {"gradients": stay + max(pieces, default=0)}
    return held | ({f"gradients{HOST}": whole} if read is Read.HOST else {})


def activations(nets: list[Net], shapes: Shapes) -> Held:
    """The arrays of passes through these nets, and the parameters of their frozen layers."""
    held = [shapes.of_pass(net) for net in nets]
    scratch = max(scratch for _, scratch in held)
    frozen = {layer: params for net in nets for layer, params in net.frozen.items()}
    constant = sum(math.prod(param.shape) for params in frozen.values() for param in params)
    return {
        "activations": sum(size for size, _ in held),
        **({"scratch": scratch} if scratch else {}),
        **({"frozen parameters": shapes.number * constant} if constant else {}),
    }


def model(job: Job, layers: Layers, shapes: Shapes) -> Held:
    """Bytes of the parameters, of the histories that the solver keeps for each, and of their
    averages."""
    solver = job.solver_spec
    learned = [shape for blobs in layers.values() for shape, learned in blobs if learned]
    histories = sum(math.prod(shape) * solver.histories_of(shape) for shape in learned)
    held = {"parameters": shapes.size(layers)}
    held |= {"history": shapes.number * histories} if histories else {}
    return held | ({"averages": shapes.size(layers)} if job.extras.average else {})
