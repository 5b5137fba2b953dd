"""`python -m benchmarks.training`: whole training steps (forward, backward and update) compared
with PyTorch.

All sides run in one process, turn by turn, on the same made-up images. PyTorch runs eagerly, in both
of its layouts (the best one counts). Its nets are ours, translated layer by layer (`torch_peer`), and
torchvision's where ours stands for one of these. Each number of threads has its own process.
A ratio above 1 means that Convoy is faster. With `--beside numpy` the other side is Convoy's own
NumPy backend. With `--precision bf16` PyTorch also runs in its bfloat16 autocast, and Convoy's own
float32 stands beside it with a ratio of its own. A row is saved when it is known. With `--compiled` PyTorch also runs through `torch.compile`, channels last
(a compiler for C++ is needed, and a minute or more for each net). With `--vector-bits 256` all sides
use the instructions of a processor without AVX-512; the results get a file of their own.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.narrowing import LIBRARIES, narrowed, narrowing
from benchmarks.helpers.report import (
    ROOT,
    Record,
    gain,
    machine,
    medians,
    missing,
    ratio,
    rounds,
    write,
)
from benchmarks.helpers.rounding import BFLOAT16, no_bfloat16

SAMPLES = (3, 40)  # rounds at least and at most


@dataclass(frozen=True)
class Workload:
    """A net of the zoo, its batch, an image's shape, its classes, and the ratios to reach.

    `bar`: in float32, compared with PyTorch's float32. `rounded_bar`: in bf16, compared with
    PyTorch's best. `own_bar`: in bf16, compared with our float32. `model`: the net's name in
    `torchvision.models`, or `airbench94`, which has a port of its own.
    """

    net: str
    batch: int
    image: tuple[int, int, int] | None
    bar: float
    classes: int = 10
    rounded_bar: float = 1.0
    model: str = ""
    own_bar: float = 1.0


GREY, SMALL, LARGE, WIDE = (1, 28, 28), (3, 32, 32), (3, 224, 224), (3, 227, 227)
WORKLOADS = {
    work.net: work
    for work in (
        Workload("lenet", 64, GREY, 1.1, rounded_bar=1.3),
        Workload("cifar10_quick", 128, SMALL, 1.3, rounded_bar=1.5),
        Workload("caffenet", 64, WIDE, 2.0, 1000, rounded_bar=1.5),
        Workload("nin", 32, LARGE, 1.15, 1000),
        Workload("googlenet", 16, LARGE, 1.15, 1000, rounded_bar=1.5),
        Workload("vgg16", 8, LARGE, 2.0, 1000, rounded_bar=1.5),
        Workload("resnet50", 8, LARGE, 1.3, 1000, rounded_bar=1.05, own_bar=1.35),
        Workload("resnet20", 128, SMALL, 1.0),
        Workload("mobilenet_v1", 16, LARGE, 1.3, 1000, rounded_bar=1.5, own_bar=1.5),
        Workload("mobilenet_v2", 16, LARGE, 1.3, 1000, rounded_bar=1.8, own_bar=1.5),
        Workload("resnet18", 16, LARGE, 1.0, 1000, 1.05, "resnet18"),
        Workload("mobilenet_v3_large", 16, LARGE, 1.0, 1000, 1.8, "mobilenet_v3_large", 1.5),
        Workload("efficientnet_b0", 16, LARGE, 1.0, 1000, 1.8, "efficientnet_b0"),
        Workload("convnext_tiny", 8, LARGE, 1.0, 1000, 1.1, "convnext_tiny"),
        Workload("airbench94", 1024, SMALL, 1.0, 10, 1.1, "airbench94"),
        Workload("char_lstm", 64, None, 1.0, 65, rounded_bar=1.2, own_bar=1.5),
    )
}
PEERS = {"torch": ("nchw", "nhwc"), "numpy": ("numpy",)}  # peer -> its sides
OWN = "convoy float32"
ROUNDED = ("nchw bf16", "nhwc bf16", OWN)  # more sides of precision bf16
COMPILED = ("nhwc compiled", "nhwc bf16 compiled")  # of them the second only in precision bf16
BESIDE_NUMPY = {"cifar10_quick": 2.0}  # the ratios to reach there; 1 for the others


def main(arguments: list[str] | None = None) -> int:
    """Run the workloads for each number of threads and write the results. Returns 1 if a ratio is
    below its bar, or if a process did not end its measurement."""
    parser = parser_of("training", __doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--nets", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--precision", choices=("exact", "fast", "bf16"), default="fast")
    parser.add_argument("--beside", choices=PEERS, default="torch")
    parser.add_argument("--compiled", action="store_true", help="torch.compile as one more peer")
    parser.add_argument(
        "--vector-bits",
        type=int,
        choices=LIBRARIES,
        help="the widest vectors that all sides may use",
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="seconds for each net and number of threads"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    vision = any(WORKLOADS[name].model not in ("", "airbench94") for name in given.nets)
    needed = ["torch", *(["torchvision"] if vision else [])]
    if given.beside == "torch" and (absent := missing({name: name for name in needed})):
        print(
            f"missing: {', '.join(absent)}, the peer; install with: python -m pip install "
            f"{' '.join(absent)}; or choose other --nets"
        )
        return 1
    if given.precision == BFLOAT16 and (why := no_bfloat16(given.vector_bits)):
        print(f"{why}; choose another --precision")
        return 1
    if given.into:
        return run_here(given)
    records = {}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        for threads in given.threads:
            some = "" if set(given.nets) == set(WORKLOADS) else f", {' '.join(given.nets)}"
            part = f"{threads} threads{some}"  # some nets do not replace a run of all
            records[part] = run_apart(given, threads, part, Path(folder, f"{threads}.json"))
    name = "-".join(
        ["training", given.precision, *(["beside-numpy"] if given.beside == "numpy" else [])]
    )
    found = narrowed(machine(), given.vector_bits) if given.vector_bits else machine()
    paths = write(given.results, name, found, records)
    print("results:", *paths)
    return int(any(record.status in ("failed", "running") for record in records.values()))


def run_apart(given: argparse.Namespace, threads: int, part: str, path: Path) -> Record:
    """Measure one number of threads in a new process, whose libraries all use that many."""
    Record(part, path=path).save()
    names = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    if given.vector_bits:
        environment |= narrowing(given.vector_bits)
    command = [
        sys.executable,
        "-m",
        "benchmarks.training",
        "--into",
        str(path),
        "--threads",
        str(threads),
    ]
    command += [
        "--precision",
        given.precision,
        "--beside",
        given.beside,
        "--seconds",
        str(given.seconds),
        *(["--compiled"] if given.compiled else []),
    ]
    command += ["--nets", *given.nets]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return Record.load(path)


def run_here(given: argparse.Namespace) -> int:
    """Measure in this process, and save the record."""
    from ops.cpu.codegen.target import host

    threads = given.threads[0]
    peers = sides_of(given)
    record = Record.load(given.into)
    record.path = given.into
    record.facts = {"precision": given.precision, "bits of a vector": host().bits}
    if given.beside == "torch":
        import torch

        torch.set_num_threads(threads)
        record.facts |= {
            "torch": torch.__version__,
            "instructions of PyTorch": torch.backends.cpu.get_cpu_capability(),
        }
    own = OWN in peers
    record.table(
        f"Images (LSTM: characters) a second, {threads} threads", "net", "batch", *peers, "convoy",
        "ratio to the best other", "bar", *(["ratio to float32", "its bar"] if own else []),
    )  # fmt: skip
    for name in given.nets:
        work = WORKLOADS[name]
        taken = rounds(
            steps(work, given, threads), given.seconds, least=SAMPLES[0], most=SAMPLES[1]
        )
        rates = {label: work.batch / of for label, of in medians(taken).items()}
        faster = gain({label: times for label, times in taken.items() if label != OWN})
        scale = 64 if work.image is None else 1  # 64 steps of time
        # an LSTM has one layout
        shown = [rates.get(label, math.nan) * scale for label in (*peers, "convoy")]
        bar = bar_of(work, given)
        bars = [faster, bar]
        if own:
            bars += [ratio(taken[OWN], taken["convoy"]), work.own_bar]
        record.row(name, work.batch, *shown, *bars)
        if faster < bar:
            record.fail(f"{name}: below its bar with {threads} threads")
        if own and bars[2] < work.own_bar:
            record.fail(f"{name}: below its bar beside float32 with {threads} threads")
        record.save()
    if record.status == "running":
        record.status = "passed"
    record.save()
    return 0


def sides_of(given: argparse.Namespace) -> tuple[str, ...]:
    """The sides that Convoy is compared with."""
    rounded = given.precision == "bf16"
    compiled = [each for each in COMPILED if rounded or "bf16" not in each]
    return (
        *PEERS[given.beside],
        *(ROUNDED if rounded else ()),
        *(compiled if given.compiled else ()),
    )


def bar_of(work: Workload, given: argparse.Namespace) -> float:
    """The ratio that a net has to reach."""
    if given.beside == "numpy":
        return BESIDE_NUMPY.get(work.net, 1.0)
    return work.rounded_bar if given.precision == "bf16" else work.bar


def steps(
    work: Workload, given: argparse.Namespace, threads: int
) -> dict[str, Callable[[], object]]:
    """A training step of each side."""
    from nets import Net, load_net
    from ops import get_backend

    options: dict[str, Any] = {"batch": work.batch, "input_shape": work.image} if work.image else {}

    def net_on(ops: Any) -> Any:
        return Net(load_net(work.net), "TRAIN", ops=ops, memory="reused", seed=1, **options)

    net = net_on(get_backend("cpu", threads=threads, precision=given.precision))
    inputs = made_up(net, work.classes)
    sides: dict[str, Callable[[], object]] = {"convoy": our_step(net, inputs)}
    for label in sides_of(given):
        if label == "numpy":
            sides[label] = our_step(net_on(get_backend("numpy")), inputs)
        elif label == OWN:
            plain = get_backend("cpu", threads=threads, precision="fast")
            sides[label] = our_step(net_on(plain), inputs)
        elif work.image or label.startswith("nchw"):
            sides[label] = torch_step(
                net,
                inputs,
                channels_last="nhwc" in label,
                autocast="bf16" in label,
                compiled="compiled" in label,
                model=work.model,
            )
    return sides


def made_up(net: Any, classes: int) -> dict[str, np.ndarray[Any, Any]]:
    """Images of standard normal numbers, labels and characters below `classes`, and sequences that
    start at the first step and go on."""
    rng = np.random.default_rng(0)
    found = {}
    for name, shape in net.input_shapes.items():
        if len(shape) == 4:
            found[name] = rng.standard_normal(shape, dtype=np.float32)
        elif name == "cont":
            found[name] = np.ones(shape, np.float32)
            found[name][0] = 0
        else:
            found[name] = rng.integers(0, classes, shape).astype(np.float32)
    return found


def our_step(net: Any, inputs: dict[str, Any], blobs: Any = None) -> Callable[[], object]:
    """A step of forward, backward and update as the preset `single` makes it. `blobs`: the first
    parameters; None makes the net's own."""
    from nets import load_solver
    from roles.learning.parameter_store import ParameterStore

    solver = load_solver("lenet").override({"base_lr": 1e-3, "momentum": 0.9})
    store = ParameterStore(net.params, blobs or net.initial_blobs(), solver, net.ops, in_place=True)
    return step_of(net, inputs, store)


def step_of(net: Any, inputs: dict[str, Any], store: Any) -> Callable[[], object]:
    """The step of the preset `single` with the parameters of `store`."""
    from roles.learning.buffers import gradient_buffers
    from roles.workers.single import train

    gradients = gradient_buffers(net)

    def step() -> object:
        net.begin(0)
        for name, array in inputs.items():
            net.feed(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        train(net, store, gradients)
        return net.scalars()

    return step


def torch_step(
    net: Any,
    inputs: dict[str, Any],
    *,
    channels_last: bool,
    device: Any = None,
    autocast: bool = False,
    blobs: Any = None,
    compiled: bool = False,
    model: str = "",
) -> Callable[[], object]:
    """The same step by PyTorch with its SGD, on the CPU or another `device`, in bfloat16 if
    `autocast`, through `torch.compile` if `compiled`. A device copies the images from page-locked
    memory in every step. `model`: the net's name in torchvision, or `airbench94`, whose weights are drawn anew."""
    import torch

    from benchmarks.training.torch_peer import peer_of

    layout = torch.channels_last if channels_last else torch.contiguous_format
    peer = peer_of(model, net, blobs).to(device=device, memory_format=layout)
    if compiled:
        peer.compile()
    given = {
        name: torch.from_numpy(array).to(memory_format=layout)
        if array.ndim == 4
        else torch.from_numpy(array).long()
        for name, array in inputs.items()
    }
    if device is not None:
        given = {name: array.pin_memory() for name, array in given.items()}
    optimizer = torch.optim.SGD(peer.parameters(), 1e-3, 0.9, weight_decay=5e-4)

    def step() -> object:
        optimizer.zero_grad()
        kind = device.type if device else "cpu"
        with torch.autocast(kind, torch.bfloat16) if autocast else nullcontext():
            loss = peer(
                **{name: array.to(device, non_blocking=True) for name, array in given.items()}
            )
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step
