"""Translating pydantic's errors: "found 'two' (string), expected an integer >= 1".

Only this file knows how pydantic reports errors. The expectation is derived from the model, not
from pydantic's message. In this way a constraint is shown even if the type is wrong too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from runtime.config.toml_lines import KeyPath
from runtime.config.toml_source import Problem, RawConfig, show_text, type_name
from runtime.suggest import hint, near_hint

Model = TypeVar("Model", bound=BaseModel)

_BASIC = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
_PLURALS = {
    "a string": "strings",
    "an integer": "integers",
    "a number": "numbers",
    "a table": "tables",
}
_PLURALS["a non-empty string"] = "non-empty strings"
# raised by a validator of the runtime or of the program
_VALIDATOR_SPOKE = ("value_error", "assertion_error")


@dataclass(frozen=True)
class Expected:
    """A mark for a type whose expected values are better described in words: Annotated[str, ...,
    Expected("a name")]."""

    text: str


class _Place(NamedTuple):
    """The part of a model at one path: its type, its constraints, and the model that has or lacks
    the last key."""

    keys: KeyPath
    kind: Any
    marks: tuple[Any, ...]
    owner: type[BaseModel] | None


def validated(
    model: type[Model],
    data: Mapping[str, Any],
    raw: RawConfig,
    beside: type[BaseModel] | None = None,
) -> tuple[Model | None, list[Problem]]:
    """Return `data` as a `model`, or all mistakes in it. `beside` has further keys to suggest for
    unknown top-level keys."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        places = [
            (_place(model, details["loc"]), details) for details in error.errors(include_url=False)
        ]
    # For a value that matches one table of a union, pydantic also reports errors of the other
    # members. Only the error with the longest path is kept.
    inner = {place.keys[:depth] for place, _ in places for depth in range(len(place.keys))}
    return None, [
        raw.problem(*_translated(place, details, beside))
        for place, details in places
        if place.keys not in inner
    ]


def key_names(model: type[BaseModel]) -> list[str]:
    """Return the keys that a table of this model may have, as written in TOML."""
    return [_written(name, field) for name, field in model.model_fields.items()]


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown key."""
    return f"unknown key{hint(name, known)}"


def found(value: Any) -> str:
    """Return a value and its TOML type, short and on one line: 'two' (string)."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return (
            "an array of tables"
            if value and all(isinstance(item, dict) for item in value)
            else "an array"
        )
    shown = (
        str(value).lower()
        if isinstance(value, bool)
        else value
        if type_name(value)[0] == "d"
        else repr(value)
    )
    return f"{show_text(str(shown), 48)} ({type_name(value)})"


def describe(kind: Any, marks: Sequence[Any] = ()) -> str:
    """Return the values that a type allows, for people: "an integer from 1 to 65535", "'ipc' or
    'tcp'". "" if the type has no description."""
    kind, marks = _bare(kind, tuple(marks))
    for mark in marks:
        if isinstance(mark, Expected):
            return mark.text
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(
            filter(None, (describe(member) for member in get_args(kind) if member is not NoneType))
        )
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    if _is_array(kind):
        return _describe_array(kind, marks)
    if (
        (isinstance(kind, type) and issubclass(kind, BaseModel))
        or get_origin(kind) is dict
        or kind is dict
    ):
        return "a non-empty table" if _constraint(marks, "min_length") else "a table"
    words = _BASIC.get(kind, "")
    if kind is float and _constraint(marks, "allow_inf_nan") is False:
        words = "a finite number"
    return f"{words}{_bounds(marks)}" if words else ""


def _describe_array(kind: Any, marks: tuple[Any, ...]) -> str:
    item = describe(next(iter(get_args(kind)), str))
    least = _constraint(marks, "min_length") or 0
    plural = _PLURALS.get(item, f"values, each {item}")
    if least > 1:
        exactly = _constraint(marks, "max_length") == least
        return f"an array of {'' if exactly else 'at least '}{least} {plural}"
    return f"{'a non-empty' if least else 'an'} array of {plural}"


def _bounds(marks: tuple[Any, ...]) -> str:
    """Return the constraints in words, with a leading space: " from 1 to 9", " >= 1", " of at least
    1 character"."""
    low = _constraint(marks, "ge")
    high = _constraint(marks, "le")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    signs = {
        "ge": ">=",
        "gt": ">",
        "le": "<=",
        "lt": "<",
        "multiple_of": "divisible by",
        "pattern": "matching",
    }
    limits = [(sign, _constraint(marks, name)) for name, sign in signs.items()]
    lengths = [
        ("of at least", _constraint(marks, "min_length")),
        ("of at most", _constraint(marks, "max_length")),
    ]
    words = [f"{sign} {limit}" for sign, limit in limits if limit is not None]
    words += [
        (f"{sign} {limit} character{'s'[: limit != 1]}")
        for sign, limit in lengths
        if limit is not None
    ]
    return " " + " and ".join(words) if words else ""


def _constraint(marks: tuple[Any, ...], name: str) -> Any:
    return next((value for mark in marks if (value := getattr(mark, name, None)) is not None), None)


def _translated(place: _Place, details: Any, beside: type[BaseModel] | None) -> tuple[KeyPath, str]:
    """Return path and text of one problem. `details` is one entry of ValidationError.errors()."""
    kind = details["type"]
    value = details["input"]
    context = details.get("ctx", {})
    expected = describe(place.kind, place.marks)
    if kind == "extra_forbidden":
        name = str(place.keys[-1])
        others = getattr(place.owner, "other_names", {})  # of a Section
        if here := others.get(name) or others.get(name.lower()):
            return place.keys, f"unknown key, expected {here}"
        at_top = len(place.keys) == 1
        models = [model for model in (place.owner, beside if at_top else None) if model]
        if at_top and (below := [path for model in models for path in _paths(model, name)]):
            return place.keys, f"unknown key, expected {' or '.join(below)}"
        return place.keys, unknown_key(name, [key for model in models for key in key_names(model)])
    if kind == "missing":
        return place.keys, f"missing, expected {expected or 'a value'}"
    if kind == "string_unicode":
        return place.keys, f"found {found(value)}, which has bytes that are not UTF-8"
    if kind.startswith("union_tag"):
        return _translated_tag(place, value, context)
    spoken = str(context.get("error", "")) if kind in _VALIDATOR_SPOKE else ""
    marked = any(isinstance(mark, Expected) for mark in place.marks)
    if spoken.startswith("expected ") or (spoken and not marked):
        text = show_text(spoken, 400)
        return place.keys, text if isinstance(
            value, dict | BaseModel
        ) else f"found {found(value)}, {text}"
    near = near_hint(value, _choices(place.kind)) if isinstance(value, str) else ""
    return place.keys, f"found {found(value)}, expected {expected or 'another value'}{near}"


def _paths(model: type[BaseModel], name: str, above: str = "") -> Iterator[str]:
    """The keys called `name` in the tables of a model, such as "train.batch" for "batch"."""
    for attribute, field in model.model_fields.items():
        key = _written(attribute, field)
        inner = _bare(field.annotation)[0]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _paths(inner, name, f"{above}{key}.")
        elif above and key == name:
            yield f"{above}{key}"


def _translated_tag(place: _Place, value: Any, context: Mapping[str, Any]) -> tuple[KeyPath, str]:
    """Return path and text for a table whose kind is given by one of its keys, if that key is
    missing or has an unknown value."""
    tag = str(context["discriminator"]).strip("'")
    tags = [
        str(choice) for member in get_args(_bare(place.kind)[0]) for choice in _tags(member, tag)
    ]
    expected = " or ".join(map(repr, tags))
    if tag not in value:
        return (*place.keys, tag), f"missing, expected {expected}"
    given = value[tag]
    near = near_hint(given, tags) if isinstance(given, str) else ""
    return (*place.keys, tag), f"found {found(given)}, expected {expected}{near}"


def _choices(kind: Any) -> list[str]:
    """Return the words that a type allows, alone or in a union."""
    kind = _bare(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return [choice for member in get_args(kind) for choice in _choices(member)]
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


def _place(model: type[BaseModel], loc: Sequence[str | int]) -> _Place:
    """Follow pydantic's `loc` through the model. pydantic adds names of union members to `loc`,
    which are not keys."""
    keys: KeyPath = ()
    kind: Any = model
    marks: tuple[Any, ...] = ()
    owner: type[BaseModel] | None = None
    for position, step in enumerate(loc, start=1):
        kind, marks = _bare(kind, marks)
        if get_origin(kind) in (Union, UnionType):
            member = next((member for member in get_args(kind) if _is_member(member, step)), None)
            if member is None or position == len(loc):
                break  # the error concerns the value of the union itself
            kind = member
            marks = ()
            continue
        if get_origin(kind) is dict and loc[position : position + 1] == ("[key]",):
            # pydantic's name for a mistake in the key of a table
            return _Place((*keys, step), *_bare(get_args(kind)[0]), owner)
        keys = (*keys, step)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            owner = kind
            field = next(
                (f for name, f in kind.model_fields.items() if step in (_written(name, f), name)),
                None,
            )
            kind, marks = (field.annotation, tuple(field.metadata)) if field else (Any, ())
        else:
            kind = (get_args(kind) or (Any,))[-1 if get_origin(kind) is dict else 0]
            marks = ()
    return _Place(keys, kind, marks, owner)


def _bare(kind: Any, marks: tuple[Any, ...] = ()) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without Annotated and without "or None" (TOML has no null), and the marks of
    Annotated."""
    while True:
        if get_origin(kind) is Annotated:
            kind, *inner = get_args(kind)
            for mark in inner:
                marks += tuple(mark.metadata) if isinstance(mark, FieldInfo) else (mark,)
            continue
        members = [member for member in get_args(kind) if member is not NoneType]
        if get_origin(kind) not in (Union, UnionType) or len(members) != 1:
            return kind, marks
        kind = members[0]


def _is_member(member: Any, step: str | int) -> bool:
    """Whether `step` is pydantic's name for this array or table of a union: the kind of array, the
    table's class, or the value of its discriminator."""
    bare = _bare(member)[0]
    if _is_array(bare):
        return str(step).startswith(f"{(get_origin(bare) or bare).__name__}[")
    if not (isinstance(bare, type) and issubclass(bare, BaseModel)):
        return False
    return step == bare.__name__ or any(step in _tags(bare, name) for name in bare.model_fields)


def _tags(member: Any, name: str) -> tuple[Any, ...]:
    field = _bare(member)[0].model_fields.get(name)
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _is_array(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (list, tuple, set, frozenset, Sequence)


def _written(name: str, field: FieldInfo) -> str:
    return (
        field.validation_alias if isinstance(field.validation_alias, str) else field.alias or name
    )
