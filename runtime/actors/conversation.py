"""Conversations: the table of which message may come when, and the state of each subject of it.
Pure logic, without I/O.

    Conversation("a layer", "iteration name", "unread",
                 {("unread", Pull): ("read",), ("read", Gradient): ("updated",)})

A conversation is about many subjects of one sort, such as the layers of an iteration. Each subject
is in one state of the table. A message without a row for that state is illegal: it raises
MessageError and changes nothing. The table also holds what the actor does itself, as a verb
("publish"). An actor class declares its tables as `conversations`; docs/conversations.md is made
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from runtime.errors import MessageError
from runtime.messages.message import Message

Said = type[Message] | str  # a message class, or a verb for something that the actor does
# (state, message or verb) -> the states that it may lead to
Table = Mapping[tuple[str, Said], tuple[str, ...]]
Subject = TypeVar("Subject", bound=tuple[object, ...])


class Conversation:
    """A conversation and its table.

    - `about`: its subjects, in words.
    - `by`: the names of the elements of a subject, separated by blanks.
    - `start`: the state of a subject before any message, unless a `Standing` decides otherwise.
    - `closed`: states outside the table, in which no message is legal.
    - `never`: messages that are legal in no state, though peers can send them.
    """

    def __init__(
        self,
        about: str,
        by: str,
        start: str,
        table: Table,
        *,
        closed: tuple[str, ...] = (),
        never: tuple[type[Message], ...] = (),
    ) -> None:
        self.about = about
        self.by = by.split()
        self.start = start
        self.table = table
        self.never = never
        states = [
            start,
            *(state for (before, _), after in table.items() for state in (before, *after)),
            *closed,
        ]
        self.states = tuple(dict.fromkeys(states))
        self.said: tuple[Said, ...] = tuple(dict.fromkeys([*(said for _, said in table), *never]))
        self.messages = tuple(said for said in self.said if not isinstance(said, str))

    def __repr__(self) -> str:
        return (
            f"<conversation about {self.about}: {len(self.states)} states, {len(self.table)} rows>"
        )

    def takes(self, said: Said) -> list[str]:
        """Return the states in which a message or verb is legal."""
        return [state for state, other in self.table if other is said or other == said]


class Standing(Generic[Subject]):
    """The states of a conversation's subjects, for one actor.

    `unheard` gives the state of a subject that is not kept: the start state, or the reason why no
    message about it is legal, such as an iteration that is over or a sender without a part in it. A
    subject that returns to its `unheard` state is no longer kept, so memory is bounded by the
    subjects under way.
    """

    def __init__(self, talk: Conversation, unheard: Callable[[Subject], str] | None = None) -> None:
        self.talk = talk
        self._unheard = unheard or (lambda subject: talk.start)
        self._kept: dict[Subject, str] = {}

    def __repr__(self) -> str:
        return f"<{len(self._kept)} under way of {self.talk!r}>"

    def __len__(self) -> int:
        return len(self._kept)

    def state(self, subject: Subject) -> str:
        """Return the state of a subject."""
        return self._kept.get(subject) or self._unheard(subject)

    def check(self, message: Message, sender: str, subject: Subject) -> str:
        """Return the subject's state. Raises MessageError if the message is not legal there."""
        state = self.state(subject)
        if (state, type(message)) not in self.talk.table:
            raise MessageError("illegal", self._why(message, sender, subject, state))
        return state

    def hear(self, message: Message, sender: str, subject: Subject, to: str = "") -> None:
        """Take a message and move its subject to state `to`, or to the only state that the row
        allows. Raises MessageError if the message is not legal."""
        self._lead(type(message), subject, self.check(message, sender, subject), to)

    def move(self, said: Said, subject: Subject, to: str = "") -> None:
        """Move a subject after a checked message, or after something that the actor did itself.
        Raises ValueError if the table has no such step."""
        self._lead(said, subject, self.state(subject), to)

    def _lead(self, said: Said, subject: Subject, state: str, to: str) -> None:
        after = self.talk.table.get((state, said), ())
        found = to or (after[0] if len(after) == 1 else "")
        if found not in after:
            raise ValueError(
                f"{self.talk.about} {self._named(subject)}: {said!r} does not "
                f"lead from {state} to '{to}'"
            )
        if found == (self._unheard(subject) if subject in self._kept else state):
            self._kept.pop(subject, None)
        else:
            self._kept[subject] = found

    def _named(self, subject: Subject) -> str:
        return ", ".join(
            f"{name} {value}" for name, value in zip(self.talk.by, subject, strict=True)
        )

    def _why(self, message: Message, sender: str, subject: Subject, state: str) -> str:
        places = (
            " or ".join(f"'{place}'" for place in self.talk.takes(type(message)))
            or "no state at all"
        )
        about = f"{self.talk.about} ({self._named(subject)})"
        return f"{message!r} of {sender}: {about} is '{state}', this message is legal in {places}"
