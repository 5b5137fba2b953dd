"""Preparation of a net before its first iteration. A pass over blank inputs compiles all operations
and tries the algorithms to choose from."""

from __future__ import annotations

from nets.graph.blanks import blanks
from nets.graph.graph import Net

ROWS = 8


def warm(net: Net, rows: int | None = None) -> None:
    """Run one pass and discard it, if the backend compiles anything. The net is unchanged
    afterwards.

    `rows` is the number of rows in later passes (default: the whole batch). A backend that tries
    algorithms tries them with this number.
    """
    if not net.ops.compiles:
        return
    layers = [node.layer for stage in net.stages for node in stage.nodes]
    before = [dict(vars(layer)) for layer in layers]
    net.begin(0, (0, min(net.batch, (rows or net.batch) if net.ops.tries else ROWS)))
    # asks every layer how it computes, so that all their kernels are compiled together
    assert net.scratch >= 0
    fills = blanks(net)
    for name, shape in net.input_shapes.items():
        blank = net.ops.zeros(shape, net.dtype)
        if fills[name]:
            blank[...] = fills[name]
        net.feed(name, blank)
    for layer, params in net.params.items():
        net.load(layer, [net.ops.zeros(param.shape, net.dtype) for param in params])
    for stage in net.stages:
        net.forward(stage)
    if net.phase == "TRAIN":
        given = set(net.boundary_grads) if net.part in ("conv", "link") else set()
        for name in given - set(net.inputs if net.part == "link" else ()):
            net.set_grad(name, net.ops.zeros(net.shape(name), net.dtype))
        for stage in reversed(net.stages):
            net.backward(stage)
    net.restart()
    # the arrays that a layer saved would keep the pass's whole block alive
    for one, values in zip(layers, before, strict=True):
        vars(one).clear()
        vars(one).update(values)
