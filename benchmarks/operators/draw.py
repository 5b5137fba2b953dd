"""The actions of a trial of `benchmarks.operators`, drawn from its seed: the `up` commands that
start, and the steps that follow."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

# each is a name that the folder of a second run of the one before may have
NAMES = ("exp", "exp-2", "exp-2-3")
ZONES = ("", "XXX-14", "XXX+11")
HOUR = 3600
MOST_WORKERS = 3
SKEWS = (0, 8, -8, 200, -200)  # seconds between the clocks of two hosts
BACKOFFS = (1, 30)
SERIES = 0.3  # of trials: several runs of each name, and one that is resumed
# hosts with their own boot id: where a far `up` lives, and where a far command is typed
FAR = {True: "node2", False: "node3"}


@dataclass(frozen=True)
class Place:
    """Where a command is typed. `pids`, `private_tmp`, `host`: namespaces that differ from the
    driver's. `far`: another machine, which shares the folder of runs but neither locks nor sockets;
    its clock differs by `skew` seconds. `home`: whether HOME takes files. `descriptors`: the most
    that a process may open; 0 keeps this machine's limit."""

    zone: str = ""
    pids: bool = False
    private_tmp: bool = False
    host: str = ""
    far: bool = False
    skew: int = 0
    home: bool = True
    descriptors: int = 0

    def __str__(self) -> str:
        said = {
            "zone": self.zone,
            "pids": self.pids,
            "private /tmp": self.private_tmp,
            f"host {self.host}": self.host,
            f"far by {self.skew} s": self.far,
            "no HOME": not self.home,
            "256 descriptors": self.descriptors,
        }
        return ", ".join(name for name, value in said.items() if value) or "here"


@dataclass(frozen=True)
class Start:
    """An `up`. `own_tmp`: whether it has its own TMPDIR. `backoff`: the seconds of waiting after a
    run that could not begin."""

    name: str
    place: Place
    workers: int
    backoff: int
    own_tmp: bool


@dataclass(frozen=True)
class Step:
    """A fault or a command. `name`: of the runs that it is about; `named`: whether the command line
    has that name. `waits`: whether the next step waits until the effect of a fault is over."""

    kind: str
    name: str = ""
    place: Place = field(default_factory=Place)
    number: int = 0
    named: bool = True
    waits: bool = True
    pause: float = 0.0

    def __str__(self) -> str:
        words = [
            self.kind,
            self.name,
            str(self.number) if self.number else "",
            "" if self.named else "(unnamed)",
        ]
        where = str(self.place)
        return " ".join(word for word in (*words, "" if where == "here" else f"[{where}]") if word)


@dataclass(frozen=True)
class Trial:
    """The starts and steps that are drawn from one seed."""

    seed: int
    starts: tuple[Start, ...]
    steps: tuple[Step, ...]


def draw(seed: int, steps: int = 3) -> Trial:
    """The trial of this seed."""
    return _Drawing(seed).trial(steps)


class _Drawing:
    """Draws one trial. It tracks roughly in which state each name is, so that most steps make
    sense."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(f"operators {seed}")
        self._state: dict[str, str] = {}
        self._far: set[str] = set()
        self._has_lost = False
        self._steps = 0  # how often the clock was stepped

    def trial(self, steps: int) -> Trial:
        """The starts, the steps, and a `down` of each name that still lives."""
        starts = self._starts()
        drawn = (
            self._series()
            if self._chance.random() < SERIES
            else [self._step() for _ in range(steps)]
        )
        lives = [name for name, state in self._state.items() if state != "gone"]
        last = [replace(self._command("down", name), named=True) for name in lives]
        stopped = [
            Step("continue", name) for name, state in self._state.items() if state == "stopped"
        ]
        return Trial(self._seed, tuple(starts), (*drawn, *stopped, *last))

    def _series(self) -> list[Step]:
        """Several runs of each name, which end; then the first name is resumed. The question is
        which run is the newest."""
        chance = self._chance
        found = []
        clocks = [
            self._fault("clock", next(iter(self._state))) if chance.random() < 0.5 else None
            for _ in range(2)
        ]
        for name in self._state:
            kind = chance.choice(("kill", "scale", "scale"))
            change = self._fault(kind, name) if kind in _FAULTS else self._command(kind, name)
            end = chance.choice(("down", "down", "kill-up")) if name not in self._far else "down"
            ends = self._fault(end, name) if end in _FAULTS else self._command(end, name)
            found += [replace(change, waits=True, place=Place()), replace(ends, named=True)]
        name = next(iter(self._state))
        order = [
            clocks[0],
            *found,
            clocks[1],
            self._command("resume", name),
            self._command("status", name),
        ]
        return [step for step in order if step is not None]

    def _starts(self) -> list[Start]:
        chance = self._chance
        count = chance.choices((1, 2), (4, 1))[0]
        found = []
        for name in chance.sample(NAMES, count):
            # two that share a TMPDIR share a PID namespace: see the docstring of `operators`
            place = self._place(alone=count == 1, for_up=True)
            self._state[name] = "trains"
            self._far |= {name} if place.far else set()
            own = chance.random() < 0.3
            found.append(Start(name, place, chance.choice((1, 2, 2)), chance.choice(BACKOFFS), own))
        return found

    def _place(self, *, alone: bool = True, for_up: bool = False) -> Place:
        chance = self._chance
        if chance.random() < 0.5:
            return Place()
        far = chance.random() < (0.1 if for_up else 0.2)
        return Place(
            zone=chance.choice(ZONES),
            pids=alone and not far and chance.random() < 0.25,
            private_tmp=far or chance.random() < 0.25,
            host=FAR[for_up] if far else chance.choice(("", "", "", "node1")),
            far=far,
            skew=chance.choice(SKEWS) if far else 0,
            home=chance.random() > 0.2,
            descriptors=256 if chance.random() < 0.2 else 0,
        )

    def _step(self) -> Step:
        name = self._chance.choice(list(self._state))
        ways = _WAYS[self._state[name]]
        allowed = {kind: weight for kind, weight in ways.items() if self._may(kind, name)}
        kind = self._chance.choices(list(allowed), list(allowed.values()))[0]
        if kind in _FAULTS:
            return self._fault(kind, name)
        return self._command(kind, name)

    def _may(self, kind: str, name: str) -> bool:
        if kind == "lose":
            return not self._has_lost
        if kind == "clock":
            return self._steps < 2
        # its lock would be fresh for 15 s
        return not (name in self._far and kind in ("kill-up", "stop-up"))

    def _fault(self, kind: str, name: str) -> Step:
        self._state[name] = _FAULTS[kind](self._state[name])
        self._has_lost |= kind == "lose"
        self._steps += kind == "clock"
        number = self._chance.choice((HOUR, -HOUR)) if kind == "clock" else 0
        waits = self._chance.random() < 0.6
        return Step(
            kind, name, number=number, waits=waits, pause=round(self._chance.uniform(0.0, 0.6), 2)
        )

    def _command(self, kind: str, name: str) -> Step:
        chance = self._chance
        place = self._place(for_up=kind == "resume")
        number = 0
        if kind in ("down", "down-now") and self._state[name] not in ("gone", "stopped"):
            self._state[name] = "gone"
        if kind == "resume":
            self._state[name] = "trains"
            place = Place(zone=place.zone, home=place.home, descriptors=place.descriptors)
            self._far.discard(name)
        if kind == "scale":
            number = chance.randrange(1, MOST_WORKERS + 1)
        named = kind in ("resume", "scale") or chance.random() < 0.7
        return Step(kind, name, place, number, named, pause=round(chance.uniform(0.0, 0.4), 2))


def _same(state: str) -> str:
    return state


_FAULTS: dict[str, Callable[[str], str]] = {
    "kill": _same,
    "stop": _same,
    "clock": _same,
    "lose": _same,  # another host's lock, which is no longer renewed, is in the folder
    "kill-up": lambda state: "gone",
    "stop-up": lambda state: "stopped",
    "continue": lambda state: "trains",
    "hold": lambda state: "held",  # from now on no run can begin, and the present one dies
    "release": lambda state: "trains",
}
_LOOKS = {"ps": 3, "status": 3, "events": 0.5, "report": 0.2}
_WAYS: dict[str, dict[str, float]] = {
    "trains": {
        **_LOOKS,
        "save": 2,
        "scale": 2,
        "down": 1,
        "down-now": 0.5,
        "kill": 3,
        "stop": 0.3,
        "kill-up": 0.7,
        "stop-up": 0.6,
        "hold": 2.5,
        "clock": 1,
        "lose": 0.5,
    },
    "held": {
        **_LOOKS,
        "ps": 4,
        "status": 4,
        "save": 1,
        "scale": 0.7,
        "down": 2,
        "down-now": 1,
        "release": 2,
        "clock": 1,
    },
    "stopped": {**_LOOKS, "down": 1, "save": 0.5, "continue": 3},
    "gone": {**_LOOKS, "down": 0.7, "save": 0.5, "resume": 6, "clock": 1.5},
}
