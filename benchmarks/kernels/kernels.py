"""`python -m benchmarks.kernels`: every convolution of the nets, and one of each kind, compared with
PyTorch's oneDNN and with the bound of this machine, pass by pass, with its error.

Both sides run in one process, turn by turn. PyTorch runs in both of its layouts (the better one
counts) and in eager mode, with each result in new memory. Each precision and number of threads has
its own process. A ratio above 1 means that Convoy is faster. A pass with a ratio below 1 is
measured again, twenty times as long, and the second result counts. GB/s counts the images of a pass
once. The share of the bound is the least time that a pass needs, divided by its time: either its
products at the rate of the best product of large matrices, or its images at the rate of a copy,
whichever is longer. Depthwise convolutions multiply in float32 in every precision. Winograd's
algorithms make fewer products, so their share may be above 1. An error is the largest difference
from `conv_reference`'s numbers, divided by the largest of them. With the precision "bf16" our images
and PyTorch's operands are bfloat16, except images that a net reads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, gain, machine, medians, missing, rounds, write
from benchmarks.helpers.rounding import BFLOAT16, no_bfloat16
from benchmarks.kernels import bounds, conv_reference
from benchmarks.kernels.convolutions import (
    DATA,
    FORWARD,
    PASSES,
    WEIGHTS,
    Layer,
    algorithm_of,
    layers_of,
    made_up,
    our_passes,
    stored_by,
    torch_passes,
    torch_type,
)
from benchmarks.kernels.kinds import KINDS
from benchmarks.training.training import WORKLOADS

NETS = [*KINDS, *(name for name, work in WORKLOADS.items() if work.image)]
BAR = 0.9  # the least ratio of a single pass
CLEAR = 1.0  # a pass with a ratio below this is measured again, LONGER times as long
LONGER = 20
ERRORS = {  # the largest error by precision
    "exact": dict.fromkeys(PASSES, 1e-5),
    "fast": {FORWARD: 1e-4, DATA: 1e-4, WEIGHTS: 1e-3},
    "bf16": dict.fromkeys(PASSES, 2e-2),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the layers for each precision and number of threads, and write the results. Returns 1 if
    a pass misses its bar."""
    parser = parser_of("kernels", __doc__)
    parser.add_argument(
        "--nets", nargs="+", choices=NETS, default=NETS, help="nets, and kinds of convolutions"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", nargs="+", choices=tuple(ERRORS), default=["fast"])
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="seconds for each pass of each layer"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if absent := missing({"torch": "torch"}):
        print(
            f"missing: {', '.join(absent)}, the peer; install it with: python -m pip install "
            f"{' '.join(absent)}"
        )
        return 1
    if BFLOAT16 in given.precision and (why := no_bfloat16()):
        print(f"{why}; leave {BFLOAT16} out of --precision")
        return 1
    if given.into:
        return run_here(given)
    records = {}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        for precision in given.precision:
            for threads in given.threads:
                # some nets do not replace a run of all
                some = "" if set(given.nets) == set(NETS) else f", {' '.join(given.nets)}"
                title = f"{precision}, {threads} threads{some}"
                records[title] = run_apart(
                    given, title, precision, threads, Path(folder, f"{precision}{threads}.json")
                )
    paths = write(given.results, "kernels", machine(), records)
    print("results:", *paths)
    return int(any(record.status != "passed" for record in records.values()))


def run_apart(
    given: argparse.Namespace, title: str, precision: str, threads: int, path: Path
) -> Record:
    """Measure one precision and number of threads in a new process, whose libraries all use that
    many."""
    print(title, flush=True)
    Record(title, path=path).save()
    names = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [
        sys.executable,
        "-m",
        "benchmarks.kernels",
        "--into",
        str(path),
        "--threads",
        str(threads),
    ]
    command += ["--precision", precision, "--seconds", str(given.seconds), "--nets", *given.nets]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return Record.load(path)


def run_here(given: argparse.Namespace) -> int:
    """Measure in this process, and save the record."""
    import torch

    from ops import get_backend

    (threads,), (precision,) = given.threads, given.precision
    torch.set_num_threads(threads)
    ops = get_backend("cpu", threads=threads, precision=precision)
    record = Record.load(given.into)
    record.path = given.into
    bound = bounds.measured(ops, given.seconds)
    record.facts = {
        "torch": torch.__version__,
        "precision": precision,
        "threads": threads,
        **bound.facts(),
    }
    record.table(
        (f"Milliseconds of a pass, {threads} threads"),
        "net",
        "layers",
        "shape",
        "pass",
        "algorithm",
        "torch nchw",
        "torch nhwc",
        "convoy",
        "ratio to the better",
        "GFLOP/s",
        "GB/s",
        "share of the bound",
        "error",
    )
    totals: dict[str, list[float]] = {}
    for net in given.nets:
        totals[net] = [0.0, 0.0]
        for layer, count in (Counter(KINDS.get(net, ())) or layers_of(net, ops)).items():
            size = layer.bytes(stored_by(ops))
            for name, algorithm, taken, error in measure(layer, ops, given.seconds):
                times = medians(taken)
                faster = gain(taken)
                ours = times["convoy"]
                totals[net][0] += min(times["nchw"], times["nhwc"]) * count
                totals[net][1] += ours * count
                shown = [times[label] * 1e3 for label in ("nchw", "nhwc", "convoy")]
                record.row(
                    net,
                    count,
                    str(layer),
                    name,
                    algorithm,
                    *shown,
                    faster,
                    layer.flops / ours / 1e9,
                    size / ours / 1e9,
                    bound.seconds(layer.flops, size, plain=layer.depthwise) / ours,
                    error,
                )
    conclude(record, totals, ERRORS[precision])
    return 0


def conclude(record: Record, totals: dict[str, list[float]], errors: dict[str, float]) -> None:
    """Record the sums of each net, then every pass that misses its bar or whose error is
    too large."""
    rows = record.tables[0].rows
    record.table(
        ("All convolutions of a step, milliseconds"), "net", "torch's better", "convoy", "ratio"
    )
    for net, (theirs, ours) in totals.items():
        record.row(net, theirs * 1e3, ours * 1e3, theirs / ours)
    together = layers_together(rows)
    record.table(
        ("All passes of a layer, beside PyTorch's better layout for each"), "net", "shape", "ratio"
    )
    for (net, shape), ratio in together.items():
        record.row(net, shape, ratio)
    below = sum(ratio < BAR for ratio in together.values())
    least = min(together.values(), default=float("nan"))
    record.note(
        f"{below} of {len(together)} layers below {BAR}, their passes taken "
        f"together; the least {least:.2f}"
    )
    for net, _, shape, name, algorithm, *_, faster, _, _, _, error in rows:
        if faster < BAR:
            record.fail(f"{faster:.2f} of PyTorch: {net}, {shape}, {name}, {algorithm}")
        if not error <= errors[name]:
            record.fail(
                f"error {error:.1e} above {errors[name]:.0e}: {net}, {shape}, {name}, {algorithm}"
            )
    if record.status == "running":
        record.status = "passed"
    record.save()


def layers_together(rows: list[list[Any]]) -> dict[tuple[str, str], float]:
    """PyTorch's time for all passes of a layer in a training step, divided by ours."""
    theirs: defaultdict[tuple[str, str], float] = defaultdict(float)
    ours: defaultdict[tuple[str, str], float] = defaultdict(float)
    for net, _, shape, *_, taken, faster, _, _, _, _ in rows:
        theirs[net, shape] += taken * faster
        ours[net, shape] += taken
    return {layer: theirs[layer] / ours[layer] for layer in ours}


def measure(
    layer: Layer, ops: Any, seconds: float
) -> Iterator[tuple[str, str, dict[str, list[float]], float]]:
    """For each pass: its name, our algorithm, seconds by side and round, our error."""
    arrays = made_up(layer, ops)
    sides = {"convoy": our_passes(layer, ops, arrays)}
    for label in ("nchw", "nhwc"):
        sides[label] = torch_passes(
            layer, arrays, channels_last=label == "nhwc", place=(None, torch_type(ops.precision))
        )
    for name in layer.passes:
        arrays[name].fill(np.nan)
        turns = {label: passes[name] for label, passes in sides.items()}
        taken = rounds(turns, seconds, least=3, most=400)
        if gain(taken) < CLEAR:
            taken = rounds(turns, seconds * LONGER, least=3, most=400)
        yield (
            name,
            algorithm_of(ops, layer, name),
            taken,
            conv_reference.error(layer.shape, name, arrays),
        )
