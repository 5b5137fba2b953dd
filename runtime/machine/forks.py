"""Descriptors that end with this process: a forked child closes them at once.

A child that a script forks, such as one of `multiprocessing`, would else keep lifelines and locks
of its parent open, and role processes would outlive the run that they belong to.
"""

from __future__ import annotations

import os
from contextlib import suppress

_mine: set[int] = set()


def keep_from_children(descriptor: int) -> None:
    """Children that are forked from now on do not have this descriptor."""
    _mine.add(descriptor)


def close(descriptor: int) -> None:
    """Close such a descriptor; nothing in a forked child, where it is closed already."""
    if descriptor in _mine:
        _mine.discard(descriptor)
        os.close(descriptor)


def _close_all() -> None:
    for descriptor in _mine:
        with suppress(OSError):
            os.close(descriptor)
    _mine.clear()


os.register_at_fork(after_in_child=_close_all)
