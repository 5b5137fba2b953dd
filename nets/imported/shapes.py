"""Converters of operators that give numbers another shape, cut values, or join them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from nets.imported.converters import converts
from nets.imported.folding import ROWS, axes_of, shape_constant, slices_of
from nets.imported.layers_made import Fixed, Shape, Step, Unsupported, Value, shown
from nets.schema import caffe_pb2 as caffe


@converts("Shape")
def _shape(step: Step) -> None:
    step.give(Fixed(shape_constant(step.node, step.value().shape)))


@converts("Flatten")
def _flatten(step: Step) -> None:
    shape = step.value().shape
    axis = int(step.attribute("axis", 1)) % (len(shape) + 1)
    _give_reshaped(step, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@converts("Reshape")
def _reshape(step: Step) -> None:
    x = step.value()
    wanted = [int(size) for size in step.array(1).ravel()]
    if step.attribute("allowzero", 0) and 0 in wanted:
        raise Unsupported("its shape has a size of 0")
    if any(size == 0 and at >= len(x.shape) for at, size in enumerate(wanted)):
        raise Unsupported(f"found {wanted}: a 0 beyond the axes of {shown(x.shape)}")
    sizes = [x.shape[at] if size == 0 else size for at, size in enumerate(wanted)]
    rows = step.made.graph.rows
    if (
        rows
        and wanted[:1] == [rows]
        and -1 not in wanted
        and math.prod(sizes[1:]) == math.prod(x.shape[1:])
    ):
        sizes[0] = ROWS  # the file was written for this number of rows
    if rows and wanted[:1] == [rows] and wanted.count(-1) == 1:
        sizes[0] = ROWS
    known = math.prod(size for size in sizes if size != -1)
    total = math.prod(x.shape)
    if sizes.count(-1) > 1 or known == 0 or total % known:
        raise Unsupported(f"{wanted} does not hold the numbers of {shown(x.shape)}")
    shape = [total // known if size == -1 else size for size in sizes]
    if math.prod(shape) != total:
        raise Unsupported(f"{wanted} does not hold the numbers of {shown(x.shape)}")
    _give_reshaped(step, shape)


@converts("Squeeze")
def _squeeze(step: Step) -> None:
    shape = step.value().shape
    named = axes_of(step.node, step.constants)
    axes = [axis for axis, size in enumerate(shape) if size == 1] if named is None else named
    gone = {axis % len(shape) for axis in axes}
    _give_reshaped(step, [size for axis, size in enumerate(shape) if axis not in gone])


@converts("Unsqueeze")
def _unsqueeze(step: Step) -> None:
    shape = step.value().shape
    axes = axes_of(step.node, step.constants) or ()
    rank = len(shape) + len(axes)
    added = {axis % rank for axis in axes}
    sizes = iter(shape)
    _give_reshaped(step, [1 if axis in added else next(sizes) for axis in range(rank)])


def _give_reshaped(step: Step, shape: Sequence[int]) -> None:
    step.give(step.reshaped(step.value(), shape, ""))


@converts("Transpose")
def _transpose(step: Step) -> None:
    x = step.value()
    order = step.attribute("perm", tuple(reversed(range(len(x.order)))))
    if sorted(order) != list(range(len(x.order))):
        raise Unsupported(f"found axes {list(order)} of a value of shape {shown(x.shape)}")
    y = Value(x.blob, x.sizes, tuple(x.order[axis] for axis in order))
    moved = [axis for axis in y.order if x.sizes[axis] != 1]
    if moved == sorted(moved) and not y.is_plain:  # only axes of size 1 have moved
        y = step.reshaped(Value.plain(x.blob, x.sizes), y.shape)
    step.give(y)


@converts("Expand")
def _expand(step: Step) -> None:
    x = step.plain()
    wanted = [int(size) for size in step.array(1).ravel()]
    rows = step.made.graph.rows
    if rows and wanted[:1] == [rows]:
        wanted[0] = ROWS  # the file was written for this number of rows
    try:
        shape = np.broadcast_shapes(x.sizes, tuple(wanted))
    except ValueError:
        shape = ()
    if len(shape) != len(x.sizes):
        raise Unsupported(f"it turns {shown(x.shape)} into {shown(wanted)}")
    for axis, size in enumerate(shape):
        x = step.tiled(x, axis, size)
    step.give(x)


@converts("Concat")
def _concat(step: Step) -> None:
    values = [step.value(at) for at in range(len(step.inputs))]
    if any(value.order != values[0].order for value in values):
        values = [step.straight(value) for value in values]
    first = values[0]
    axis = first.axis(int(step.attribute("axis")))
    others = {tuple(size for at, size in enumerate(value.sizes) if at != axis) for value in values}
    if len(others) > 1 or axis == 0:
        shapes = ", ".join(shown(value.shape) for value in values)
        raise Unsupported(f"found shapes {shapes}, expected them to differ along one axis")
    sizes = (
        *first.sizes[:axis],
        sum(value.sizes[axis] for value in values),
        *first.sizes[axis + 1 :],
    )
    if len(values) == 1:
        step.give(first)
        return
    y = step.add("Concat", [each.blob for each in values], sizes, concat_param={"axis": axis})
    step.give(Value(y.blob, y.sizes, first.order))


@converts("Split")
def _split(step: Step) -> None:
    x = step.value()
    axis = x.axis(int(step.attribute("axis", 0)))
    size, count = x.sizes[axis], len(step.node.outputs)
    given = step.fixed(1)
    chunk = step.attribute("chunk", -(-size // count))  # of a SplitToSequence
    sizes = (
        [min(chunk, size - at * chunk) for at in range(count)]
        if given is None
        else [int(part) for part in given.array.ravel()]
    )
    if sum(sizes) != size or min(sizes) < 1 or len(sizes) != count:
        raise Unsupported(f"it cuts {size} into {sizes}")
    ends = list(itertools.accumulate(sizes, initial=0))
    step.give(*_parts(step, x, axis, list(itertools.pairwise(ends)), step.node.outputs))


@converts("Slice")
def _slice(step: Step) -> None:
    x = step.value()
    if any(isinstance(each, Value) for each in step.inputs[1:]):
        raise Unsupported("its places depend on the image")
    shape = x.shape
    for axis, part in enumerate(slices_of(step.node, len(shape), step.constants)):
        start, end, pace = part.indices(shape[axis])
        if (start, end, pace) == (0, shape[axis], 1):
            continue
        if pace != 1 or end <= start:
            raise Unsupported(f"it takes {start} to {end} in steps of {pace}")
        (x,) = _parts(step, x, x.axis(axis), [(start, end)], ("",))
    step.give(x)


@converts("Gather")
def _gather(step: Step) -> None:
    x = step.value()
    place = step.array(1)
    axis = int(step.attribute("axis", 0)) % len(x.shape)
    if place.size != 1:
        raise Unsupported(f"it takes {place.size} places, expected one")
    start = int(place.ravel()[0]) % x.shape[axis]
    (y,) = _parts(step, x, x.axis(axis), [(start, start + 1)], ("",))
    shape = (*x.shape[:axis], *place.shape, *x.shape[axis + 1 :])
    step.give(step.reshaped(y, shape))


def _parts(
    step: Step, x: Value, axis: int, parts: Sequence[tuple[int, int]], outputs: Sequence[str]
) -> list[Value]:
    """Return parts of x along an axis of its blob, in rising order. The numbers between them, and
    the outputs that no node reads, are given to a Silence."""
    if axis == 0:
        raise Unsupported("it cuts the rows of the batch")
    size = x.sizes[axis]
    if parts == [(0, size)]:
        return [x]
    ends = sorted({0, size, *(end for part in parts for end in part)})
    pieces = list(itertools.pairwise(ends))
    options = {"axis": axis, "slice_point": ends[1:-1]}
    tops = step.made.add(
        "Slice", f"{step.name}/slice", [x.blob], tops=len(pieces), slice_param=options
    )
    if len(tops) == 1:
        raise Unsupported("it has one part")
    read = {
        part: name for part, name in zip(parts, outputs, strict=True)
        if not name or step.made.readers[name]
    }  # fmt: skip
    if silent := [top for top, piece in zip(tops, pieces, strict=True) if piece not in read]:
        step.made.layers.append(_silence(step, silent))
    found = dict(zip(pieces, tops, strict=True))
    return [Value(found[part], _cut(x, axis, part), x.order) for part in parts]


def _cut(x: Value, axis: int, part: tuple[int, int]) -> Shape:
    return (*x.sizes[:axis], part[1] - part[0], *x.sizes[axis + 1 :])


def _silence(step: Step, blobs: Sequence[str]) -> caffe.LayerParameter:
    return caffe.LayerParameter(
        name=step.made.named(f"{step.name}/silence"), type="Silence", bottom=blobs
    )
