"""Checks of a job's files before the training: samples, a checkpoint and weights that the net
cannot take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nets import Net, NetError, SolverSpec, counted, fits, unknown_numbers
from nets.data import Batches, Source, examined, in_classes
from nets.data.augmentation.mixing import LABELS
from nets.files import checkpoint
from nets.files.histories import TRAINED, ZEROED, check_solver
from nets.files.number_checks import check_variances, finite, usable
from nets.files.shared import Weights
from nets.files.weights import Matched, match
from roles.checkpoints.image_numbers import other_numbers
from roles.learning.checkpoint_slices import state_shapes
from roles.learning.job import Job
from roles.learning.resume import place_in
from roles.messages import TRAIN
from roles.planning.layer_patterns import shown

HISTORY = ".history"  # in the names of a solver's arrays
MISFIT = "rename the layer, or name it in train.fresh to begin it afresh"

Mistake = tuple[str, tuple[str, ...]]  # the text, and the keys below [train]


class Contents:
    """Checks the contents of a job's files, and collects warnings."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.warnings: list[Mistake] = []

    def of_source(self, phase: str, source: Source, net: Net, training: Source | None) -> None:
        """Raise DataError for samples that cannot be read, and NetError for labels or words that
        the net does not know. Warns of labels that the list of images for `training` lacks."""
        samples = examined(source)
        wrong = unknown_numbers(
            net, dict(zip(net.inputs, samples, strict=False)), source.label_place
        )
        if wrong:
            raise NetError(wrong)
        keys = ("data", phase.lower())
        self.warnings += [(text, keys) for text in _untrained(source, samples, training)]
        if phase == TRAIN:
            self._of_batches(source, samples)
        if (
            phase == TRAIN
            and not self.job.shuffle
            and len(samples) > 1
            and (classes := in_classes(samples[1]))
        ):
            text = (
                f"the samples come in the order of their {classes} classes and are not "
                "shuffled, so that most batches "
            )
            self.warnings.append(
                ((f"{text}hold one class: set train.data.shuffle = true"), ("data", "train"))
            )

    def _of_batches(self, source: Source, samples: Sequence[NDArray[Any]]) -> None:
        """Raise DataError for labels that cannot be mixed. Warns of a batch that is larger than the
        data."""
        batches = self.job.batches(TRAIN, source)
        if not isinstance(batches, Batches):
            return
        if batches.mixing is not None:
            batches.mixing.classes_of(samples[LABELS])
        if self.job.batch > len(source):
            text = f"found {self.job.batch}, more than the {counted(len(source), 'sample')} of the"
            self.warnings.append((f"{text} data: a batch has samples several times", ("batch",)))

    def of_weights(self, weights: Weights, net: Net) -> None:
        """Check the first weights from the job's files. Raises NetError if they have no layer of
        the net, or numbers with which it cannot compute."""
        if weights:
            files = ", ".join(Path(file).name for file in self.job.weights)
            params = {**net.params, **net.frozen}
            matched = match(weights, params, files, MISFIT)
            usable(files, matched.blobs, params)
            named = [layer for layer in matched.missing if not fits(layer, self.job.fresh)]
            told = unmatched(replace(matched, missing=tuple(named)))
            self.warnings += [(text, ("weights",)) for text in told]
            self.warnings += [(text, ("weights",)) for text in other_numbers(self.job, net)]

    def of_checkpoint(self, net: Net) -> None:
        """Check the checkpoint that the job resumes, if there is one. Raises NetError if it is not
        a checkpoint of a training run, or belongs to another net or solver."""
        if not self.job.resume:
            return
        path = Path(self.job.resume)
        arrays, facts = checkpoint.load(path)
        place_in(self.job.resume, facts)
        if told := check_solver(
            str(path), facts, self.job.solver_spec.type, "start with train.weights"
        ):
            self.warnings.append((told, ("resume",)))
        if zeroed := facts.get(ZEROED, "").split():
            text = f"{len(zeroed)} of its histories begin at 0: their islands had died"
            self.warnings.append((f"{path}: {text}", ("resume",)))
        expected = state_shapes(net.params, self.job.solver_spec, arrays)
        expected |= {
            f"{layer}.{at}": param.shape
            for layer, of in net.frozen.items()
            for at, param in enumerate(of)
        }
        self.warnings += [(text, ("resume",)) for text in _told_of_averages(self.job, arrays)]
        problems = [
            f"{path}: '{name}': found "
            f"{'nothing' if name not in arrays else f'shape {arrays[name].shape}'}, "
            f"expected shape {shape}"
            for name, shape in expected.items()
            if name not in arrays or arrays[name].shape != shape
        ]
        if problems:
            more = (
                [(f"{path}: and {len(problems) - 3} more such arrays")] if len(problems) > 3 else []
            )
            of = f" of net '{facts['net']}'" if facts.get("net") else ""
            lead = f"{path}: the checkpoint{of} does not fit this net and solver"
            lead += _frozen_there(expected, arrays)
            raise NetError([lead, *problems[:3], *more])
        finite(str(path), {name: (arrays[name],) for name in expected})
        params = {**net.params, **net.frozen}
        blobs = {
            layer: tuple(arrays[f"{layer}.{at}"] for at in range(len(of)))
            for layer, of in params.items()
        }
        check_variances(str(path), blobs, params)


def _untrained(
    source: Source, samples: Sequence[NDArray[Any]], training: Source | None
) -> Iterator[str]:
    """A warning if a list of test images has a label beyond those of the list for training."""
    if training is None or not (source.label_list and training.label_list):
        return
    count = training.num_classes or 0
    largest = int(samples[LABELS].max(initial=0))
    if largest >= count:
        yield (
            f"{source.label_place(largest)}: found label {largest}, but the images for training, "
            f"{training.label_list}, have labels from 0 to {count - 1} "
            f"({counted(count, 'class')}): "
            "the net has an output for it and never learns it, so check that both lists number the "
            "classes alike"
        )


def _frozen_there(expected: Iterable[str], arrays: Mapping[str, NDArray[Any]]) -> str:
    """A clause about the layers that only the run of the checkpoint has frozen; "" without any."""
    layers = dict.fromkeys(
        param.rpartition(".")[0]
        for name in expected
        if (param := name.partition(HISTORY)[0]) != name and name not in arrays and param in arrays
    )
    if not layers or not any(HISTORY in name for name in arrays):
        return ""
    return (
        f"; its run froze {shown(layers)}: name them in train.freeze, or start with train.weights"
    )


def _told_of_averages(job: Job, arrays: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    """A warning if only the checkpoint has averages of the parameters, or only the run."""
    has = any(name.endswith(TRAINED) for name in arrays)
    if has and job.extras.average is None:
        yield "its averages of the weights are dropped, since [train.ema] is missing"
    if job.extras.average is not None and not has:
        yield "it has no averages of the weights: they begin with its weights"


def check_rates(solver: SolverSpec) -> None:
    """Check the learning rates of a thousand iterations. Raises NetError for a rate that is not a
    number >= 0."""
    for iteration in sorted(
        {*range(0, solver.max_iter, max(1, solver.max_iter // 1000)), max(0, solver.max_iter - 1)}
    ):
        try:
            rate = solver.rate(iteration)
        except ArithmeticError:
            rate = math.inf
        if isinstance(rate, complex) or not 0 <= rate < math.inf:
            text = (
                f"with lr_policy '{solver.proto.lr_policy}' the learning rate of "
                f"iteration {iteration} is"
            )
            shown = "not a real number" if isinstance(rate, complex) else f"{rate:g}"
            raise NetError(f"{solver.path.name}: {text} {shown}, expected a number >= 0")


def unmatched(matched: Matched) -> Iterator[str]:
    """Warnings for layers that only the net has, or only the file of weights."""
    for layers, text in (
        (matched.missing, "not in the file, so their first values are random"),
        (matched.extra, "in the file, but not in the net"),
    ):
        if layers:
            yield f"layers {', '.join(layers[:8])}{', ...' if len(layers) > 8 else ''}: {text}"
