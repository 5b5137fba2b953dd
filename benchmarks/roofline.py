"""`python -m benchmarks.roofline`: the images per second that an H100 allows our kernels, computed
without a run.

The bound of each layer is from the FLOPs of its products and the bytes that our launches read and
write, at the rates of NVIDIA's data sheet, and 3 us for each launch. Kernels that reach neither
rate stay below it. With `layers`, the command prints the page docs/roofline.md. `launches` were
counted on real CuPy over a stand-in for CUDA (tests/gpu/test_counts.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.helpers.command_line import parser_of
from nets import Net, load_net
from nets.tools.volumes import LayerVolume, Volumes, volumes
from ops import get_backend

BYTES = 3.35e12  # a second, of an H100 SXM
FLOPS = {"float32": 67e12, "tf32": 495e12, "bf16": 989e12}  # a second, dense
LAUNCH = 3e-6  # seconds
# numbers read and written for each parameter: w, its gradient, its history; the new w and history
UPDATE = 5


@dataclass(frozen=True)
class Workload:
    """A net of the zoo, its batch, and the launches of a step whose windows fit into one part."""

    net: str
    batch: int
    launches: int


WORKLOADS = [
    Workload("alexnet", 256, 113), Workload("caffenet", 256, 112), Workload("vgg16", 128, 204),
    Workload("googlenet", 128, 661), Workload("resnet50", 128, 699),
]  # fmt: skip
# Numbers moved for each number that a layer without products reads, forward and backward. A layer
# that is fused with the layer before it costs nothing.
MOVED = {
    "BatchNorm": 8,
    "Scale": 0,
    "ReLU": 3,
    "LRN": 8,
    "Pooling": 4,
    "Dropout": 4,
    "Concat": 0,
    "Eltwise": 3,
}


@dataclass(frozen=True)
class Bound:
    """The work of a layer in a step: FLOPs, bytes other than windows, and bytes of windows that are
    written and read again."""

    name: str
    flops: int
    moved: int
    windows: int

    def seconds(self, rate: float, *, lowered: bool = True) -> float:
        """The seconds at this rate of FLOPs. Without `lowered`, windows are made inside the
        product, as cuDNN does it."""
        written = self.windows / 2 / BYTES if lowered else 0.0
        read = self.moved + (self.windows / 2 if lowered else 0)
        return written + max(read / BYTES, self.flops / rate)


def bound(layer: LayerVolume, batch: int, number: int = 4) -> Bound:
    """The work of one layer at this batch."""
    flops = layer.forward + layer.backward
    if not flops:
        return Bound(layer.name, 0, number * MOVED.get(layer.kind, 2) * layer.inputs, 0)
    passes = sum(map(bool, (layer.forward, layer.backward_weights, layer.backward_data)))
    # a 1x1 kernel has no windows
    direct = layer.kind != "Convolution" or layer.lowered * batch == layer.inputs
    # bias, ReLU, bias gradient
    moved = passes * (layer.inputs + layer.outputs + layer.weights) + 3 * layer.outputs
    return Bound(
        layer.name,
        flops,
        number * moved,
        0 if direct else 2 * number * passes * layer.lowered * batch,
    )


def of_net(work: Workload) -> tuple[Volumes, list[Bound]]:
    """The volumes of a net, and the work of its layers and of the update of all parameters."""
    net = Net(
        load_net(work.net),
        "TRAIN",
        ops=get_backend("cupy plan"),
        batch=work.batch,
        input_shape=(3, 256, 256),
    )
    found = volumes(net)
    update = Bound("update", 0, 4 * UPDATE * found.parameters, 0)
    return found, [*(bound(layer, work.batch) for layer in found.layers), update]


def images_per_second(work: Workload, rate: float, *, lowered: bool = True) -> float:
    """The images per second that the bound of a whole step allows."""
    seconds = sum(one.seconds(rate, lowered=lowered) for one in of_net(work)[1])
    return work.batch / (seconds + work.launches * LAUNCH)


PAGE = """# The work of each layer on a GPU

`python -m benchmarks.roofline layers` writes this page; [gpu.md](gpu.md) has the sums. For each layer in a training step
the tables show the FLOPs of its products, the bytes that our launches read and write, and the time that an H100 takes for
the FLOPs or for the bytes, whichever is longer. The last row is the time that launches add. All numbers are computed, not
measured.
"""


def layers() -> str:
    """The text of the page, for all nets."""
    lines = [PAGE]
    for work in WORKLOADS:
        lines.append(f"## {work.net}, {work.batch} images\n")
        lines += [
            "| layer | GFLOP | MB | us in `exact` | us in `tf32` | us in `bf16` |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for one in of_net(work)[1]:
            times = " | ".join(f"{one.seconds(rate) * 1e6:.0f}" for rate in FLOPS.values())
            size = (one.moved + one.windows) / 1e6
            lines.append(f"| {one.name} | {one.flops / 1e9:.1f} | {size:.1f} | {times} |")
        added = f"{work.launches * LAUNCH * 1e6:.0f}"
        lines += [f"| {work.launches} launches | | | {added} | {added} | {added} |", ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of nets, or the page of layers."""
    parser = parser_of("roofline", __doc__)
    parser.add_argument("what", nargs="?", choices=["layers"])
    if parser.parse_args(arguments).what:
        sys.stdout.write(layers())
        return 0
    for work in WORKLOADS:
        rates = [
            f"{images_per_second(work, rate):,.0f}".replace(",", " ") for rate in FLOPS.values()
        ]
        direct = f"{images_per_second(work, FLOPS['tf32'], lowered=False):,.0f}".replace(",", " ")
        print(f"| {work.net} | {work.batch} | {' | '.join(rates)} | {direct} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
