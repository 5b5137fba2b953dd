"""Errors for wrong sends, wrong asks and wrong answers of actors, in words."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from runtime.actors.asked import Asked, Owed
from runtime.errors import ProgramFailed, Unsendable
from runtime.messages.message import Envelope, Message
from runtime.user_code import start_of, told


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


def check_answer(answer: object) -> None:
    """Raise Unsendable for an object that is given as the class of an answer."""
    if type(answer) is type:
        return
    try:
        isinstance(None, answer)  # type: ignore[arg-type]  # it may be anything
    except TypeError:
        raise Unsendable(
            "bad_type",
            f"ask(to, message, answer): found {answer!r:.60} as the class of the answer, expected "
            "a class of messages, or the type of a plain value, such as int",
        ) from None


def check_envelope(found: object) -> None:
    """Raise Unsendable for a reply to anything else than an envelope."""
    if not isinstance(found, Envelope):
        text = f"reply(envelope, answer): found {found!r:.60}, expected the envelope of the ask"
        raise Unsendable("bad_type", text)


def answering(name: str, envelope: Envelope) -> Owed:
    """Note that the actor `name` answers an ask, before the answer is sent. Raises Unsendable for a
    second answer."""
    if not isinstance(envelope, Asked):  # an envelope that no handler got
        return Owed(envelope, lambda ask: None)
    if envelope.owed.given:
        raise Unsendable(
            "answered",
            f"{name} has already answered {envelope.message!r} of {envelope.sender}: an ask gets "
            "one answer, by `reply` or as the value that the handler returns",
        )
    envelope.owed.given = True
    return envelope.owed


def unanswered_by(handler: Callable[..., object]) -> str:
    """Describe a handler whose ask was dropped: no answer was given, and no envelope is kept."""
    return (
        f"{start_of(handler)}: the handler ended without an answer: return one, or keep the "
        "envelope for a later `reply`"
    )


def was_cancelled(error: asyncio.CancelledError) -> ProgramFailed:
    """Return the error of an actor whose work ended since something that it awaits was
    cancelled."""
    return ProgramFailed(f"{told(error)}: a task or a future that it awaits was cancelled")
