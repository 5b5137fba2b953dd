"""Upgrades nets of older Caffe formats to today's format without changing their meaning.

These are V1 layers (`layers { type: CONVOLUTION blobs_lr: 1 }`), `input:`/`input_dim:` at the top
of a net, transform keys inside data parameters, and BatchNorm's three `param`s. The first format is
in `upgrade_v0`.
"""

from nets.definition.prototxt import Node, Where
from nets.definition.upgrade_v0 import from_v0, merge_padding
from nets.errors import PrototxtError
from nets.schema import caffe_pb2 as caffe
from nets.schema.layer_types import LAYER_TYPES

# V1 wrote the same names in capitals with underscores; only one name has changed since.
_V1_TYPES = {name.lower(): name for name in LAYER_TYPES} | {"softmaxloss": "SoftmaxWithLoss"}

_TRANSFORMED = ("data_param", "image_data_param", "window_data_param")


def upgrade(proto: caffe.NetParameter, top: Where) -> tuple[caffe.NetParameter, list[Node]]:
    """Return the net in today's format and the line node of each of its layers, in order."""
    net = caffe.NetParameter()
    net.CopyFrom(proto)
    nodes = list(top.node.fields.get("layer", []))
    if proto.layers:
        if proto.layer:
            raise top.error(
                "layers", "given together with 'layer', expected only one of the two formats"
            )
        wheres = [
            _where(old, node, top)
            for old, node in zip(proto.layers, top.node.fields["layers"], strict=True)
        ]
        pairs = merge_padding(
            list(zip(proto.layers, top.node.fields["layers"], strict=True)), wheres
        )
        nodes = [node for _, node in pairs]
        del net.layers[:]
        net.layer.extend(_from_old(old, _where(old, node, top)) for old, node in pairs)
    for layer in net.layer:
        _move_transform_keys(layer)
        if layer.type == "BatchNorm" and len(layer.param) == 3:
            del layer.param[:]  # older nets had to declare that its statistics are not learned
        if layer.type.endswith("Loss") and not layer.top:
            layer.top.append(layer.name)  # Caffe adds a top to a loss that has none
    if not proto.input:
        for key in ("input_dim", "input_shape"):
            if getattr(proto, key):
                raise top.error(key, "given without 'input', expected the names of the inputs")
    else:
        if not _named_only(proto, net):
            nodes.insert(0, top.node.find("input"))
            rest = list(net.layer)
            del net.layer[:]
            net.layer.append(_input_layer(proto, top))
            net.layer.extend(rest)
        for key in ("input", "input_dim", "input_shape"):
            net.ClearField(key)
    return net, nodes


def _where(old: caffe.V1LayerParameter, node: Node, top: Where) -> Where:
    return Where(top.file, node, f"layer '{old.name or old.layer.name}'")


def _from_old(old: caffe.V1LayerParameter, where: Where) -> caffe.LayerParameter:
    return from_v0(old, where) if old.HasField("layer") else _from_v1(old, where)


def _from_v1(old: caffe.V1LayerParameter, where: Where) -> caffe.LayerParameter:
    """Copy the fields that both formats share by name. Type, blobs_lr and weight_decay become type
    and param."""
    kind = caffe.V1LayerParameter.LayerType.Name(old.type)
    name = _V1_TYPES.get(kind.replace("_", "").lower())
    if name is None:
        raise where.error(
            "type", (f"found {kind}, expected the name of a layer type such as CONVOLUTION")
        )
    new = caffe.LayerParameter(type=name)
    for field, value in old.ListFields():
        if field.name in ("type", "blobs_lr", "weight_decay", "param", "blob_share_mode"):
            continue
        target = getattr(new, field.name)
        if field.is_repeated:
            target.extend(value)
        elif field.message_type is not None:
            target.CopyFrom(value)
        else:
            setattr(new, field.name, value)
    for index in range(max(len(old.blobs_lr), len(old.weight_decay), len(old.param))):
        param = new.param.add()
        if index < len(old.param):
            param.name = old.param[index]
        if index < len(old.blob_share_mode):
            loose = old.blob_share_mode[index] == caffe.V1LayerParameter.PERMISSIVE
            param.share_mode = caffe.ParamSpec.PERMISSIVE if loose else caffe.ParamSpec.STRICT
        if index < len(old.blobs_lr):
            param.lr_mult = old.blobs_lr[index]
        if index < len(old.weight_decay):
            param.decay_mult = old.weight_decay[index]
    return new


def _move_transform_keys(layer: caffe.LayerParameter) -> None:
    """Move scale, mean_file, crop_size and mirror from the data parameters to transform_param."""
    for name in _TRANSFORMED:
        if not layer.HasField(name):
            continue
        old = getattr(layer, name)
        for key in ("scale", "mean_file", "crop_size", "mirror"):
            if old.HasField(key):
                setattr(layer.transform_param, key, getattr(old, key))
                old.ClearField(key)


def _named_only(proto: caffe.NetParameter, net: caffe.NetParameter) -> bool:
    """Whether `input:` has no shape and only repeats the tops of layers. Caffe ignores it then."""
    tops = {top for layer in net.layer for top in layer.top}
    return not proto.input_shape and not proto.input_dim and tops.issuperset(proto.input)


def _input_layer(proto: caffe.NetParameter, top: Where) -> caffe.LayerParameter:
    """Convert `input:` with `input_shape` or groups of four `input_dim` into one Input layer."""
    layer = caffe.LayerParameter(name="input", type="Input", top=list(proto.input))
    shapes = [list(shape.dim) for shape in proto.input_shape]
    if shapes and proto.input_dim:
        raise top.error(
            "input_dim", "given together with 'input_shape', expected only one of the two"
        )
    if not shapes:
        shapes = [list(proto.input_dim[at : at + 4]) for at in range(0, len(proto.input_dim), 4)]
    if len(shapes) != len(proto.input) or (proto.input_dim and len(proto.input_dim) % 4):
        found = f"found {len(proto.input)} inputs and {len(shapes)} shapes"
        raise PrototxtError(
            top.problem(
                "input", (f"{found}, expected one input_shape (or four input_dim) per input")
            )
        )
    for shape in shapes:
        layer.input_param.shape.add(dim=shape)
    return layer
