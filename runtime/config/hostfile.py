"""Many hosts in a few words: Slurm's lists, MPI's files. Plain text in, names out; every mistake is
a ValueError."""

# Not python-hostlist: its licence is the GPL, and it accepts 'node 1' and 'a,,b'; for 'node[a]' it
# says "bad range", and nothing of where.

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST = 100_000  # hosts of one list: "node[1-999999999]" is a slip of the hand
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_WHOLE = re.compile(r"[A-Za-z0-9._@%*?+-]*")
_SLOTS = re.compile(r"slots=([1-9]\d{0,5})")


@dataclass(frozen=True)
class Host:
    """Where to connect to, and for how many processes it has room, if that is said (`slots`)."""

    name: str
    slots: int | None = None


def expanded(text: str) -> list[str]:
    """The hosts of a text such as "node[01-03,7],gpu": node01, node02, node03, node7, gpu, in this
    order; numbers keep the zeros that a range begins with. ValueError."""
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
    """Which of these names a text means: one of them, a list as `expanded`, or patterns ("node*",
    "gpu?") in such a list; in the order of `names`. ValueError names what fits none."""
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
    """The hosts of a file with one a line: "node1", "node1 slots=4" (Open MPI), "node1:4" (MPICH),
    "# a comment". A host that comes again has the slots of both lines, one where a line says none.
    ValueError names the line."""
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
    """What stands between commas that are in no brackets."""
    for item in re.split(r",(?![^\[]*\])", text):
        if not item.strip():
            raise ValueError("found nothing between two commas, expected a host")
        yield item.strip()


def _choices(part: str, item: str) -> list[str]:
    """What one part of an item, in brackets or not, can be."""
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
