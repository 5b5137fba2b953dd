"""Helpers for the journeys of FC shards: nets in which rounding errors stay small, runs of them,
and the difference between two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.definition.spec import ZOO
from roles import Options, plan
from runtime.config.file import load_with_program
from runtime.errors import ConfigError
from tests.helpers.support import Simulated, configure, train

RELU = 'layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }'
DROPOUT = RELU + ' layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }'
CIFAR = (
    'data = { train = { format = "synthetic", shape = [3, 32, 32], size = 100 } '
    "}\nbase_lr = 0.001\n"
)


def run(
    directory: Path,
    preset: str,
    *,
    batch: int = 10,
    net: str = "",
    train_more: str = "",
    **options: Any,
) -> Simulated:
    return train(
        configured(directory, preset, batch=batch, net=net, train_more=train_more, **options)
    )


def configured(
    directory: Path,
    preset: str,
    *,
    batch: int = 10,
    net: str = "",
    train_more: str = "",
    strategy: str = "",
    **options: Any,
) -> Path:
    """Write the cluster.toml of LeNet on digits, or of the net in the text `net`, or of the
    settings in `train_more`. `strategy` has more lines for that section.
    """
    cluster = configure(directory, preset, **{"iterations": 10, "batch": batch, **options})
    more = f"[train]\n{train_more}"
    if net:
        (directory / "own.prototxt").write_text(net)
        more += 'net = "own.prototxt"\n'
    text = cluster.read_text()
    if "precision = " in train_more:
        assert 'precision = "exact"\n' in text
        text = text.replace('precision = "exact"\n', "")
    text = text.replace("[train]\n", more, 1)
    if "data = " in train_more:
        head, _, tail = text.partition("[train.data]\n")
        text = head + tail[tail.index("[train.strategy]") :]
    cluster.write_text(text + strategy)
    return cluster


def difference(found: Simulated, expected: Simulated, but: Sequence[str] = ()) -> float:
    """The largest difference of any parameter or history, relative to its largest absolute
    value.
    """
    assert found.arrays.keys() == expected.arrays.keys()
    assert all(found.arrays[name].shape == array.shape for name, array in expected.arrays.items())
    return max(
        float(np.abs(found.arrays[name] - array).max() / np.abs(array).max())
        for name, array in expected.arrays.items()
        if name not in but
    )


def lenet_with_dropout() -> str:
    """LeNet with dropout and with mean pooling. With max pooling, rounding would decide which of
    two nearly equal numbers gets the gradient.
    """
    text = (ZOO / "lenet.prototxt").read_text()
    assert RELU in text and text.count("pool: MAX") == 2
    return text.replace(RELU, DROPOUT).replace("pool: MAX", "pool: AVE")


def cifar10_full() -> str:
    """BVLC's cifar10_full with larger initial weights. The original ones are so small that rounding
    errors show after some iterations, also with `sync`.
    """
    text = (ZOO / "cifar10_full.prototxt").read_text()
    assert "std: 0.0001" in text and "LRN" in text
    return text.replace("std: 0.0001", "std: 0.05").replace("std: 0.01 ", "std: 0.05 ")


def problems_of(cluster: Path) -> str:
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    with pytest.raises(ConfigError) as caught:
        plan(loaded.config, loaded.options)
    return str(caught.value)


def resume_from(cluster: Path, other: str, iteration: int) -> None:
    more = f'[train]\nresume = "../{other}/checkpoint-{iteration:07d}.safetensors"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", more, 1))
