"""The handlers of an actor class: its methods `on_<message>`, each found by its message class."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from runtime.messages.message import (
    Message,
    is_declared,
    message_annotation,
    snake_case,
    undeclared,
)

PARAMETERS = "(self, message, envelope)"
LIFE = ("on_start", "on_stop", "run")  # called without arguments; not handlers of messages


def handlers_of(kind: type) -> dict[type[Message], str]:
    """Return the method name for each message class, including inherited handlers.

    Raises TypeError if a method's first parameter is not the message that the method is named
    after, or if the runtime cannot call and await the method. The same holds for the methods of
    LIFE.
    """
    found: dict[type[Message], str] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base).get("handlers", {})
    for name, function in vars(kind).items():
        if name in LIFE and not inspect.iscoroutinefunction(inspect.unwrap(function)):
            raise TypeError(f"{kind.__name__}.{name}: {_coroutine(function, name, '(self)')}")
        if not name.startswith("on_") or name in LIFE:
            continue
        # a decorator may be a plain function that returns the coroutine of the handler
        if not inspect.iscoroutinefunction(inspect.unwrap(function)):
            raise TypeError(f"{kind.__name__}.{name}: {_coroutine(function, name, PARAMETERS)}")
        message = message_annotation(function)
        if message is None or name != f"on_{snake_case(message.__name__)}":
            other = "" if message is None else f", found {message.__name__}"
            raise TypeError(
                f"{kind.__name__}.{name}: annotate its first parameter with "
                f"the message of that name{other}"
            )
        if not is_declared(message):
            raise TypeError(f"{kind.__name__}.{name}: {undeclared(message)}")
        try:
            inspect.signature(function).bind("self", "message", "envelope")
        except TypeError as error:
            text = f"the runtime calls it as {name}(message, envelope): {error}"
            wanted = f"write `async def {name}{PARAMETERS}`"
            raise TypeError(f"{kind.__name__}.{name}: {text}; {wanted}") from None
        found[message] = name
    return found


def _coroutine(function: Callable[..., object], name: str, parameters: str) -> str:
    """Describe how to write a function that is not a coroutine as one."""
    wanted = f"write `async def {name}{parameters}`"
    if inspect.isasyncgenfunction(inspect.unwrap(function)):
        return f"{wanted} without `yield`; a handler returns its answer"
    return wanted
