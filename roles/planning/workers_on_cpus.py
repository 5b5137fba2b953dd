"""The worth of workers on the CPU next to others on a GPU, in one group: the iteration with them,
compared with the iteration of the GPUs alone."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping

from roles.base.role import EMULATED
from roles.base.shapes import Shapes
from roles.forecasting.plan_forecast import computes_here
from roles.forecasting.prediction import predict
from roles.forecasting.prediction_basis import PredictionInputs
from roles.options import Options
from roles.planning.settled_shares import settled
from runtime.errors import ConfigError
from runtime.plan.topology import ActorSpec, Placement

Lay = Callable[[Options], Placement]


def shared_with_cpus(
    placement: Placement, options: Options, basis: PredictionInputs, seconds: float, lay: Lay
) -> Iterator[str]:
    """A line if one group has workers on GPUs and on the CPU: their rows, and the time without the
    workers on the CPU. `placement` is settled, with iterations of `seconds`. `lay` plans and places
    other options."""
    topology = placement.topology
    shapes = Shapes(topology)
    if len(shapes.groups) != 1 or getattr(shapes.options[topology.lead], "local", None):
        return  # islands have batches of their own
    (members,) = shapes.groups
    actors = {actor.name: actor for actor in topology.actors}
    cpus = [name for name in members if computes_here(actors[name])]
    gpus = [name for name in members if name not in cpus]
    if not cpus or not gpus:
        return
    try:
        devices = {name: _device(actors[old]) for name, old in zip(members, gpus, strict=False)}
        devices |= _of_servers(options.train.devices, actors.keys() - {*members})
        alone = _alone(len(gpus), devices, options, basis, lay)
    except ConfigError:
        return  # other keys of cluster.toml name these workers
    rows = ", ".join(f"{name} {shapes.rows(name)}" for name in members)
    which = ", ".join(cpus)
    text = f"rows of a batch: {rows}; an iteration takes {seconds:.4g} s, and {alone:.4g} s"
    if seconds < alone:
        yield f"{which} on the CPU: {text} on the GPU alone"
        return
    yield (
        f"{which} on the CPU does not pay: {text} without it: name only workers on GPUs, "
        f"train.strategy.workers = {len(gpus)}"
    )


def _device(actor: ActorSpec) -> str:
    """The device of a worker, as train.devices names it."""
    profile = "" if actor.emulated is None else actor.emulated["profile"]
    return actor.gpu or (f"{EMULATED}:{profile}" if profile else EMULATED)


def _of_servers(patterns: Mapping[str, str], servers: Collection[str]) -> dict[str, str]:
    """The patterns that give these actors their devices."""
    first = (
        next((key for key in patterns if fnmatch.fnmatchcase(name, key)), None) for name in servers
    )
    used = {*first}
    return {key: device for key, device in patterns.items() if key in used}


def _alone(
    many: int, devices: Mapping[str, str], options: Options, basis: PredictionInputs, lay: Lay
) -> float:
    """Seconds of an iteration of so many workers. `devices` are those of train.devices. Raises
    ConfigError if such a run cannot be laid out."""
    train = options.train
    keys = {"workers": many, "shares": None if many == 1 else train.strategy.shares}
    update = {
        "strategy": train.strategy.model_copy(update=keys),
        "devices": devices,
    }
    changed = options.model_copy(update={"train": train.model_copy(update=update)})
    placement = lay(changed)
    times = basis.times(placement)
    placement = settled(placement, times)
    network = basis.network(placement)
    return predict(placement.topology, times, network, placement.process_of()).seconds
