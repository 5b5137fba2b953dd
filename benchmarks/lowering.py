"""`python -m benchmarks.lowering`: convolution by lowering `b_p` images at a time, from one to the
whole batch.

Omnivore (section 3.2) lowers a batch together, with each thread on its own images. Caffe lowers
image after image with one thread and multiplies each with all threads. Both ways are timed here,
forward and backward, on the convolutions of a net. They are compared with the kernels that this
backend chooses itself, and with the machine's SGEMM rate, measured in the same minutes. Every way
gets its arrays in the layout it works in: lowering channel by channel, the kernels with channels
last. Ways take turns, layer by layer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.training.training import WORKLOADS
from ops import Array, Backend, get_backend
from ops.geometry import ConvGeometry

SERIAL = "serial (OpenBLAS)"
BATCHED = "one lowering thread (OpenBLAS)"
KERNELS = "chosen kernels"
RATES = "OpenBLAS", "this backend"
PAPER = (
    "Omnivore's paper: training CaffeNet whole, b 256, is 3.90 times as fast as Caffe on 8 "
    "cores, 5.36 times on 18 "
    "(Figure 11). Its convolutions alone reach 56 % and 40 % of the processors' peak, "
    "Caffe's 18 % and 8 %: 3.1 and "
    "5.0 times. SGEMM of 16384 x 16384 reaches 81 % and 71 % there (Figure 3), so lowering "
    "gets 69 % and 56 % of "
    "SGEMM, Caffe 22 % and 11 %."
)


@dataclass(frozen=True)
class Layer:
    """A convolution and the shapes of its operands. A net's first one has no gradient by its
    images."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    geometry: ConvGeometry
    first: bool

    @property
    def flops(self) -> float:
        """The FLOPs of the products of all passes, as the paper counts them: one product forward,
        one for each gradient."""
        n, k, high, wide = self.y
        return (
            (2 if self.first else 3) * 2.0 * n * k * high * wide * self.w[1] * self.w[2] * self.w[3]
        )


def main(arguments: list[str] | None = None) -> int:
    """Measure in a process whose libraries all use the same number of threads, and write the
    results."""
    parser = parser_of("lowering", __doc__)
    parser.add_argument("--threads", type=int, default=machine()["cores"])
    parser.add_argument(
        "--net", choices=[n for n, work in WORKLOADS.items() if work.image], default="caffenet"
    )
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--sgemm", type=int, default=4096, help="rows and columns of the matrices")
    parser.add_argument(
        "--seconds",
        type=float,
        default=330.0,
        help="no round begins that would end after so many seconds",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.into:
        return run_here(given)
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        path = Path(folder, "lowering.json")
        Record(f"Lowering, {given.threads} threads", path=path).save()
        names = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        command = [sys.executable, "-m", "benchmarks.lowering", "--into", str(path)]
        for key in ("threads", "net", "batch", "sgemm", "seconds"):
            command += [f"--{key}", str(getattr(given, key))]
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **dict.fromkeys(names, str(given.threads))},
            check=False,
        )
        record = Record.load(path)
    if record.status == "running":
        record.fail("the measuring process ended early")
    print("results:", *write(given.results, "lowering", machine(), {"lowering": record}))
    return int(record.status == "failed")


def run_here(given: argparse.Namespace) -> int:
    """Measure in this process, and save the record."""
    began = time.monotonic()
    record = Record.load(given.into)
    record.path = given.into
    layers = convolutions(given.net, given.batch)
    ways = backends(given.batch, given.threads)
    taken: dict[tuple[str, str], list[float]] = {
        (way, layer.name): [] for way in ways for layer in layers
    }
    rates: dict[str, list[float]] = {name: [] for name in RATES}
    rounds = 0
    longest = 0.0
    warm_up(given, ways)
    while rounds == 0 or time.monotonic() - began + longest < given.seconds:
        start = time.monotonic()
        for layer in layers:
            measure_sgemm(rates, given.sgemm, given.threads)
            arrays = {
                "lowering": operands(layer, by_channels),
                KERNELS: operands(layer, ways[KERNELS].empty),
            }
            if rounds == 0:
                passes(ways[KERNELS], layer, arrays[KERNELS])()  # compiles
            for way, backend in ways.items():
                work = passes(backend, layer, arrays.get(way, arrays["lowering"]))
                taken[way, layer.name].append(_timed(work))
        rounds = rounds + 1
        longest = max(longest, time.monotonic() - start)
    sgemm = {name: median(found) for name, found in rates.items()}
    record.facts = {"net": given.net, "batch": given.batch, "rounds": rounds} | {
        (f"SGEMM of {given.sgemm} x {given.sgemm}, {name}, GFLOP/s"): round(rate / 1e9, 1)
        for name, rate in sgemm.items()
    }
    medians = {key: median(found) for key, found in taken.items()}
    show(record, given.batch, layers, ways, medians, max(sgemm.values()))
    record.status = "passed"
    record.save()
    return 0


def warm_up(given: argparse.Namespace, ways: dict[str, Backend]) -> None:
    """Compile the kernels of all ways."""
    measure_sgemm({name: [] for name in RATES}, 64, given.threads)
    for layer in convolutions(given.net, min(given.batch, 2 * given.threads)):
        for way, backend in ways.items():
            passes(
                backend, layer, operands(layer, backend.empty if way == KERNELS else by_channels)
            )()


def convolutions(name: str, batch: int) -> list[Layer]:
    """The convolutions of a net in the zoo."""
    from nets import Net, load_net

    net = Net(
        load_net(name),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=batch,
        input_shape=WORKLOADS[name].image,
    )
    nodes = [node for node in net.nodes if node.layer.proto.type == "Convolution"]
    found = []
    for node in nodes:
        (x,), (y,) = (
            [net.wiring.values[i].shape for i in values] for values in (node.bottoms, node.tops)
        )
        w = node.layer.params[0].shape  # type: ignore[attr-defined]
        geometry = node.layer.geometry
        found.append(Layer(node.layer.name, x, w, y, geometry, first=node is nodes[0]))
    return found


def backends(batch: int, threads: int) -> dict[str, Backend]:
    """The backend of each way: Caffe's with OpenBLAS or with our products (b_p 1); one thread that
    lowers the whole batch; Omnivore's; our kernels."""
    sizes = [2**power for power in range(batch.bit_length()) if 2**power < batch] + [batch]
    found: dict[str, Backend] = {
        SERIAL: get_backend("numpy", b_p=1),
        BATCHED: get_backend("numpy", b_p=batch),
    }
    found |= {f"b_p {b_p}": get_backend("cpu", b_p=b_p, threads=threads) for b_p in sizes}
    return found | {KERNELS: get_backend("cpu", threads=threads)}


def by_channels(shape: tuple[int, ...]) -> Array:
    """An array for images (N, C, H, W), stored as [C][N][H][W], which is the layout of a product of
    the weights and a lowered matrix."""
    return np.empty((shape[1], shape[0], *shape[2:]), np.float32).transpose(1, 0, 2, 3)


def operands(layer: Layer, empty: Callable[[tuple[int, ...]], Array]) -> dict[str, Array]:
    """All arrays of a layer, filled with noise."""
    rng = np.random.default_rng(0)
    made = {}
    for name, shape in (("x", layer.x), ("dy", layer.y), ("y", layer.y), ("dx", layer.x)):
        made[name] = empty(shape)
        made[name][...] = rng.random(shape[1:], np.float32) - 0.5
    return made | {name: rng.random(layer.w, np.float32) - 0.5 for name in ("w", "dw")}


def passes(backend: Backend, layer: Layer, arrays: dict[str, Array]) -> Callable[[], None]:
    """A function that runs all passes of a layer."""
    x, w, y, dx, dy, dw = (arrays[name] for name in ("x", "w", "y", "dx", "dy", "dw"))

    def run() -> None:
        backend.conv_forward(x, w, None, layer.geometry, out=y)
        backend.conv_backward_weights(x, dy, layer.geometry, layer.w, bias=False, out_w=dw)
        if not layer.first:
            backend.conv_backward_data(dy, w, layer.geometry, layer.x, out=dx)

    return run


def measure_sgemm(rates: dict[str, list[float]], size: int, threads: int) -> None:
    """Add the rate of a large product, in FLOP/s, by NumPy's OpenBLAS and by our kernels."""
    rng = np.random.default_rng(0)
    ours = get_backend("cpu", threads=threads)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    for name, work in zip(
        RATES, (lambda: np.matmul(a, b, out=c), lambda: ours.matmul(a, b, c)), strict=True
    ):
        rates[name].append(2.0 * size**3 / _timed(work))


def _timed(work: Callable[[], object]) -> float:
    """The seconds of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(
    record: Record, batch: int, layers: list[Layer], ways: dict[str, Backend],
    taken: dict[tuple[str, str], float], sgemm: float,
) -> None:  # fmt: skip
    """Record both tables, the best b_p, and the paper's figures."""
    flops = sum(layer.flops for layer in layers)
    whole = {}
    for way in ways:
        whole[way] = sum(taken[way, layer.name] for layer in layers)
    serial = min(whole[SERIAL], whole["b_p 1"])
    ours = [way for way in ways if way.startswith("b_p")]
    best = min(ours, key=whole.__getitem__)
    record.table(
        ("All convolutions, forward and backward"),
        "way",
        "images/s",
        "ratio to serial",
        "GFLOP/s",
        "% of SGEMM",
        "lowered MB",
    )
    for way, seconds in whole.items():
        scratch = max(
            ways[way].conv_scratch(layer.x, layer.w, layer.geometry, training=True)
            for layer in layers
        )
        lowered = "" if way == KERNELS else round(scratch / 1e6)
        rate = flops / seconds
        record.row(way, batch / seconds, serial / seconds, rate / 1e9, 100 * rate / sgemm, lowered)
    record.table(
        "GFLOP/s by layer (% of SGEMM)",
        "layer",
        "serial",
        best,
        KERNELS,
        f"{best} / serial",
        "kernels / serial",
    )
    for layer in layers:
        times = [min(taken[SERIAL, layer.name], taken["b_p 1", layer.name])]
        times += [taken[way, layer.name] for way in (best, KERNELS)]
        cells = [
            (f"{layer.flops / t / 1e9:.0f} ({100 * layer.flops / t / sgemm:.0f})") for t in times
        ]
        record.row(layer.name, *cells, *(times[0] / t for t in times[1:]))
    record.note(
        f"Best: {best}, {serial / whole[best]:.2f} times the serial rate (the faster of "
        f"'{SERIAL}' and 'b_p 1'); the "
        f"chosen kernels {serial / whole[KERNELS]:.2f} times. Flops are those of the "
        "products that lowering does: "
        "Winograd kernels need fewer, so their share of SGEMM may exceed 100 %."
    )
    record.note(PAPER)


if __name__ == "__main__":
    sys.exit(main())
