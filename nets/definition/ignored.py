"""The fields of a net or solver that are not honoured, as problems and warnings with file, line and
key.

`schema.fields` lists these fields and the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from nets.definition.prototxt import Where
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import ALWAYS_TOLD, FIELDS, blocks_of
from nets.schema.layer_types import ALL_TYPES


@dataclass(frozen=True)
class Note:
    """One field that is not honoured: its place, its dotted key, and the reason."""

    where: Where
    key: str
    why: str


def refusals(message: Message, where: Where) -> list[str]:
    """Return a problem for each refused field below `message`."""
    return [where.problem(key, f"not supported: {why}") for key, why in _of(message, "refused")]


def unused(message: Message, where: Where) -> list[Note]:
    """Return a note for each field below `message` that is read but not used."""
    return [Note(where, key, why) for key, why in _of(message, "warned")]


def misplaced(layer: caffe.LayerParameter, where: Where) -> list[Note]:
    """Return a note for each block of options that layers of this type do not read. Layer types of
    other packages may read any block."""
    if layer.type not in ALL_TYPES:
        return []
    read = blocks_of(layer.type)
    refused = FIELDS["LayerParameter"].refused
    return [
        Note(where, field.name, f"layers of type '{layer.type}' do not read it")
        for field, _ in layer.ListFields()
        if field.name.endswith("_param") and field.name not in read and field.name not in refused
    ]


def warnings(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return the notes as lines for people: one line per reason, at the first place of that
    reason."""
    by_reason: dict[str, list[Note]] = {}
    for note in notes:
        by_reason.setdefault(note.why, []).append(note)
    return tuple(_line(why, of) for why, of in by_reason.items())


def _line(why: str, notes: list[Note]) -> str:
    where = notes[0].where
    first = notes[0].key
    keys = dict.fromkeys(note.key for note in notes if note.key != first)
    others = len({id(note.where) for note in notes}) - 1
    also = f" (also {', '.join(map(repr, keys))})" if keys else ""
    more = f"; {others} more layer{'s' if others > 1 else ''} like this" if others else ""
    return where.problem(first, f"not used{also}: {why}{more}")


def _of(message: Message, fate: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted key, reason) of every field that is set and has this fate, "warned" or
    "refused"."""
    kind = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        key = f"{path}{field.name}"
        why = getattr(FIELDS[kind], fate).get(field.name) if kind in FIELDS else None
        if why and _says_something(kind, field, value):
            yield key, why
        elif (
            field.message_type is not None
            and field.message_type.name in FIELDS
            and not _is_net(field)
        ):
            for one in value if field.is_repeated else [value]:
                yield from _of(one, fate, f"{key}.")


def _says_something(kind: str, field: Any, value: Any) -> bool:
    """Whether the value differs from the field's default, which a file may leave out."""
    if field.is_repeated or field.message_type is not None or not field.has_default_value:
        return True
    return f"{kind}.{field.name}" in ALWAYS_TOLD or bool(value != field.default_value)


def _is_net(field: Any) -> bool:
    """Whether the field is a net or a layer. Nets inside solvers and layers inside nets are checked
    separately."""
    return field.message_type.name in ("NetParameter", "LayerParameter")
