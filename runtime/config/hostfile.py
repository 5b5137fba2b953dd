"""Short notations for many hosts: Slurm's lists and MPI's files. The functions take plain text and
return names. Every mistake is a ValueError."""

# python-hostlist is not used: its licence is the GPL, and it accepts 'node 1' and 'a,,b'. For
# 'node[a]' it reports "bad range" without the place.

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST = 100_000  # hosts of one list: "node[1-999999999]" is a typing mistake
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_WHOLE = re.compile(r"[A-Za-z0-9._@%*?+-]*")
_SLOTS = re.compile(r"slots=([1-9]\d{0,5})")


@dataclass(frozen=True)
class Host:
    """The name of a host to connect to, and the number of processes that it has room for (`slots`),
    if that is given."""

    name: str
    slots: int | None = None


def expanded(text: str) -> list[str]:
    """Return the hosts of a text such as "node[01-03,7],gpu": node01, node02, node03, node7, gpu,
    in this order. Numbers keep the leading zeros of their range. Raises ValueError."""
    found: list[str] = []
    for item in _items(text):
        choices = [_choices(part, item) for part in re.split(r"(\[[^\]]*\])", item)]
        count = 1
        for choice in choices:
            count *= len(choice)
        if count > MOST - len(found):
            raise ValueError(f"'{item}' stands for more than {MOST} hosts")
        found += ["".join(parts) for parts in itertools.product(*choices)]
    return found


def matching(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a text selects, in the order of `names`.

    The text is one of the names, a list as for `expanded`, or such a list with patterns ("node*",
    "gpu?"). Raises ValueError with the first item that selects no name.
    """
    known = dict.fromkeys(names)
    if text in known:
        return (text,)
    chosen: set[str] = set()
    for item in expanded(text):
        fitting = (
            fnmatch.filter(known, item)
            if set(item) & set("*?")
            else [item]
            if item in known
            else []
        )
        if not fitting:
            raise ValueError(item)
        chosen.update(fitting)
    return tuple(name for name in known if name in chosen)


def of_file(text: str) -> list[Host]:
    """Return the hosts of a file with one host on each line: "node1", "node1 slots=4" (Open MPI),
    "node1:4" (MPICH), "# a comment".

    A host with several lines gets the sum of their slots; a line without a number counts as one
    slot. Raises ValueError with the number of the line.
    """
    found: dict[str, int | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            name, slots = _of_line(words)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        found[name] = (found[name] or 1) + (slots or 1) if name in found else slots
    return [Host(name, slots) for name, slots in found.items()]


def _of_line(words: list[str]) -> tuple[str, int | None]:
    name, colon, count = words[0].partition(":")
    said = [
        word
        for word in words[1:]
        if not word.startswith("max_slots=") and not word.startswith("max-slots=")
    ]
    if colon:
        said.append(f"slots={count}")
    slots = [match for word in said if (match := _SLOTS.fullmatch(word))]
    if len(slots) != len(said) or len(said) > 1 or not name or not _WHOLE.fullmatch(name):
        raise ValueError(
            f"found '{' '.join(words)}', expected a host, such as 'node1' or 'node1 slots=4'"
        )
    return name, int(slots[0][1]) if slots else None


def _items(text: str) -> Iterator[str]:
    """Split a list at the commas outside brackets."""
    for item in re.split(r",(?![^\[]*\])", text):
        if not item.strip():
            raise ValueError("found nothing between two commas, expected a host")
        yield item.strip()


def _choices(part: str, item: str) -> list[str]:
    """Return all values of one part of an item: the numbers in brackets, or plain text."""
    if not part.startswith("["):
        if not _WHOLE.fullmatch(part):
            raise ValueError(
                f"found '{item}', expected hosts such as 'node[1-8]' or 'node[01-16],gpu[1,3-5]'"
            )
        return [part]
    found: list[str] = []
    for piece in part[1:-1].split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            raise ValueError(
                f"found '{piece.strip()}' in '{item}', expected a number or a range such as 1-8"
            )
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            raise ValueError(f"the range '{piece.strip()}' in '{item}' ends before it begins")
        if last - first >= MOST:
            raise ValueError(f"'{item}' stands for more than {MOST} hosts")
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
