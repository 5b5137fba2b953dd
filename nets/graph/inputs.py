"""The inputs of a net: its data layers, the shapes that a source gives them, and a check that the
batches fit."""

from __future__ import annotations

from nets.counting import counted
from nets.data import Batches, Source, StreamBatches
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError
from nets.graph.graph import Net
from nets.graph.streams import streams_of
from nets.layers import kind_of
from nets.layers.base import Shape

DataLayers = tuple[LayerSpec, ...]


def data_layers(spec: NetSpec) -> DataLayers:
    """Return the data layers of a net in one state: layers whose tops come from outside."""
    return tuple(
        layer for layer in spec.layers if (kind := kind_of(layer)) is not None and kind.is_source
    )


def promised(layers: DataLayers, source: Source) -> dict[str, Shape]:
    """Return the shape of each top's samples, by top, as the source has them before any
    transform."""
    tops = [top for layer in layers for top in layer.proto.top]
    # a source may give more, such as labels that no layer reads
    return dict(zip(tops, source.shapes, strict=False))


def rows_given(spec: NetSpec, source: Source) -> int:
    """Return how many rows the source has for a net in one state. A net with streams takes whole
    batches of them. Raises NetError if there is not one."""
    streams = streams_of(spec)
    if streams is None:
        return len(source)
    if len(source) < streams.steps:
        raise NetError(
            f"{source.name}: found {len(source)} steps of time, expected at least "
            f"{streams.steps}, the steps of the net"
        )
    return len(source) // streams.steps * streams.number


def check_inputs(net: Net, batches: Batches | StreamBatches) -> None:
    """Raise NetError unless the batches give every input of the net in its shape. A net without a
    loss cannot be trained, so it is an error, too."""
    layers = [node.layer for stage in net.stages for node in stage.nodes]
    if net.phase == "TRAIN" and not any(any(layer.loss_weights) for layer in layers):
        raise NetError(
            f"{net.spec.path.name}: found no loss in phase TRAIN, expected one: "
            "there is nothing to learn"
        )
    given = batches.shapes
    if len(given) < len(net.inputs):
        found = f"found {counted(len(given), 'array')} per sample ({batches.source.name})"
        raise NetError(
            f"{net.spec.path.name}: {found}, expected {len(net.inputs)}: {', '.join(net.inputs)}"
        )
    shapes = zip(net.inputs, given, strict=False)
    problems = [
        (
            f"{net.spec.path.name}: top '{name}': found samples of shape {found}, expected "
            f"{net.row_shape(name)}"
        )
        for name, found in shapes
        if found != net.row_shape(name)
    ]
    if problems:
        raise NetError(problems)
