"""The data of a net in one phase: which source each of its data layers reads, from the
configuration or from the net.

A configuration is one source, `{format = "lmdb", ...}`, whose arrays are the tops of all data
layers in their order; or a table of such by the names of data layers; or `{format = "net"}`. A
layer that the table leaves out reads what its own `source` names, as in Caffe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nets.data.formats import open_source
from nets.data.joined import JoinedSource
from nets.data.source import Source
from nets.definition.spec import LayerSpec
from nets.errors import DataError, NetError, PrototxtError, did_you_mean

NET = "net"  # the format that says: what the net's own data layers name
_BLOCKS = {"Data": "data_param", "ImageData": "image_data_param", "HDF5Data": "hdf5_data_param"}
_DECLARING = (*_BLOCKS.values(), "memory_data_param")

Config = Mapping[str, Any]


def is_one(config: Config) -> bool:
    """Whether a configuration is one source for all data layers; the net need not be known to open
    that."""
    tables = bool(config) and all(isinstance(value, Mapping) for value in config.values())
    return config.get("format") != NET and not tables


def open_data(config: Config, base_dir: Path, layers: Sequence[LayerSpec], net_dir: Path) -> Source:
    """Open what the data `layers` of a phase read. Paths are relative to `base_dir`; those in the
    net are looked for there, from `net_dir`, and beside the net. NetError lists every mistake.
    """
    _check_batches(layers)
    if is_one(config):
        return open_source(config, base_dir)
    given = {
        name: value
        for name, value in config.items()
        if config.get("format") != NET or name != "format"
    }
    names = [layer.proto.name for layer in layers]
    problems = [
        (
            f"{name}: the net has no such data layer{did_you_mean(name, names)}, it has "
            f"{', '.join(names) or 'none'}"
        )
        for name in given
        if name not in names
    ]
    parts: dict[str, tuple[Source, int]] = {}
    for layer in layers:
        name = layer.proto.name
        try:
            mine = (
                _with_tops(given[name], layer)
                if name in given
                else _own(layer, (base_dir, net_dir))
            )
            parts[name] = open_source(mine, base_dir), len(layer.proto.top)
        except NetError as error:
            problems += (
                [f"{name}: {problem}" for problem in error.problems]
                if name in given
                else error.problems
            )
    if problems:
        raise DataError(problems)
    if not parts:
        raise DataError("found no data layer in the net, expected one that reads a source")
    return JoinedSource(parts)


def _with_tops(config: Config, layer: LayerSpec) -> Config:
    """Datasets of an HDF5 file are called as the layer's tops, if nothing else is said."""
    return {"tops": list(layer.proto.top), **config} if config.get("format") == "hdf5" else config


def _own(layer: LayerSpec, places: Sequence[Path]) -> Config:
    """The configuration of what the layer's own fields name."""
    proto = layer.proto
    where = layer.where
    block = _BLOCKS.get(proto.type, "")
    settings = getattr(proto, block) if block else None
    if settings is None or not settings.source:
        raise PrototxtError(where.problem(f"{block}.source" if block else "", _nothing(proto.name)))
    path = _existing(settings.source, places)
    if path is None:
        text = (
            f"found '{settings.source}', but there is no such file beside cluster.toml or the net"
        )
        raise PrototxtError(where.problem(f"{block}.source", f"{text}; {_nothing(proto.name)}"))
    if proto.type == "HDF5Data":
        return {"format": "hdf5", "source": str(path), "tops": list(proto.top)}
    if proto.type == "ImageData":
        root = {"root_folder": settings.root_folder} if settings.root_folder else {}
        size = {"new_height": int(settings.new_height), "new_width": int(settings.new_width)}
        color = "color" if settings.is_color else "gray"
        return {"format": "images", "source": str(path), "color": color, **size, **root}
    if not (path / "data.mdb").is_file():
        text = (
            f"found '{settings.source}', which holds no data.mdb: only LMDB is read, "
            "convert it with Caffe's tools"
        )
        raise PrototxtError(where.problem("data_param.source", text))
    transform = proto.transform_param
    color = "color" if transform.force_color else "gray" if transform.force_gray else "stored"
    return {"format": "lmdb", "source": str(path), "color": color}


def _nothing(name: str) -> str:
    return f"say what the layer reads: {name} = {{ format = ... }}"


def _existing(name: str, places: Sequence[Path]) -> Path | None:
    candidates = [
        *(place / name for place in places),
        *(place / Path(name).name for place in places[1:]),
    ]
    return next((path.resolve() for path in candidates if path.exists()), None)


def _check_batches(layers: Sequence[LayerSpec]) -> None:
    """All data layers give as many rows."""
    declared = list(_declared(layers))
    for layer, key, size in declared[1:]:
        first, _, expected = declared[0]
        if size != expected:
            text = (
                f"found {size}, but layer '{first.proto.name}' has {expected}: the rows of "
                "all data layers stay in step"
            )
            raise PrototxtError(layer.where.problem(key, text))


def _declared(layers: Sequence[LayerSpec]) -> Iterator[tuple[LayerSpec, str, int]]:
    for layer in layers:
        for block in _DECLARING:
            if layer.proto.HasField(block):
                yield layer, f"{block}.batch_size", int(getattr(layer.proto, block).batch_size)
