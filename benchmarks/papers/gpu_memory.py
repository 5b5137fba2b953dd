"""The part `gpu-memory` of `benchmarks.papers`: the images of VGG-16 that fit into the memory of a
GPU, with the sums of gradients in host memory or on the GPU, as `plan` counts its arrays."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.helpers.report import Record
from benchmarks.papers.planned import CLUSTER, IMAGENET
from roles.base.sizes import HOST
from roles.forecasting.plan_forecast import forecast
from runtime.runs.checking import check

NET = "vgg16"
GPUS = 4
GPU_BYTES = 16 << 30  # of a P100
ROWS = (32, 64)  # of a GPU; their difference shows the bytes that grow with the images
ON_HOST, ON_GPU = "in host memory", "on the GPU"


def measure(record: Record) -> None:
    """Record how many images fit, for each place of the sums."""
    record.table(
        f"{NET} on a GPU of {GPU_BYTES >> 30} GiB",
        *("sums", "MB of an image", "MB besides images", "images"),
    )
    few, many = map(held, ROWS)
    for place in (ON_HOST, ON_GPU):
        less, more = on_device(few, place), on_device(many, place)
        image = (more - less) / (ROWS[1] - ROWS[0])
        fixed = less - ROWS[0] * image
        record.row(place, image / 1e6, fixed / 1e6, int((GPU_BYTES - fixed) // image))


def held(rows: int) -> Mapping[str, int]:
    """The bytes of each purpose of a worker with so many rows, whose device is a GPU."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        file = Path(folder, "cluster.toml")
        file.write_text(
            CLUSTER.format(
                net=NET,
                machine="",
                batch=GPUS * rows,
                shape=list(IMAGENET),
                preset="host-accumulate",
                workers=GPUS,
                strategy="",
            )
        )
        devices = ['train.devices={"*" = "cuda:0"}']
        topology = check(file, devices, starts=False).placement.topology
        return forecast(topology).memory["replica-0"]


def on_device(purposes: Mapping[str, int], place: str) -> int:
    """The bytes on the GPU. If the sums are made there, it holds all gradients and their sum, and
    not one piece of the gradients at a time."""
    here = {what: size for what, size in purposes.items() if not what.endswith(HOST)}
    if place == ON_GPU:
        here |= {
            what.removesuffix(HOST): size for what, size in purposes.items() if what.endswith(HOST)
        }
    return sum(here.values())
