"""What a program can say of the time that a plan will take, before anything starts. `telling` puts
it into words.

Plain data. A program offers it as `prospects(config, options, placement, wanted) -> Prospects`; how
it knows is its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# a choice that takes so much longer than the fastest at most is as good: predictions miss by as
# much
NEAR = 1.1

# how many machines, of which name, price per hour of each
Prices = tuple[tuple[int, str, float | None], ...]


@dataclass(frozen=True)
class Wanted:
    """What `plan` was asked: times from this `profile`, on `machine`s of this kind, which the file
    `machines` or the program's own catalogue has; beside them what these `measured` runs took. With
    a `target`, such as "accuracy=0.985", how long it takes until that is reached, by what runs have
    `learnt`. `presets`: whatever else the same cluster.toml could name as its strategy."""

    profile: Path | None = None
    machine: str = ""
    machines: Path | None = None
    measured: tuple[Path, ...] = ()
    learnt: tuple[Path, ...] = ()
    target: str = ""
    presets: bool = False


@dataclass(frozen=True)
class Needed:
    """How many `steps` a target takes; None, and `why`, if that is not known. `seen`: counted in a
    run; otherwise they lie between those of two runs."""

    steps: float | None = None
    seen: bool = False
    why: str = "not known"


@dataclass(frozen=True)
class Prospect:
    """One choice: its name, how many (`number`, the x of a chart), seconds per step; how busy each
    station is, from 0 to 1, and which of them bounds it. `needed`: what a target takes, if there is
    one; `hourly`: the price of its machines for an hour, if it is known; `memory`: bytes on the
    machine that holds most, if that is told."""

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
        """Seconds until the target is reached."""
        return None if self.needed.steps is None else self.needed.steps * self.seconds

    @property
    def cost(self) -> float | None:
        """Of these seconds."""
        return (
            None
            if self.to_target is None or self.hourly is None
            else self.hourly * self.to_target / 3600
        )


@dataclass(frozen=True)
class Prospects:
    """`basis`: the machines and the network that this is about; `kind`: those machines' kind.
    `choices` differ in what `varies` names, `chosen` is the number of the configured one;
    `doubled`: each is more than the one before. A `step` has so many (`per_step`) `items`; `steps`
    are ahead. `machines` and their price per hour, if known, each; `notes`: what is not known;
    `refused`: choices that cannot be or that nothing is known of. `measured`: (number, seconds) of
    runs. `target`, if one was given, as "accuracy 0.985"; `learnt`: a row of words for each run
    that it was learnt from."""

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
    measured: tuple[tuple[int, float], ...] = ()
    kind: str = ""
    doubled: bool = True
    refused: tuple[str, ...] = ()
    target: str = ""
    learnt: tuple[tuple[str, ...], ...] = ()

    @property
    def of_chosen(self) -> Prospect:
        """The configured choice."""
        return next(choice for choice in self.choices if choice.number == self.chosen)

    @property
    def saturated(self) -> Prospect | None:
        """The choice from which on more change next to nothing (Omnivore, section 5.2: where the
        optimizer starts). None if every step up to the last still pays."""
        fastest = min(choice.seconds for choice in self.choices)
        first = next(choice for choice in self.choices if choice.seconds <= NEAR * fastest)
        return None if first is self.choices[-1] else first

    @property
    def fastest(self) -> Prospect | None:
        """The choice that reaches the target first; None if that is known of none."""
        return min(
            (c for c in self.choices if c.to_target is not None),
            key=lambda c: c.to_target or 0.0,
            default=None,
        )

    @property
    def cheapest(self) -> Prospect | None:
        """The choice that reaches the target for least; None if that is known of none."""
        return min(
            (c for c in self.choices if c.cost is not None),
            key=lambda c: c.cost or 0.0,
            default=None,
        )

    def price_per_hour(self) -> float | None:
        """Of all machines of the configured choice; None if one has no price."""
        return hourly(self.prices)


def hourly(prices: Prices) -> float | None:
    """What all machines cost in an hour; None if one has no price."""
    known = [count * price for count, _, price in prices if price is not None]
    return sum(known) if known and len(known) == len(prices) else None
