"""An ask at its receiver: its envelope notices if it is dropped without an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from runtime.messages.message import Envelope


class Owed:
    """The answer to an ask. All copies of the ask's envelope share it. If the last one is freed
    before the answer is given, `dropped` gets the envelope as it came, in the thread that freed
    it."""

    __slots__ = ("_asked", "_dropped", "given")

    def __init__(self, asked: Envelope, dropped: Callable[[Envelope], None]) -> None:
        self.given = False
        self._asked = asked
        self._dropped = dropped

    def __repr__(self) -> str:
        return f"<answer {'given' if self.given else 'owed'} to {self._asked.reply_to}>"

    def __del__(self) -> None:
        if not self.given:
            self._dropped(self._asked)


class Asked(Envelope):
    """The envelope of an ask, as its handler gets it."""

    owed: Owed

    def _replace(self, **changes: Any) -> Self:
        made = super()._replace(**changes)
        made.owed = self.owed
        return made


def asked(envelope: Envelope, dropped: Callable[[Envelope], None]) -> Asked:
    """Return the envelope of an ask for its handler."""
    made = tuple.__new__(Asked, envelope)
    made.owed = Owed(envelope, dropped)
    return made


def is_open(envelope: Envelope) -> bool:
    """Whether an asker waits for the answer to this message."""
    return isinstance(envelope, Asked) and not envelope.owed.given
