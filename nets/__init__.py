"""Nets as data: prototxt in, shapes and parameters out, layers that call `ops`, data sources,
weights as files.

definition/   a net as its author wrote it: prototxt, older formats, parameters, solver
graph/        a net that runs: what reads what, in which stages and memory, one pass
layers/       one class per kind of layer
sharding/     the FC phase, shared out over several servers
data/         where images and labels come from
files/        weights, histories and means as files
predict/      a trained net in use: classes of images
onnx/         a trained net as a file for other runtimes
tools/        converting files, counting volumes, timing layers
schema/       Caffe's file formats as protobuf messages
zoo/          nets and solvers that ship
errors        one readable line per mistake
regular       what is no regular file is not opened
reasons       why the system refused something

Nothing here knows of messages, sockets or machines.
"""

from nets.definition.builder import NetBuilder
from nets.definition.params import ParamSpec
from nets.definition.solver import SolverSpec, load_solver
from nets.definition.spec import NetSpec, load_net
from nets.errors import CheckpointError, DataError, NetError, PrototxtError
from nets.graph.classes import unknown_numbers
from nets.graph.graph import Net, Stage
from nets.regular import is_file, is_folder

__all__ = [
    "CheckpointError",
    "DataError",
    "Net",
    "NetBuilder",
    "NetError",
    "NetSpec",
    "ParamSpec",
    "PrototxtError",
    "SolverSpec",
    "Stage",
    "is_file",
    "is_folder",
    "load_net",
    "load_solver",
    "unknown_numbers",
]
