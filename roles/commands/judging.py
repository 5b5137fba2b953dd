"""The outputs of nets for the test data, and their scores: the accuracies and the softmax loss that
the layers of a test net compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets import Net, NetError, NetSpec
from nets.predict import Tally, scored
from nets.predict.deployed import ignored_label
from nets.predict.deployment import ENDINGS
from nets.predict.ranking import counted, probabilities, rows_of

LEAST = np.finfo(np.float32).tiny  # Caffe cuts a probability here before its logarithm


@dataclass(frozen=True)
class Rows:
    """The outputs (N, K) of a net, probabilities if it ends in a softmax, and their labels (N,)."""

    outputs: NDArray[np.float64]
    labels: NDArray[np.int64]


def averaged(rows: Sequence[Rows]) -> Rows:
    """The mean of what several nets give one batch. Raises NetError if they differ in their number
    of rows."""
    shapes = {each.outputs.shape for each in rows}
    if len(shapes) > 1:
        found = " and ".join(map(str, sorted(shapes)))
        raise NetError(f"ensembles: found outputs of shapes {found}, expected one shape")
    return Rows(np.mean([each.outputs for each in rows], axis=0), rows[0].labels)


class Judge:
    """The Accuracy layers of a test net that read its last scores, and its softmax loss ("" without
    one). `ending`: the type of the layer that makes probabilities at the end, or ""."""

    def __init__(self, spec: NetSpec) -> None:
        self.judged = judged = scored(spec)
        self.accuracies = {
            layer.proto.top[0] if layer.proto.top else layer.proto.name: layer
            for layer in spec.layers
            if layer.proto.type == "Accuracy" and layer.proto.bottom[0] == judged.scores
        }
        by = judged.by.proto if judged.by is not None else None
        self.loss = ""
        if by is not None and by.type == "SoftmaxWithLoss":
            self.loss = by.top[0] if by.top else by.name
        makers = [layer.proto.type for layer in spec.layers if judged.scores in layer.proto.top]
        last = makers[-1] if makers else ""
        self.ending = judged.ending or (last if last in ENDINGS else "")

    def width(self, net: Net) -> int:
        """The number of classes among the net's last scores."""
        shape = net.shape(self.judged.scores)
        return int(shape[self.judged.axis]) if len(shape) > 1 else 1

    def rows(self, net: Net, more: Sequence[NDArray[Any]]) -> Rows:
        """The outputs of the pass that the net has just made. `more`: labels that the net does not
        take. Raises NetError if the net gives no scores of classes, or if labels are missing."""
        judged = self.judged
        scores = net.ops.to_host(net.blob(judged.scores))
        labels = more[0] if more else None
        if judged.labels:
            labels = net.ops.to_host(net.blob(judged.labels))
        axis = judged.axis if scores.ndim > 1 else 0
        if labels is None or scores.ndim < 2 or scores.size != labels.size * scores.shape[axis]:
            raise NetError(
                "--top, --confusion, ensembles and test_flips: found scores "
                f"'{judged.scores}' of shape {scores.shape}, "
                f"{'no labels' if labels is None else labels.shape}, expected "
                "scores of classes and a label for each"
            )
        found, said = rows_of(scores, np.asarray(labels), axis)
        return Rows(probabilities(found, judged.ending), said.astype(np.int64))

    def labels(self, net: Net, fed: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """The labels among the arrays `fed` to the net, one for each image. Raises NetError if the
        data have none."""
        named = self.judged.labels
        at = net.inputs.index(named) if named in net.inputs else len(net.inputs)
        if at >= len(fed) or fed[at].size != len(fed[0]):
            raise NetError("ensembles: found no label for each image in the data, expected one")
        return fed[at].reshape(-1).astype(np.int64)


class Counts:
    """The scores of rows, added up batch by batch, under the names that the layers of the test net
    give them. Without an Accuracy layer there is the accuracy by the data's labels."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._tallies: dict[str, tuple[Tally, int | None]] = {}
        self._loss = 0.0
        self._labels = 0

    def add(self, rows: Rows) -> None:
        """Count one batch."""
        self._tallies = self._tallies or self._empty(rows.outputs.shape[1])
        for tally, ignored in self._tallies.values():
            tally.add(rows.outputs, rows.labels, ignored)
        if self._judge.loss:
            known = counted(rows.labels, rows.outputs.shape[1], self._judge.judged.ignored)
            own = rows.outputs[known, rows.labels[known]]
            self._loss -= float(np.log(np.maximum(own, LEAST)).sum())
            self._labels += int(known.sum())

    @property
    def scores(self) -> dict[str, float]:
        """The means over all rows so far, by name."""
        found = {name: tally.top_accuracy for name, (tally, _) in self._tallies.items()}
        if self._judge.loss:
            found[self._judge.loss] = self._loss / max(1, self._labels)
        return found

    def _empty(self, classes: int) -> dict[str, tuple[Tally, int | None]]:
        """A tally for each accuracy, by name, and the label that it ignores."""
        judge = self._judge
        if not judge.accuracies:
            return {"accuracy by the data's labels": (Tally(classes), judge.judged.ignored)}
        return {
            name: (Tally(classes, layer.proto.accuracy_param.top_k), ignored_label(layer))
            for name, layer in judge.accuracies.items()
        }
