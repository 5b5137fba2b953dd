"""Errors for wrong sends, wrong asks and wrong answers of actors, in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from sys import getrefcount

from runtime.actors.actor_state import ActorState
from runtime.errors import Unsendable
from runtime.messages.message import Envelope, Message
from runtime.user_code import start_of


def check_message(call: str, found: object) -> None:
    """Raise Unsendable for an object that is sent in place of a message."""
    if isinstance(found, Message):
        return
    if isinstance(found, type) and issubclass(found, Message):
        said = f"the class {found.__name__}, expected an object of it: {found.__name__}(...)"
    elif inspect.isawaitable(found):
        said = f"a {type(found).__name__}: write `await` before the call"
    else:
        said = f"{found!r:.60}, expected a message"
    raise Unsendable("bad_type", f"{call}: found {said}")


def check_unanswered(state: ActorState, envelope: Envelope) -> None:
    """Raise Unsendable for a second answer to an ask."""
    if id(envelope) in state.unanswered:
        return
    raise Unsendable(
        "answered",
        f"{state.name} has already answered {envelope.message!r} of {envelope.sender}: an ask gets "
        "one answer, by `reply` or as the value that the handler returns",
    )


def unanswered_by(handler: Callable[..., object]) -> str:
    """Describe a handler that ended without the answer to an ask, and has not kept the envelope."""
    return (
        f"{start_of(handler)}: the handler ended without an answer: return one, or keep the "
        "envelope for a later `reply`"
    )


def _alone() -> int:
    envelope = object()
    return getrefcount(envelope)


# the references to an object that only one local variable of a function holds
ALONE = _alone()
