"""A reader of text-format messages that remembers the line of each field.

One walk over the text finds every misspelt field, wrong value and wrong name. Later checks find the
line of a mistake in the tree of lines (`Node`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from nets.errors import PrototxtError, did_you_mean

M = TypeVar("M", bound=Message)
MAX_DEPTH = 32  # nested blocks; Caffe's schema needs 7
KINDS = {  # the files that a user may confuse: message -> its name for people
    "NetParameter": "the layers of a net",
    "SolverParameter": "a solver, which names its net by the key 'net'",
}
_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|[0-9]+)")


@dataclass
class Node:
    """One message in the text: the line it starts on (1-based) and the nodes of its fields, in
    order."""

    line: int
    fields: dict[str, list[Node]] = field(default_factory=dict)

    def find(self, *path: str | int) -> Node:
        """Return the node at `path`, or its nearest ancestor. `path` has names; an index may follow
        each name."""
        node = self
        steps = list(path)
        while steps:
            name = steps.pop(0)
            index = steps.pop(0) if steps and isinstance(steps[0], int) else 0
            found = node.fields.get(str(name), [])
            if not isinstance(index, int) or index >= len(found):
                return node
            node = found[index]
        return node


@dataclass(frozen=True)
class Where:
    """A place in a prototxt: the file, the tree of lines below it, and a label such as "layer
    'conv1'". A net from another file has no lines: they are 0."""

    file: str
    node: Node
    label: str = ""

    def problem(self, key: str, text: str) -> str:
        """Return "file:line: label: key 'x': text". `key` may be dotted ("pooling_param.stride") or
        empty."""
        line = (self.node.find(*key.split(".")) if key else self.node).line
        at = f"{self.file}:{line}" if line else self.file
        parts = [at, self.label, f"key '{key}'" if key else "", text]
        return ": ".join(part for part in parts if part)

    def error(self, key: str, text: str) -> PrototxtError:
        """Return the error whose only problem is `problem(key, text)`."""
        return PrototxtError(self.problem(key, text))


def parse(text: str, message: M, file: str) -> tuple[M, Node]:
    """Fill `message` from `text`. Raises PrototxtError with one line per mistake, each beginning
    with file:line."""
    walker = _Walker(text, file)
    descriptor = cast(Descriptor, message.DESCRIPTOR)
    root = walker.walk(descriptor)
    if walker.problems:
        raise PrototxtError(_of_another_kind(root, descriptor, file) or walker.problems)
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        line = error.GetLine() or 1
        raise PrototxtError(f"{file}:{line}: {_reason(error)}") from None
    missing = cast(Any, message).FindInitializationErrors()
    if missing:
        raise PrototxtError(
            [(f"{file}:1: key '{key}': missing, expected a value") for key in missing]
        )
    return message, root


def _of_another_kind(root: Node, wanted: Descriptor, file: str) -> str:
    """The one mistake of a net that is named as a solver, or of a solver that is named as a net;
    otherwise ""."""
    for name in KINDS.keys() - {wanted.name} if wanted.name in KINDS and root.fields else ():
        known = wanted.file.message_types_by_name[name].fields_by_name
        if all(key in known for key in root.fields):
            return f"{file}: found {KINDS[name]}, expected {KINDS[wanted.name]}"
    return ""


def _reason(error: text_format.ParseError) -> str:
    """Return the parser's sentence on one line, without its prefix "line:column : 'text of the
    line': "."""
    return " ".join(str(error).split(" : ", 1)[-1].rsplit("': ", 1)[-1].split())


class _Lost(Exception):
    """Raised when the syntax is broken, so that the rest cannot be read. The problem is already
    noted."""


class _Walker:
    """Reads text by its descriptor. It notes and skips a bad field, and stops at bad syntax."""

    def __init__(self, text: str, file: str) -> None:
        self.line = 1  # the line of the present token
        self.tokens = text_format.Tokenizer(self._lines(text))
        self.file = file
        self.problems: list[str] = []
        self.depth = 0

    def walk(self, descriptor: Descriptor) -> Node:
        root = Node(1)
        with contextlib.suppress(_Lost):
            self._message(root, descriptor, end="")
        return root

    def _lines(self, text: str) -> Iterator[str]:
        """Yield the tokenizer's lines and count them: asking the tokenizer costs time in proportion
        to the length of the line."""
        for self.line, line in enumerate(text.split("\n"), 1):
            yield line

    def _note(self, line: int, text: str) -> None:
        self.problems.append(f"{self.file}:{line}: {text}")

    def _message(self, node: Node, descriptor: Descriptor | None, end: str) -> None:
        """Read fields up to `end` ("" for the end of the file). Without `descriptor`, the block
        belongs to an unknown key."""
        opened = node.line
        while not (end and self.tokens.TryConsume(end)):
            if self.tokens.AtEnd():
                if end:
                    self._note(
                        opened,
                        (f"found the end of the file, expected '{end}' for the block opened here"),
                    )
                return
            self._field(node, descriptor)

    def _field(self, node: Node, descriptor: Descriptor | None) -> None:
        line = self.line
        try:
            name = self.tokens.ConsumeIdentifier()
        except text_format.ParseError:
            self._note(line, f"found '{self.tokens.token}', expected a key")
            raise _Lost from None
        known = descriptor.fields_by_name.get(name) if descriptor else None
        if descriptor and known is None:
            names = descriptor.fields_by_name.keys()
            self._note(
                line, (f"unknown key '{name}' in {descriptor.name}{did_you_mean(name, names)}")
            )
        seen = node.fields.setdefault(name, [])
        if known is not None and seen and not known.is_repeated:
            self._note(line, f"key '{name}': given twice, first on line {seen[0].line}")
        colon = self.tokens.TryConsume(":")
        if colon and self.tokens.TryConsume("["):
            while not self.tokens.TryConsume("]"):
                seen.append(self._value(known, colon))
                self.tokens.TryConsume(",")
        else:
            seen.append(self._value(known, colon))
        if not self.tokens.TryConsume(","):
            self.tokens.TryConsume(";")

    def _value(self, known: FieldDescriptor | None, colon: bool) -> Node:
        node = Node(self.line)
        for opening, end in (("{", "}"), ("<", ">")):
            if self.tokens.TryConsume(opening):
                if known is not None and known.message_type is None:
                    self._note(
                        node.line,
                        (f"key '{known.name}': found a block, expected {expected(known)}"),
                    )
                self.depth += 1
                if self.depth > MAX_DEPTH:
                    self._note(node.line, f"found blocks more than {MAX_DEPTH} deep")
                    raise _Lost
                self._message(node, known.message_type if known is not None else None, end)
                self.depth -= 1
                return node
        if not colon:
            self._note(node.line, f"found {self._token()}, expected ':' or '{{'")
            raise _Lost
        self._scalar(known, node.line)
        return node

    def _scalar(self, known: FieldDescriptor | None, line: int) -> None:
        token = str(self.tokens.token)
        if known is None:
            self._skip_scalar()
            return
        try:
            _CONSUME[known.cpp_type](self.tokens, known)
        except (text_format.ParseError, ValueError):
            hint = did_you_mean(token, known.enum_type.values_by_name) if known.enum_type else ""
            self._note(
                line,
                (f"key '{known.name}': found {self._token()}, expected {expected(known)}{hint}"),
            )
            if self.tokens.token == token:
                self._skip_scalar()

    def _token(self) -> str:
        return str(self.tokens.token) or "the end of the file"

    def _skip_scalar(self) -> None:
        """Skip one value whose mistake is already noted."""
        if self.tokens.token in ("", "}", ">", "{"):
            raise _Lost
        self.tokens.NextToken()
        while self.tokens.token.startswith(('"', "'")):
            self.tokens.NextToken()


def _consume_enum(tokens: Any, known: FieldDescriptor) -> None:
    """Consume a value's name or number. Raises ParseError and leaves the token if it is neither."""
    assert known.enum_type is not None
    token = tokens.token
    by_number = {str(number) for number in known.enum_type.values_by_number}
    if token not in known.enum_type.values_by_name and token not in by_number:
        raise text_format.ParseError("")
    tokens.NextToken()


def _consume_integer(tokens: Any, lowest: int, end: int) -> None:
    """Consume an integer in [lowest, end). Raises ParseError and leaves the token if it is not
    one."""
    token = tokens.token
    if (
        not _INTEGER.fullmatch(token)
        or not lowest <= int(token, 0 if "x" in token.lower() else 10) < end
    ):
        raise text_format.ParseError("")
    tokens.NextToken()


def _consume_text(tokens: Any, known: FieldDescriptor) -> None:
    tokens.ConsumeByteString()


def _refuse(tokens: Any, known: FieldDescriptor) -> None:
    raise text_format.ParseError("")


_CONSUME: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_INT32: lambda t, _: _consume_integer(t, -(2**31), 2**31),
    FieldDescriptor.CPPTYPE_INT64: lambda t, _: _consume_integer(t, -(2**63), 2**63),
    FieldDescriptor.CPPTYPE_UINT32: lambda t, _: _consume_integer(t, 0, 2**32),
    FieldDescriptor.CPPTYPE_UINT64: lambda t, _: _consume_integer(t, 0, 2**64),
    FieldDescriptor.CPPTYPE_FLOAT: lambda t, _: t.ConsumeFloat(),
    FieldDescriptor.CPPTYPE_DOUBLE: lambda t, _: t.ConsumeFloat(),
    FieldDescriptor.CPPTYPE_BOOL: lambda t, _: t.ConsumeBool(),
    FieldDescriptor.CPPTYPE_ENUM: _consume_enum,
    FieldDescriptor.CPPTYPE_STRING: _consume_text,
    FieldDescriptor.CPPTYPE_MESSAGE: _refuse,
}

_WORDS: dict[int, str] = {
    FieldDescriptor.CPPTYPE_INT32: "an integer",
    FieldDescriptor.CPPTYPE_INT64: "an integer",
    FieldDescriptor.CPPTYPE_UINT32: "an integer >= 0",
    FieldDescriptor.CPPTYPE_UINT64: "an integer >= 0",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_STRING: "a string in quotes",
}


def expected(known: FieldDescriptor) -> str:
    """Describe in words the values that a field takes; enum values by name."""
    if known.message_type is not None:
        return "a block '{ ... }'"
    if known.enum_type is not None:
        return "one of " + ", ".join(known.enum_type.values_by_name)
    return _WORDS[known.cpp_type]
