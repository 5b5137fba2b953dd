"""What of a net or solver is not honoured: problems and warnings, each with file, line and key.

`schema.fields` says which fields these are and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from nets.definition.prototxt import Where
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import ALWAYS_TOLD, FIELDS, blocks_of
from nets.schema.layer_types import LAYER_TYPES


@dataclass(frozen=True)
class Note:
    """One field that is not honoured: where it stands, its dotted key, and why."""

    where: Where
    key: str
    why: str


def refusals(message: Message, where: Where) -> list[str]:
    """A problem for each field below `message` that is refused."""
    return [where.problem(key, f"not supported: {why}") for key, why in _of(message, "refused")]


def unused(message: Message, where: Where) -> list[Note]:
    """A note for each field below `message` that is read and not used."""
    return [Note(where, key, why) for key, why in _of(message, "warned")]


def misplaced(layer: caffe.LayerParameter, where: Where) -> list[Note]:
    """A note for each block of options that layers of this type do not read. Types of other
    packages may read any."""
    if layer.type not in LAYER_TYPES:
        return []
    read = blocks_of(layer.type)
    refused = FIELDS["LayerParameter"].refused
    return [
        Note(where, field.name, f"layers of type '{layer.type}' do not read it")
        for field, _ in layer.ListFields()
        if field.name.endswith("_param") and field.name not in read and field.name not in refused
    ]


def warnings(notes: Iterable[Note]) -> tuple[str, ...]:
    """The notes as lines for people: one for each reason, at the first place it stands."""
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
    """(dotted key, why) of every field that is set and has this fate, "warned" or "refused"."""
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
    """Whether it is another value than the one a file need not say."""
    if field.is_repeated or field.message_type is not None or not field.has_default_value:
        return True
    return f"{kind}.{field.name}" in ALWAYS_TOLD or bool(value != field.default_value)


def _is_net(field: Any) -> bool:
    """Nets inside solvers and layers inside nets are judged by themselves."""
    return field.message_type.name in ("NetParameter", "LayerParameter")
