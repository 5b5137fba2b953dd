"""Nets written in Python instead of prototxt, as with pycaffe's NetSpec.

    net = NetBuilder("two layers")
    data, label = net.ImageData("data", tops=("data", "label"), batch_size=50)
    scores = net.InnerProduct("scores", data, num_output=10, weight_filler={"type": "xavier"})
    net.SoftmaxWithLoss("loss", scores, label)

The method is the layer's type. Its first argument is the layer's name, the others are the blobs
that it reads. It returns its top, or a tuple if it has several. A keyword is a field of Caffe's
LayerParameter (`include`, `param`, `transform_param`, ...) or of the layer's own options
(`num_output` of `convolution_param`). Messages are dicts, repeated fields are lists or single
values, and enum values are given by name. `squeeze_excitation` adds several layers.

A mistake raises PrototxtError with the script and the line of the call. Mistakes that are found
later, when the net is made or planned in this process, also have this place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

from nets.definition.prototxt import Node, Where, expected
from nets.definition.spec import WRITTEN, NetSpec, keep, net_from_proto
from nets.errors import PrototxtError, did_you_mean
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import blocks_of
from nets.schema.layer_types import ALL_TYPES

FIELDS = caffe.LayerParameter.DESCRIPTOR.fields_by_name
SETS = ("name", "type", "bottom", "top")  # set by the positional arguments and `tops`
Blobs = str | tuple[str, ...]


class NetBuilder:
    """A net under construction. `str()` is its prototxt. `roles.training({"net": net})` trains it,
    and `load_net(str(net))` reads it."""

    def __init__(self, name: str = "") -> None:
        self._proto = caffe.NetParameter(name=name)
        self._script, line = _caller()
        self._root = Node(line)

    def __repr__(self) -> str:
        return f"<NetBuilder {self._proto.name!r}, {len(self._proto.layer)} layers>"

    def __str__(self) -> str:
        # files that the net names are searched next to the script
        beside = self._script.resolve().with_suffix(".prototxt")
        text = f"{WRITTEN}{beside}\n{text_format.MessageToString(self._proto)}"
        keep(text, self.spec())
        return text

    def __getattr__(self, kind: str) -> Callable[..., Blobs]:
        """Return the method that adds a layer of this type. Raises AttributeError with the nearest
        type for an unknown one."""
        if kind not in ALL_TYPES:
            more = "; add a type of another package with layer(type, name, ...)"
            raise AttributeError(
                f"'{kind}' is not a layer type{did_you_mean(kind, ALL_TYPES)}{more}"
            )

        def add(name: str, *bottoms: str, **fields: Any) -> Blobs:
            return self.layer(kind, name, *bottoms, **fields)

        return add

    def layer(
        self,
        kind: str,
        name: str,
        *bottoms: str,
        tops: str | Sequence[str] | None = None,
        in_place: bool = False,
        **fields: Any,
    ) -> Blobs:
        """Add a layer of this type, which may come from another package. Returns its top, or a
        tuple if it has several.

        `tops`: the names of the tops. Without it there is one top, named like the layer.
        `in_place`: the top is the bottom.
        """
        script, line = _caller()
        node = Node(line)
        where = Where(script.name, node, f"layer '{name}'")
        made = caffe.LayerParameter(name=_text(where, "name", name), type=kind)
        made.bottom.extend(_text(where, "bottom", bottom) for bottom in bottoms)
        if in_place and (tops is not None or len(bottoms) != 1):
            raise where.error(
                "", (f"in_place: found {len(bottoms)} bottoms, expected one and no `tops`")
            )
        names = (
            bottoms
            if in_place
            else (name,)
            if tops is None
            else (tops,)
            if isinstance(tops, str)
            else tops
        )
        made.top.extend(_text(where, "top", top) for top in names)
        problems: list[str] = []
        for key, value in fields.items():
            problems += self._set(made, kind, key, value, where)
        if problems:
            raise PrototxtError(problems)
        self._proto.layer.append(made)
        self._root.fields.setdefault("layer", []).append(node)
        tops_made = tuple(made.top)
        return tops_made[0] if len(tops_made) == 1 else tops_made

    def squeeze_excitation(
        self,
        name: str,
        bottom: str,
        *,
        channels: int,
        squeezed: int,
        activation: str = "ReLU",
        gate: str = "Sigmoid",
        **fields: Any,
    ) -> Blobs:
        """Add layers that multiply each channel by a gate, which is computed from the means of all
        channels (Hu et al. 2018). Returns their top, named `name`.

        `channels` are those of the bottom; between are `squeezed` channels. `activation` and `gate`
        are types of layers. Both convolutions get `fields`, such as `weight_filler`.
        """
        pool, squeeze, active, excite, gated, factors = (
            f"{name}/{part}"
            for part in ("pool", "squeeze", "activation", "excite", "gate", "factors")
        )
        self.layer("Pooling", pool, bottom, pool="AVE", global_pooling=True)
        self.layer("Convolution", squeeze, pool, num_output=squeezed, kernel_size=1, **fields)
        self.layer(activation, active, squeeze)
        self.layer("Convolution", excite, active, num_output=channels, kernel_size=1, **fields)
        self.layer(gate, gated, excite)
        self.layer("Flatten", factors, gated)
        return self.layer("Scale", name, bottom, factors, axis=0)

    def spec(self) -> NetSpec:
        """Return the net, checked as `load_net` checks a file. Raises PrototxtError with every
        mistake."""
        return net_from_proto(self.proto(), self._root, self._script)

    def proto(self) -> caffe.NetParameter:
        """Return a copy of the net as Caffe's message."""
        copy = caffe.NetParameter()
        copy.CopyFrom(self._proto)
        return copy

    def _set(
        self, made: caffe.LayerParameter, kind: str, key: str, value: Any, where: Where
    ) -> list[str]:
        own = sorted(block for block in blocks_of(kind) if block in FIELDS)
        found = next((block for block in own if key in _names(block)), None)
        if key in SETS and found is None:  # `top` and `bottom` of Pad are numbers of pixels
            return [
                where.problem(key, ("is set by the arguments before the keywords, or by `tops`"))
            ]
        if key in FIELDS and key not in SETS:
            return _fill(made, key, value, where, key)
        if found is not None:
            return _fill(getattr(made, found), key, value, where, key)
        names = [*FIELDS, *(name for block in own for name in _names(block))]
        return [
            where.problem(
                key, (f"a layer of type '{kind}' has no such field{did_you_mean(key, names)}")
            )
        ]


def _fill(message: Any, name: str, value: Any, where: Where, path: str) -> list[str]:
    """Set a field of a message from plain data. Returns one line per mistake. `path` is the field's
    name in these lines."""
    known = message.DESCRIPTOR.fields_by_name.get(name)
    if known is None:
        near = did_you_mean(name, message.DESCRIPTOR.fields_by_name)
        return [where.problem(path, f"unknown key '{name}' in {message.DESCRIPTOR.name}{near}")]
    if not known.is_repeated:
        return _one(
            known,
            value,
            where,
            path,
            lambda made: setattr(message, name, made),
            lambda: getattr(message, name),
        )
    found = getattr(message, name)
    several = list(value) if isinstance(value, list | tuple) else [value]
    problems = []
    for each in several:
        problems += _one(
            known, each, where, path, found.append, found.add if known.message_type else None
        )
    return problems


def _one(
    known: FieldDescriptor, value: Any, where: Where, path: str, put: Callable[[Any], None],
    message: Callable[[], Any] | None,
) -> list[str]:  # fmt: skip
    """Set one value: fill a message, or store a scalar with `put`."""
    if known.message_type is not None:
        if not isinstance(value, Mapping):
            return [
                where.problem(
                    path,
                    (
                        f"found {value!r}, expected a dict of the fields of "
                        f"{known.message_type.name}"
                    ),
                )
            ]
        assert message is not None
        into = message()
        into.SetInParent()
        return [
            text
            for key, each in value.items()
            for text in _fill(into, str(key), each, where, f"{path}.{key}")
        ]
    plain = str(value) if isinstance(value, PurePath) else value
    if known.enum_type is not None and isinstance(plain, str):
        if plain not in known.enum_type.values_by_name:
            near = did_you_mean(plain, known.enum_type.values_by_name)
            return [where.problem(path, f"found {plain!r}, expected {expected(known)}{near}")]
        plain = known.enum_type.values_by_name[plain].number
    # protobuf accepts booleans as numbers and numbers as booleans
    of_its_kind = isinstance(plain, bool) is (known.cpp_type == FieldDescriptor.CPPTYPE_BOOL)
    with suppress(TypeError, ValueError):
        if of_its_kind:
            put(plain)
            return []
    return [where.problem(path, f"found {value!r}, expected {expected(known)}")]


def _names(block: str) -> list[str]:
    """Return the names of the fields of one of LayerParameter's messages."""
    return list(getattr(caffe.LayerParameter(), block).DESCRIPTOR.fields_by_name)


def _text(where: Where, key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise where.error(
            key, (f"found {value!r}, expected the name of a {'layer' if key == 'name' else 'blob'}")
        )
    return value


def _caller() -> tuple[Path, int]:
    """Return the file and the line that called into this module."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return Path(frame.f_code.co_filename), frame.f_lineno
