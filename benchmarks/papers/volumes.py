"""The part `volumes` of `benchmarks.papers`: weights, activations and FLOPs of the papers' nets."""

from __future__ import annotations

from benchmarks.helpers.report import Record
from benchmarks.papers.planned import IMAGENET
from nets import Net, load_net
from nets.tools.volumes import volumes
from ops import get_backend

NETS = ("nin", "alexnet", "googlenet", "vgg19", "alexnet_owt")
BATCH = 1024  # of FireCaffe's Table 1


def measure(record: Record) -> None:
    """Record a row for each net."""
    record.table(
        f"Volumes for {BATCH} images",
        *("net", "weights MB", "data MB", "data / weights", "forward and backward TFLOP"),
        *("FLOPs of the conv phase %", "parameters of the FC phase %"),
    )
    for name in NETS:
        net = Net(load_net(name), "TRAIN", ops=get_backend(), input_shape=IMAGENET, batch=BATCH)
        whole = volumes(net)
        conv, fc = whole.part("conv"), whole.part("fc")
        flops = whole.forward + whole.backward
        record.row(
            *(name, whole.weight_bytes / 1e6, whole.data_bytes / 1e6),
            *(whole.data_bytes / whole.weight_bytes, flops / 1e12),
            *(100 * (conv.forward + conv.backward) / flops, 100 * fc.parameters / whole.parameters),
        )
