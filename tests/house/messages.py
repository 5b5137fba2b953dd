"""docs/messages.md: every message, from the message classes."""

from __future__ import annotations

import ast
import dataclasses
import typing
from itertools import groupby
from operator import attrgetter

from runtime.messages import message as basic
from runtime.messages.message import Message
from tests.house.source import classes, opening_of

OPENING = """# Every message

This page is generated from the message classes (`python -m tests.house --write`), and a test
compares them. [conversations.md](conversations.md) shows which message is legal when. Messages with
arrays travel on the bulk lane, all others on the control lane. On the wire the name of a message is
its package and its class: `Ticket` is roles.Ticket.
"""


def markdown() -> str:
    """The text of docs/messages.md: every message with its fields."""
    lines = [OPENING]
    for module, said in groupby(classes(_is_message, "runtime", "roles"), attrgetter("__module__")):
        lines.append(f"## `{module}`\n\n{opening_of(module)}\n")
        lines += ["| message | lane | fields | meaning |", "| --- | --- | --- | --- |"]
        lines += [_row(kind) for kind in said] + [""]
    return "\n".join(lines)


def _is_message(declared: ast.ClassDef) -> bool:
    return any(ast.unparse(each) == "message" for each in declared.decorator_list)


def _row(kind: type[Message]) -> str:
    hints = typing.get_type_hints(kind)
    declared = dataclasses.fields(kind)  # type: ignore[arg-type]
    fields = ", ".join(f"`{each.name}` {_type(hints[each.name])}" for each in declared)
    means = " ".join((kind.__doc__ or "").split()).replace("|", "\\|")
    return f"| `{kind.__name__}` | {kind.lane} | {fields} | {means} |"


TYPES: dict[object, str] = {
    basic.Array: "array", tuple[basic.Array, ...]: "arrays", basic.Json: "table",
    tuple[int, ...]: "ints", tuple[float, ...]: "floats", tuple[str, ...]: "strs",
}  # fmt: skip


def _type(annotation: object) -> str:
    """The name of a field's type for readers, such as "ints"."""
    return TYPES.get(annotation) or str(getattr(annotation, "__name__", annotation))
