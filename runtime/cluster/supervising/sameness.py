"""Whether all machines run the same software on the same data. They are compared before any process
begins. The input is plain data, and the result is text.

A process describes itself by a table of names and values, such as "numpy" and "2.1.3", or the name
of a data set and a checksum. Machines that have the same name must have the same value. Of two
values, the one that more machines have is reported as the expected one. `up` counts as a machine,
and its value decides a tie.

    program, convoy-runtime      any difference ends the run
    other packages and Python    a difference in the first two numbers, or a missing package, ends
                                 it; a smaller difference is a warning, since a patch release
                                 changes no interface
    SPARED                       a warning only: a run works without these packages, or decodes
                                 images with slightly different bits
    platform, loop, host         for people only
    the data of actors           any difference ends the run
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

UP = "up"  # the process that starts the run
PROGRAM = "program"
EXACT = {PROGRAM, "convoy-runtime"}
SPARED = {"uvloop", "simplejpeg", "pillow"}
FOR_PEOPLE = {"platform", "loop", "host"}
MOST_MACHINES = 3  # in a report, one line each
NAMES = {PROGRAM: "a program whose sources have the checksum"}


@dataclass(frozen=True)
class Difference:
    """A machine whose value of a name differs from the value of most machines. `other` is one of
    those."""

    name: str
    machine: str
    found: str
    other: str
    expected: str
    others: int  # the number of machines with the expected value


@dataclass
class Sameness:
    """The software and data of all machines. `hosts`: machine -> its host's name, for people."""

    hosts: dict[str, str] = field(default_factory=dict)
    said: dict[str, dict[str, str]] = field(default_factory=dict)  # machine -> name -> value
    read: dict[str, dict[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<sameness of {len(self.said)} machines>"

    def runs(self, machine: str, host: str, versions: Mapping[str, str]) -> None:
        """Note the versions that a process of this machine runs. All processes of one machine run
        the same versions."""
        self.hosts[machine] = host
        self.said.setdefault(machine, dict(versions))

    def reads(self, machine: str, data: Mapping[str, str]) -> None:
        """Note the data that an actor on this machine reads."""
        self.read.setdefault(machine, {}).update(data)

    def wrong_program(self) -> str:
        """Return the differences of software that end the run, a line for each machine; "" if there
        are none."""
        found = [one for one in _differences(self.said) if _weight(one) == "error"]
        return self._told(found, "install the same versions and sources there")

    def wrong_data(self) -> str:
        """Return the differences of data that end the run, in the same form."""
        return self._told(
            list(_differences(self.read)), ("give every machine the same data and files")
        )

    def warnings(self) -> list[str]:
        """Return the differences of software that do not end the run."""
        found = [one for one in _differences(self.said) if _weight(one) == "warning"]
        return [line for one in found for line in self._told([one], "").splitlines()]

    def _told(self, found: list[Difference], advice: str) -> str:
        machines = list(dict.fromkeys(one.machine for one in found))
        lines = [
            self._line([one for one in found if one.machine == machine]) for machine in machines
        ]
        more = len(lines) - MOST_MACHINES
        lines = [
            *lines[:MOST_MACHINES],
            *([f"and {more} more machines differ"] if more > 0 else []),
        ]
        return "\n".join(
            f"{line}: {advice}" if advice and number == 0 else line
            for number, line in enumerate(lines)
        )

    def _line(self, found: list[Difference]) -> str:
        """Describe the differences of one machine."""
        has = "; ".join(
            f"{_shown(one.name, one.found)}, expected {one.expected} as on {self._who(one.other)}"
            f"{f' and {one.others - 1} more' if one.others > 1 else ''}"
            for one in found
        )
        return f"{self._who(found[0].machine)} has {has}"

    def _who(self, machine: str) -> str:
        host = self.hosts.get(machine, "")
        name = "`up`" if machine == UP else f"machine '{machine}'"
        return f"{name} (host {host})" if host else name


def _differences(said: Mapping[str, Mapping[str, str]]) -> Iterator[Difference]:
    """Yield each machine's values that differ from the value of most machines."""
    for name in dict.fromkeys(name for values in said.values() for name in values):
        values = {machine: values[name] for machine, values in said.items() if name in values}
        counts = Counter(values.values())
        if len(counts) < 2 or name in FOR_PEOPLE:
            continue
        expected = max(counts, key=lambda value: (counts[value], values.get(UP) == value))
        other = next(machine for machine, value in values.items() if value == expected)
        for machine, value in values.items():
            if value != expected:
                yield Difference(name, machine, value, other, expected, counts[expected])


def _weight(one: Difference) -> str:
    """Return "error" if the difference ends the run, or else "warning"."""
    if one.name in EXACT:
        return "error"
    near = _release(one.found) == _release(one.expected) is not None
    return "warning" if near or one.name in SPARED else "error"


def _release(version: str) -> tuple[str, ...] | None:
    """Return the first two numbers of a version, or None if the text is not a version."""
    parts = version.split(".")[:2]
    return tuple(parts) if len(parts) == 2 and all(part.isdecimal() for part in parts) else None


def _shown(name: str, value: str) -> str:
    return f"{NAMES.get(name, name)} {value}"
