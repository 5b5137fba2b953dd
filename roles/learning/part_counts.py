"""Wholes that come in parts: which parts are here, and when that is all of them. Plain decisions,
no arrays."""

from __future__ import annotations

from runtime import Conversation, Message, Standing

MISSING = "missing"
HERE = "here"
OVER = "complete before"
NONE = "none of its parts"
COMPLETE = "complete"
# its number first: among wholes that are alike in all else, numbers only grow
Whole = tuple[object, ...]


def in_parts(about: str, by: str, message: type[Message]) -> Conversation:
    """The conversation in which each part of a whole comes once. `by` names what a whole is known
    by."""
    return Conversation(
        about,
        f"{by} part",
        MISSING,
        {
            (MISSING, message): (HERE,),
            (HERE, COMPLETE): (OVER, MISSING),  # missing again: of a test, whose numbers begin anew
        },
        closed=(NONE,),
    )


class Parts:
    """Of one actor. What is complete is remembered by the last number of its sort."""

    def __init__(self, talk: Conversation) -> None:
        self._standing: Standing[tuple[object, ...]] = Standing(talk, self._unheard)
        # how many parts it has, and which are here
        self._open: dict[Whole, tuple[int, set[int]]] = {}
        # what wholes are besides their number -> the last that was complete
        self._last: dict[Whole, int] = {}

    def __repr__(self) -> str:
        return f"<{len(self._standing)} parts of {len(self._open)} wholes>"

    def check(self, message: Message, sender: str, whole: Whole, part: int, parts: int) -> None:
        """MessageError if there is no such part, it is here, or the whole was complete before."""
        self._standing.check(message, sender, self._part(whole, part, parts))

    def came(
        self,
        message: Message,
        sender: str,
        whole: Whole,
        part: int,
        parts: int,
        *,
        again: bool = False,
    ) -> bool:
        """Note a part; whether all are here with it. MessageError as `check`. `again`: numbers of
        this sort begin anew, as those of tests, and nothing is remembered of the whole."""
        self._standing.hear(message, sender, self._part(whole, part, parts))
        _, here = self._open.setdefault(whole, (parts, set()))
        here.add(part)
        if len(here) < parts:
            return False
        del self._open[whole]
        number, *sort = whole
        if not again:
            assert isinstance(number, int)
            self._last[tuple(sort)] = number
        for one in here:
            self._standing.move(COMPLETE, (*whole, one), MISSING if again else OVER)
        return True

    def _part(self, whole: Whole, part: int, parts: int) -> tuple[object, ...]:
        fits = 0 <= part < parts == self._open.get(whole, (parts,))[0]
        return (*whole, part if fits else NONE)

    def _unheard(self, subject: tuple[object, ...]) -> str:
        number, *sort, part = subject
        if part is NONE:
            return NONE
        assert isinstance(number, int)
        return OVER if number <= self._last.get(tuple(sort), -1) else MISSING
