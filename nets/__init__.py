"""Nets as data: prototxt in, shapes and parameters out, layers that call `ops`, data sources, checkpoints.

What lives here: the map below. What never: messages, sockets, asyncio; nothing here knows that machines exist.

    spec        NetSpec: the layers of a prototxt and the phase rules     solver  SolverSpec: rate, momentum, schedule
    graph       Net: the whole, its conv part or its FC part, run stage by stage
    wiring      blob names resolved; the cut between the phases           layers/ one class per layer kind
    params      ParamSpec: shape, filler, multipliers, first values       sharing parameters that several layers share
    rules       the update of each solver type                            scaling rates for larger batches
    data/       sources, transforms, batches                              zoo/    nets and solvers that ship
    weights     any format of weights, matched to a net                   caffemodel, hdf5, solverstate, mean  Caffe's
    checkpoint  named arrays in one file                                  convert from one format to another
    memory      where the arrays of a pass lie                            in_place who may write over what
    joins       which layers are one operation of the backend
    chain, slices, shard, sharding  the FC phase shared out by output units      borders where a part begins and ends
    stages      the unit in which parameters are pulled                   warm    compiling before the first pass
    volumes     sizes and FLOPs                                           timing  seconds per layer
    prototxt    text to message, with the line of every field             upgrade, upgrade_v0  older formats
    errors      NetError and its kinds: one readable line per mistake     schema/ Caffe's messages
"""

from nets.definition.params import ParamSpec
from nets.definition.solver import SolverSpec, load_solver
from nets.definition.spec import NetSpec, load_net
from nets.errors import CheckpointError, DataError, NetError, PrototxtError
from nets.graph.graph import Net, Stage

__all__ = [
    "CheckpointError",
    "DataError",
    "Net",
    "NetError",
    "NetSpec",
    "ParamSpec",
    "PrototxtError",
    "SolverSpec",
    "Stage",
    "load_net",
    "load_solver",
]
