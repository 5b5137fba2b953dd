"""The job as [train] alone describes it, with the paths of its files."""

from __future__ import annotations

import os
from pathlib import Path

from nets import is_file, is_folder, is_graph, own_solver
from roles.checkpoints.meant import Meant, files_meant
from roles.learning.job import Job
from roles.messages import TRAIN
from roles.planning.diagnostics import Diagnostics
from roles.planning.graph_nets import completed
from roles.planning.plan_inputs import PlanInputs
from roles.planning.refusals import DOUBLE
from roles.planning.solver_sections import extras_of, values_of
from runtime.plan.placement import data_here

DIGITS_SOLVER = "lenet_digits_solver"  # for the net and the data that cluster.toml leaves out


def as_written(inputs: PlanInputs, diagnostics: Diagnostics) -> Job:
    """The job as [train] alone describes it. No file is read yet, except to find the weights of a
    run, and a graph of ONNX."""
    train = inputs.train
    # the iterations of epochs are known when the data are open
    values = values_of(train.optimizer) | {"max_iter": 1 if train.epochs else train.max_iter}
    values |= {"base_lr": train.base_lr, "momentum": train.set_momentum}
    return Job(
        net=completed(_located(inputs.base, train.net), train, diagnostics),
        solver=_located(inputs.base, train.solver or own_solver(train.net) or DIGITS_SOLVER),
        data={TRAIN: train.data.train},
        seed=train.seed,
        batch=0,
        test_batches=(),
        base_directory=data_here(inputs.config),
        shuffle=bool(train.data.shuffle),
        orientation=train.data.orientation,
        b_p=train.b_p,
        kernels="numpy" if train.precision == DOUBLE else train.kernels,
        precision=train.precision,
        cudnn=train.cudnn,
        gpu_step=train.gpu_step,
        micro_batches=train.strategy.cutting["micro_batches"],
        resume=_beside(inputs.base, train.resume),
        weights=_weights(inputs, diagnostics),
        solver_values={name: value for name, value in values.items() if value is not None},
        extras=extras_of(train),
        freeze=tuple(train.freeze),
        fresh=tuple(train.fresh),
    )


def _located(base: Path, name: str) -> str:
    """A path relative to cluster.toml if there is such a file, otherwise the name as it is (a name
    of the zoo)."""
    return _beside(base, name) if is_file(base / name) else name


def _beside(base: Path, name: str | None) -> str:
    """A path relative to cluster.toml; "" without a name."""
    return os.path.abspath(base / name) if name else ""  # noqa: PTH100  # resolve() fails at links in a circle


def _weights(inputs: PlanInputs, diagnostics: Diagnostics) -> tuple[str, ...]:
    """The files of first weights that cluster.toml names, or a graph of ONNX, which has weights;
    otherwise (), also for a run that resumes. A file that is chosen in a run directory is
    reported."""
    if inputs.resuming or inputs.train.resume:
        if inputs.train.weights and inputs.train.resume:
            text = "has no effect: the parameters of train.resume count"
            diagnostics.warn(text, "train", "weights")
        return ()
    if not inputs.train.weights:
        net = _located(inputs.base, inputs.train.net)
        return (net,) if is_graph(Path(net)) else ()

    def beside(name: str) -> Path:
        return Path(_beside(inputs.base, name))

    def located(name: str) -> Path | None:
        path = beside(name)
        return path if is_file(path) or is_folder(path) else None

    found = Meant(())
    with diagnostics.reading("train", "weights"):
        found = files_meant(inputs.train.weights, located, beside)
        for line in found.told:
            diagnostics.warn(line, "train", "weights")
    return tuple(map(str, found.files))
