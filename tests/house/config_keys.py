"""The tables of the keys of cluster.toml, from its sections: the string below a key is its text.

A string that begins with "Default: ..." describes in words the value of a missing key. All other
defaults are those of the section's class.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from roles.formats.format import FORMATS
from roles.options import Options, Tuning
from runtime.config.sections import ClusterConfig
from runtime.config.value_types import parse_bytes
from tests.house.pages import linked, table
from tests.house.source import ROOT, tree_of

DEFAULT = re.compile(r"Default: (.+?)\. (.+)", re.DOTALL)
SIZES = ((2**30, "GiB"), (2**20, "MiB"))
TITLES = ("key", "default", "meaning")


def runtime() -> str:
    """The tables of the runtime's sections."""
    return _tables(ClusterConfig, ())


def program() -> str:
    """The tables of the built-in program's sections."""
    return _tables(Options, ())


def tuning() -> str:
    """The table of [train.tuning] alone; its keys have no prefix."""
    return table(("key of `[train.tuning]`", *TITLES[1:]), list(rows(Tuning, ())))


def _tables(model: type[BaseModel], path: tuple[str, ...]) -> str:
    """The keys of a section as a table, then the tables of the sections in it."""
    found = list(rows(model, path))
    parts = [*_opening(model, path), table(TITLES, found)] if found else []
    for name, field in model.model_fields.items():
        if (inner := _section(field.annotation)) is not None:
            parts.append(_tables(inner, (*path, name)))
    return "\n".join(parts)


def _opening(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """The text above a section's table."""
    if not path:
        return []
    text = " ".join((_declared(model).__doc__ or "").split("\n\n")[0].split())
    return [re.sub(r"^(\[\S+\]):", r"`\1`:", linked(text)) + "\n"]


def rows(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The key, default and meaning of each key of a section. Raises LookupError if a key has no
    text.
    """
    said = _of_formats()
    for cls in reversed(model.__mro__):
        said |= documented(cls)
    for name, field in model.model_fields.items():
        if _section(field.annotation) is not None and get_origin(field.annotation) is not dict:
            continue
        key = ".".join((*path, name))
        if not (text := said.get(name)):
            raise LookupError(
                f"{model.__module__}: {model.__name__}.{name} has no text, expected a string "
                "below the key that describes it"
            )
        words = DEFAULT.fullmatch(text)
        default = linked(words[1]) if words else _shown(field)
        yield f"`{key}`", default, linked(words[2] if words else text)


def documented(cls: type) -> dict[str, str]:
    """The string below each key that the class itself declares, on one line, by key."""
    found: dict[str, str] = {}
    file = ROOT / f"{cls.__module__.replace('.', '/')}.py"
    if not file.exists():
        return found
    name = str(file.relative_to(ROOT))
    body = next(
        (
            node.body
            for node in tree_of(name).body
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__
        ),
        [],
    )
    for key, below in pairwise(body):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[key.target.id] = " ".join(text.value.split())
    return found


def _of_formats() -> dict[str, str]:
    """The options of wire formats, which are keys of [train.gradients]."""
    return {
        key: f"`{kind.name}`: {option.about}."
        for kind in FORMATS.values()
        for key, option in kind.options.items()
    }


def _declared(model: type[BaseModel]) -> type:
    """The class that declares a model's keys in its file. A generated class has none, so its base
    is returned.
    """
    return next(cls for cls in model.__mro__ if cls.__doc__ and documented(cls))


def _section(annotation: Any) -> type[BaseModel] | None:
    """The class of a section, or of the entries of an array of sections."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, tuple, dict):
        return next(filter(None, map(_section, get_args(annotation))), None)
    return None


def _shown(field: FieldInfo) -> str:
    """A default as it is written in cluster.toml."""
    if field.is_required():
        return "needed"
    value = field.default
    if value is None or value == {}:
        return "none"
    if any(getattr(mark, "func", None) is parse_bytes for mark in field.metadata):
        for size, unit in SIZES:
            if value % size == 0:
                return f'`"{value // size}{unit}"`'
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return f"{value:.4g}" if value != int(value) else str(int(value))
    return str(value)
