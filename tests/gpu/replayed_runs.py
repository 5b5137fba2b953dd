"""On the stand-in: whole runs on virtual time whose passes are plain or replayed, for
`tests.gpu.test_replayed_runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ops import Recording
from tests.helpers.fc_shards import configured
from tests.helpers.support import Simulated, train

# dropout on both sides of the cut, and running statistics
NET = """
name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "scale" top: "scale" }
layer { name: "pool" type: "Pooling" bottom: "scale" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "dropped" type: "Dropout" bottom: "pool" top: "dropped"
  dropout_param { dropout_ratio: 0.3 } }
layer { name: "second" type: "Convolution" bottom: "dropped" top: "second"
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "hidden" type: "InnerProduct" bottom: "second" top: "hidden"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "scores" type: "InnerProduct" bottom: "hidden" top: "scores"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
replays = [0]  # the parts that were replayed


def _counted(self: Recording) -> None:
    replays[0] += 1
    _replay(self)


_replay = Recording.replay
Recording.replay = _counted  # type: ignore[method-assign]


def run(folder: Path, preset: str, how: str) -> list[Simulated]:
    """Train on the device `cuda:0` for 60 iterations. `how`: "plain" or "replay"."""
    return [_trained(folder / how, preset, how, 60)]


def resumed(folder: Path, preset: str, how: str) -> list[Simulated]:
    """Train for 30 iterations, then for 30 more from the checkpoint."""
    first = _trained(folder / f"{how} first", preset, how, 30)
    file = folder / f"{how} first" / first.journal.of("checkpoint")[-1]["file"]
    return [first, _trained(folder / f"{how} second", preset, how, 60, f'resume = "{file}"\n')]


def _trained(folder: Path, preset: str, how: str, iterations: int, more: str = "") -> Simulated:
    settings = f'devices = {{ "*" = "cuda:0" }}\ncudnn = "off"\ngpu_step = "{how}"\n{more}'
    cluster = configured(
        folder,
        preset,
        batch=8,
        workers=2,
        iterations=iterations,
        test=True,
        net=NET,
        train_more=settings,
    )
    with (folder / "solver.prototxt").open("a") as solver:
        solver.write("test_interval: 25\n")
    return train(cluster)


def outcome(runs: list[Simulated]) -> dict[str, Any]:
    """The losses and tests of runs that follow one another, and the bits of the last model."""
    tests = [fields["accuracy"] for one in runs for fields in one.journal.of("test")]
    return {
        "losses": [loss for one in runs for loss in one.losses()],
        "tests": tests,
        **{name: array.tobytes() for name, array in runs[-1].arrays.items()},
    }
