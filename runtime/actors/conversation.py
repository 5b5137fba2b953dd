"""Which message may come when: a conversation's table, and where each of its subjects stands. Plain
decisions.

    Conversation("a layer", "iteration name", "unread",
                 {("unread", Pull): ("read",), ("read", Gradient): ("updated",)})

A conversation is about many subjects of one sort, such as the layers of an iteration. Each is in
one state of the table; a message that has no row there is illegal: it raises, and changes nothing.
What the actor does itself stands in the table too, as a verb ("publish"). An actor brings its
tables as `conversations`; docs/conversations.md is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from runtime.errors import MessageError
from runtime.messages.message import Message

Said = type[Message] | str  # a message, or in a word what the actor does
Table = Mapping[tuple[str, Said], tuple[str, ...]]  # the states that it may lead to
Subject = TypeVar("Subject", bound=tuple[object, ...])


class Conversation:
    """`about` what it is; `by` names the elements of a subject, separated by blanks; `start` is a
    subject's state before anything was said, unless a `Standing` knows better: `closed` are states
    of its own in which nothing may be said. `never`: messages that no state takes, though peers
    have a word for them."""

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
        """The states in which it may come."""
        return [state for state, other in self.table if other is said or other == said]


class Standing(Generic[Subject]):
    """Where the subjects of a conversation are, for one actor.

    `unheard` gives the state of a subject that nothing is kept of: the start, or why nothing may be
    said of it, such as a number that is over or a sender who has no part in it. What is in that
    state anyway is not kept, so memory is as large as what is under way.
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
        """Where it is."""
        return self._kept.get(subject) or self._unheard(subject)

    def check(self, message: Message, sender: str, subject: Subject) -> str:
        """The subject's state. MessageError if the message may not come there."""
        state = self.state(subject)
        if (state, type(message)) not in self.talk.table:
            raise MessageError("illegal", self._why(message, sender, subject, state))
        return state

    def hear(self, message: Message, sender: str, subject: Subject, to: str = "") -> None:
        """A message comes and leads to a state: `to`, or the only one there is. MessageError if it
        may not come."""
        self._lead(type(message), subject, self.check(message, sender, subject), to)

    def move(self, said: Said, subject: Subject, to: str = "") -> None:
        """What was checked, or what the actor does itself, leads to a state. ValueError if the
        table knows no such step."""
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
        return f"{message!r} of {sender}: {about} is '{state}', it may come in {places}"
