"""Nets as data: prototxt in, shapes and parameters out, layers that call `ops`, data sources,
weights as files.

definition/  A net as its author wrote it
graph/       A net that runs
layers/      The layer kinds, one file per family
sharding/    The FC phase of a net, shared out over several servers by output units
data/        Where images and labels come from
files/       Weights, histories and means as files
predict/     A trained net in use: images in, classes out
onnx/        A trained net as an ONNX file, for other runtimes
tools/       What people do with nets and data beside training
schema/      Caffe's file formats as protobuf messages
zoo/         nets and solvers that ship
errors       What can be wrong with a net, its data or its checkpoint, told to the person who can
             mend it
regular      The one door to files that a person names
reasons      Why the system refused something, in words for people

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
