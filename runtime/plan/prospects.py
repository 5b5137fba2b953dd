"""What a program can say of the time that a plan will take, before anything starts; and how `plan` tells it.

Plain data. A program offers it as `prospects(checked, wanted) -> Prospects`; how it knows is its business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.plan.svg import columns

NEAR = 1.1  # a choice that takes so much longer than the fastest at most is as good: predictions miss by as much
SHOWN = 3  # stations beside the busiest
ALIKE = 0.1  # difference in use of stations that are shown as one


@dataclass(frozen=True)
class Wanted:
    """What `plan` was asked: times from this `profile`, on `machine`s of this kind, which the file `machines` or the
    program's own catalogue has; beside them what these `measured` runs took."""

    profile: Path | None = None
    machine: str = ""
    machines: Path | None = None
    measured: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Prospect:
    """One choice: its name, how many (`number`, the x of a chart), seconds per step; how busy each station is, from 0
    to 1, and which of them bounds it."""

    name: str
    number: int
    seconds: float
    use: Mapping[str, float]
    bottleneck: str


@dataclass(frozen=True)
class Prospects:
    """`basis`: the machines and the network that this is about. `choices` differ in what `varies` names, `chosen` is
    the number of the configured one. A `step` has so many (`per_step`) `items`; `steps` are ahead. `machines` and their
    price per hour, if known, each; `notes`: what is not known. `measured`: (number, seconds) of runs."""

    basis: str = ""
    choices: tuple[Prospect, ...] = ()
    varies: str = ""
    chosen: int = 0
    step: str = "step"
    items: str = "items"
    per_step: int = 0
    steps: int = 0
    prices: tuple[tuple[int, str, float | None], ...] = ()  # how many machines, of which name, price per hour of each
    notes: tuple[str, ...] = ()
    measured: tuple[tuple[int, float], ...] = ()

    @property
    def of_chosen(self) -> Prospect:
        """The configured choice."""
        return next(choice for choice in self.choices if choice.number == self.chosen)

    @property
    def saturated(self) -> Prospect | None:
        """The choice from which on more change next to nothing (Omnivore, section 5.2: where the optimizer starts).
        None if every step up to the last still pays."""
        fastest = min(choice.seconds for choice in self.choices)
        first = next(choice for choice in self.choices if choice.seconds <= NEAR * fastest)
        return None if first is self.choices[-1] else first

    def price_per_hour(self) -> float | None:
        """Of all machines; None if one has no price."""
        known = [count * price for count, _, price in self.prices if price is not None]
        return sum(known) if known and len(known) == len(self.prices) else None


def outline(found: Prospects) -> str:
    """In words: a line for each choice, the whole run, its cost, and what is not in these figures."""
    if not found.choices:
        return "\n".join(found.notes)
    lines = [f"predicted: {found.basis}", "", _table(found), "", *_whole(found), "not in these figures:"]
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])


def _table(found: Prospects) -> str:
    rows = [("", found.varies or "plan", f"seconds per {found.step}", f"{found.items}/s", "busiest station", "others")]
    for choice in found.choices:
        first, *others = busiest(choice)
        rate = found.per_step / choice.seconds if choice.seconds else 0.0
        mark = "*" if choice.number == found.chosen else ""
        rows.append((mark, choice.name, f"{choice.seconds:.4g}", f"{rate:.4g}", first, ", ".join(others[:SHOWN])))
    return columns(rows)


def busiest(choice: Prospect) -> list[str]:
    """The stations of a choice, the one that bounds it first, then busiest first, each as "fc_server 97 %". Stations
    whose names differ in numbers and that are about as busy are one, "conv-*-*"."""
    alike: dict[str, list[str]] = {}
    for station in choice.use:
        alike.setdefault(re.sub(r"\d+", "*", station), []).append(station)
    shown: dict[str, tuple[bool, float]] = {}
    for pattern, stations in alike.items():
        use = [choice.use[station] for station in stations]
        if len(use) > 1 and max(use) - min(use) <= ALIKE:
            shown[pattern] = choice.bottleneck in stations, max(use)
        else:
            shown |= {station: (station == choice.bottleneck, choice.use[station]) for station in stations}
    order = sorted((name for name in shown if round(shown[name][1], 2)), key=lambda name: shown[name], reverse=True)
    return [f"{name} {100 * shown[name][1]:.0f} %" for name in order] or ["none"]


def _whole(found: Prospects) -> list[str]:
    chosen, lines, several = found.of_chosen, [], len(found.choices) > 1
    if several and (best := found.saturated):
        bound = busiest(found.choices[-1])[0]
        lines.append(f"from {best.name} on, more {found.varies} gain {100 * NEAR - 100:.0f} % at most: {bound}")
    elif several:
        lines.append(f"every doubling of the {found.varies} still pays")
    whole = chosen.seconds * found.steps
    marked = " (*)" if several else ""
    lines.append(f"{found.steps} {found.step}s as configured{marked} take {duration(whole)}{_cost(found, whole)}")
    return lines


def _cost(found: Prospects, seconds: float) -> str:
    """The price of so many seconds, and of what."""
    hourly = found.price_per_hour()
    if hourly is None:
        return ""
    machines = ", ".join(f"{count} x {name} at {price:g}" for count, name, price in found.prices)
    return f" and cost {hourly * seconds / 3600:.2f} ({machines} an hour)"


def duration(seconds: float) -> str:
    """For people: "42.1 s", "12 min 3 s", "3 h 20 min", "4 days 2 h"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    for small, name, large, above in ((1, "s", 60, "min"), (60, "min", 3600, "h"), (3600, "h", 86400, "days")):
        if seconds < 100 * large or large == 86400:
            first, rest = divmod(round(seconds / small), large // small)
            return f"{first} {above} {rest} {name}"
    raise AssertionError
