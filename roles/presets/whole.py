"""Workers that each hold the whole net: one alone, equals that add up their gradients, and learners
that are averaged."""

from __future__ import annotations

from collections.abc import Sequence

from roles.exchange.exchange import Layout
from roles.presets.request import COORDINATOR, Preset, Request, coordinator, keys
from roles.workers.averaging import AveragingOptions
from roles.workers.replica_options import ReplicaOptions
from roles.workers.single import WholeOptions
from runtime.plan.topology import ActorSpec, Topology

DRIVER = "driver"


def single(request: Request) -> Topology:
    """One worker with the whole net: the reference."""
    actors = (
        coordinator(request, [["single"]], updates=0, servers=["single"]),
        ActorSpec("single", "single", WholeOptions(job=request.job, coordinator=COORDINATOR)),
    )
    return Topology("roles", actors, ((COORDINATOR, "single"),), COORDINATOR)


def equals(request: Request) -> Topology:
    """Replicas that sum gradients by an exchange. All have the same state, so the first one's is
    saved."""
    chosen, layout = request.exchanged(names_of(request))
    options = ReplicaOptions(
        job=request.job, exchange=chosen, coordinator=COORDINATOR, atomic=request.heals
    )
    workers = [ActorSpec(name, "replica", options) for name in names_of(request)]
    return _together(request, workers, layout, states=1, alike=request.heals)


def averaged(request: Request, *, histories: bool) -> Topology:
    """Replicas that are averaged by an exchange. The mean of their states is saved."""
    chosen, layout = request.exchanged(names_of(request), DRIVER)
    options = AveragingOptions(
        job=request.job,
        exchange=chosen,
        coordinator=COORDINATOR,
        tau=request.strategy.tau,
        histories=histories,
    )
    workers = [ActorSpec(name, "averaging_replica", options) for name in names_of(request)]
    return _together(request, workers, layout, states=len(workers))


def sparknet(request: Request) -> Topology:
    """Workers that train separate models, whose parameters a driver averages every tau iterations.
    Histories stay local."""
    return averaged(request, histories=False)


def dl4j(request: Request) -> Topology:
    """Like sparknet, but the solver's histories are averaged too, and the workers add up in a
    tree."""
    return averaged(request, histories=True)


def names_of(request: Request) -> list[str]:
    """The names of the workers, by rank."""
    return [f"replica-{rank}" for rank in range(request.workers)]


def _together(
    request: Request,
    workers: Sequence[ActorSpec],
    layout: Layout,
    states: int,
    *,
    alike: bool = False,
) -> Topology:
    """One group of these workers. The first `states` of them are asked for the state to save.
    `alike`: after a death, any of them can give it."""
    names = names_of(request)
    replicas = names if alike else ()
    lead = coordinator(
        request, [names], updates=0, servers=names[:states], holders=names, replicas=replicas
    )
    told = [(COORDINATOR, name) for name in names]
    return Topology("roles", (lead, *layout.servers, *workers), (*told, *layout.links), COORDINATOR)


# fan_in is for exchanges with trees, between for those with a choice of ways
OF_EQUALS = keys("workers shares exchange fan_in between")
OF_LEARNERS = OF_EQUALS | {"tau"}
SINGLE = Preset(single, keys(""), part="all", joint=True, alone=True, equals_single=True)
# Workers with the whole net each; each of them applies the sum of all gradients. No server,
# staleness 0
REPLICAS = Preset(
    equals, OF_EQUALS, part="all", joint=True, exchange="collective", equals_single=True
)
# Synchronous, without a server: gradients travel up a tree of the workers themselves, and their sum
# travels down again (FireCaffe 6.2)
FIRECAFFE = Preset(equals, OF_EQUALS, part="all", joint=True, exchange="tree", equals_single=True)
# Devices of one machine: one actor adds up gradients in host memory; every device updates its
# replica
HOST_ACCUMULATE = Preset(
    equals, OF_EQUALS, part="all", joint=True, exchange="host", equals_single=True
)
SPARKNET = Preset(sparknet, OF_LEARNERS, part="all", joint=True, averages=True, exchange="host")
DL4J = Preset(dl4j, OF_LEARNERS, part="all", joint=True, averages=True, exchange="tree")
