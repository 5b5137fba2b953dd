"""What actors say to one another: message classes, their registry, and the envelope around each
message.

A message is a frozen dataclass of plain fields and arrays; its fields decide how it travels. No
bytes here (`wire` encodes) and no delivery (`transport`, `node`).
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Json = Mapping[str, Any]
Lane = Literal["control", "bulk"]
M = TypeVar("M", bound="Message")
# what a script's module is called in the processes of its roles: there it is not __main__
SCRIPT = "__convoy_main__"


def _is_tuple_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(type(item) is kind for item in value)


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The method that returns these attributes of an object."""
    get = attrgetter(*names)
    return (lambda said: get(said)) if len(names) > 1 else (lambda said: (get(said),))


# Field annotation -> does a decoded value fit it? Arrays travel as frames of their own and are
# checked in `wire`.
_PLAIN: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: type(value) is int,
    float: lambda value: type(value) in (float, int),
    str: lambda value: type(value) is str,
    bool: lambda value: type(value) is bool,
    tuple[int, ...]: _is_tuple_of(int),
    tuple[float, ...]: _is_tuple_of(float),
    tuple[str, ...]: _is_tuple_of(str),
    Json: lambda value: isinstance(value, dict) and all(type(key) is str for key in value),
}
_ARRAYS = (Array, tuple[Array, ...])
_SCALARS = (int, float, str, bool)


@dataclass(frozen=True, slots=True)
class PlainField:
    """A field that travels in the header."""

    name: str
    annotation: Any
    fits: Callable[[Any], bool]


class Message:
    """Base of all messages. Declare one with `@message`; fields may be int, float, str, bool,
    tuples of these, `Json` (a dict of plain values), `Array`, or `tuple[Array, ...]`.

    A message with arrays travels on the bulk lane, any other on the control lane. Between one
    sender and one receiver each lane keeps its order; the two lanes do not wait for one another.
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    lane: ClassVar[Lane] = "control"
    plain_fields: ClassVar[tuple[PlainField, ...]] = ()
    array_fields: ClassVar[tuple[tuple[str, bool], ...]] = ()  # (name, holds several arrays)
    # of plain values that need no further look; None: look at each
    plain_types: ClassVar[list[type] | None] = []

    def plain_values(self) -> tuple[Any, ...]:
        """The header's part of this message, in declared order."""
        return ()

    def array_bytes(self) -> int:
        """Bytes of its arrays, which travel or are read in place."""
        size = 0
        for name, several in self.array_fields:
            value = getattr(self, name)
            size += sum([array.nbytes for array in value]) if several else value.nbytes
        return size

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            several = isinstance(value, tuple) and any(
                isinstance(item, np.ndarray) for item in value
            )
            text = f"({', '.join(map(_brief, value))})" if several else _brief(value)
            shown.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


REGISTRY: dict[str, type[Message]] = {}


@dataclass_transform(frozen_default=True)
def message(cls: type[M]) -> type[M]:
    """Class decorator: make `cls` a frozen dataclass and register it as kind
    `package.ClassName`."""
    made = dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)
    hints = typing.get_type_hints(made)
    plain: list[PlainField] = []
    arrays: list[tuple[str, bool]] = []
    for field in fields(made):  # type: ignore[arg-type]  # `dataclass` made it one
        annotation = hints[field.name]
        if hasattr(Message, field.name):
            raise TypeError(
                f"{made.__qualname__}.{field.name}: every message has this name for something else"
            )
        if annotation in _ARRAYS:
            arrays.append((field.name, annotation != Array))
        elif annotation in _PLAIN:
            plain.append(PlainField(field.name, annotation, _PLAIN[annotation]))
        else:
            raise TypeError(
                f"{made.__qualname__}.{field.name}: a message cannot carry {annotation!r}"
            )
    made.kind = f"{_package(made.__module__)}.{made.__name__}"
    made.plain_fields = tuple(plain)
    made.array_fields = tuple(arrays)
    types = [field.annotation for field in plain]
    made.plain_types = types if all(kind in _SCALARS for kind in types) else None
    if plain:
        made.plain_values = _getter([field.name for field in plain])  # type: ignore[method-assign,assignment]
    made.lane = "bulk" if arrays else "control"
    known = REGISTRY.get(made.kind)
    if known is not None and known.__module__ != made.__module__:
        raise TypeError(
            f"two messages are called {made.kind}: in {known.__module__} and in {made.__module__}"
        )
    REGISTRY[made.kind] = made
    return made


def _package(module: str) -> str:
    """What stands before a message's name. The classes of a script, or of a module run by `python
    -m`, are called alike where it runs and where its roles do."""
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        module = spec.name if spec is not None else SCRIPT
    return module.partition(".")[0]


class Envelope(NamedTuple):
    """A message under way.

    `id` counts the sender's envelopes; (`sender`, `incarnation`, `id`) names an envelope for ever.
    `reply_to` names the actor that waits for an answer ("" after a tell); an answer carries the
    asked id in `answers` (0 otherwise). `step` is the iteration the message belongs to, -1 for
    none.
    """

    message: Message
    id: int
    sender: str
    incarnation: int
    receiver: str
    reply_to: str = ""
    answers: int = 0
    step: int = -1

    def __repr__(self) -> str:
        about = f" answers {self.answers}" if self.answers else " ask" if self.reply_to else ""
        step = f" step {self.step}" if self.step >= 0 else ""
        return (
            f"<{self.sender}.{self.incarnation}#{self.id} -> {self.receiver}{about}{step} "
            f"{self.message!r}>"
        )


@message
class Refusal(Message):
    """The answer to an ask whose handler raised: the error in words."""

    error: str


@message
class WindDown(Message):
    """To the lead actor: bring the work to a good end now (snapshot, then finish)."""

    reason: str


@message
class Save(Message):
    """To the lead actor: write a checkpoint now and go on."""


@message
class HandOver(Message):
    """To the lead actor: save what there is after what is under way, and end, so that another run
    goes on from there. Answered with HandedOver, or refused in words: then this one goes on."""


@message
class HandedOver(Message):
    """All is saved in this `file` of the run directory, and nothing more is done; `at` says in
    words where."""

    file: str
    at: str


@message
class GetHolders(Message):
    """To the lead actor, after a death: who has all that a run goes on from, each of them alike?
    Answered with Holders."""


@message
class Holders(Message):
    """These `actors`; none: nobody has all of it, and `why`. `facts` are what only the lead knows
    of it."""

    actors: tuple[str, ...]
    facts: Json
    why: str


@message
class GetReached(Message):
    """To each of the holders that live: how far are you? Answered with Reached."""


@message
class Reached(Message):
    """Answer: so many steps of the run are done here, each of them wholly; of two holders the one
    with more goes on."""

    steps: int


@message
class KeepState(Message):
    """To the holder that has come furthest: let another run begin where you are. Answered with
    KeptState.

    `facts` are those of Holders.
    """

    facts: Json


@message
class KeptState(Message):
    """Answer: all is in this `file` of the holder's memory, as long as it lives; whoever opens it
    keeps it. `at` says in words where that is."""

    file: str
    at: str


def snake_case(name: str) -> str:
    """`LayerGradient` -> `layer_gradient`: the handler of a message is called `on_<this>`."""
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def message_annotation(function: types.FunctionType) -> type[Message] | None:
    """The message class that the first parameter of a handler is annotated with, or None."""
    hints = typing.get_type_hints(function)
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    kind = hints.get(names[0]) if names else None
    return kind if isinstance(kind, type) and issubclass(kind, Message) else None


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
