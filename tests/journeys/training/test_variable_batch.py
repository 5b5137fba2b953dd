"""The variable batch: the FC phase is updated after each part of a batch (One weird trick, section
4.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from nets import Net, load_net, load_solver
from nets.definition.spec import ZOO
from roles import Options, plan
from roles.fc.fc_batches import fc_batches
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from runtime.config.file import load_with_program
from tests.helpers.fc_shards import configured, lenet_with_dropout, problems_of, run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("preset", "scheme"),
    [
        ("one-weird-trick", "b"),
        ("one-weird-trick", "c"),
        ("one-weird-trick", "c2"),
        ("local-fc-shards", "b"),
    ],
)
def test_with_a_variable_batch_the_fc_phase_is_updated_after_each_part_and_the_conv_phase_once(
    tmp_path: Path, preset: str, scheme: str
) -> None:
    workers = 3
    batch = 10
    iterations = 4
    strategy = f'scheme = "{scheme}"\nvariable_batch = true\n'
    options: dict[str, Any] = {
        "workers": workers,
        "batch": batch,
        "iterations": iterations,
        "strategy": strategy,
    }
    found = run(tmp_path / "many", preset, net=lenet_with_dropout(), **options).arrays
    expected = by_hand(tmp_path / "many", scheme, (0, 4, 7, 10), batch, iterations)
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= 1e-5 * np.abs(array).max(), name


def by_hand(
    directory: Path, scheme: str, cuts: tuple[int, ...], batch: int, iterations: int
) -> dict[str, Any]:
    """One weird trick, section 4.2, on one machine: the two phases as nets, each with its own
    updates."""
    backend = ops.get_backend("numpy")
    spec = load_net(directory / "own.prototxt")
    solver = load_solver(directory / "solver.prototxt")
    loaded = load_with_program(directory / "cluster.toml")
    assert isinstance(loaded.options, Options)
    job: Job = plan(loaded.config, loaded.options).actors[0].options.job
    source = job.source("TRAIN")
    batches = job.batches("TRAIN", source)
    common: dict[str, Any] = {
        "ops": backend,
        "batch": batch,
        "input_shape": source.shape,
        "seed": job.seed,
    }
    conv, fc = (Net(spec, "TRAIN", part=part, **common) for part in ("conv", "fc"))
    stores = {
        net: ParameterStore(net.params, net.initial_blobs(), solver, backend) for net in (conv, fc)
    }

    def backward(net: Net) -> dict[str, Any]:
        found = {stage.layer: net.backward(stage) for stage in reversed(net.stages)}
        return {layer: gradients for layer, gradients in found.items() if layer is not None}

    for step in range(iterations):
        data, labels = batches.read(step, 0, batch)
        conv.run(
            {"data": data, "label": labels},
            {layer: stores[conv].read(layer) for layer in conv.params},
            step,
        )
        crossed = {name: conv.blob(name) for name in conv.boundary}
        back = np.zeros_like(crossed["pool2"])
        parts = fc_batches(scheme, cuts)
        for part, members in enumerate(parts):
            spans = [span for _, span in members]
            rows = np.concatenate([np.arange(low, high) for low, high in spans])
            fc.begin(step, *spans)
            for name, array in crossed.items():
                fc.feed(name, np.ascontiguousarray(array[rows]))
            for layer in fc.params:
                fc.load(layer, stores[fc].read(layer))
            for stage in fc.stages:
                fc.forward(stage)
            gradients = backward(fc)
            back[rows] = fc.grad("pool2")  # the gradient of the mean over the whole batch
            for layer, blobs in gradients.items():  # gradients of the mean over the part
                mean = tuple(blob * (batch / len(rows)) for blob in blobs)
                stores[fc].apply(layer, mean, counts=part == len(parts) - 1)
        conv.set_grad("pool2", back)
        for layer, blobs in backward(conv).items():
            stores[conv].apply(layer, blobs)
    return stores[conv].state() | stores[fc].state()


def test_a_variable_batch_is_refused_for_a_loss_that_is_a_sum_of_parts_without_weight(
    tmp_path: Path,
) -> None:
    text = (ZOO / "lenet.prototxt").read_text()
    sums = text.replace(
        'type: "SoftmaxWithLoss"', ('type: "SoftmaxWithLoss" loss_param { normalization: NONE }')
    )
    assert sums != text
    strategy = 'scheme = "b"\nvariable_batch = true\n'
    said = problems_of(
        configured(tmp_path, "one-weird-trick", workers=2, net=sums, strategy=strategy)
    )
    assert (
        "train.strategy.variable_batch: found true with a loss whose normalization is NONE"
    ) in said
