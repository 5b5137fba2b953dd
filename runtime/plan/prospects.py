"""The expected time and price of a plan, as a program predicts them before anything starts.
`telling` turns them into text.

Plain data. A program offers it as `prospects(config, options, placement, wanted) -> Prospects`, and
chooses the method of prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# a choice that takes at most this many times as long as the fastest counts as equally good, since
# predictions are off by as much
NEAR = 1.1

# (number of machines, their name, price per hour of each)
Prices = tuple[tuple[int, str, float | None], ...]


@dataclass(frozen=True)
class Wanted:
    """The question put to `plan`. Times are predicted from this `profile`, on `machine`s of this
    kind, which are described in the file `machines` or in the program's own catalogue.

    The times of the `measured` runs are shown next to the predicted times. With a `target`, such as
    "accuracy=0.985", the time until the target is reached is predicted from the runs `learnt`.
    `presets` asks for all strategies that the same cluster.toml could name.
    """

    profile: Path | None = None
    machine: str = ""
    machines: Path | None = None
    measured: tuple[Path, ...] = ()
    learnt: tuple[Path, ...] = ()
    target: str = ""
    presets: bool = False


@dataclass(frozen=True)
class Needed:
    """The number of `steps` that a target takes, or None and the reason `why` if it is not known.
    `seen` is True if the steps were counted in a run. Otherwise they are interpolated between two
    runs."""

    steps: float | None = None
    seen: bool = False
    why: str = "not known"


@dataclass(frozen=True)
class Prospect:
    """The prediction for one choice: its name, its `number` (the x of a chart), and the seconds per
    step.

    `use` is the share of time, from 0 to 1, in which each station is busy. `bottleneck` is the
    station that limits the rate. `needed` are the steps that a target takes, if there is a target.
    `hourly` is the price of its machines for an hour, if it is known. `memory` are the bytes on the
    machine that holds most, if they are known.
    """

    name: str
    number: int
    seconds: float
    use: Mapping[str, float]
    bottleneck: str
    needed: Needed = Needed()
    hourly: float | None = None
    memory: int | None = None

    @property
    def to_target(self) -> float | None:
        """The seconds until the target is reached, or None."""
        return None if self.needed.steps is None else self.needed.steps * self.seconds

    @property
    def cost(self) -> float | None:
        """The price of the time until the target is reached, or None."""
        return (
            None
            if self.to_target is None or self.hourly is None
            else self.hourly * self.to_target / 3600
        )


@dataclass(frozen=True)
class Prospects:
    """The predictions for a plan.

    `basis` describes the machines and the network, and `kind` is the kind of these machines. The
    `choices` differ in the quantity that `varies` names. `chosen` is the number of the configured
    choice. `doubled`: each choice has a larger number than the one before. A `step` has `per_step`
    `items`, and `steps` are still to do.

    `prices` has the machines and their prices per hour, if they are known. `notes` lists the facts
    that are not known. `refused` has the choices that are impossible or of which nothing is known.
    `remarks` are lines about the machines. `measured` has (number, seconds) of runs. `target` is
    the given target, such as "accuracy 0.985". `learnt` has a row of words for each run that the
    steps were learnt from.
    """

    basis: str = ""
    choices: tuple[Prospect, ...] = ()
    varies: str = ""
    chosen: int = 0
    step: str = "step"
    items: str = "items"
    per_step: int = 0
    steps: int = 0
    prices: Prices = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    measured: tuple[tuple[int, float], ...] = ()
    kind: str = ""
    doubled: bool = True
    refused: tuple[str, ...] = ()
    target: str = ""
    learnt: tuple[tuple[str, ...], ...] = ()

    @property
    def of_chosen(self) -> Prospect:
        """The prediction for the configured choice."""
        return next(choice for choice in self.choices if choice.number == self.chosen)

    @property
    def saturated(self) -> Prospect | None:
        """The first choice that is nearly as fast as the fastest, so that larger ones gain next to
        nothing (Omnivore, section 5.2: where the optimizer starts). None if every choice up to the
        last is still faster."""
        fastest = min(choice.seconds for choice in self.choices)
        first = next(choice for choice in self.choices if choice.seconds <= NEAR * fastest)
        return None if first is self.choices[-1] else first

    @property
    def fastest(self) -> Prospect | None:
        """The choice that reaches the target first, or None if no choice has a known time."""
        return min(
            (c for c in self.choices if c.to_target is not None),
            key=lambda c: c.to_target or 0.0,
            default=None,
        )

    @property
    def cheapest(self) -> Prospect | None:
        """The choice that reaches the target at the lowest price, or None if no price is known."""
        return min(
            (c for c in self.choices if c.cost is not None),
            key=lambda c: c.cost or 0.0,
            default=None,
        )

    def price_per_hour(self) -> float | None:
        """Return the price of all machines of the configured choice, or None if one has no
        price."""
        return hourly(self.prices)


def hourly(prices: Prices) -> float | None:
    """Return the price of all machines for an hour, or None if one has no price."""
    known = [count * price for count, _, price in prices if price is not None]
    return sum(known) if known and len(known) == len(prices) else None
