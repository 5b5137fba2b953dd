"""Writing plain data as TOML text that tomllib reads back equal. Only the part of TOML that a
resolved configuration needs is supported."""

# tomli-w is not used: it writes a short [[machine]] as a row of an array and puts every item of an
# array on a separate line. It also has no function for a single string, which `init` needs.

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dumps(data: Mapping[str, Any]) -> str:
    """Return TOML of nested mappings, sequences, str, bool, int, float, dates and times. Raises
    TypeError for other types."""
    return "\n".join(_table(data, "")).lstrip("\n") + "\n"


def _table(data: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the lines of one table. Plain values come first, since a key after a header belongs to
    that header."""
    nested = {
        key: value for key, value in data.items() if isinstance(value, Mapping) or _is_tables(value)
    }
    for key, value in data.items():
        if key not in nested:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in nested.items():
        full = f"{name}.{_key(key)}" if name else _key(key)
        if isinstance(value, Mapping):
            yield f"\n[{full}]"
            yield from _table(value, full)
        else:
            for item in value:
                yield f"\n[[{full}]]"
                yield from _table(item, full)


def _is_tables(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, Mapping) for item in value)
    )


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return string(value)
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return (
                "{"
                + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
                + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}: {value!r}")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else string(key)


def string(text: str) -> str:
    """Return `text` as a TOML basic string. JSON's escapes are valid in TOML, but JSON leaves DEL
    unescaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
