"""The time of a training iteration of a topology, predicted from the times of its pieces and the
speed of its network.

Every role declares its steps in an iteration (`PredictionOptions.steps`). Together they form one
graph for each group: a layer is pulled while another is computed, members wait for their slowest,
and groups meet at a server. The graphs are evaluated (`runtime.queueing.work_graph`), with times
drawn from means and variations. No message is sent, and no role runs. The assumptions are:

    devices     a device does work in the order in which it is asked for; the actors of a process
                share its device, and emulated ones share its emulated device (`device`)
    network     interfaces with a rate each way, shared as TCP connections share it (max-min, as
                `network_model`); a message from one process to many receivers leaves at one pace;
                messages without arrays take the latency only
    groups      run without a stop: no test, no checkpoint, no first iteration
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roles.base.role import PredictionOptions
from roles.base.shapes import Shapes
from roles.base.steps import SENT, Key, Sending, Step, Turn, Work, sent
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.traffic import traffic_of
from roles.forecasting.work_times import Moments, Rows, Times
from runtime.plan.topology import ActorSpec, Topology
from runtime.queueing.work_graph import DRAWS, Piece, Sent, evaluate
from runtime.transport.interface import Limits

__all__ = ["Network", "Prediction", "Rows", "Times", "predict", "rows_of", "shapes_of"]

NO_DEVICES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Network:
    """The network between processes.

    `latency` is in seconds. `bytes_per_second` is the rate of every interface, each way (None:
    unlimited, as with shared memory). `interfaces`: process -> its interface, if it shares one;
    processes behind one interface reach one another at once. `credit_bytes`: bytes that may be
    under way on a link, as in [links]. `own`: the latency and rate of single interfaces. A message
    takes the larger latency of the interfaces that it passes. `devices`: process -> its device, if
    processes share one.
    """

    latency: float = 0.0
    bytes_per_second: float | None = None
    interfaces: Mapping[str, str] = field(default_factory=dict)
    credit_bytes: int = Limits().credit_bytes
    own: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        """Whether any interface has a rate."""
        rates = (self.bytes_per_second, *(rate for _, rate in self.own.values()))
        return any(rate is not None for rate in rates)

    def rate(self, interface: str) -> float:
        """Bytes per second of the interface, each way; infinite if it has no limit."""
        _, rate = self.own.get(interface, (0.0, self.bytes_per_second))
        return rate or math.inf

    def delay(self, interfaces: Iterable[str]) -> float:
        """Seconds of a message that passes these interfaces."""
        return max(self.own.get(name, (self.latency, None))[0] for name in interfaces)


@dataclass(frozen=True)
class Prediction:
    """The result of `predict`.

    `seconds`: mean time per training iteration of the run. `use`: the share of the time, from 0 to
    1, for which a station is busy. Station "ACTOR" is the actor's device. Stations "INTERFACE in"
    and "INTERFACE out" belong to the network, where INTERFACE is the name of the process if the
    process has its own. `bottleneck`: the busiest station. `notes`: the values that are not known,
    and what they were counted as. `work`: seconds of array work in an iteration, of all actors.
    `messages`: the number of messages between processes in an iteration. `spread`: the standard
    deviation of the draws of times, as a part of `seconds`.
    """

    seconds: float
    use: Mapping[str, float]
    bottleneck: str
    notes: tuple[str, ...] = ()
    work: float = 0.0
    messages: float = 0.0
    spread: float = 0.0


def predict(
    topology: Topology,
    times: Times,
    network: Network,
    home: Mapping[str, str],
    shapes: Shapes | None = None,
    *,
    rounds: int = 0,
    draws: int = DRAWS,
) -> Prediction:
    """Predict the time of an iteration of `topology`, whose options are typed.

    `home`: actor -> process (`Placement.process_of`). `shapes`: the result of `shapes_of`, if it is
    known already. `rounds`: predict the later half of the first so many iterations of each group,
    which all begin at once, in place of a long run (0). `draws`: the most draws of times whose mean
    is the prediction.
    """
    asked = _Asked(topology, times, network, home, shapes or shapes_of(topology, network))
    groups = [list(asked.cycle(members)) for members in asked.groups]
    rates = {
        way: network.rate(way.rpartition(" ")[0])
        for pieces in groups
        for piece in pieces
        for way in piece.ways
    }
    found = evaluate(groups, rates, rounds=-(-rounds // asked.period), draws=draws)
    asked.note_untold()
    use = {name: min(1.0, found.use.get(station, 0.0)) for name, station in asked.devices()}
    use |= {way: min(1.0, found.use.get(way, 0.0)) for way in rates}
    bottleneck = max(use, key=lambda name: use[name], default="")
    iterations = len(groups) * asked.period
    work = math.fsum(piece.seconds for pieces in groups for piece in pieces) / iterations
    return Prediction(
        found.seconds / asked.period,
        use,
        bottleneck,
        tuple(asked.notes),
        work,
        asked.messages / iterations,
        found.spread,
    )


def shapes_of(topology: Topology, network: Network) -> Shapes:
    """The shapes of the actors' arrays, as predictions need them."""
    return Shapes(plainly(topology), shared_memory=not network.limited)


def rows_of(topology: Topology, shapes: Shapes | None = None) -> Rows:
    """(actor, label) -> the number of rows of each piece of work, for `Times.measured`."""
    network = Network()
    asked = _Asked(
        topology, Times(lambda *_: None), network, {}, shapes or shapes_of(topology, network)
    )
    every = [step for members in asked.groups for step in asked.steps(members, 0)]
    works = [(step.name[0], step.does) for step in every if isinstance(step.does, Work)]
    return {(actor, work.label): work.rows for actor, work in works if work.rows}


def device(
    actor: ActorSpec, home: Mapping[str, str], shared: Mapping[str, str] = NO_DEVICES
) -> str:
    """The device that does the actor's work: the emulated device of its process, or the process
    itself, or the device that several processes share (process -> device). `home`: actor ->
    process."""
    process = home.get(actor.name, actor.name)
    if process in shared:
        return f"{shared[process]}///"
    return f"{process}/" if actor.emulated is not None else f"{process}//"


class _Asked:
    """The steps of a topology as pieces of a graph."""

    def __init__(
        self,
        topology: Topology,
        times: Times,
        network: Network,
        home: Mapping[str, str],
        shapes: Shapes,
    ) -> None:
        self._times = times
        self._network = network
        self._home = home
        self._shapes = shapes
        self._actors = {actor.name: actor for actor in topology.actors}
        said = {n: o for n, o in self._shapes.options.items() if isinstance(o, PredictionOptions)}
        self.groups = self._shapes.groups
        self.period = math.lcm(*(options.period for options in said.values()))
        self.notes: dict[str, None] = {}  # in the order in which they were found
        self.stations: dict[str, str] = {}  # actor -> its device
        self.messages = 0  # of all cycles, between interfaces
        self._moments: dict[tuple[str, str, int], Moments] = {}
        self._said = said
        self._told = set[tuple[str, str]]()  # (sender, receiver) of the steps that send
        for name in self._actors.keys() - said.keys():
            self._note(f"{name}: its role does not declare its work, which is counted as 0")

    def cycle(self, members: list[str]) -> Iterator[Piece]:
        """The pieces of a group's work in one period."""
        for number in range(self.period):
            steps = list(self.steps(members, number))
            names = {step.name for step in steps}
            names |= {sent(step.name) for step in steps if isinstance(step.does, Sending)}
            for step in steps:
                for absent in sorted({*step.after, *step.since} - names):
                    self._note(
                        f"{' '.join(step.name)} waits for '{' '.join(absent)}', which "
                        "no role declares"
                    )
                yield self._piece(step, names, number)

    def devices(self) -> Iterator[tuple[str, str]]:
        """Each actor and its device. On devices that processes share, only actors whose work takes
        time."""
        shared = {f"{name}///" for name in self._network.devices.values()}
        busy = {actor for (actor, _, _), moments in self._moments.items() if moments.mean}
        for name, station in self.stations.items():
            if name in busy or station not in shared:
                yield name, station

    def steps(self, members: list[str], number: int) -> Iterator[Step]:
        """The steps of all actors in one iteration of these members."""
        turn = Turn(tuple(members), number, self.period)
        for name, options in self._said.items():
            yield from options.steps(name, self._shapes, turn)

    def _piece(self, step: Step, names: set[Key], number: int) -> Piece:
        after: list[Any] = [
            (number, name) for name in step.after if name in names and name[-1] != SENT
        ]
        after += [
            Sent((number, name[:-1])) for name in step.after if name in names and name[-1] == SENT
        ]
        since = [((number - 1) % self.period, name) for name in step.since if name in names]
        if number:
            after = [*after, *since]
            since = []
        common: dict[str, Any] = {
            "name": (number, step.name),
            "after": tuple(after),
            "since": tuple(since),
        }
        common |= {"takes": step.takes, "gives": step.gives}
        if isinstance(step.does, Work):
            return Piece(**common, **self._work(step.name[0], step.does))
        if isinstance(step.does, Sending):
            return Piece(**common, **self._sending(step.name, step.does))
        return Piece(**common)

    def _work(self, actor: str, work: Work) -> dict[str, Any]:
        station = "" if work.beside else self._device(actor)
        if not work.label:
            return {"station": station}
        key = (actor, work.label, work.rows)
        if key not in self._moments:
            role = self._actors[actor].role
            found = self._times.moments(actor, role, work.label, work.rows)
            if found is None:
                self._note(f"no time is known of '{work.label}' ({role}): counted as 0")
            self._moments[key] = found or Moments(0.0, 0.0)
        mean, variation = self._moments[key]
        return {"station": station, "seconds": mean, "variation": variation}

    def _device(self, actor: str) -> str:
        spec = self._actors[actor]
        return self.stations.setdefault(actor, device(spec, self._home, self._network.devices))

    def _sending(self, name: Key, sending: Sending) -> dict[str, Any]:
        self._told |= {(name[0], to) for to in sending.to}
        sender = self._interface(name[0])
        away = [there for to in sending.to if (there := self._interface(to)) != sender]
        if not away:
            return {}
        self.messages += len(away)
        if sending.size is None:
            self._note(
                f"{name[0]}: the size that it sends as {name[1]} depends on the numbers: "
                "counted as 0"
            )
        delay = self._network.delay((sender, *away))
        if not sending.size or not self._network.limited:
            return {"delay": delay}
        ways = {f"{sender} out": len(away)}
        for there in away:
            ways[f"{there} in"] = ways.get(f"{there} in", 0) + 1
        lane = (
            self._home.get(name[0], name[0]),
            *sorted({self._home.get(to, to) for to in sending.to}),
        )
        window = self._network.credit_bytes
        size = float(sending.size)
        return {
            "size": size,
            "ways": ways,
            "lane": lane,
            "window": window,
            "delay": delay,
        }

    def _interface(self, actor: str) -> str:
        process = self._home.get(actor, actor)
        return self._network.interfaces.get(process, process)

    def note_untold(self) -> None:
        """Note each sender that declares traffic but not when it is sent: a role or an exchange of
        another package."""
        for (sender, receiver), kinds in traffic_of(self._shapes).items():
            if (sender, receiver) not in self._told and any(size != 0 for size in kinds.values()):
                self._note(
                    f"the time at which {sender} sends {', '.join(kinds)} to {receiver} is not "
                    "declared: counted as 0"
                )

    def _note(self, text: str) -> None:
        self.notes.setdefault(text)
