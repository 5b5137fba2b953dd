"""The section of cluster.toml about a net from a graph of ONNX: [train.onnx]."""

from __future__ import annotations

from typing import Literal

from roles.number_types import Fraction
from runtime.config.file import Section
from runtime.config.sections import Count, Text


class Onnx(Section):
    """[train.onnx]: what the graph of `train.net = "model.onnx"` lacks (docs/onnx.md)."""

    output: Text | None = None
    """Default: the graph's only output. The output with the scores of the classes."""
    loss: Literal["SoftmaxWithLoss", "HingeLoss"] = "SoftmaxWithLoss"
    """The type of the loss layer. It reads the scores and the labels."""
    label_smoothing: Fraction = 0.0
    """`loss_param.label_smoothing` of a SoftmaxWithLoss (docs/layers.md#the-loss)."""
    classes: Count | None = None
    """Default: the graph's number of classes. With another number, the last layer with weights is
    replaced by one with so many outputs and random weights."""
