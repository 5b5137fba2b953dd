"""Message classes, their registry, and the envelope around each message.

A message is a frozen dataclass of plain fields and arrays. Its fields decide how it travels. This
module knows no bytes (`wire` encodes) and no delivery (`transport`, `node`).
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
# the name of a script's module in the processes of its roles, where it is not __main__
SCRIPT = "__convoy_main__"


def _is_tuple_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(type(item) is kind for item in value)


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a method that returns these attributes of an object as a tuple."""
    get = attrgetter(*names)
    return (lambda said: get(said)) if len(names) > 1 else (lambda said: (get(said),))


# Field annotation -> check whether a decoded value fits it. Arrays are checked in
# `received_arrays`.
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
_ALIASES = {Array: "Array", tuple[Array, ...]: "tuple[Array, ...]", Json: "Json"}
FIELDS = (
    "int, float, str, bool, a tuple of one of these (tuple[int, ...]), Json, Array or "
    "tuple[Array, ...]"
)


@dataclass(frozen=True, slots=True)
class PlainField:
    """A message field that travels in the header."""

    name: str
    annotation: Any
    fits: Callable[[Any], bool]


class Message:
    """Base of all messages. Declare a message class with `@message`. Its fields may be int, float,
    str, bool, tuples of these, `Json` (a dict of plain values), `Array`, or `tuple[Array, ...]`.

    A message with arrays travels on the bulk lane, any other on the control lane. Each lane keeps
    the order of messages between one sender and one receiver. The two lanes do not wait for each
    other.
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    lane: ClassVar[Lane] = "control"
    plain_fields: ClassVar[tuple[PlainField, ...]] = ()
    array_fields: ClassVar[tuple[tuple[str, bool], ...]] = ()  # (name, holds several arrays)
    # types of the plain values, if comparing them is check enough; None: check each value
    plain_types: ClassVar[list[type] | None] = []

    def __init__(self, *_values: Any, **_fields: Any) -> None:
        # `@message` replaces this method
        raise TypeError(undeclared(type(self)))

    def plain_values(self) -> tuple[Any, ...]:
        """Return the values of the plain fields, in declared order, for the header."""
        return ()

    def array_bytes(self) -> int:
        """Return the bytes of the message's arrays, whether they travel or are read in place."""
        size = 0
        for name, several in self.array_fields:
            value = getattr(self, name)
            size += sum([array.nbytes for array in value]) if several else value.nbytes
        return size

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            several = isinstance(value, tuple) and any(map(_is_array, value))
            text = f"({', '.join(map(_brief, value))})" if several else _brief(value)
            shown.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


REGISTRY: dict[str, type[Message]] = {}


@dataclass_transform(frozen_default=True)
def message(cls: type[M]) -> type[M]:
    """A class decorator: makes `cls` a frozen dataclass, and registers it as message kind
    `package.ClassName`.

    Raises TypeError if a field has a type that no message can carry or a name that every message
    uses, or if another module has a message of that kind.
    """
    made = dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)
    hints = typing.get_type_hints(made)
    plain: list[PlainField] = []
    arrays: list[tuple[str, bool]] = []
    for field in fields(made):  # type: ignore[arg-type]  # `dataclass` made it one
        annotation = hints[field.name]
        if hasattr(Message, field.name):
            raise TypeError(
                f"{made.__qualname__}.{field.name}: every message already has an attribute of this "
                "name; choose another name"
            )
        if annotation in _ARRAYS:
            arrays.append((field.name, annotation != Array))
        elif annotation in _PLAIN:
            plain.append(PlainField(field.name, annotation, _PLAIN[annotation]))
        else:
            raise TypeError(
                f"{made.__qualname__}.{field.name}: a message cannot carry "
                f"{type_name(annotation)}; a field is {FIELDS}"
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


def is_declared(kind: type[Message]) -> bool:
    """Whether `@message` has made this class, and not only a class that it is based on."""
    return "plain_fields" in vars(kind)


def undeclared(kind: type[Message]) -> str:
    """The text of an error: a class of messages lacks its decorator."""
    return f"{kind.__name__} cannot be sent yet: write @message above `class {kind.__name__}`"


def type_name(annotation: Any) -> str:
    """Return the annotation of a field as it is written: `int`, `tuple[int, ...]`, `Json`."""
    if annotation in _ALIASES:
        return _ALIASES[annotation]
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _package(module: str) -> str:
    """Return the package name that starts a message's kind. It is the same where a script, or a
    module run by `python -m`, runs and in the processes of its roles."""
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        module = spec.name if spec is not None else SCRIPT
    return module.partition(".")[0]


class Envelope(NamedTuple):
    """A message under way.

    `id` counts the envelopes of the sender. (`sender`, `incarnation`, `id`) identifies an envelope
    for ever. `reply_to` is the actor that waits for an answer, "" after a tell. An answer carries
    the id of the ask in `answers`, which is 0 in other messages. `step` is the iteration that the
    message belongs to, -1 for none.
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
    """The answer to an ask that was refused: the handler's error, in words. `mistaken`: the asker's
    words are wrong, so that the same ask would be refused again."""

    error: str
    mistaken: bool = False


@message
class WindDown(Message):
    """Sent to the lead actor: end the work well now (write a checkpoint, then finish)."""

    reason: str


@message
class Save(Message):
    """Sent to the lead actor: write a checkpoint now and continue."""


@message
class PeerLost(Message):
    """The process of an actor tells it: these `actors` have died with another process. It comes
    behind their last message. With `returns`, their process is started again, and messages to them
    wait until then."""

    actors: tuple[str, ...]
    returns: bool


@message
class GetWork(Message):
    """Any actor asks any other, at any time: how long has your work taken? Answered with
    WorkTaken."""


@message
class WorkTaken(Message):
    """The answer to GetWork: label -> number of pieces, seconds, and sum of squared seconds, since
    the actor's process started. `processor`: seconds of processor time of the whole process."""

    work: Json
    processor: float


@message
class HandOver(Message):
    """Sent to the lead actor: finish the work under way, save the state, and end, so that another
    run resumes from there. Answered with HandedOver. If the lead refuses, its run continues."""


@message
class HandedOver(Message):
    """The state is saved in this `file` of the run directory, and the run has ended its work. `at`
    describes in words how far the run came."""

    file: str
    at: str


@message
class GetHolders(Message):
    """Sent to the lead actor after a death: which actors hold the whole state that another run
    needs to resume, the same state in each? Answered with Holders."""


@message
class Holders(Message):
    """The answer to GetHolders: these `actors` hold the whole state. If there are none, `why` gives
    the reason. `facts` are the parts of the state that only the lead knows."""

    actors: tuple[str, ...]
    facts: Json
    why: str


@message
class GetReached(Message):
    """Sent to each living holder: how many steps have you done? Answered with Reached."""


@message
class Reached(Message):
    """The answer to GetReached: the number of steps that this holder has done completely. The run
    resumes from the holder with the most steps."""

    steps: int


@message
class KeepState(Message):
    """Sent to the holder with the most steps: offer your state to the run that follows. Answered
    with KeptState.

    `facts` are the facts of Holders.
    """

    facts: Json


@message
class KeptState(Message):
    """The answer to KeepState: the state is in this `file` of the holder's memory. The file exists
    as long as the holder lives, and then as long as a process has it open. `at` describes in words
    how far the run came."""

    file: str
    at: str


def snake_case(name: str) -> str:
    """Return `layer_gradient` for `LayerGradient`. The handler of a message is named
    `on_<this>`."""
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def message_annotation(function: types.FunctionType) -> type[Message] | None:
    """Return the message class in the annotation of a handler's first parameter, or None."""
    hints = typing.get_type_hints(function)
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    kind = hints.get(names[0]) if names else None
    return kind if isinstance(kind, type) and issubclass(kind, Message) else None


def _is_array(value: Any) -> bool:
    """Whether a value is an array, wherever it lies."""
    return isinstance(value, np.ndarray) or hasattr(value, "shape")


def _brief(value: Any) -> str:
    if _is_array(value):
        return f"{value.dtype}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
