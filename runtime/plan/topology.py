"""A topology: the actors of a run, the links between them and the lead. Also its placement into
processes and machines.

A program's `plan(...)` returns a Topology, and `place` turns it into a Placement by the rules of
cluster.toml. Both are plain data that travel to the role processes as JSON. Nothing is started
here.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from runtime.actor_options import plain
from runtime.errors import ConfigError
from runtime.suggest import near_hint

# the actor that leads the processes of every run; no actor of a program may have this name
SUPERVISOR = "supervisor"
Link = tuple[str, str]  # two actors, the sender first if the direction matters


@dataclass(frozen=True)
class ActorSpec:
    """The description of an actor: its unique name, its role and its options. The role is a key of
    the program's ROLES, or the name of an entry point in the group `convoy.roles`. The options are
    the role's `Options`, or the same as plain data.

    Actors that name the same `process` share it, unless cluster.toml places them elsewhere. If
    `emulated` is given, the actor's array work takes the time that a profile gives: {"profile":
    path, or "" for no time, "seed": number}.
    """

    name: str
    role: str
    options: Any = dataclasses.field(default_factory=dict)
    process: str = ""
    emulated: Mapping[str, Any] | None = None

    @property
    def spread(self) -> bool:
        """Whether actors of this kind are spread over the machines, unless cluster.toml places them
        elsewhere."""
        return bool(getattr(self.options, "spread", False))

    @property
    def apart(self) -> bool:
        """Whether the actor is a server that computes. It gets a machine without workers, if there
        is one and cluster.toml does not place it elsewhere."""
        return bool(getattr(self.options, "apart", False))

    @property
    def computes(self) -> bool:
        """Whether the actor does much array work: the threads of its process get a share of the
        machine's cores."""
        return self.spread or self.apart or bool(getattr(self.options, "computes", False))

    @property
    def serves(self) -> bool:
        """Whether the actor is a server with much traffic and little work. It gets a machine with
        workers but without other servers, if there is one and cluster.toml does not place it
        elsewhere."""
        return bool(getattr(self.options, "serves", False))

    @property
    def gpu(self) -> str:
        """The GPU of its machine that the actor computes on, such as "cuda:0"; "" for none."""
        return str(getattr(self.options, "gpu", ""))

    @property
    def shares_gpu(self) -> str:
        """The GPU of its machine where the actor shares memory with actors of other processes; ""
        for none."""
        return str(getattr(self.options, "shares_gpu", ""))

    @property
    def follows(self) -> bool:
        """Whether the actor joins the process of its peers on a GPU, if that is one process."""
        return bool(getattr(self.options, "follows", False))

    @property
    def restarts(self) -> int:
        """The number of deaths of its process that the actor may survive: the process is started
        again, with a new actor, while the run goes on."""
        return int(getattr(self.options, "restarts", 0))

    @property
    def optional(self) -> bool:
        """Whether the run goes on without the actor, as long as another optional one is left, if
        its process has died and is not started again."""
        return bool(getattr(self.options, "optional", False))

    @property
    def beside(self) -> str:
        """The actor on whose machine this actor runs if it is neither a worker nor a server. ""
        places it on the first machine."""
        return str(getattr(self.options, "beside", ""))


@dataclass(frozen=True)
class Topology:
    """Actors, the pairs of actors that exchange messages (in either direction), and the lead: the
    actor whose end ends the run. `title` is the name of its runs if the user gives them none; ""
    stands for the program's name. `facts` are settings that follow from what the user asked for, a
    line for each, which the user sees before the run. `origin` is the configuration that it was
    made from, if there is one; `dataclasses.replace` keeps all three.

    `unused` are machines that get no processes, although nothing in cluster.toml keeps them free.
    `decided` are lines for the user about such decisions of the program. `device_links` are the
    links whose arrays stay on a GPU, as far as the plan says, in either order of the actors: link
    -> the GPU (`plan.shared_devices`)."""

    program: str
    actors: tuple[ActorSpec, ...]
    links: tuple[tuple[str, str], ...]
    lead: str
    title: str = field(default="", compare=False)
    facts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)
    unused: tuple[str, ...] = field(default=(), compare=False)
    decided: tuple[str, ...] = field(default=(), compare=False, repr=False)
    device_links: Mapping[Link, SharedGpu] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        problems = _malformed(self.actors, self.links)
        if problems:
            raise ConfigError(problems)
        names = [actor.name for actor in self.actors]
        problems = [f"topology: two actors are called '{name}'" for name in repeated(names)]
        ends = {name for link in self.links for name in link}
        problems += [
            (f"topology: no actor is called '{name}', but a link names it{near_hint(name, names)}")
            for name in sorted(ends - set(names))
        ]
        problems += [
            (f"topology: an actor is called '{name}', which is kept for the runtime")
            for name in names
            if kept(name)
        ]
        if self.lead not in names:
            near = near_hint(self.lead, names)
            problems.append(f"topology: no actor is called '{self.lead}', but it is the lead{near}")
        if problems:
            raise ConfigError(problems)

    @property
    def gpus(self) -> dict[str, str]:
        """Actor -> the GPU of its machine that it computes on: its own, or that of the arrays that
        it adds up."""
        found = {name: shared.gpu for (name, _), shared in self.device_links.items()}
        return found | {actor.name: actor.gpu for actor in self.actors if actor.gpu}

    def peers(self, name: str) -> set[str]:
        """Return the actors that `name` exchanges messages with."""
        return {b if a == name else a for a, b in self.links if name in (a, b)}


@dataclass(frozen=True)
class SharedGpu:
    """The GPU on which the arrays of a link stay, such as "cuda:0". `together`: both actors live in
    one process, which hands over the arrays themselves. Otherwise the sender copies them, on the
    GPU, into memory that both processes have open."""

    gpu: str
    together: bool


@dataclass(frozen=True)
class Origin:
    """The configuration that a script's topology was made from.

    `sections` are those of the program `program` in cluster.toml, with all defaults. Relative paths
    in them start from `base`. `planned` is the topology that the program plans for them, or None if
    the script laid it out itself.
    """

    program: str
    sections: Mapping[str, Any]
    base: Path
    planned: Topology | None


@dataclass(frozen=True)
class ProcessSpec:
    """The description of a process: its machine, its actors, the number of its BLAS threads (0: its
    share of the machine's cores), its TCP port (0: any), and the cores that it stays on (none:
    all).

    `first_core` is used on a machine whose cores are not known here. The process then stays on that
    core and the following ones, as many as it has threads; see `cores.settled`. `crowd` is the
    number of processes that share the machine's cores, itself included (0: all of the machine).
    `number` counts the processes of actors that others start, from 1; a planned process has 0.
    """

    name: str
    machine: str
    actors: tuple[str, ...]
    threads: int = 1
    port: int = 0
    cores: tuple[int, ...] = ()
    first_core: int | None = None
    crowd: int = 0
    number: int = 0

    @property
    def threads_told(self) -> str:
        """The number of threads as text for people."""
        return str(self.threads) if self.threads else "auto"


@dataclass(frozen=True)
class Placement:
    """A topology and the processes that host it."""

    topology: Topology
    processes: tuple[ProcessSpec, ...]

    def process_of(self) -> dict[str, str]:
        """Return actor name -> process name."""
        return {actor: process.name for process in self.processes for actor in process.actors}

    def neighbours(self, process: str) -> dict[str, tuple[str, ...]]:
        """Return the processes that `process` exchanges messages with, and their actors. `process`
        itself is included if its actors exchange messages."""
        return self._neighbours.get(process, {})

    def pairs(self) -> list[tuple[str, str]]:
        """The processes that exchange messages, as pairs in both directions."""
        names = [spec.name for spec in self.processes]
        return [(a, b) for a in names for b in self.neighbours(a) if a != b]

    def has_link(self, pattern: str) -> bool:
        """Whether a pattern SENDER -> RECEIVER of processes, as keys of [simulation.links] are,
        fits a link."""
        sender, arrow, receiver = (word.strip() for word in pattern.partition("->"))
        fits = (fnmatchcase(a, sender) and fnmatchcase(b, receiver) for a, b in self.pairs())
        return bool(arrow) and any(fits)

    @cached_property
    def _neighbours(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """The neighbours of all processes, computed at once, since every one of thousands of
        processes is looked up."""
        home = self.process_of()
        actors = {spec.name: spec.actors for spec in self.processes}
        order = {name: number for number, name in enumerate(actors)}
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for a, b in self.topology.links:
            wanted[home[a]].add(home[b])
            wanted[home[b]].add(home[a])
        return {
            process: {name: actors[name] for name in sorted(names, key=order.__getitem__)}
            for process, names in wanted.items()
        }

    def to_json(self) -> str:
        """Return the placement as JSON text. `from_json` reads it back, with options as plain
        data."""
        return json.dumps(self.to_data(), indent=1)

    def to_data(self) -> dict[str, Any]:
        """Return the placement as plain data. Options that actors share are stored once, since
        those of a thousand actors may name all actors."""
        shared: dict[int, int] = {}  # id -> number among `options`
        numbers = [
            shared.setdefault(id(actor.options), len(shared)) for actor in self.topology.actors
        ]
        options = {
            number: actor.options
            for number, actor in zip(numbers, self.topology.actors, strict=True)
        }
        actors = [
            {
                "name": a.name,
                "role": a.role,
                "options": number,
                "process": a.process,
                "emulated": plain(a.emulated),
            }
            for number, a in zip(numbers, self.topology.actors, strict=True)
        ]
        topology: dict[str, Any] = {
            "program": self.topology.program,
            "lead": self.topology.lead,
            "links": self.topology.links,
        }
        topology |= {
            "actors": actors,
            "options": [plain(options[number]) for number in range(len(options))],
        }
        return {"topology": topology, "processes": [plain(spec) for spec in self.processes]}

    @staticmethod
    def from_json(text: str) -> Placement:
        """Read the text that `to_json` returned."""
        return Placement.from_data(json.loads(text))

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Placement:
        """Read the data that `to_data` returned. Raises ValueError, TypeError or KeyError for other
        data."""
        topology = data["topology"]
        options = topology["options"]
        actors = tuple(
            ActorSpec(**{**actor, "options": options[actor["options"]]})
            for actor in topology["actors"]
        )
        if not all(
            isinstance(text, str)
            for actor in actors
            for text in (actor.name, actor.role, actor.process)
        ):
            raise ValueError("an actor's name, role or process is not a string")
        try:
            found = Topology(
                msgspec.convert(topology["program"], str),
                actors,
                msgspec.convert(topology["links"], tuple[Link, ...]),
                msgspec.convert(topology["lead"], str),
            )
        except ConfigError as error:
            raise ValueError(error.problems[0]) from None
        placement = Placement(found, msgspec.convert(data["processes"], tuple[ProcessSpec, ...]))
        if sorted(name for spec in placement.processes for name in spec.actors) != sorted(
            a.name for a in actors
        ):
            raise ValueError("the processes do not host each actor once")
        return placement


def _malformed(actors: Iterable[object], links: Iterable[object]) -> list[str]:
    """Return a line for each entry that is not an actor or not a pair of names."""
    problems = [
        f"topology: actors: found {type(actor).__name__}, expected ActorSpec(name, role, ...)"
        for actor in actors
        if not isinstance(actor, ActorSpec)
    ]
    return problems + [
        f"topology: links: found {link!r}, expected a pair of names such as ('reader', 'mapper')"
        for link in links
        if not (
            isinstance(link, (tuple, list))
            and len(link) == 2
            and all(isinstance(end, str) for end in link)
        )
    ]


def kept(name: str) -> bool:
    """Whether the name would be mistaken for the supervisor, or for a process's agent."""
    return name == SUPERVISOR or "/" in name


def repeated(names: list[str]) -> list[str]:
    """The names that come more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)
