"""A net from a graph of ONNX, which [train.onnx] and `train.batch` complete."""

from __future__ import annotations

from pathlib import Path

from nets import GraphKeys, is_graph, net_of_graph, text_of
from roles.options import Train
from roles.planning.diagnostics import Diagnostics


def completed(net: str, train: Train, diagnostics: Diagnostics) -> str:
    """The net's text if `net` is the path of a graph, otherwise `net` itself. Notes a graph that
    cannot be trained; a later reader of the path finds the same mistakes."""
    if not is_graph(Path(net)):
        if train.onnx is not None:
            text = "has no effect: train.net is not a graph of ONNX (.onnx)"
            diagnostics.warn(text, "train", "onnx")
        return net
    text = net
    with diagnostics.reading("train", "net"):
        spec, found = net_of_graph(Path(net), _keys(train))
        for line in found.told:
            diagnostics.warn(line, "train", "net")
        if found.rows < 2 and not train.batch:
            rows = "fixes 1 row" if found.rows else "leaves the number of rows open"
            line = f"missing: {Path(net).name} {rows}, expected an integer >= 1, such as 64"
            diagnostics.problem(line, "train", "batch")
        text = text_of(spec)
    return text  # noqa: RET504  # the path, if the graph cannot be read


def _keys(train: Train) -> GraphKeys:
    of = train.onnx
    if of is None:
        return GraphKeys(train.batch or 0)
    return GraphKeys(
        train.batch or 0, of.output or "", of.loss, of.classes or 0, of.label_smoothing
    )
