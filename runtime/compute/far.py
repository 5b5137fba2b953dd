"""How far a long piece of array work is, in words for people: told by whoever does it, in whatever thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_told: dict[int, str] = {}  # thread -> what it is at


def is_at(text: str) -> None:
    """The work of this thread is here now."""
    _told[threading.get_ident()] = text


def told() -> str:
    """Where such a piece is now, the one of several that began first; "" if there is none."""
    return next(iter(list(_told.values())), "")


@contextmanager
def telling() -> Iterator[None]:
    """Afterwards the work of this thread is nowhere."""
    try:
        yield
    finally:
        _told.pop(threading.get_ident(), None)
