"""The words that shells complete in addition to commands and options: the keys of --set, their
values, and the names of nets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

NET = "train.net"  # its names are also those of --net


def words_of_keys() -> dict[str, Sequence[str]]:
    """Each key of --set, with the words that it may have; none for numbers and free text."""
    from runtime.config.file import load_program
    from runtime.config.sections import ClusterConfig
    from runtime.config.toml_source import BUILT_IN

    program = load_program(BUILT_IN, Path())
    options = program.options
    models: list[type[BaseModel]] = [ClusterConfig] if options is None else [ClusterConfig, options]
    known = program.completions()
    found = {key: words for model in models for key, words in keys_of(model).items()}
    return {key: known.get(key, words) for key, words in found.items()}


def keys_of(model: type[BaseModel], prefix: str = "") -> Mapping[str, Sequence[str]]:
    """The keys of a section and of the sections in it, such as "train.strategy.workers", each with
    its words. An entry of an array of tables is its first: "machine.0.name"."""
    found: dict[str, Sequence[str]] = {}
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = next(_models(field.annotation), None)
        if inner is None:
            found[key] = tuple(_words(field.annotation))
        else:
            array = "0." if getattr(field.annotation, "__origin__", None) in (tuple, list) else ""
            found |= keys_of(inner, f"{key}.{array}")
    return found


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The sections in a type: itself, or members of a union or an array."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for member in get_args(kind):
        yield from _models(member)


def _words(kind: Any) -> Iterator[str]:
    """The words that a value of this type may be."""
    if kind is bool:
        yield from ("true", "false")
    elif get_origin(kind) is Literal:
        yield from (word for word in get_args(kind) if isinstance(word, str))
    else:
        for member in get_args(kind):
            yield from _words(member)
