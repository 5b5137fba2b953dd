"""The text of cluster.toml and the --set overrides, as plain data that remembers the place of each
value.

`sections` and the program define the meaning of the keys.
"""

import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from runtime.config.toml_lines import KeyPath, key_lines, split_key
from runtime.errors import ConfigError
from runtime.reasons import reason
from runtime.regular import decoded, read_bytes
from runtime.terminal_text import one_line
from runtime.typed_name import shown

CLUSTER_FILE = "cluster.toml"
BUILT_IN = "roles"  # the program of a cluster.toml that names none
MOST_BYTES = 1 << 20  # enough for thousands of actors by name
MOST_NAMED = 3  # files in a hint
_MAX_DEPTH = 64  # tables in tables; far below Python's recursion limit
_SYNTAX_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_DECLARED_TWICE = re.compile(r"Cannot declare \((.*)\) twice")
_TYPE_NAMES = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    dict: "table",
    list: "array",
}


class Origin(NamedTuple):
    """The place where a value was written. `order` is used for sorting (file lines, then
    overrides), and `where` is shown to the user."""

    order: int
    where: str


class Problem(NamedTuple):
    """One mistake. `order` is used for sorting, and `text` is the whole line for the user."""

    order: int
    text: str


@dataclass(frozen=True)
class RawConfig:
    """cluster.toml before validation: plain data, the origin of every key, and the mistakes found
    so far.

    If the data do not come from a file, `source` is shown in place of a line.
    """

    path: Path
    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    source: str = ""

    def origin(self, keys: KeyPath) -> Origin:
        """Return the place where `keys` was written. For a missing key, it is the place where its
        table begins."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.origins:
                return self.origins[keys[:length]]
        return Origin(1, self.source or f"{self.path}:1")

    @property
    def program(self) -> str | None:
        """The module that plans the run, or None if the value is not a string."""
        name = self.data.get("program", BUILT_IN)
        return name if isinstance(name, str) else None

    @property
    def base(self) -> Path:
        """The folder that relative paths start from: the file's own, or `run.base` if it is set."""
        return (self.path.resolve().parent / self.of_run("base")).resolve()

    def of_run(self, key: str) -> str:
        """Return a text in [run]; "" if it is missing or not a string."""
        run = self.data.get("run")
        said = run.get(key) if isinstance(run, dict) else None
        return said if isinstance(said, str) else ""

    def problem(self, keys: KeyPath, text: str) -> Problem:
        """Return a problem of the value at `keys`: "cluster.toml:9: machine[0].cores: <text>"."""
        return Problem(self.origin(keys).order, f"{self.place(keys)}: {text}")

    def place(self, keys: KeyPath) -> str:
        """Return the place and the name of `keys`: "cluster.toml:9: machine[0].cores"."""
        return f"{self.origin(keys).where}: {show_key(keys)}"


def read(path: Path, overrides: Sequence[str] = ()) -> RawConfig:
    """Read `path` and apply the overrides in order: "a.b.c=value", arrays by index
    ("machine.0.cores=4"), "a.b.c=" removes the key.

    Raises ConfigError if the file cannot be read or is not TOML. A bad override is added to
    `.problems`, so that it is shown together with the mistakes found later.
    """
    text = _text(path)
    try:
        data = tomllib.loads(text)
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_problem(path, text, str(error))]) from error
    except RecursionError as error:
        raise ConfigError([f"{path}:1: the values are nested too deeply"]) from error
    except ValueError as error:  # a number with more digits than Python converts
        raise ConfigError([f"{path}:1: a number is too long"]) from error
    raw = RawConfig(
        path, data, {keys: Origin(line, f"{path}:{line}") for keys, line in lines.items()}
    )
    last = len(text) + 1  # overrides sort after every line
    for number, override in enumerate(overrides):
        _apply(raw, override, Origin(last + number, f"--set {show_text(override)}"))
    if beyond := _beyond_toml(raw):
        raise ConfigError(in_order(raw.problems + beyond))
    return raw


def from_python(source: str, data: Mapping[str, Any], directory: Path) -> RawConfig:
    """Return the data that a script passes in place of a file.

    `source` is shown in place of a line, such as "launch()". Paths in the data are relative to
    `directory`. Tuples count as arrays, and paths as strings. Raises ConfigError as `read` does.
    """
    raw = RawConfig(
        directory / CLUSTER_FILE,
        {key: _as_toml(value) for key, value in data.items()},
        source=source,
    )
    if beyond := _beyond_toml(raw):
        raise ConfigError(in_order(beyond))
    return raw


def _as_toml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_toml(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_as_toml(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value


def in_order(problems: Sequence[Problem]) -> list[str]:
    """Return the texts of all problems in the order of lines, each once."""
    return list(
        dict.fromkeys(text for _, text in sorted(problems, key=lambda problem: problem.order))
    )


def show_key(keys: KeyPath) -> str:
    """Return a key as it is shown: machine[0].cores. A part with unusual characters is quoted."""
    shown = ""
    for key in keys:
        if isinstance(key, int):
            shown += f"[{key}]"
        else:
            name = key if re.fullmatch(r"[\w-]+", key) else show_text(repr(key))
            shown += f".{name}" if shown else name
    return shown


def show_text(text: str, limit: int = 80) -> str:
    """Return `text` on one printable line of at most `limit` characters."""
    safe = one_line(text)
    return safe if len(safe) <= limit else f"{safe[: limit - 3]}..."


def type_name(value: Any) -> str:
    """Return TOML's name for the type of `value`."""
    return _TYPE_NAMES.get(type(value), "date or time")


def _text(path: Path) -> str:
    try:
        return decoded(read_bytes(path, MOST_BYTES)).replace("\r\n", "\n")
    except FileNotFoundError as error:
        raise ConfigError([f"{path}: no such file{_hint(path)}"]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: not UTF-8 text"]) from error
    except IsADirectoryError as error:
        text = f"found a folder, expected a file in it, such as {CLUSTER_FILE}"
        raise ConfigError([f"{show_text(str(path))}: {text}"]) from error
    except OSError as error:
        raise ConfigError([f"{show_text(str(path))}: cannot be read: {reason(error)}"]) from error


def _hint(absent: Path) -> str:
    """The next step if there is no cluster.toml: to name one in a folder next to it, or to write
    one."""
    if absent.name != CLUSTER_FILE:
        return ""
    there = list(islice(absent.parent.glob(f"*/{CLUSTER_FILE}"), MOST_NAMED))
    named = " or ".join(show_text(str(path)) for path in sorted(there))
    found = f"give the path of one, such as {named}; " if named else ""
    return f"; {found}{shown('init')} writes a first one"


def _syntax_problem(path: Path, text: str, message: str) -> str:
    place = _SYNTAX_PLACE.search(message)
    what = message[: place.start()] if place else message
    line = place[1] if place and place[1] else text.rstrip().count("\n") + 1
    if what == "Cannot overwrite a value":
        return f"{path}:{line}: not TOML: a key is set twice"
    if twice := _DECLARED_TWICE.fullmatch(what):
        names = re.findall(r"'([^']*)'", twice[1])
        return f"{path}:{line}: not TOML: table {show_key(tuple(names))} is declared twice"
    what = f"{what[:1].lower()}{what[1:]}"
    if place and place[1]:
        return f"{path}:{line}: column {place[2]}: not TOML: {what}"
    return f"{path}:{line}: not TOML: {what} (the file ends here)"


def _apply(raw: RawConfig, override: str, origin: Origin) -> None:
    """Set one value in raw.data, or remove it if the override has no value. A mistake in the
    override is added to raw.problems."""
    key, equals, value = override.partition("=")
    try:
        override.encode()
        keys = split_key(key)
    except ValueError:
        keys = ()
    if not keys or not equals:
        raw.problems.append(
            Problem(
                origin.order,
                f"{origin.where}: expected KEY=VALUE, such as machine.0.cores=4, or KEY= to unset "
                "a key",
            )
        )
        return
    if not value.strip():
        _unset(raw, keys, origin)
        return
    trail, parent = _descend(raw, keys, origin)
    last = _step(raw, parent, trail, keys[-1], origin) if parent is not None else None
    if last is None:
        return
    trail = (*trail, last)
    _forget_origins(raw, trail)
    _put(parent, last, _toml_value(value))
    raw.origins[trail] = origin


def _unset(raw: RawConfig, keys: tuple[str, ...], origin: Origin) -> None:
    """Remove a value from raw.data, as if the file did not have it. A key that the file does not
    have is reported."""
    trail: KeyPath = ()
    parent: Any = None
    node: Any = raw.data
    for part in keys:
        step = _step(raw, node, trail, part, origin)
        if step is None:
            return
        trail = (*trail, step)
        if (isinstance(node, list) and step == len(node)) or (
            isinstance(node, dict) and step not in node
        ):
            text = "is not set, so there is nothing to unset"
            logging.getLogger("runtime").warning("%s: %s: %s", origin.where, show_key(trail), text)
            return
        parent, node = node, node[step]
    _forget_origins(raw, trail)
    del parent[trail[-1]]
    if isinstance(parent, list):
        _move_origins(raw, trail)


def _forget_origins(raw: RawConfig, trail: KeyPath) -> None:
    for stale in [known for known in raw.origins if known[: len(trail)] == trail]:
        del raw.origins[stale]


def _move_origins(raw: RawConfig, trail: KeyPath) -> None:
    """Move the origins of the later items of an array to the indices that they have after the item
    at `trail` was removed."""
    *array, index = trail
    depth = len(array)
    moved: dict[KeyPath, Origin] = {}
    for known, origin in raw.origins.items():
        later = known[depth] if len(known) > depth and known[:depth] == tuple(array) else -1
        if isinstance(later, int) and isinstance(index, int) and later > index:
            known = (*array, later - 1, *known[depth + 1 :])
        moved[known] = origin
    raw.origins.clear()
    raw.origins.update(moved)


def _descend(raw: RawConfig, keys: tuple[str, ...], origin: Origin) -> tuple[KeyPath, Any]:
    """Return the path and the table or array that holds the last key. Tables that do not exist are
    made. After a mistake, None takes the place of the table."""
    trail: KeyPath = ()
    node: Any = raw.data
    for part, following in pairwise(keys):
        step = _step(raw, node, trail, part, origin)
        if step is None:
            return trail, None
        trail = (*trail, step)
        if (isinstance(node, dict) and step not in node) or (
            isinstance(node, list) and step == len(node)
        ):
            _put(node, step, [] if following.isdecimal() else {})
            raw.origins[trail] = origin
        node = node[step]
    return trail, node


def _step(raw: RawConfig, node: Any, trail: KeyPath, part: str, origin: Origin) -> str | int | None:
    """Return `part` as a key of `node`, which is a table or array. An index may be one past the
    end, which appends."""
    if isinstance(node, dict):
        return part
    if not isinstance(node, list):
        text = f"is a {type_name(node)} and has no key {part!r}"
    elif part.isdecimal() and len(part) < 10 and int(part) <= len(node):
        return int(part)
    else:
        text = f"found index {part!r}, expected 0 to {len(node)} ({len(node)} appends)"
    raw.problems.append(Problem(origin.order, f"{origin.where}: {show_key(trail)}: {text}"))
    return None


def _put(node: Any, step: str | int, value: Any) -> None:
    if isinstance(node, list) and step == len(node):
        node.append(value)
    else:
        node[step] = value


def _toml_value(text: str) -> Any:
    """Return `text` read as one TOML value. Text that is not a TOML value is returned as a
    string."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def _beyond_toml(raw: RawConfig) -> list[Problem]:
    """Return the problems of values that tomllib accepts but TOML does not guarantee. Code that
    shows or writes such values would fail."""
    found: list[Problem] = []
    stack: list[tuple[KeyPath, Any]] = [((), raw.data)]
    while stack:
        keys, value = stack.pop()
        if type(value) is int and not -(2**63) <= value < 2**63:
            found.append(raw.problem(keys, "found an integer of more than 64 bits"))
        elif type(value) is str and "\0" in value:
            found.append(raw.problem(keys, "found a NUL character, which a string cannot have"))
        elif isinstance(value, dict | list) and len(keys) >= _MAX_DEPTH:
            order, where = raw.origin(keys)
            found.append(
                Problem(
                    order, (f"{where}: {show_key(keys[:3])}...: tables more than {_MAX_DEPTH} deep")
                )
            )
        elif isinstance(value, dict):
            stack.extend(((*keys, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*keys, index), item) for index, item in enumerate(value))
    return found
