"""Options of an actor: typed where its class declares them (`Actor.Options`), plain data on the way
to its process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from runtime.suggest import hint

T = TypeVar("T")

# The name of another actor, as the type of an option. The runtime refuses a topology in which this
# actor, or a link to it, is missing.
Peer = Annotated[str, "the name of a linked actor"]

_AT = re.compile(r"^(?P<text>.*?)(?: - at `\$\.?(?P<key>.*)`)?$", re.DOTALL)
_TYPE = re.compile(r"^Expected `(?P<wanted>.*)`, got `(?P<got>.*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<key>.*)`$")


def plain(options: object) -> Any:
    """Return options as plain data, with dataclasses as dicts: only dicts, lists, tuples, strings,
    numbers, True, False and None."""
    return msgspec.to_builtins(_fields(options))


def typed(kind: type[T], options: object) -> T:
    """Make a new `kind`, a dataclass, from an instance of it or from plain data. Raises ValueError
    with the key and the mistake."""
    try:
        given = plain(options)
        made = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_worded(str(error))) from None
    except TypeError as error:  # an object that is not data
        raise ValueError(str(error)) from None
    for key, known in _unknown(given, _fields(made)):
        raise ValueError(f"{key}: unknown key{hint(key.rpartition('.')[2], known)}")
    return made


def _fields(options: object) -> object:
    """Return an instance's fields as a dict, other values as they are. msgspec would leave out
    fields that have their default values."""
    return asdict(options) if is_dataclass(options) and not isinstance(options, type) else options


def _worded(text: str) -> str:
    """Return msgspec's message in the form "key: found int, expected str"."""
    at = _AT.match(text)
    text, key = (at["text"], at["key"] or "") if at else (text, "")
    if missing := _MISSING.match(text):
        return f"{'.'.join(filter(None, (key, missing['key'])))}: missing"
    if wrong := _TYPE.match(text):
        text = f"found {wrong['got']}, expected {wrong['wanted'].replace(' | null', ' or nothing')}"
    return f"{key}: {text}" if key else text


def _unknown(given: Any, kept: Any, key: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the keys of `given` that a typed object did not keep, each with the keys that are known
    there."""
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for name, value in given.items():
            inner = f"{key}.{name}" if key else str(name)
            if name in kept:
                yield from _unknown(value, kept[name], inner)
            else:
                yield inner, list(map(str, kept))
    elif isinstance(given, Sequence) and isinstance(kept, Sequence) and not isinstance(given, str):
        for index, (value, of) in enumerate(zip(given, kept, strict=False)):
            yield from _unknown(value, of, f"{key}[{index}]")
