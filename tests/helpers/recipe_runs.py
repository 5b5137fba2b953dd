"""Today's recipe on a narrow ResNet-20: AdamW, a warm-up and a cosine, averages of the weights,
label smoothing, and images that are padded, cropped, mirrored and mixed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from nets.definition.spec import ZOO

IMAGES = 20  # an epoch ends inside a batch
NARROWER = 4
SOLVER = """net: "net.prototxt" base_lr: 0.1 momentum: 0.9 weight_decay: 0.0001 lr_policy: "multistep"
max_iter: 64000 display: 1 test_interval: 4 test_iter: 2
"""
CLUSTER = """{top}[train]
solver = "solver.prototxt"
precision = "exact"
{more}
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}[train.data]
train = {{ format = "cifar10", files = ["batch.bin"] }}
test = {{ format = "cifar10", files = ["batch.bin"] }}
{data}"""
RECIPE = """batch = 8
base_lr = 0.002
momentum = 0.9
max_iter = {iterations}
[checkpoint]
{checkpoint}
[train.optimizer]
type = "AdamW"
weight_decay = 0.05
decays = "weights"
[train.schedule]
type = "cosine"
warmup = 3
[train.ema]
decay = 0.9
"""
AUGMENT = """shuffle = true
mean = [121.0]
deviation = [64.0]
[train.data.augment]
pad = 4
flip = "alternating"
mixup = 0.2
"""


def cluster_of(
    directory: Path,
    preset: str,
    workers: int = 1,
    strategy: str = "",
    *,
    more: str,
    data: str,
    top: str = "",
    narrower: int = NARROWER,
) -> Path:
    """Write a cluster.toml that trains ResNet-20 with label smoothing on a few images of noise.
    `narrower`: the number by which the zoo's numbers of channels are divided."""
    directory.mkdir(parents=True)
    net = (ZOO / "resnet20.prototxt").read_text()
    loss = 'type: "SoftmaxWithLoss"'
    assert net.count(loss) == 1
    net = net.replace(loss, f"{loss} loss_param {{ label_smoothing: 0.1 }}")
    net = net.replace("batch_size: 100", "batch_size: 10")
    net = re.sub(
        r"num_output: (16|32|64)\b", lambda found: f"num_output: {int(found[1]) // narrower}", net
    )
    (directory / "net.prototxt").write_text(net)
    (directory / "solver.prototxt").write_text(SOLVER)
    records = np.random.default_rng(1).integers(0, 256, (IMAGES, 3073), np.uint8)
    records[:, 0] %= 10
    (directory / "batch.bin").write_bytes(records.tobytes())
    text = CLUSTER.format(
        preset=preset, workers=workers, strategy=strategy, more=more, data=data, top=top
    )
    (directory / "cluster.toml").write_text(text)
    return directory / "cluster.toml"


def of_today(
    directory: Path,
    preset: str,
    workers: int = 1,
    strategy: str = "",
    *,
    iterations: int,
    checkpoint: str = "seconds = 0.0",
    top: str = "",
    narrower: int = NARROWER,
) -> Path:
    """Write the cluster.toml of today's recipe, whose numbers repeat to the last bit."""
    return cluster_of(
        directory,
        preset,
        workers,
        f"{strategy}reproducible = true\n",
        more=RECIPE.format(iterations=iterations, checkpoint=checkpoint),
        data=AUGMENT,
        top=top,
        narrower=narrower,
    )
