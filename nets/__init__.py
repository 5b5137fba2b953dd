"""Nets as data: prototxt in, shapes and parameters out, layers that call `ops`, data sources, checkpoints.

What lives here: the map below. What never: messages, sockets, asyncio; nothing here knows that machines
exist.

    errors      NetError and its kinds: one readable line per mistake
    prototxt    text -> message, with the line of every field
    spec        NetSpec: the layers of a prototxt and the phase rules      upgrade  Caffe's older formats
    solver      SolverSpec: learning rate, momentum, decay, test schedule
    params      ParamSpec: shape, filler, multipliers, first values
    schema/     Caffe's messages                                           zoo/     nets and solvers that ship
"""

from nets.errors import CheckpointError, DataError, NetError, PrototxtError
from nets.params import ParamSpec
from nets.solver import SolverSpec, load_solver
from nets.spec import NetSpec, load_net

__all__ = [
    "CheckpointError",
    "DataError",
    "NetError",
    "NetSpec",
    "ParamSpec",
    "PrototxtError",
    "SolverSpec",
    "load_net",
    "load_solver",
]
