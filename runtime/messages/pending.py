"""The state of a message that was sent ahead of its arrays, which are still being written. Who sends such, and what is
said of them on the way: `transport.ahead`.
"""

from __future__ import annotations

from collections.abc import Callable

Then = Callable[[], None]


class Pending:
    """Of one message: whoever got it says what is to be done when its arrays are complete, or will never be."""

    def __init__(self) -> None:
        self._complete: bool | None = None  # None: not known yet
        self._waiting: list[tuple[Then, Then]] = []

    def __repr__(self) -> str:
        return {None: "<pending>", True: "<complete>", False: "<withdrawn>"}[self._complete]

    def then(self, complete: Then, withdrawn: Then) -> None:
        """Call one of the two: now, if it is known which."""
        if self._complete is None:
            self._waiting.append((complete, withdrawn))
        elif self._complete:
            complete()
        else:
            withdrawn()

    def settle(self, *, complete: bool) -> None:
        """Now it is known. Called once."""
        self._complete = complete
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then[not complete]()
