"""Nets as data: prototxt in, shapes and parameters out. Layers that call `ops`, data sources,
weights in files.

definition/  Descriptions of nets and solvers as their authors wrote them, read and checked
graph/       Nets that run: their wiring, stages and memory plan, forward and backward
imported/    Nets from graphs of ONNX: a file in, Caffe's layers and their weights out
layers/      The layer kinds, one file per family
sharding/    The FC phase of a net, divided among several servers by output units
data/        Data sources: where a net's images and labels come from, and how they are read
files/       Files of weights, solver histories and mean images, Caffe's and ours
predict/     Prediction with a trained net
onnx/        Export of a trained net to an ONNX file, for other runtimes
tools/       Tools for nets and data that do not train: conversion, sizes, timing
schema/      File formats as protobuf messages
zoo/         Nets and solvers that ship
errors       Errors in a net, its data or its checkpoint, with texts for the user who can correct it
regular      The opening of files that a user names: only regular files are opened
reasons      The reasons why the system refused something, in words for users
counting     Numbers of things in words: "1 image", "2 images"
siblings     Convoy's packages that this one imports
parent       A request to the system about the parent of this process

No code here knows messages, sockets or machines.
"""

# part of convoy-runtime

import nets.siblings  # noqa: F401  # it finds Convoy's `ops`, so it comes first

# isort: split
from nets.counting import counted
from nets.definition.builder import NetBuilder
from nets.definition.optimizer import OptimizerSettings, SolverExtras, WeightAverage
from nets.definition.params import ParamSpec
from nets.definition.rate_schedule import RateSchedule
from nets.definition.solver import SolverSpec, load_solver
from nets.definition.spec import (
    NetSpec,
    fits,
    is_graph,
    load_net,
    net_of_graph,
    text_of,
    zoo_names,
)
from nets.definition.zoo import own_solver
from nets.errors import CheckpointError, DataError, NetError, PrototxtError, SampleError
from nets.graph.classes import hard_loss, unknown_numbers
from nets.graph.graph import Net, Stage
from nets.graph.repeated_net import PassResults
from nets.graph.whitening import whitened, whitening_layers, whitening_of
from nets.imported import GraphKeys
from nets.regular import is_file, is_folder

__all__ = [
    "CheckpointError",
    "DataError",
    "GraphKeys",
    "Net",
    "NetBuilder",
    "NetError",
    "NetSpec",
    "OptimizerSettings",
    "ParamSpec",
    "PassResults",
    "PrototxtError",
    "RateSchedule",
    "SampleError",
    "SolverExtras",
    "SolverSpec",
    "Stage",
    "WeightAverage",
    "counted",
    "fits",
    "hard_loss",
    "is_file",
    "is_folder",
    "is_graph",
    "load_net",
    "load_solver",
    "net_of_graph",
    "own_solver",
    "text_of",
    "unknown_numbers",
    "whitened",
    "whitening_layers",
    "whitening_of",
    "zoo_names",
]
