"""Descriptors that belong to this process only: a forked child closes them at once.

Otherwise a child that a script forks, for example with `multiprocessing`, would keep the lifelines
and locks of its parent open. Role processes would then outlive their run.
"""

from __future__ import annotations

import os
from contextlib import suppress

_mine: set[int] = set()


def keep_from_children(descriptor: int) -> None:
    """Close this descriptor in each child that is forked from now on."""
    _mine.add(descriptor)


def close(descriptor: int) -> None:
    """Close such a descriptor. In a forked child, where it is closed already, this does nothing."""
    if descriptor in _mine:
        _mine.discard(descriptor)
        os.close(descriptor)


def _close_all() -> None:
    for descriptor in _mine:
        with suppress(OSError):
            os.close(descriptor)
    _mine.clear()


os.register_at_fork(after_in_child=_close_all)
