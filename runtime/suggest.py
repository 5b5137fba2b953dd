"""Suggestions of the nearest known name, which turn a typing mistake into a hint."""

import difflib
from collections.abc import Iterable


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return the choice that `name` was probably meant to be, or "" if none is similar. Case does
    not count."""
    by_folded = {choice.casefold(): choice for choice in choices}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else ""


def hint(name: str, choices: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest choice, else all choices, or
    "" if there are none."""
    known = sorted(set(choices))
    return near_hint(name, known) or (f" (allowed: {', '.join(known)})" if known else "")


def near_hint(name: str, choices: Iterable[str]) -> str:
    """Return the nearest choice as a hint, or "". For messages that already list the choices."""
    near = nearest(name, choices)
    return f" (did you mean {near!r}?)" if near else ""
