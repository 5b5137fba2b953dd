"""The inputs of a net: its data layers, the shapes that a source gives them, and a check that the
batches fit."""

from __future__ import annotations

from nets.data import Batches, Source
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError
from nets.graph.graph import Net
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


def check_inputs(net: Net, batches: Batches) -> None:
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
        found = f"found {len(given)} arrays per sample ({batches.source.name})"
        raise NetError(
            f"{net.spec.path.name}: {found}, expected {len(net.inputs)}: {', '.join(net.inputs)}"
        )
    shapes = zip(net.inputs, given, strict=False)
    problems = [
        (
            f"{net.spec.path.name}: top '{name}': found samples of shape {found}, expected "
            f"{net.input_shapes[name][1:]}"
        )
        for name, found in shapes
        if found != net.input_shapes[name][1:]
    ]
    if problems:
        raise NetError(problems)
