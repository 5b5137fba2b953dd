"""Islands: workers of unequal speed on slow links, each with the whole net. They train iterations
of their own, and an outer server averages what they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from roles.islands.island import IslandOptions
from roles.islands.outer_server import OuterOptions
from roles.learning.local_steps import LEAST, LocalSteps
from roles.options import Strategy
from roles.presets.request import COORDINATOR, Preset, Request, coordinator, keys
from runtime.plan.topology import ActorSpec, Topology

OUTER = "outer"
GRACE, ALL = "grace", "all"
SPEED, EQUAL = "speed", "equal"
RESTARTS = 10  # of a process in one run: one that dies more often will die again


@dataclass(frozen=True)
class Keys:
    """The keys of [train.strategy.options].

    `quorum`: "grace", the outer server takes in the gains that arrive within `grace` seconds of one
    another; "all", it waits for every island, and a run repeats itself to the last bit. `period`:
    the iterations of the fastest island between two exchanges; 0: chosen. `steps`: "speed", slower
    islands do fewer iterations in a period, or "equal". `speeds`: of the islands by rank, in any
    unit; empty: measured, or equal with the quorum "all". `outer_rate` and `outer_momentum` are
    those of the outer step; momentum None: chosen by the number of islands and their speeds.
    `overlap`: islands go on learning while they wait for an answer. `leave_out`: machines that are
    predicted to cost more than they bring get no island.
    """

    quorum: str = GRACE
    grace: float = 0.25
    period: int = 0
    steps: str = SPEED
    speeds: tuple[float, ...] = ()
    outer_rate: float = 1.0
    outer_momentum: float | None = None
    overlap: bool = True
    leave_out: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError with a line for each value that is out of its range."""
        limits = {
            "quorum": (self.quorum in (GRACE, ALL), f"'{GRACE}' or '{ALL}'"),
            "steps": (self.steps in (SPEED, EQUAL), f"'{SPEED}' or '{EQUAL}'"),
            "grace": (0 <= self.grace < 3600, "seconds >= 0 and < 3600"),
            "period": (self.period >= 0, "an integer >= 0"),
            "speeds": (all(1e-9 < each < 1e9 for each in self.speeds), "numbers > 1e-9 and < 1e9"),
            "outer_rate": (0 < self.outer_rate <= 10, "a number > 0 and <= 10"),
            "outer_momentum": (0 <= (self.outer_momentum or 0.0) < 1, "a number >= 0 and < 1"),
        }
        wrong = [
            f"{key}: found {getattr(self, key)!r}, expected {expected}"
            for key, (fits, expected) in limits.items()
            if not fits
        ]
        if self.together and self.grace != Keys.grace and limits["grace"][0]:
            text = f"no window, since with quorum = '{ALL}' the server waits for every island"
            wrong.append(f"grace: found {self.grace!r}, expected {text}")
        if wrong:
            raise ValueError("\n".join(wrong))

    def check(self, strategy: Strategy) -> None:
        """Raise ValueError if the keys do not suit the number of workers."""
        if self.speeds and len(self.speeds) != strategy.workers:
            text = f"expected a number for each of {strategy.workers} workers"
            raise ValueError(f"speeds: found {list(self.speeds)}, {text}")

    @property
    def together(self) -> bool:
        """True if all islands take part in each outer step."""
        return self.quorum == ALL


def islands(request: Request) -> Topology:
    """The islands, and the outer server next to the fastest of them."""
    said: Keys = request.options or Keys()
    ranks = [rank for rank in range(request.workers) if rank not in request.spared]
    names = [f"island-{rank}" for rank in ranks]
    given = tuple(said.speeds[rank] for rank in ranks) if said.speeds else ()
    speeds = given or (1.0,) * len(names)
    local = LocalSteps(said.period, given, said.steps == EQUAL, said.together)
    shares = (1.0,) * len(names) if local.equal else speeds
    island = IslandOptions(
        job=request.job,
        coordinator=COORDINATOR,
        outer=OUTER,
        speeds=shares if said.together else (),
        overlaps=said.overlap and not said.together,
        restarts=0 if said.together else RESTARTS,
        optional=not said.together,
        steps_between=_between(said, shares),
    )
    outer = OuterOptions(
        job=request.job,
        image_shape=request.image_shape,
        coordinator=COORDINATOR,
        islands=tuple(names),
        grace=None if said.together else said.grace,
        rate=said.outer_rate,
        momentum=said.outer_momentum,
        restarts=0 if said.together else RESTARTS,
        beside=names[speeds.index(max(speeds))],
    )
    lead = coordinator(
        request,
        [names] if said.together else [[name] for name in names],
        updates=1,
        servers=[OUTER, *names],
        local=local,
        outer="" if said.together else OUTER,
    )
    actors = (lead, ActorSpec(OUTER, "outer_server", outer))
    workers = tuple(ActorSpec(name, "island", island) for name in names)
    told = [(COORDINATOR, name) for name in (OUTER, *names)]
    links = [(name, OUTER) for name in names]
    return Topology("roles", (*actors, *workers), (*told, *links), COORDINATOR)


def _between(said: Keys, speeds: Sequence[float]) -> int:
    """The iterations of a group between two exchanges, for predictions: of all islands, or the mean
    of an island."""
    period = said.period or LEAST
    of_each = [max(1, round(period * speed / max(speeds))) for speed in speeds]
    return sum(of_each) if said.together else max(1, round(fmean(of_each)))


ISLANDS = Preset(
    islands,
    keys("workers"),
    part="all",
    joint=True,
    averages=True,
    options=Keys,
    scatters=True,
)
