"""A strategy of your own: one group that adds up its gradients along a chain.

python examples/chain.py
"""

import roles
import runtime
from roles.fc.server import FcOptions
from roles.learning.tree import Parent
from roles.presets.request import CONV_MODEL, COORDINATOR, FC_SERVER, Request, coordinator
from roles.servers.conv_model import ModelOptions
from roles.servers.tree_reducer import ReducerOptions
from roles.workers.conv_options import ConvOptions
from roles.workers.model_links import model_link
from runtime import ActorSpec, Topology


def chain(request: Request) -> Topology:
    """Return a topology whose reducers form a chain. Each adds one worker's gradients to the sum of
    those before it, and the last one sends the sum to the conv model."""
    job = request.job
    shape = request.image_shape
    workers = [f"conv-{rank}" for rank in range(request.workers)]
    sums = [f"sum-{rank}" for rank in range(1, request.workers)]
    way = [*(Parent(name, 0, 2) for name in sums), Parent(CONV_MODEL, 0, 1)]  # where each sum goes
    model = ModelOptions(job=job, image_shape=shape, coordinator=COORDINATOR)
    actors = [
        coordinator(request, [workers], updates=1, servers=[CONV_MODEL, FC_SERVER]),
        ActorSpec(CONV_MODEL, "conv_model", model),
        ActorSpec(FC_SERVER, "fc_server", FcOptions(job=job, image_shape=shape)),
    ]
    links = [(COORDINATOR, CONV_MODEL), (COORDINATOR, FC_SERVER)]
    for name, (parent, part, parts) in zip(sums, way[1:], strict=True):
        reducer = ReducerOptions(parent=parent, part=part, parts=parts)
        actors.append(ActorSpec(name, "tree_reducer", reducer))
        links.append((name, parent))
    places = {"job": job, "part": "conv", "coordinator": COORDINATOR, "fc_servers": (FC_SERVER,)}
    for rank, name in enumerate(workers):
        parent = way[0] if rank == 0 else Parent(sums[rank - 1], 1, 2)
        options = ConvOptions(**places, models=(model_link(CONV_MODEL, parent),))
        actors.append(ActorSpec(name, "conv_compute", options))
        links += [(name, peer) for peer in (COORDINATOR, CONV_MODEL, FC_SERVER, parent.name)]
    return Topology("roles", tuple(actors), tuple(dict.fromkeys(links)), COORDINATOR)


if __name__ == "__main__":
    topology = roles.training({"max_iter": 40, "strategy": {"workers": 3}}, strategy=chain)
    print(runtime.run(topology, on_event=print, processes="one"))
