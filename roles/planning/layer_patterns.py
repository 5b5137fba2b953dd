"""The keys of [train] that name layers by patterns: `freeze`, `fresh` and `lr_scale`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from nets import Net, fits
from nets.files.shared import Weights
from roles.learning.job import Job
from roles.options import Train
from runtime.suggest import near_hint

Remark = tuple[str, tuple[str, ...]]  # a line, and the keys below [train] that it is about

SHOWN = 12  # names of layers in a line


def pattern_mistakes(train: Train, net: Net) -> Iterator[Remark]:
    """Patterns that fit no layer of the net for training, and keys that contradict each other."""
    layers = [layer.proto.name for layer in net.spec.layers]
    known = [layer for layer in layers if layer in net.params or layer in net.frozen]
    for key, patterns in (("freeze", train.freeze), ("fresh", train.fresh)):
        for pattern in patterns:
            if not any(fits(layer, [pattern]) for layer in known):
                yield f"'{pattern}' {_no_layer(pattern, known)}", (key,)
    begin_afresh = [layer for layer in known if fits(layer, train.fresh)]
    if train.weights and known and begin_afresh == known:
        text = f"found {train.fresh}, which fits every layer, so nothing would be taken from"
        advice = f'name only those that begin afresh, such as ["{known[-1]}"]'
        yield (
            f"{text} train.weights: {advice}, or remove both keys to train from scratch",
            ("fresh",),
        )
    for pattern in train.lr_scale:
        fitting = [layer for layer in known if fits(layer, [pattern])]
        if not fitting:
            if pattern not in train.fresh:  # told above
                yield _no_layer(pattern, known), ("lr_scale", pattern)
        elif not net.params.keys() & fitting:
            text = (
                f"fits only layers of train.freeze ({shown(fitting)}), expected layers that learn"
            )
            yield f"{text}: {shown(net.params)}", ("lr_scale", pattern)
    if net.frozen and not any(node.layer.learns for node in net.nodes):
        text = f"found {train.freeze}, which leaves no layer to learn, expected patterns that leave"
        yield f"{text} some of {shown(known)}", ("freeze",)
    if train.fresh and not train.weights:
        text = f"found {train.fresh}, but train.weights is not given: all layers start afresh"
        yield text, ("fresh",)


def unknown_values(job: Job, train: Train, net: Net, weights: Weights) -> Iterator[Remark]:
    """Frozen layers that would stay as they are drawn, because no file has them."""
    if not net.frozen or job.resume:
        return
    if not job.weights:
        text = (
            f"found {train.freeze}, but train.weights is not given: these layers would stay random"
        )
        yield text, ("freeze",)
        return
    missing = [layer for layer in net.frozen if layer not in weights]
    if missing:
        files = ", ".join(Path(path).name for path in job.weights)
        afresh = [layer for layer in missing if fits(layer, train.fresh)]
        why = "train.fresh leaves them out" if afresh else f"{files} does not have them"
        text = f"layers {shown(afresh or missing)} would stay random, since {why}"
        yield f"{text}; expected patterns of layers in the file", ("freeze",)


def _no_layer(pattern: str, known: Sequence[str]) -> str:
    near = near_hint(pattern, known)
    return f"fits no layer with parameters{near}; these have some: {shown(known)}"


def shown(layers: Collection[str]) -> str:
    """The names of layers in a sentence. Of many, the first and the last."""
    names = list(layers)
    if len(names) > SHOWN:
        names = [*names[: SHOWN - 3], "...", *names[-2:]]
    return ", ".join(names)
