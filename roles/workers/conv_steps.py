"""The steps of a conv worker in an iteration (`ConvCompute`), from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from roles.base.loads import Load, Loads
from roles.base.shapes import Shapes
from roles.base.sizes import crossing, encoded
from roles.base.steps import Key, Sending, Step, Steps, Work, sent
from roles.fc.phase import HasFc, answers_added, fc_phase
from roles.workers.model_links import ModelWay


class HasModels(HasFc, Protocol):
    """Options of a conv worker that name its model servers."""

    @property
    def models(self) -> tuple[ModelWay, ...]:
        """The model servers, in any order."""
        ...


def work(options: HasModels, name: str, shapes: Shapes) -> Loads:
    """The pieces of array work: stage by stage, forward and backward. A layer's parameters are
    copied to the device, and their gradients to host memory. With servers of the FC phase,
    activations and their gradients are copied too. Arrays whose peers read them on the GPU are not
    copied."""
    ways = way_of_each(options, shapes)
    rows = -(-shapes.rows(name) // options.job.passes)
    net = shapes.net(options.job, options.part)
    for stage in net.stages:
        given = taken = 0
        if stage.layer:
            way = ways[stage.layer]
            size = shapes.size(shapes.layers(options.job, options.part, (stage.layer,)))
            given = shapes.off_device(size, [(way.server, name)])
            taken = shapes.off_device(size, [(name, way.parent)])
        if options.fc_servers and stage is net.stages[-1]:
            links = [(name, server) for server in options.fc_servers]
            rows = shapes.rows(name)
            given += shapes.off_device(crossing(net, rows), links)
            taken += shapes.off_device(crossing(net, rows, back=True), links)
        yield Load(f"forward {stage.layer}", rows, forward=stage.layers, copied=given)
        yield Load(f"backward {stage.layer}", rows, backward=stage.layers, copied=taken)
        for _ in range(1, options.job.passes):
            yield from (
                Load("pass", rows, backward=stage.layers),
                Load("pass", rows, forward=stage.layers),
            )
    yield from answers_added(options, name, shapes)


def iteration(options: HasModels, name: str, shapes: Shapes) -> Steps:
    """The steps of the worker of this name."""
    layers = [stage.layer or "" for stage in shapes.net(options.job, options.part).stages]
    rows = -(-shapes.rows(name) // options.job.passes)
    ways = way_of_each(options, shapes)
    yield Step((name, "begin"), since=((name, "end"),))
    yield from _forward(name, layers, ways, rows)
    above: Key = (name, "forward", str(len(layers) - 1))
    for number in range(1, options.job.passes):
        for which in range(2 * len(layers)):
            step = Step((name, "pass", str(number), str(which)), Work("pass", rows), (above,))
            above = step.name
            yield step
    if options.fc_servers:
        yield from fc_phase(options, name, shapes, above)
        above = (name, "answered")
    done: list[Key] = []
    for number, layer in reversed(list(enumerate(layers))):
        work = (name, "backward", str(number))
        yield Step(work, Work(f"backward {layer or None}", rows), (above,))
        if layer:
            way = ways[layer]
            size = shapes.layers(options.job, options.part, (layer,))
            told = (name, "LayerGradient", layer)
            yield Step(told, Sending((way.parent,), encoded(size, way.wire)), (work, *done[-1:]))
            done.append(sent(told))
    yield Step((name, "end"), None, (work, *done[-1:]))


def way_of_each(options: HasModels, shapes: Shapes) -> dict[str, ModelWay]:
    """Layer -> the way to its model server."""
    return {
        layer: way
        for way in options.models
        for layer in shapes.layers(options.job, options.part, way.layers)
    }


def _forward(
    name: str, layers: Sequence[str], ways: dict[str, ModelWay], rows: int
) -> Iterator[Step]:
    """The steps forward. A layer is pulled when the layer below has arrived and the one below that
    is computed."""
    asked: tuple[Key, ...] = ((name, "begin"),)
    yield Step((name, "read"), Work("read", rows), asked)
    before: tuple[Key, ...] = ()
    following: tuple[Key, ...] = ((name, "read"),)
    for number, layer in enumerate(layers):
        here = asked
        if layer:
            server = ways[layer].server
            yield Step((name, "PullLayer", layer), Sending((server,)), asked)
            here = ((server, "LayerModel", layer, name),)
        asked = (*here, *before)
        yield Step((name, "forward", str(number)), Work(f"forward {layer or None}", rows), asked)
        before = following
        following = ((name, "forward", str(number)),)
