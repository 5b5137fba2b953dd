"""The time of each layer, forward and backward, as in `caffe time`, and of reading the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nets.data import Batches
from nets.definition.params import generator
from nets.errors import NetError
from nets.graph.blanks import blanks
from nets.graph.graph import Net, Stage
from nets.tools.volumes import volumes


@dataclass(frozen=True)
class LayerTime:
    """Seconds per pass, averaged over the measured passes, and the FLOPs of the layer's products (0
    for layers without products)."""

    name: str
    kind: str
    forward: float
    backward: float
    forward_flops: int
    backward_flops: int


def time_net(
    net: Net,
    *,
    iterations: int = 10,
    warmup: int = 1,
    inputs: Mapping[str, Any] | None = None,
    synchronize: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[LayerTime, ...]:
    """Run whole training passes of `net` (its TRAIN phase) and return one LayerTime per layer, in
    order.

    Without `inputs`, images are noise and labels are blank. `synchronize` waits for the device
    before the clock is read.
    """
    if iterations < 1 or warmup < 0:
        raise NetError(
            f"time: found {iterations} iterations and {warmup} for warm-up, expected >= 1 and >= 0"
        )
    stages = [_alone(stage, at) for stage in net.stages for at in range(len(stage.nodes))]
    given = inputs or _noise(net)
    blobs = net.initial_blobs()
    seconds = np.zeros((2, len(stages)))
    for step in range(warmup + iterations):
        if step == warmup:
            seconds[:] = 0
        net.begin(step)
        for name, array in given.items():
            net.feed(name, array)
        for layer, arrays in blobs.items():
            net.load(layer, arrays)
        for direction, run, order in ((0, net.forward, 1), (1, net.backward, -1)):
            for at in range(len(stages))[::order]:
                synchronize()
                start = clock()
                run(stages[at])
                synchronize()
                seconds[direction, at] += clock() - start
    seconds /= iterations
    sizes = {layer.name: layer for layer in volumes(net).layers}
    return tuple(
        LayerTime(
            stage.layers[0], sizes[stage.layers[0]].kind, float(forward), float(backward),
            sizes[stage.layers[0]].forward, sizes[stage.layers[0]].backward,
        )
        for stage, forward, backward in zip(stages, *seconds, strict=True)
    )  # fmt: skip


@dataclass(frozen=True)
class DataTime:
    """Seconds for a batch in one thread: to read and decode its samples, and to transform, augment
    and mix them."""

    reading: float
    changing: float


def time_data(
    batches: Batches, *, iterations: int = 10, clock: Callable[[], float] = time.perf_counter
) -> DataTime:
    """Read batch after batch, and return the mean times. The first batch is not measured."""
    seconds = np.zeros(2)
    for number in range(iterations + 1):
        positions = np.arange(number * batches.batch, (number + 1) * batches.batch)
        start = clock()
        known = batches.needed(positions)
        stored = batches.stored(known)
        read = clock()
        batches.mixed(batches.changed(stored, known), known, positions)
        if number:
            seconds += (read - start, clock() - read)
    reading, changing = seconds / iterations
    return DataTime(float(reading), float(changing))


def taken(
    work: Callable[[], object],
    *,
    iterations: int = 10,
    warmup: int = 1,
    synchronize: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the mean seconds of `work`, which is repeated."""
    for _ in range(warmup):
        work()
    synchronize()
    start = clock()
    for _ in range(iterations):
        work()
    synchronize()
    return (clock() - start) / iterations


def table(times: tuple[LayerTime, ...]) -> str:
    """Return the times as text: milliseconds forward and backward, GFLOP/s of the products, and a
    line with sums."""
    rows = [("layer", "type", "forward ms", "backward ms", "GFLOP/s")]
    for one in times:
        flops = one.forward_flops + one.backward_flops
        taken = one.forward + one.backward
        speed = f"{flops / taken / 1e9:.1f}" if flops and taken else "-"
        rows.append(
            (one.name, one.kind, f"{one.forward * 1e3:.3f}", f"{one.backward * 1e3:.3f}", speed)
        )
    forward, backward = (
        sum(getattr(one, key) for one in times) * 1e3 for key in ("forward", "backward")
    )
    rows.append(
        ("sum", "", f"{forward:.3f}", f"{backward:.3f}", f"{forward + backward:.3f} ms in all")
    )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    """Return a line with the two names on the left and the numbers on the right."""
    names = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
    numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*names, *numbers]).rstrip()


def _alone(stage: Stage, at: int) -> Stage:
    """Return one layer of a stage as a separate stage."""
    node = stage.nodes[at]
    owner = node.layer.name if node.layer.params else None
    return replace(stage, layer=owner, layers=(node.layer.name,), nodes=(node,))


def _noise(net: Net) -> dict[str, Any]:
    """Return images of standard normal numbers, and blanks for inputs with fewer than four axes
    (labels)."""
    rng = generator(0, "timing")
    fills = blanks(net)
    return {
        name: rng.standard_normal(shape, dtype=np.float32)
        if len(shape) == 4
        else np.full(shape, fills[name], np.float32)
        for name, shape in net.input_shapes.items()
    }
