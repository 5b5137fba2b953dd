"""Machines of known kinds as the inputs of a prediction: rented ones of one kind, or those of
cluster.toml, whose kinds may differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from roles.base.shapes import Shapes
from roles.forecasting.catalogue import Kind, file_of, kind_called, kinds_of
from roles.forecasting.costs import ByFlops, copied, loads_of, profile
from roles.forecasting.plan_forecast import computes_here, plainly
from roles.forecasting.prediction import Network
from roles.forecasting.prediction_basis import HANDLING, PredictionInputs, Profile
from roles.forecasting.work_times import Moments, Times
from runtime.config.sections import ClusterConfig
from runtime.plan.prospects import Prices, Wanted
from runtime.plan.topology import Placement

PRODUCTS_ONLY = "all work but matrix products: ReLU, pooling, updates, sums, reading data"
NO_CPU = (
    "the processors of {} next to its GPUs: their speed is not known (cpu_flops), so that they are "
    "counted as a GPU"
)
NO_COPIES = "copies between a GPU of {} and host memory: their rate is not known"
SIMULATED = "the network of [simulation]: the machines' kinds count instead"


class Named(NamedTuple):
    """A machine's kind, its name, and the price of the machine for an hour."""

    name: str
    kind: Kind
    price: float | None


def kinds_for(config: ClusterConfig, wanted: Wanted) -> dict[str, Named]:
    """Machine -> its kind: the one that is asked for, or the one that cluster.toml gives; empty
    without either. Raises ConfigError for an unknown kind."""
    if wanted.machine:
        file = wanted.machines or file_of(config)
        kinds = dict.fromkeys(
            (machine.name for machine in config.machine), kind_called(wanted.machine, file)
        )
    else:
        kinds = kinds_of(config)
    return {
        machine.name: Named(
            wanted.machine or machine.kind or "",
            kinds[machine.name],
            machine.price_per_hour or kinds[machine.name].price_per_hour,
        )
        for machine in config.machine
        if kinds
    }


class OfKinds(PredictionInputs):
    """Machines of known kinds. Without a profile, the processes of a machine share its FLOP/s: it
    is one device, or several. The processes with work then have one each, as far as there are, and
    arrays that messages carry are copied from an actor's device to host memory, and back.

    If some actors compute on a GPU and others on the CPU, the latter share the processors of their
    machine (`cpu_flops`), if their speed is known.

    `kinds`: machine -> its kind. Rented machines have one kind, and an alternative of the plan may
    need more of them than `kinds` names.
    """

    def __init__(
        self,
        config: ClusterConfig,
        kinds: Mapping[str, Named],
        table: Profile | None,
        placement: Placement,
    ) -> None:
        self._kinds = kinds
        self._first = next(iter(kinds.values()))
        self._table = table
        self._credit = config.links.credit_bytes
        known = {named.name: named.kind for named in kinds.values()}
        told = " and ".join(f"{name}, {_rate(kind)}" for name, kind in known.items())
        self.name = f"machines of kind{'s'[: len(known) > 1]} {told}" + (
            f", times of {table.file}" if table else ""
        )
        unknown = [
            f"the {what} of {name}, which is not known: counted as {value}"
            for name, kind in known.items()
            for what, value, said in (
                ("network's rate", "unlimited", kind.bytes_per_second),
                ("latency", "0", kind.latency),
            )
            if said is None
        ]
        unknown += [
            NO_COPIES.format(name)
            for name, kind in known.items()
            if kind.devices > 1 and kind.device_bytes_per_second is None
        ]
        both = {self._of(machine).name for machine, on in _work(placement).items() if len(on) > 1}
        unknown += [NO_CPU.format(name) for name in both if known[name].cpu_achieved is None]
        simulated = [SIMULATED] * (config.simulation.clock == "virtual")
        of_times = table.notes if table else [PRODUCTS_ONLY]
        self.notes = (*of_times, HANDLING, *unknown, *simulated)

    def times(self, placement: Placement) -> Times:
        """Without a profile, times are calculated from FLOPs."""
        if self._table is not None:
            return self._table.times(placement.topology)
        topology = placement.topology
        shapes = Shapes(plainly(topology))
        job = next(options.job for options in shapes.having("job").values())
        flops = profile(shapes, ByFlops(shapes.net(job, "all"), 1.0).seconds)
        counted = Times.of_profile(flops | {"*/read": 0, "*/gather": 0})
        copies = Times.of_profile(profile(shapes, copied))
        home = placement.process_of()
        machines = self.machines(placement)
        on_cpus = {actor.name for actor in topology.actors if computes_here(actor)}
        with_gpus = _with_gpus(placement)

        def of(actor: str, role: str, label: str, rows: int) -> Moments | None:
            found = counted.moments(actor, role, label, rows)
            if found is None:
                return None
            kind = self._of(machines[home[actor]]).kind
            beside = with_gpus and actor in on_cpus
            seconds = found.mean / ((beside and kind.cpu_achieved) or kind.achieved)
            rate = kind.device_bytes_per_second
            if rate is not None and actor not in on_cpus:
                moved = copies.moments(actor, role, label, rows)
                seconds += 0.0 if moved is None else moved.mean / rate
            return found._replace(mean=seconds)

        return Times(of)

    def network(self, placement: Placement) -> Network:
        """Every machine has the interface of its kind."""
        machines = self.machines(placement)
        own = {
            name: (kind.latency or 0.0, _float(kind.bytes_per_second))
            for name in dict.fromkeys(machines.values())
            for kind in (self._of(name).kind,)
        }
        return Network(
            interfaces=machines,
            credit_bytes=self._credit,
            own=own,
            devices=self._devices(placement) if self._table is None else {},
        )

    def _devices(self, placement: Placement) -> dict[str, str]:
        """Process -> its device: the machine, one of its devices, or its processors. On a machine
        with several devices, a process without work has none."""
        with_gpus = _with_gpus(placement)
        if not with_gpus and all(named.kind.devices == 1 for named in self._kinds.values()):
            return self.machines(placement)
        shapes = Shapes(plainly(placement.topology))
        working = loads_of(shapes).keys() & shapes.having("job").keys()
        gpus = {actor.name: actor.gpu for actor in placement.topology.actors}
        here = {actor.name for actor in placement.topology.actors if computes_here(actor)}
        found: dict[str, str] = {}
        crowd: defaultdict[str, int] = defaultdict(int)
        for spec in placement.processes:
            kind = self._of(spec.machine).kind
            count = kind.devices
            named = next(filter(None, (gpus[name] for name in spec.actors)), "")
            if with_gpus and kind.cpu_achieved and here.issuperset(spec.actors):
                found[spec.name] = f"{spec.machine} cpu"
            elif count > 1 and named:
                found[spec.name] = f"{spec.machine} {named}"
            elif count == 1:
                found[spec.name] = spec.machine
            elif not working.isdisjoint(spec.actors):
                found[spec.name] = f"{spec.machine} {crowd[spec.machine] % count}"
                crowd[spec.machine] += 1
        return found

    def prices(self, placement: Placement) -> Prices:
        """Only machines that have processes count."""
        used = [self._of(name) for name in dict.fromkeys(self.machines(placement).values())]
        alike = Counter((named.name, named.price) for named in used)
        return tuple((count, name, price) for (name, price), count in alike.items())

    def _of(self, machine: str) -> Named:
        return self._kinds.get(machine, self._first)


def _with_gpus(placement: Placement) -> bool:
    """Whether actors work on rows on a GPU, so that the others are on the CPU by choice."""
    return any(False in on for on in _work(placement).values())


def _work(placement: Placement) -> Mapping[str, Collection[bool]]:
    """Machine -> whether the actors that work on rows there do so on the CPU: True, False or
    both. Empty if no actor computes on a device, so that most plans build no nets for this."""
    if all(map(computes_here, placement.topology.actors)):
        return {}
    shapes = Shapes(plainly(placement.topology))
    working = {name for name, of in loads_of(shapes).items() if any(load.rows for load in of)}
    home = {actor: spec.machine for spec in placement.processes for actor in spec.actors}
    at = defaultdict[str, set[bool]](set)
    for actor in placement.topology.actors:
        if actor.name in working:
            at[home[actor.name]].add(computes_here(actor))
    return at


def _rate(kind: Kind) -> str:
    rate = kind.bytes_per_second
    return f"{rate / 1e6:g} MB/s each way" if rate else "links without a limit"


def _float(rate: int | None) -> float | None:
    return None if rate is None else float(rate)
