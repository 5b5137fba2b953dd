"""The search for the class that computes a layer. It looks for the layer's type in this package,
then in installed packages that provide layers.

[project.entry-points."convoy.layers"]      in a package's pyproject.toml
Softsign = "softsign:Softsign"              the type in the prototxt, the module, its subclass of
                                            Layer
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nets.definition.spec import LayerSpec
from nets.errors import NetError, did_you_mean
from nets.layers.base import KINDS, Layer
from nets.schema.layer_types import ALL_TYPES
from ops import Backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")

GROUP = "convoy.layers"
# Types of Caffe that no class here computes, with the reason. A test checks that KINDS and REFUSED
# are complete and disjoint.
REFUSED = {
    "BatchReindex": "it makes the number of rows depend on the data; do it in the data source",
    "Filter": "it makes the number of rows depend on the data; do it in the data source",
    "HDF5Output": "a net writes no files; read its outputs instead",
    "Im2col": "it is an inner step of convolution; use Convolution",
    "Python": (
        "it would run code that a prototxt names; provide the layer as a new type "
        "(docs/extending.md)"
    ),
    "WindowData": "its windows are cut while reading; prepare the crops and use ImageData",
}


def make_layer(spec: LayerSpec, ops: Backend, dtype: Any = np.float32) -> Layer:
    """Return the layer of `spec.proto.type`. Raises NetError with the nearest type that exists."""
    kind = kind_of(spec)
    if kind is not None:
        return kind(spec, ops, dtype)
    name = spec.proto.type
    if name in REFUSED:
        raise spec.where.error(
            "type", (f"layer type '{name}' of Caffe is not supported: {REFUSED[name]}")
        )
    near = did_you_mean(name, [*ALL_TYPES, *_brought(tuple(sys.path))])
    raise spec.where.error("type", f"found '{name}', expected a layer type{near}")


def kind_of(spec: LayerSpec) -> type[Layer] | None:
    """Return the class of the layer's type, None if the type is unknown. Raises NetError if a
    package provides a class that cannot be used."""
    name = spec.proto.type
    if name in KINDS:
        return KINDS[name]
    entries = _brought(tuple(sys.path)).get(name, ())
    try:
        return _only(entries) if entries else None
    except NetError as error:
        raise spec.where.error("type", f"{GROUP}: {name!r} {error}") from error


def settings(layer: Layer, defaults: Settings) -> Settings:
    """Return `defaults`, a dataclass of numbers, words and truth values, updated from the layer's
    prototxt.

    For layers that have no field in Caffe's messages. The values are a JSON object:

        python_param { param_str: '{"steepness": 2.0}' }

    Raises NetError for a key that `defaults` does not have and for a value of another type.
    """
    place = "python_param.param_str"
    known = {field.name for field in fields(defaults)}
    try:
        told = json.loads(layer.proto.python_param.param_str or "{}")
    except (ValueError, RecursionError) as error:
        raise layer.error(place, f"not JSON: {error}") from None
    if not isinstance(told, dict):
        raise layer.error(
            place,
            (f"found {json.dumps(told)}, expected a JSON object of {', '.join(sorted(known))}"),
        )
    for key, value in told.items():
        if key not in known:
            raise layer.error(place, f"unknown key '{key}'{did_you_mean(key, known)}")
        kind = type(getattr(defaults, key))
        if kind is float and type(value) is int:
            told[key] = float(value)
        elif type(value) is not kind:
            raise layer.error(
                place,
                (f"'{key}': found {json.dumps(value)}, expected a value of type {kind.__name__}"),
            )
    return replace(defaults, **told)


@cache
def _brought(path: Sequence[str]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the packages' entry points by layer type. `path` is where Python looks for
    packages."""
    from importlib.metadata import entry_points  # takes 30 ms; nets of built-in layers save them

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


@cache
def _only(entries: tuple[EntryPoint, ...]) -> type[Layer]:
    if len(entries) > 1:
        raise NetError(
            "is brought by several packages, remove all but one: "
            f"{'; '.join(map(_package, entries))}"
        )
    try:
        found = entries[0].load()
    except (Exception, SystemExit) as error:  # another package's module may raise any exception
        text = f"of {_package(entries[0])} cannot be imported: {type(error).__name__}: {error}"
        raise NetError(text) from error
    if not (isinstance(found, type) and issubclass(found, Layer)):
        raise NetError(
            f"of {_package(entries[0])} is {found!r}, expected a subclass of nets.layers.Layer"
        )
    return found


def _package(entry: EntryPoint) -> str:
    return (
        (f"{entry.dist.name} {entry.dist.version} ({entry.value})")
        if entry.dist
        else f"({entry.value})"
    )
