"""Predictions in words: a line for each choice, the best of them, and the effects that are left
out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from runtime.drawing.svg import columns
from runtime.durations import duration
from runtime.plan.forecast import shown
from runtime.plan.prospects import NEAR, Needed, Prospect, Prospects

SHOWN = 3  # stations shown in addition to the busiest one
ALIKE = 0.1  # most difference in use between stations that are shown as one
BETWEEN = "~"  # before a number of steps that was interpolated between two runs

Column = tuple[str, Callable[[Prospect], str]]

LEAST_COST = 0.1  # of a run: less is shown with two digits that are not 0


def outline(*found: Prospects) -> str:
    """The text of one or several predictions: a line for each choice, the whole run, and its cost.
    Then follow the comparison of several predictions, the runs that were learnt from, and the
    effects that the figures leave out."""
    lines = [line for one in found if one.choices for line in (*_of_one(one), "")]
    notes = list(dict.fromkeys(note for one in found for note in one.notes))
    if not lines:
        return "\n".join(notes)
    if len(found) > 1:
        lines += [*_compared(found), ""]
    if found[0].learnt:
        lines += [
            f"learnt of {found[0].target}:",
            *(f"  {row}" for row in columns(found[0].learnt).splitlines()),
            "",
        ]
    more = found[0].target or len(found) > 1 or found[0].refused
    lines = lines if more else lines[:-1]
    return "\n".join([*lines, "not in these figures:", *(f"  {note}" for note in notes)])


def _of_one(found: Prospects) -> Iterator[str]:
    yield from (f"predicted: {found.basis}", "", _table(found), "", *_whole(found))
    yield from found.remarks
    if found.refused:
        yield from ("", "not predicted:", *(f"  {why}" for why in found.refused))


def _table(found: Prospects) -> str:
    told = list(_columns(found))
    rows = [[heading for heading, _ in told]]
    rows += [[cell(choice) for _, cell in told] for choice in found.choices]
    return columns(rows)


def _columns(found: Prospects) -> Iterator[Column]:
    yield "", lambda choice: "*" if choice.number == found.chosen else ""
    yield found.varies or "plan", lambda choice: choice.name
    yield f"seconds per {found.step}", lambda choice: f"{choice.seconds:.4g}"
    if found.target:
        yield f"{found.step}s", lambda choice: steps(choice.needed)
        yield (
            f"time to {found.target}",
            lambda choice: _time(choice.to_target, choice is found.fastest),
        )
    if found.target and found.cheapest:
        yield "cost", lambda choice: _price(choice.cost, choice is found.cheapest)
    yield (
        f"{found.items}/s",
        lambda choice: f"{found.per_step / choice.seconds if choice.seconds else 0.0:.4g}",
    )
    if any(choice.memory is not None for choice in found.choices):
        yield "memory of a machine", lambda choice: shown(choice.memory)
    yield "busiest station", lambda choice: busiest(choice)[0]
    yield "others", lambda choice: ", ".join(busiest(choice)[1 : 1 + SHOWN])


def steps(needed: Needed) -> str:
    """The steps to a target, as "340" or "~420", or the reason why they are not known."""
    if needed.steps is None:
        return needed.why
    return f"{'' if needed.seen else BETWEEN}{needed.steps:.0f}"


def _time(seconds: float | None, is_best: bool) -> str:
    return "" if seconds is None else f"{duration(seconds)}{', fastest' if is_best else ''}"


def _price(cost: float | None, is_best: bool) -> str:
    return "" if cost is None else f"{cost:.3g}{', cheapest' if is_best else ''}"


def busiest(choice: Prospect) -> list[str]:
    """The stations of a choice, each as "fc_server 97 %". The station that bounds the choice comes
    first, then the others, busiest first. Stations with about the same use whose names differ only
    in numbers are one entry, "conv-*-*"."""
    alike: dict[str, list[str]] = {}
    for station in choice.use:
        alike.setdefault(re.sub(r"\d+", "*", station), []).append(station)
    found: dict[str, tuple[bool, float]] = {}
    for pattern, stations in alike.items():
        use = [choice.use[station] for station in stations]
        if len(use) > 1 and max(use) - min(use) <= ALIKE:
            found[pattern] = choice.bottleneck in stations, max(use)
        else:
            found |= {
                station: (station == choice.bottleneck, choice.use[station]) for station in stations
            }
    order = sorted(
        (name for name in found if round(found[name][1], 2)),
        key=lambda name: found[name],
        reverse=True,
    )
    return [f"{name} {100 * found[name][1]:.0f} %" for name in order] or ["none"]


def _whole(found: Prospects) -> list[str]:
    lines = []
    several = len(found.choices) > 1
    alone = f"in seconds per {found.step}, " if found.target else ""
    if several and found.doubled and (best := found.saturated):
        bound = busiest(found.choices[-1])[0]
        lines.append(
            f"{alone}from {best.name} on, more {found.varies} gain "
            f"{100 * NEAR - 100:.0f} % at most: {bound}"
        )
    elif several and found.doubled:
        lines.append(f"{alone}every doubling of the {found.varies} still pays")
    if (configured := _configured(found)) is not None:
        whole = configured.seconds * found.steps
        marked = " (*)" if several else ""
        lines.append(
            f"{found.steps} {found.step}s as configured{marked} take "
            f"{duration(whole)}{_cost(found, whole)}"
        )
    return lines


def _configured(found: Prospects) -> Prospect | None:
    """The configured choice. None if it is refused."""
    return next((choice for choice in found.choices if choice.number == found.chosen), None)


def _cost(found: Prospects, seconds: float) -> str:
    """The price of so many seconds, and the machines that it is for."""
    hourly = found.price_per_hour()
    if hourly is None:
        return ""
    machines = ", ".join(f"{count} x {name} at {price:g}" for count, name, price in found.prices)
    cost = hourly * seconds / 3600
    price = f"{cost:.2f}" if cost >= LEAST_COST else f"{cost:.2g}"
    return f" and cost {price} ({machines} an hour)"


def _compared(found: Sequence[Prospects]) -> Iterator[str]:
    """Yield a table with a row for each kind of machine: its fastest choice to the target, if one
    is known, or else the configured choice to the end of the run. The best values are marked."""
    target = found[0].target if any(one.fastest for one in found) else ""
    rows = [(one, one.fastest if target else _configured(one)) for one in found]
    ends = [_end(one, choice, target) for one, choice in rows]
    soonest = min((seconds for seconds, _ in ends if seconds is not None), default=None)
    least = min((cost for _, cost in ends if cost is not None), default=None)
    aim = target or f"the end, {found[0].steps} {found[0].step}s"
    table = [
        (
            "machine",
            found[0].varies or "plan",
            f"seconds per {found[0].step}",
            f"time to {aim}",
            "cost",
        )
    ]
    for (one, choice), (seconds, cost) in zip(rows, ends, strict=True):
        said = (choice.name, f"{choice.seconds:.4g}") if choice else ("", "")
        price = "not known" if cost is None else _price(cost, cost == least)
        table.append((one.kind, *said, _time(seconds, seconds == soonest) or "not known", price))
    yield from ("compared:", "", columns(table))


def _end(
    found: Prospects, choice: Prospect | None, target: str
) -> tuple[float | None, float | None]:
    """Seconds and cost to the target, or to the end of the run."""
    if choice is None or target:
        return (None, None) if choice is None else (choice.to_target, choice.cost)
    seconds = choice.seconds * found.steps
    return seconds, None if choice.hourly is None else choice.hourly * seconds / 3600
