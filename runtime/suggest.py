"""The nearest name: turns a typing mistake into a hint. Knows nothing of what the names mean."""

import difflib
from collections.abc import Iterable


def nearest(name: str, choices: Iterable[str]) -> str:
    """The choice that `name` was probably meant to be, or "" when none is near (case does not
    count)."""
    by_folded = {choice.casefold(): choice for choice in choices}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else ""


def hint(name: str, choices: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest choice, else all of them, else
    nothing."""
    known = sorted(set(choices))
    return near_hint(name, known) or (f" (allowed: {', '.join(known)})" if known else "")


def near_hint(name: str, choices: Iterable[str]) -> str:
    """As `hint`, for a message that already lists the choices: the nearest one or nothing."""
    near = nearest(name, choices)
    return f" (did you mean {near!r}?)" if near else ""
