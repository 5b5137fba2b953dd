"""The formats of data sources: opens a source from its configuration and checks its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nets.data.held_sets import once
from nets.data.lmdb import lmdb_source
from nets.data.sources import blank, cifar10, digits, hdf5_list, idx, images, synthetic, text
from nets.data.sources.source import MemorySource, Source
from nets.errors import DataError, did_you_mean


@dataclass(frozen=True)
class Format:
    """A format: the function that opens it, and the type of each option. The `needed` options have
    no default.

    `open` returns a Source. With `in_memory` it returns the arguments of a MemorySource instead;
    its planes have this `order` and its classes these `names`.
    """

    open: Callable[..., Any]
    options: Mapping[str, type]
    needed: tuple[str, ...] = ()
    in_memory: bool = False
    order: str = "bgr"
    names: tuple[str, ...] = ()


_PICTURES = {"new_height": int, "new_width": int, "color": str, "orientation": str}

FORMATS = {
    "blank": Format(blank.open_blank, {"shape": list, "shapes": Sequence, "size": int}),
    "cifar10": Format(
        cifar10.read, {"files": tuple}, ("files",), in_memory=True, order="rgb", names=cifar10.NAMES
    ),
    "digits": Format(digits.read, {"split": str}, in_memory=True, names=tuple("0123456789")),
    "hdf5": Format(hdf5_list.open_list, {"source": str, "tops": tuple}, ("source",)),
    "idx": Format(idx.read, {"images": str, "labels": str}, ("images", "labels"), in_memory=True),
    "images": Format(
        images.open_images,
        {"source": str, "root_folder": str, "classes": tuple, **_PICTURES},
        ("source",),
    ),
    "lmdb": Format(lmdb_source.open_lmdb, {"source": str, **_PICTURES}, ("source",)),
    "synthetic": Format(
        synthetic.make,
        {"shape": list, "classes": int, "size": int, "seed": int, "sample": int},
        in_memory=True,
    ),
    "text": Format(
        text.open_text,
        {"source": str, "streams": int, "length": int, "alphabet": str, "part": tuple},
        ("source",),
    ),
}

_WORDS: Mapping[type, str] = {
    str: "a string", int: "an integer", list: "a list of integers", tuple: "a list of strings",
    Sequence: "a list of lists of integers",
}  # fmt: skip


def open_source(config: Mapping[str, Any], base_dir: Path) -> Source:
    """Open the source that `config` describes: `format`, and the options of that format. Paths are
    relative to `base_dir`.

    Raises DataError with every mistake in the configuration, or with the fault of the file.
    """
    kind = config.get("format")
    if kind not in FORMATS:
        near = did_you_mean(str(kind), FORMATS)
        raise DataError(f"format: found {kind!r}, expected one of {', '.join(FORMATS)}{near}")
    chosen = FORMATS[kind]
    given = {key: value for key, value in config.items() if key != "format"}
    problems = [f"{kind}: {text}" for text in _mistakes(given, chosen)]
    if problems:
        raise DataError(problems)
    if not chosen.in_memory:
        source: Source = chosen.open(base_dir=base_dir, **given)
        return source

    def read() -> MemorySource:
        found = MemorySource(str(kind), *chosen.open(base_dir=base_dir, **given))
        found.order = chosen.order
        found.class_names = chosen.names
        return found

    return once(str(kind), given, base_dir, read)


def _mistakes(given: Mapping[str, Any], chosen: Format) -> list[str]:
    found = [
        (f"{key}: missing, expected {_WORDS[chosen.options[key]]}")
        for key in chosen.needed
        if key not in given
    ]
    for key, value in given.items():
        if key not in chosen.options:
            found.append(f"{key}: unknown key{did_you_mean(key, chosen.options)}")
        elif not _is(value, chosen.options[key]):
            found.append(f"{key}: found {value!r}, expected {_WORDS[chosen.options[key]]}")
    return found


def _is(value: Any, kind: type) -> bool:
    if kind is Sequence:
        return isinstance(value, (list, tuple)) and all(_is(one, list) for one in value)
    if kind in (list, tuple):
        item = int if kind is list else str
        return isinstance(value, (list, tuple)) and all(type(one) is item for one in value)
    return type(value) is kind
