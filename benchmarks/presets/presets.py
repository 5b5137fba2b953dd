"""`python -m benchmarks.presets --mnist FOLDER --cifar FOLDER`: every strategy of the papers, in
one program.

    learning       LeNet with every preset: accuracy, speed, staleness, bytes on the links and at the hottest node
    equality       presets that compute the same as one process: their parameters compared with its, in float32, with
                   `reproducible` and in float64
    reproducible   the same bits with 1, 2, 4 and 8 workers, and the cost of that
    merged         CaffeNet's bytes with the FC phase merged and not
    variable       One weird trick, Table 1: a large batch, and one whose FC phase has small ones
    schemes        One weird trick's schemes in processes, in turns (`schemes`)

Speeds are of runs in processes, as `up` makes them. Bytes are counted by the metrics and compared
with the prediction of `plan`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import roles
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.presets.runs import DOUBLE, Data, arrays_of, bytes_seen, one_step, run
from benchmarks.presets.schemes import NETS, schemes
from roles.forecasting.traffic import traffic

Strategy = dict[str, Any]

ACCURATE = 0.985  # bars: accuracy, relative difference, points of accuracy
NEAR = 1e-5
POINTS = 0.0

# Asynchronous presets have an implicit momentum of 1 - 1/g in addition to the solver's (Omnivore,
# section 4.2), so their solver's momentum is lower.
ALONE = 0.9
HALF = 0.8
STRATEGIES: dict[str, tuple[Strategy, float]] = {
    "single": ({"preset": "single"}, ALONE),
    "omnivore, g = 2": ({"preset": "omnivore", "workers": 4, "groups": 2}, HALF),
    "sync": ({"preset": "sync", "workers": 2}, ALONE),
    "async": ({"preset": "async", "workers": 2}, HALF),
    "mxnet-sync": ({"preset": "mxnet-sync", "workers": 2, "servers": 2}, ALONE),
    "mxnet-async": ({"preset": "mxnet-async", "workers": 2}, HALF),
    "singa, g = 2": ({"preset": "singa", "workers": 4, "groups": 2}, HALF),
    "distbelief": ({"preset": "distbelief", "workers": 2}, HALF),
    "adam": ({"preset": "adam", "workers": 2, "groups": 2}, HALF),
    "firecaffe": ({"preset": "firecaffe", "workers": 4}, ALONE),
    "parameter-server": ({"preset": "parameter-server", "workers": 4}, ALONE),
    "host-accumulate": ({"preset": "host-accumulate", "workers": 2}, ALONE),
    "replicas": ({"preset": "replicas", "workers": 2}, ALONE),
    "one-weird-trick a": ({"preset": "one-weird-trick", "workers": 2, "scheme": "a"}, ALONE),
    "one-weird-trick b": ({"preset": "one-weird-trick", "workers": 2, "scheme": "b"}, ALONE),
    "one-weird-trick c": ({"preset": "one-weird-trick", "workers": 2, "scheme": "c"}, ALONE),
    "variable batch": (
        {"preset": "one-weird-trick", "workers": 2, "scheme": "b", "variable_batch": True}, ALONE
    ),
    "sparknet": ({"preset": "sparknet", "workers": 2}, ALONE),
    "dl4j": ({"preset": "dl4j", "workers": 2}, ALONE),
    "local-fc-shards": ({"preset": "local-fc-shards", "workers": 2, "servers": 2}, ALONE),
}  # fmt: skip
EQUAL = (
    "sync",
    "firecaffe",
    "parameter-server",
    "host-accumulate",
    "one-weird-trick a",
    "one-weird-trick b",
    "one-weird-trick c",
    "local-fc-shards",
    "mxnet-sync",
    "replicas",
)
PARTED = (
    "One process that computes the whole batch in 8 parts also differs from itself by more "
    "than the bar: in float32 the "
    "numbers depend that much on the order of sums. The last bits differ, so once in a "
    "while another pixel is the maximum of a "
    "window, or a ReLU opens that was closed, and gradients take another path. In "
    "float64, such close numbers "
    "hardly ever occur; with `reproducible` all make the same sums."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("presets", __doc__)
    parser.add_argument(
        "--mnist", type=Path, help=("folder of MNIST's IDX files; without it, the digits that ship")
    )
    parser.add_argument(
        "--cifar", type=Path, help=("folder of CIFAR-10's binary files; without it, no CIFAR-10")
    )
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--presets", nargs="+", choices=tuple(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument(
        "--iterations", type=int, default=2500, help="iterations of 64 images with each preset"
    )
    parser.add_argument(
        "--variable-iterations", type=int, default=600, help="of the large batch's run"
    )
    parser.add_argument(
        "--nets", nargs="+", choices=tuple(NETS), default=list(NETS), help="of the part schemes"
    )
    parser.add_argument("--lives", type=int, default=2, help="starts of the runs of `schemes`")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each of them in a life")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    data = Data(given.mnist, given.cifar)
    records = {name: Record(title) for name, (title, _) in PARTS.items()}
    for name in given.parts:
        print(records[name].title, flush=True)
        PARTS[name][1](records[name], data, given)
        records[name].status = (
            "passed" if records[name].status == "running" else records[name].status
        )
    made = {name: records[name] for name in given.parts}
    print("results:", *write(given.results, "presets", machine(), made))
    return int(any(record.status == "failed" for record in made.values()))


def learning(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Train with every preset on the same net, images and number of iterations."""
    record.facts = {
        "net": f"LeNet on {data.digits_name}",
        "iterations": given.iterations,
        "images an iteration": 64,
    }
    record.table(
        "Presets",
        "preset",
        "workers",
        "momentum",
        "accuracy %",
        "images/s",
        "staleness",
        "bytes an iteration",
        "on the busiest link",
        "at the hottest node",
        "hottest node",
    )
    for name in given.presets:
        strategy, momentum = STRATEGIES[name]
        options = data.lenet(strategy, given.iterations, momentum=momentum)
        events = run(roles.training(options))
        (end,) = [event for event in events if event["event"] == "finished"]
        stale = mean(event["staleness"] for event in events if event["event"] == "progress")
        sent = checked(record, name, data, strategy, momentum)
        nodes = {
            node: sum(size for link, size in sent.items() if node in link)
            for link in sent
            for node in link
        }
        hottest = max(nodes, key=lambda node: nodes[node]) if nodes else "none"
        record.row(
            name,
            strategy.get("workers", 1),
            momentum,
            100 * end["accuracy"],
            end["images_per_second"],
            stale,
            sum(sent.values()),
            max(sent.values(), default=0),
            nodes.get(hottest, 0),
            hottest,
        )
        if end["accuracy"] < ACCURATE:
            record.fail(f"{name}: {100 * end['accuracy']:.2f} %, at least {100 * ACCURATE}")


def checked(
    record: Record, name: str, data: Data, strategy: Strategy, momentum: float
) -> dict[tuple[str, str], int]:
    """The bytes of arrays on every link in an iteration, as predicted. They must be equal to those
    counted in one run, else the record fails."""
    alone = {
        **strategy,
        "groups": 1,
        **({"tau": 1} if strategy["preset"] in ("sparknet", "dl4j") else {}),
    }
    if strategy["preset"] in ("async", "mxnet-async", "distbelief"):
        alone["workers"] = 1  # with several groups, an iteration is one of each link's own group
    topology = roles.training(data.lenet(alone, 3, momentum=momentum, test=False))
    said = {
        link: sum(size or 0 for size in kinds.values()) for link, kinds in traffic(topology).items()
    }
    seen = bytes_seen(topology)
    if {link: size * 3 for link, size in said.items() if size} != {
        link: size for link, size in seen.items() if size
    }:
        record.fail(f"{name}: counted {seen} in 3 iterations, predicted {said} in each")
    full = traffic(roles.training(data.lenet(strategy, 3, momentum=momentum, test=False)))
    return {link: sum(size or 0 for size in kinds.values()) for link, kinds in full.items()}


def equality(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Compare ten iterations of each preset with ten of `single`: in float32, with `reproducible`
    and in float64. Single iterations from equal parameters are compared too, and one process that
    makes the same sums in another order."""
    nets = {"LeNet": data.lenet} | ({"CIFAR-10 full": data.cifar_full} if data.cifar else {})
    record.table(
        ("Largest difference, of an array's largest number"),
        "net",
        "preset",
        "parameters after 10 iterations",
        "and histories",
        "both after one, from equal parameters",
        "both after 10, reproducible",
        "parameters after 10 in float64",
    )
    for net, options in nets.items():
        alone, wide = (arrays_of(options({"preset": "single"}, 10) | more) for more in ({}, DOUBLE))
        fixed = arrays_of(options({"preset": "single", "reproducible": True}, 10))
        itself = apart(fixed, parameters(alone))
        record.row(net, "one process, in 8 parts", itself, apart(fixed, alone), "", "", "")
        if itself > NEAR:
            record.note(PARTED)
        for name in (name for name in EQUAL if name in given.presets):
            strategy = {**STRATEGIES[name][0], "workers": 2 if name != "firecaffe" else 4}
            found = arrays_of(options(strategy, 10))
            near = apart(found, parameters(alone))
            steps = max(apart(*one_step(options, strategy, at)) for at in (0, 4, 9))
            bits = apart(arrays_of(options({**strategy, "reproducible": True}, 10)), fixed)
            double = apart(arrays_of(options(strategy, 10) | DOUBLE), parameters(wide))
            record.row(net, name, near, apart(found, alone), steps, bits, double)
            if not all(difference <= NEAR for difference in (near, steps, double)):
                told = (
                    f"{near:.1e} after 10 iterations, {steps:.1e} after one, {double:.1e} "
                    "after 10 in float64"
                )
                record.fail(f"{net}, {name}: {told}, at most {NEAR}")
            if bits != 0:
                record.fail(
                    f"{net}, {name}: {bits:.1e} after 10 reproducible iterations, "
                    "expected the same bits"
                )


def parameters(arrays: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's arrays without the solver's histories."""
    return {name: of for name, of in arrays.items() if "history" not in name}


def apart(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest difference in any array, relative to the array's largest number; NaN if there is
    a NaN."""
    return float(
        np.max([np.abs(found[name] - of).max() / np.abs(of).max() for name, of in expected.items()])
    )


def reproducible(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Compare the bits after 200 iterations, and the images a second with those of runs that need
    not repeat."""
    record.table(
        "200 iterations of LeNet",
        "workers",
        "same bits as 1 worker",
        "images/s",
        "without",
        "ratio",
    )
    first: dict[str, Any] = {}
    for workers in (1, 2, 4, 8):
        strategy = {"preset": "sync", "workers": workers, "reproducible": True}
        found = arrays_of(data.lenet(strategy, 200))
        first = first or found
        same = all(found[name].tobytes() == of.tobytes() for name, of in first.items())
        rates = [
            run(roles.training(data.lenet({**strategy, "reproducible": kept}, 400, test=False)))[
                -1
            ]["images_per_second"]
            for kept in (True, False)
        ]
        record.row(workers, "yes" if same else "no", *rates, rates[0] / rates[1])
        if not same:
            record.fail(f"{workers} workers: other bits than one")


def merged(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Record CaffeNet's bytes in an iteration: activations that cross to a merged FC phase, or the
    phase's parameters."""
    record.table(
        "CaffeNet, batch 256, 8 workers", "preset", "bytes an iteration", "at the hottest node"
    )
    totals = []
    for preset in ("sync", "mxnet-sync", "local-fc-shards", "firecaffe"):
        said = traffic(roles.training(data.caffenet({"preset": preset, "workers": 8}, batch=256)))
        sizes = {link: sum(size or 0 for size in kinds.values()) for link, kinds in said.items()}
        nodes = {
            node: sum(size for link, size in sizes.items() if node in link)
            for link in sizes
            for node in link
        }
        totals.append(sum(sizes.values()))
        record.row(preset, totals[-1], max(nodes.values()))
    record.note(
        f"unmerged / merged: {totals[1] / totals[0]:.2f}. Merged, 9216 activations of each "
        "image cross to the FC phase "
        "and back; unmerged, its 58.6 million parameters go to every worker and their "
        "gradients come back."
    )


def variable(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Train CIFAR-10 quick with the batch times K, once plainly, and once with the FC phase updated
    after each of the K parts."""
    if data.cifar is None:
        record.status = "skipped"
        return
    record.table("CIFAR-10 quick, one seed", "batch", "FC batch", "iterations", "accuracy %")
    found = {}
    base = 128
    workers = 4
    for batch, split in ((base, False), (base * workers, False), (base * workers, True)):
        count = workers if batch > base else 1
        strategy = {
            "preset": "one-weird-trick",
            "workers": workers,
            "scheme": "b",
            "variable_batch": split,
        }
        iterations = given.variable_iterations * workers // count
        (end,) = [
            e
            for e in run(roles.training(data.cifar_quick(strategy, iterations, batch)))
            if e["event"] == "finished"
        ]
        found[batch, split] = 100 * end["accuracy"]
        record.row(batch, base if split else batch, iterations, found[batch, split])
    if found[base * workers, True] < found[base * workers, False] - POINTS:
        record.fail("a small FC batch is worse than the large batch")


PARTS = {
    "learning": ("LeNet with every preset", learning),
    "equality": ("The numbers of one process", equality),
    "reproducible": ("The same bits with any number of workers", reproducible),
    "merged": ("Merged and unmerged FC phase", merged),
    "variable": ("Variable batch", variable),
    "schemes": ("One weird trick's schemes in processes", schemes),
}
