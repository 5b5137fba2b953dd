"""What a net is fed: its data layers, the shapes that a source promises them, whether a batch is
what it reads."""

from __future__ import annotations

from nets.data import Batches, Source
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError
from nets.graph.graph import Net
from nets.layers import kind_of
from nets.layers.base import Shape

DataLayers = tuple[LayerSpec, ...]


def data_layers(spec: NetSpec) -> DataLayers:
    """The layers of a net, as one state leaves it, whose tops are fed from outside."""
    return tuple(
        layer for layer in spec.layers if (kind := kind_of(layer)) is not None and kind.is_source
    )


def promised(layers: DataLayers, source: Source) -> dict[str, Shape]:
    """Top -> shape of its samples, as the source has them before any transform."""
    tops = [top for layer in layers for top in layer.proto.top]
    # a source may give more, such as labels that no layer reads
    return dict(zip(tops, source.shapes, strict=False))


def check_inputs(net: Net, batches: Batches) -> None:
    """NetError unless every input of the net is among what the batches give, in its shape; nor can
    a net be trained without a loss."""
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
