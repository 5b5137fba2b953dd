"""Upgrades layers of Caffe's first format (V0) to today's format.

Such layers are `layers { layer { name: "c" type: "conv" num_output: 3 } bottom: "x" top: "c" }`.
One message has the options of all types, and padding is a separate layer.
"""

from __future__ import annotations

from typing import Any

from nets.definition.prototxt import Where
from nets.schema import caffe_pb2 as caffe

TYPES = {
    "accuracy": "Accuracy",
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "euclidean_loss": "EuclideanLoss",
    "flatten": "Flatten",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "im2col": "Im2col",
    "images": "ImageData",
    "infogain_loss": "InfogainLoss",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "pool": "Pooling",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "softmax_loss": "SoftmaxWithLoss",
    "split": "Split",
    "tanh": "TanH",
    "window_data": "WindowData",
}

# The new place of each old key, by the new type (None: all types). A layer type whose place is
# missing does not use the key.
_CONV = "convolution_param"
_DENSE = "inner_product_param"
_POOL = "pooling_param"
KEYS: dict[str, dict[str | None, str]] = {
    "num_output": {"Convolution": f"{_CONV}.num_output", "InnerProduct": f"{_DENSE}.num_output"},
    "biasterm": {"Convolution": f"{_CONV}.bias_term", "InnerProduct": f"{_DENSE}.bias_term"},
    "weight_filler": {
        "Convolution": f"{_CONV}.weight_filler",
        "InnerProduct": f"{_DENSE}.weight_filler",
    },
    "bias_filler": {"Convolution": f"{_CONV}.bias_filler", "InnerProduct": f"{_DENSE}.bias_filler"},
    "pad": {"Convolution": f"{_CONV}.pad", "Pooling": f"{_POOL}.pad"},
    "kernelsize": {"Convolution": f"{_CONV}.kernel_size", "Pooling": f"{_POOL}.kernel_size"},
    "group": {"Convolution": f"{_CONV}.group"},
    "stride": {"Convolution": f"{_CONV}.stride", "Pooling": f"{_POOL}.stride"},
    "pool": {"Pooling": f"{_POOL}.pool"},
    "dropout_ratio": {"Dropout": "dropout_param.dropout_ratio"},
    "local_size": {"LRN": "lrn_param.local_size"},
    "alpha": {"LRN": "lrn_param.alpha"},
    "beta": {"LRN": "lrn_param.beta"},
    "k": {"LRN": "lrn_param.k"},
    "source": {
        "Data": "data_param.source",
        "ImageData": "image_data_param.source",
        "HDF5Data": "hdf5_data_param.source",
        "WindowData": "window_data_param.source",
        "InfogainLoss": "infogain_loss_param.source",
    },
    "batchsize": {
        "Data": "data_param.batch_size",
        "ImageData": "image_data_param.batch_size",
        "HDF5Data": "hdf5_data_param.batch_size",
        "WindowData": "window_data_param.batch_size",
    },
    "scale": {None: "transform_param.scale"},
    "meanfile": {None: "transform_param.mean_file"},
    "cropsize": {None: "transform_param.crop_size"},
    "mirror": {None: "transform_param.mirror"},
    "rand_skip": {"Data": "data_param.rand_skip", "ImageData": "image_data_param.rand_skip"},
    "shuffle_images": {"ImageData": "image_data_param.shuffle"},
    "new_height": {"ImageData": "image_data_param.new_height"},
    "new_width": {"ImageData": "image_data_param.new_width"},
    "concat_dim": {"Concat": "concat_param.concat_dim"},
    "hdf5_output_param": {"HDF5Output": "hdf5_output_param"},
    "det_fg_threshold": {"WindowData": "window_data_param.fg_threshold"},
    "det_bg_threshold": {"WindowData": "window_data_param.bg_threshold"},
    "det_fg_fraction": {"WindowData": "window_data_param.fg_fraction"},
    "det_context_pad": {"WindowData": "window_data_param.context_pad"},
    "det_crop_mode": {"WindowData": "window_data_param.crop_mode"},
}
KEPT = ("name", "type", "blobs", "blobs_lr", "weight_decay")


def from_v0(old: caffe.V1LayerParameter, where: Where) -> caffe.LayerParameter:
    """Return the layer in today's format. Raises PrototxtError for a type or key that today's
    format does not have."""
    inner = old.layer
    if inner.type not in TYPES:
        raise where.error("layer.type", f"found '{inner.type}', expected one of {', '.join(TYPES)}")
    for field, _ in old.ListFields():
        if field.name not in ("layer", "bottom", "top"):
            raise where.error(field.name, "not allowed next to 'layer' in Caffe's first format")
    new = caffe.LayerParameter(name=inner.name, type=TYPES[inner.type])
    new.bottom.extend(old.bottom)
    new.top.extend(old.top)
    new.blobs.extend(inner.blobs)
    for field, value in inner.ListFields():
        if field.name in KEPT:
            continue
        places = KEYS.get(field.name, {})
        place = places.get(new.type, places.get(None))
        if place is None:
            raise where.error(
                f"layer.{field.name}", (f"means nothing to a layer of type '{inner.type}'")
            )
        _put(new, place, value)
    for rate, decay in _pairs(list(inner.blobs_lr), list(inner.weight_decay)):
        new.param.add(lr_mult=rate, decay_mult=decay)
    return new


def _put(message: Any, place: str, value: Any) -> None:
    """Set the field at the dotted `place`."""
    *path, last = place.split(".")
    for name in path:
        message = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[last]
    if field.message_type is not None:
        getattr(message, last).CopyFrom(value)
    elif field.is_repeated:
        getattr(message, last).append(value)
    else:
        setattr(message, last, value)


def _pairs(rates: list[float], decays: list[float]) -> list[tuple[float, float]]:
    count = max(len(rates), len(decays))
    return [
        (rates[at] if at < len(rates) else 1.0, decays[at] if at < len(decays) else 1.0)
        for at in range(count)
    ]


def merge_padding(layers: list[tuple[Any, Any]], wheres: list[Where]) -> list[tuple[Any, Any]]:
    """Remove the layers of type "padding" from (V1 layer, line node) pairs and give the pad to the
    layers that read them.

    Raises PrototxtError if a layer that is not a convolution or pooling reads a padding.
    """
    pads = {old.top[0]: old for old, _ in layers if old.layer.type == "padding" and old.top}
    kept = []
    for (old, node), where in zip(layers, wheres, strict=True):
        if old.layer.type == "padding":
            continue
        source = pads.get(old.bottom[0]) if old.bottom else None
        if source is not None:
            if old.layer.type not in ("conv", "pool"):
                raise where.error(
                    "bottom",
                    (f"padding '{source.layer.name}' is read by a layer of '{old.layer.type}'"),
                )
            changed = caffe.V1LayerParameter()
            changed.CopyFrom(old)
            changed.layer.pad, changed.bottom[0] = source.layer.pad, source.bottom[0]
            kept.append((changed, node))
        else:
            kept.append((old, node))
    return kept
