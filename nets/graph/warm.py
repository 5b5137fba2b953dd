"""Preparing what a net needs before its first iteration: a pass over zeros compiles whatever it
runs, and tries out what there is to choose from."""

from __future__ import annotations

from nets.graph.graph import Net

ROWS = 8


def warm(net: Net, rows: int | None = None) -> None:
    """Run one pass and forget it, if the backend compiles anything. The net is then as it was.

    `rows`: of the passes that are to come, the whole batch if nothing is said; a backend that tries
    algorithms tries them for so many.
    """
    if not net.ops.compiles:
        return
    layers = [node.layer for stage in net.stages for node in stage.nodes]
    before = [dict(vars(layer)) for layer in layers]
    net.begin(0, (0, min(net.batch, (rows or net.batch) if net.ops.tries else ROWS)))
    # asks every layer how it computes: what they all want is compiled together
    assert net.scratch >= 0
    for name, shape in net.input_shapes.items():
        net.feed(name, net.ops.zeros(shape, net.dtype))
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
    # what a layer saved would keep the pass's whole block alive
    for one, values in zip(layers, before, strict=True):
        vars(one).clear()
        vars(one).update(values)
