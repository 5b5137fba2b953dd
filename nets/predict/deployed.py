"""A net for prediction: its layers of phase TEST from the inputs to the scores, without data
layers, labels and losses.

Caffe calls the prototxt of such a net "deploy". Here it is made from the net that was trained. The
scores are the blob that the last loss reads. A softmax loss becomes a Softmax. Layers that lead
only to other losses are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nets.definition.spec import LayerSpec, NetSpec, net_of_text
from nets.errors import NetError
from nets.files.shared import lent
from nets.layers import kind_of
from nets.layers.base import Shape
from nets.schema import caffe_pb2 as caffe

SOFTMAX = ("SoftmaxWithLoss", "InfogainLoss")
SIGMOID = ("SigmoidCrossEntropyLoss",)


@dataclass(frozen=True)
class Scored:
    """The result of a net: the blob of `scores`, the blob of `labels` that it was trained with (""
    if it is not known), and its loss layer or its Accuracy layer (None if it has neither)."""

    scores: str
    labels: str = ""
    by: LayerSpec | None = None

    @property
    def ending(self) -> str:
        """The type of the layer that turns the scores into probabilities, as the loss does. "" if
        the scores stay as they are."""
        kind = self.by.proto.type if self.by is not None else ""
        return "Softmax" if kind in SOFTMAX else "Sigmoid" if kind in SIGMOID else ""

    @property
    def ignored(self) -> int | None:
        """The label of rows that are not counted, None if there is none."""
        return None if self.by is None else ignored_label(self.by)

    @property
    def axis(self) -> int:
        """The axis of the scores that has the classes."""
        if self.by is None:
            return 1
        proto = self.by.proto
        if proto.type == "Accuracy":
            return int(proto.accuracy_param.axis)
        return int(
            (
                proto.infogain_loss_param if proto.type == "InfogainLoss" else proto.softmax_param
            ).axis
        )


def ignored_label(layer: LayerSpec) -> int | None:
    """Return the label that a loss or an Accuracy ignores, None if it ignores none."""
    proto = layer.proto
    said = proto.accuracy_param if proto.type == "Accuracy" else proto.loss_param
    return int(said.ignore_label) if said.HasField("ignore_label") else None


def scored(spec: NetSpec) -> Scored:
    """Return the blob that the layers of one phase score: the bottoms of the last loss, or else of
    the last accuracy, or else the last top that no layer reads. Raises NetError if there is
    none."""
    judged = [layer for layer in spec.layers if _is(layer, "scores")]
    losses = [layer for layer in judged if layer.proto.type != "Accuracy"]
    if losses or judged:
        last = (losses or judged)[-1]
        bottoms = last.proto.bottom
        return Scored(bottoms[0], bottoms[1] if len(bottoms) > 1 else "", last)
    read = {name for layer in spec.layers for name in layer.proto.bottom}
    for layer in reversed(spec.layers):
        for top in layer.proto.top:
            if not _is(layer, "is_source") and (top not in read or top in layer.proto.bottom):
                return Scored(top)
    raise NetError(
        f"{spec.path.name}: found no layer that computes anything, expected scores of classes"
    )


def deployed(spec: NetSpec, shapes: Mapping[str, Shape]) -> tuple[caffe.NetParameter, str]:
    """Return a net of one phase in the form for prediction, and the name of its output. `shapes`:
    the shape of one row of each input."""
    found = scored(spec)
    end = spec.layers.index(found.by) if found.by is not None else len(spec.layers)
    kept = _ancestors(spec.layers[:end], found.scores)
    net = caffe.NetParameter(name=spec.name)
    fed = {name for layer in kept for name in layer.proto.bottom}
    for layer in (layer for layer in spec.layers if _is(layer, "is_source")):
        for top in (top for top in layer.proto.top if top in fed):
            if top not in shapes:
                raise NetError(f"{spec.path.name}: the shape of input '{top}' is not known")
            entry = net.layer.add(name=_free(top, kept), type="Input", top=[top])
            entry.input_param.shape.add(dim=[1, *shapes[top]])
    for layer in kept:
        copied = net.layer.add()
        copied.CopyFrom(layer.proto)
        for field in ("include", "exclude", "loss_weight"):
            copied.ClearField(field)
    return net, _ended(net, found)


def _ended(net: caffe.NetParameter, found: Scored) -> str:
    """Turn scores into probabilities if the loss did so. Returns the name of the output."""
    if not found.ending:
        return found.scores
    names = {layer.name for layer in net.layer} | {top for layer in net.layer for top in layer.top}
    name = next(
        name
        for name in ("prob", f"{found.scores} prob", f"{found.scores} probabilities")
        if name not in names
    )
    last = net.layer.add(
        name=name,
        type=found.ending,
        bottom=[found.scores],
        top=[name],
    )
    if found.ending == "Softmax":
        last.softmax_param.axis = found.axis
    return name


def net_of(proto_text: str, name: str) -> NetSpec:
    """Return the net from the text in a checkpoint. Errors call it by the name of the file."""
    return net_of_text(proto_text, Path(f"the net in {name}"))


def _ancestors(layers: Sequence[LayerSpec], blob: str) -> list[LayerSpec]:
    """Return the layers that `blob` depends on, in their order, and the layers that own a parameter
    which one of them borrows."""
    borrowed = lent(layers)
    wanted = {blob}
    owners = set[str]()
    while True:
        needed = set(wanted)
        kept = list[LayerSpec]()
        for layer in reversed(layers):
            if _is(layer, "is_source"):
                continue
            if needed & set(layer.proto.top) or layer.proto.name in owners:
                needed |= set(layer.proto.bottom)
                kept.insert(0, layer)
        names = {layer.proto.name for layer in kept}
        more = {owner for (name, _), (owner, _) in borrowed.items() if name in names} - names
        if not more:
            return kept
        owners |= more


def _is(layer: LayerSpec, what: str) -> bool:
    kind = kind_of(layer)
    return kind is not None and bool(getattr(kind, what))


def _free(name: str, layers: Sequence[LayerSpec]) -> str:
    """Return a name for the input layer of this blob."""
    taken = {layer.proto.name for layer in layers}
    return name if name not in taken else f"{name} input"
