"""The data of a net in one phase: the source of each data layer, given by the configuration or by
the net.

A configuration has one of three forms. One source, `{format = "lmdb", ...}`: its arrays are the
tops of all data layers, in their order. A table of sources by the names of data layers: a layer
that is not in the table reads its own `source`, as in Caffe. Or `{format = "net"}`: every layer
reads its own `source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nets.data.formats import FORMATS, open_source
from nets.data.joined import JoinedSource
from nets.data.sources.class_folders import class_names
from nets.data.sources.located import located
from nets.data.sources.source import Source
from nets.definition.spec import LayerSpec
from nets.errors import DataError, NetError, PrototxtError, did_you_mean
from nets.regular import is_file, is_folder, is_there

NET = "net"  # the format for the sources that the net's own data layers name
_BLOCKS = {"Data": "data_param", "ImageData": "image_data_param", "HDF5Data": "hdf5_data_param"}
_DECLARING = (*_BLOCKS.values(), "memory_data_param")

Config = Mapping[str, Any]


def is_one(config: Config) -> bool:
    """Whether the configuration is one source for all data layers. Such a source can be opened
    without the net."""
    tables = bool(config) and all(isinstance(value, Mapping) for value in config.values())
    return config.get("format") != NET and not tables


def open_data(
    config: Config,
    base_dir: Path,
    layers: Sequence[LayerSpec],
    net_dir: Path,
    classes: Sequence[str] = (),
    orientation: str = "",
) -> Source:
    """Open the source of the data `layers` of a phase. Paths in the configuration are relative to
    `base_dir`. A path in the net is searched from `base_dir`, from `net_dir`, and by its name in
    `net_dir`. `classes`, those of training data, give folders of images their labels by name
    (`folder_names`). `orientation` is for sources of encoded images that do not have their own.
    Raises NetError with every mistake."""
    _check_batches(layers)
    if is_one(config):
        config = _with_orientation(config, orientation)
        return open_source(_with_classes(config, base_dir, classes), base_dir)
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
            mine = _with_orientation(_with_classes(mine, base_dir, classes), orientation)
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


def folder_names(
    config: Config, base_dir: Path, layers: Sequence[LayerSpec], net_dir: Path
) -> tuple[str, ...]:
    """Return the names of the classes if the data are a folder per class, in the order of their
    labels, else (). Other phases of the run have the same labels for the same names."""
    for one in _configs(config, layers, (base_dir, net_dir)):
        if _is_folder(one, base_dir):
            return tuple(one.get("classes", ())) or class_names(located(base_dir, one["source"]))
    return ()


def takes_orientation(
    config: Config, base_dir: Path, layers: Sequence[LayerSpec], net_dir: Path
) -> bool:
    """Whether `open_data` with these arguments gives its `orientation` to a source."""
    return any(_turns(one) for one in _configs(config, layers, (base_dir, net_dir)))


def _configs(
    config: Config, layers: Sequence[LayerSpec], places: Sequence[Path]
) -> Iterator[Config]:
    """Yield the configuration of each source. A mistake is left to `open_data`."""
    if is_one(config):
        yield config
        return
    for layer in layers:
        given = config.get(layer.proto.name)
        try:
            yield given if isinstance(given, Mapping) else _own(layer, places)
        except NetError:
            continue


def _with_classes(config: Config, base_dir: Path, classes: Sequence[str]) -> Config:
    """Add the names of the classes to a folder of images that does not have its own."""
    if classes and _is_folder(config, base_dir):
        return {"classes": tuple(classes), **config}
    return config


def _with_orientation(config: Config, orientation: str) -> Config:
    """Add the orientation to a source of encoded images that does not have its own."""
    return {**config, "orientation": orientation} if orientation and _turns(config) else config


def _turns(config: Config) -> bool:
    """Whether a source may have encoded images, and does not have its own orientation."""
    kind = FORMATS.get(str(config.get("format")))
    return kind is not None and "orientation" in kind.options and "orientation" not in config


def _is_folder(config: Config, base_dir: Path) -> bool:
    source = config.get("source")
    named = config.get("format") == "images" and isinstance(source, str)
    return named and is_folder(base_dir / str(source))


def _with_tops(config: Config, layer: LayerSpec) -> Config:
    """Add the layer's tops as the names of datasets to the configuration of an HDF5 file, unless it
    has `tops`."""
    return {"tops": list(layer.proto.top), **config} if config.get("format") == "hdf5" else config


def _own(layer: LayerSpec, places: Sequence[Path]) -> Config:
    """Return the configuration of the source that the layer's own fields name."""
    proto = layer.proto
    where = layer.where
    block = _BLOCKS.get(proto.type, "")
    settings = getattr(proto, block) if block else None
    if settings is None or not settings.source:
        raise PrototxtError(where.problem(f"{block}.source" if block else "", _nothing(proto.name)))
    path = _existing(settings.source, places)
    if path is None:
        text = f"found '{settings.source}', but no such file exists next to cluster.toml or the net"
        raise PrototxtError(where.problem(f"{block}.source", f"{text}; {_nothing(proto.name)}"))
    if proto.type == "HDF5Data":
        return {"format": "hdf5", "source": str(path), "tops": list(proto.top)}
    if proto.type == "ImageData":
        root = {"root_folder": settings.root_folder} if settings.root_folder else {}
        size = {"new_height": int(settings.new_height), "new_width": int(settings.new_width)}
        color = "color" if settings.is_color else "gray"
        return {"format": "images", "source": str(path), "color": color, **size, **root}
    if not is_file(path / "data.mdb"):
        text = (
            f"found '{settings.source}', a folder without data.mdb: only LMDB can be read, "
            "convert it with Caffe's tools"
        )
        raise PrototxtError(where.problem("data_param.source", text))
    transform = proto.transform_param
    color = "color" if transform.force_color else "gray" if transform.force_gray else "stored"
    return {"format": "lmdb", "source": str(path), "color": color}


def _nothing(name: str) -> str:
    return f"name the layer's source in the configuration: {name} = {{ format = ... }}"


def _existing(name: str, places: Sequence[Path]) -> Path | None:
    candidates = [
        *(place / name for place in places),
        *(place / Path(name).name for place in places[1:]),
    ]
    # a net of others may name a folder of theirs, at which this user may not look
    known = [path for path in candidates if is_file(path) or is_folder(path)]
    return next((path.resolve() for path in known or candidates if is_there(path)), None)


def _check_batches(layers: Sequence[LayerSpec]) -> None:
    """Raise an error unless all data layers declare the same number of rows."""
    declared = list(_declared(layers))
    for layer, key, size in declared[1:]:
        first, _, expected = declared[0]
        if size != expected:
            text = (
                f"found {size}, but layer '{first.proto.name}' has {expected}: all data "
                "layers must have the same number of rows"
            )
            raise PrototxtError(layer.where.problem(key, text))


def _declared(layers: Sequence[LayerSpec]) -> Iterator[tuple[LayerSpec, str, int]]:
    for layer in layers:
        for block in _DECLARING:
            if layer.proto.HasField(block):
                yield layer, f"{block}.batch_size", int(getattr(layer.proto, block).batch_size)
