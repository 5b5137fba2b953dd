"""Counts of the parts of wholes: which parts have arrived, and when all have. Plain decisions,
without arrays."""

from __future__ import annotations

from runtime import Conversation, Message, Standing

MISSING = "missing"
HERE = "here"
OVER = "complete before"
NONE = "none of its parts"
COMPLETE = "complete"
# starts with a number: among wholes that are equal in all other items, numbers only grow
Whole = tuple[object, ...]


def in_parts(about: str, by: str, message: type[Message]) -> Conversation:
    """The conversation in which each part of a whole arrives once. `by` names the fields that
    identify a whole."""
    return Conversation(
        about,
        f"{by} part",
        MISSING,
        {
            (MISSING, message): (HERE,),
            (HERE, COMPLETE): (OVER, MISSING),  # missing again: in tests, whose numbers restart
        },
        closed=(NONE,),
    )


class Parts:
    """The parts that one actor receives. For complete wholes, only the last number of each sort is
    remembered."""

    def __init__(self, talk: Conversation) -> None:
        self._standing: Standing[tuple[object, ...]] = Standing(talk, self._unheard)
        # whole -> the number of its parts, and the parts that have arrived
        self._open: dict[Whole, tuple[int, set[int]]] = {}
        # all items of wholes but their number -> the number of the last complete one
        self._last: dict[Whole, int] = {}

    def __repr__(self) -> str:
        return f"<{len(self._standing)} parts of {len(self._open)} wholes>"

    def check(self, message: Message, sender: str, whole: Whole, part: int, parts: int) -> None:
        """Raise MessageError if there is no such part, it has arrived already, or the whole was
        complete before."""
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
        """Note a part. Return True if the whole is complete with it. Raises MessageError as `check`
        does.

        `again`: numbers of this sort restart, as those of tests do, so the whole is not remembered.
        """
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
