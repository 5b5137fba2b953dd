"""Part `weird-trick` of `benchmarks.tuning`: Table 1 of One weird trick, as `plan` predicts it and as
the real runtime runs it on the virtual clock.

AlexNet in one tower, 128 images for each of K = 1, 2, 4 and 8 machines of kind k20, all schemes and
their hybrids. The difference to the paper is explained station by station: the bytes that leave a
worker by message, and what the paper's machine has that `plan` does not count.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import roles
from benchmarks.helpers.report import Record
from benchmarks.scaling.runs import VIRTUAL, Found, Wanted, simulated
from roles.base.shapes import Shapes
from roles.forecasting.catalogue import kind_called
from roles.forecasting.costs import ByFlops, profile
from roles.forecasting.plan_forecast import plainly
from runtime.plan import prospects
from runtime.runs.checking import Checked, check

KIND = "k20"
ROWS = 128  # of a worker
WORKERS = (2, 4, 8)
ITERATIONS = 3  # of a run; the last is measured, since no time varies
SLOWER = 1.05  # scheme b may take so many times as long as scheme a
ROUNDING = 1e-4
WORST = 0.1  # error of the prediction
# the paper's Table 1: hours of 90 epochs, with one batch and with a variable batch
HOURS = {1: (98.05,), 2: (50.24, 50.90), 4: (26.20, 26.78), 8: (15.68, 15.91)}
IMAGES = 90 * 1_281_167
# "a throughput penalty of 50 % if all GPUs wish to communicate simultaneously" (section 5)
ACROSS = 0.5
MEMORY = 208e9  # bytes/s of a K20, its maker's data sheet
PER_PARAMETER = 20  # bytes that an update reads and writes: three arrays, two of them twice
MACHINE = '[[machine]]\nname = "m{n}"\naddress = "10.0.0.{n}"\n'


class Case(NamedTuple):
    """A scheme of so many workers."""

    workers: int
    scheme: str
    variable: bool = False

    @property
    def paper(self) -> float | None:
        """The seconds of an iteration in the paper's Table 1, which has scheme b."""
        if self.scheme not in ("b", ""):
            return None
        return HOURS[self.workers][self.variable] * 3600 * ROWS * self.workers / IMAGES


@dataclass(frozen=True)
class Machines:
    """The GPUs: FLOP/s (None: as the catalogue has them), rate between the two halves of the
    machine as a share of the others', and whether updates take time."""

    flops: float | None = None
    across: float = 1.0
    updates: bool = False

    def wanted(self, case: Case) -> Wanted:
        """The cluster on the virtual clock, without its times."""
        kind = kind_called(KIND)
        more = VIRTUAL.format(rate=kind.bytes_per_second, latency=0)
        if self.across < 1 < case.workers:
            more += f"links = {{ {', '.join(self._links(case.workers))} }}\n"
        more += "".join(MACHINE.format(n=n + 1) for n in range(case.workers))
        strategy = f'scheme = "{case.scheme}"\n' if case.scheme else ""
        return Wanted(
            "one-weird-trick" if case.scheme else "single",
            case.workers,
            ITERATIONS,
            net="alexnet_owt",
            shape=(3, 224, 224),
            batch=ROWS * case.workers,
            strategy=strategy + "variable_batch = true\n" * case.variable,
            more=more,
        )

    def _links(self, workers: int) -> Iterator[str]:
        """A worker's links to the other half share a part of its interface's rate."""
        half = workers // 2
        rate = int((kind_called(KIND).bytes_per_second or 0) * self.across / half)
        for a, b in itertools.permutations(range(workers), 2):
            if a // half != b // half:
                yield f'"worker-{a} -> worker-{b}" = {{ bytes_per_second = {rate} }}'

    def times(self, checked: Checked) -> dict[str, Any]:
        """The service times of the cluster's work."""
        shapes = Shapes(plainly(checked.placement.topology))
        job = next(options.job for options in shapes.having("job").values())
        net = shapes.net(job, "all")
        table = profile(shapes, ByFlops(net, self.flops or kind_called(KIND).achieved).seconds)
        if self.updates:
            for name, held in roles.forecast(checked.placement.topology).memory.items():
                table = {f"{name}/update": _update(held, shapes, name), **table}
        return table | {"*/*": 0}


AS_PLANNED = Machines()
ONE = Case(1, "")


def _update(held: Mapping[str, int], shapes: Shapes, name: str) -> float:
    """The seconds of one update of an actor: of all its parameters, or of a bucket of them."""
    options = shapes.options[name]
    buckets = len(options.summed(shapes)) if hasattr(options, "summed") else 1
    return PER_PARAMETER * held.get("parameters", 0) / shapes.number / MEMORY / buckets


class Run(NamedTuple):
    """The seconds of an iteration on the virtual clock, and by `plan --machine k20`; the messages,
    and the process of each actor."""

    seconds: float
    planned: float
    found: Found
    home: Mapping[str, str]


@cache
def run(case: Case, machines: Machines = AS_PLANNED) -> Run:
    """Plan a case, and run it on the virtual clock."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        wanted = machines.wanted(case)
        wanted.times = machines.times(check(wanted.write(Path(folder))))
        cluster = wanted.write(Path(folder))
        checked = check(cluster)
        told = _planned(checked) if machines is AS_PLANNED else math.nan
        found = simulated(cluster)
        return Run(found.seconds()[-1], told, found, checked.placement.process_of())


def _planned(checked: Checked) -> float:
    options: Any = checked.loaded.options
    asked = prospects.Wanted(machine=KIND)
    told = roles.prospects(checked.loaded.config, options, checked.placement, asked)
    return told.of_chosen.seconds


def cases(workers: int) -> Iterator[Case]:
    """All schemes and hybrids of so many workers, and scheme b with a variable batch."""
    teams = [f"c{2**power}" for power in range(1, workers.bit_length() - 1)]
    yield from (Case(workers, scheme) for scheme in ("a", "b", *teams, "c"))
    yield Case(workers, "b", variable=True)


def weird_trick(record: Record, cycles: int) -> None:
    """Compare `plan` and runs with the paper's Table 1."""
    del cycles
    kind = kind_called(KIND)
    record.facts |= {
        "device": f"{kind.achieved:.3g} FLOP/s of whole layers",
        "link": f"{kind.bytes_per_second} bytes/s each way",
    }
    one = run(ONE).seconds
    table_1(record, one)
    stations(record, one)
    papers_machine(record)


def table_1(record: Record, one: float) -> None:
    """Record seconds and speed-ups over one GPU. The record fails if a scheme is slower than it may
    be, or a prediction is wrong."""
    record.table(
        "Milliseconds per iteration, and speed-up over one GPU",
        *("GPUs", "scheme", "variable batch", "plan", "run"),
        *("speed-up by plan", "speed-up of the run", "speed-up in the paper"),
    )
    alone = ONE.paper or 0.0
    for workers in WORKERS:
        found = {}
        for case in cases(workers):
            seconds, told, _, _ = run(case)
            found[case] = seconds
            paper = workers * alone / case.paper if case.paper else "-"
            record.row(
                *(workers, case.scheme, "yes" if case.variable else "no"),
                *(1e3 * told, 1e3 * seconds),
                *(workers * one / told, workers * one / seconds, paper),
            )
            if abs(told / seconds - 1) > WORST:
                record.fail(f"MISSED {case}: planned {told:.4g} s, run {seconds:.4g} s")
        for why in slower(workers, found):
            record.fail(f"MISSED {why}")


def slower(workers: int, found: Mapping[Case, float]) -> Iterator[str]:
    """The schemes that take longer than they may: c at most as long as b, b hardly longer than
    a."""
    a, b, c = (found[Case(workers, scheme)] for scheme in "abc")
    if c > b * (1 + ROUNDING):
        yield f"{workers} workers: scheme c takes {c:.4g} s, b {b:.4g} s"
    if b > SLOWER * a:
        yield f"{workers} workers: scheme b takes {b:.4g} s, a {a:.4g} s"


def stations(record: Record, one: float) -> None:
    """Record the milliseconds of each station in an iteration of eight workers with scheme b."""
    seconds, _, found, home = run(Case(8, "b"))
    sizes = Counter[str]()
    for transfer in found.transfers:
        to, sender = transfer.envelope.receiver, home[transfer.envelope.sender]
        if sender == "worker-0" != home[to]:
            sizes[type(transfer.envelope.message).__name__] += transfer.size
    rate = kind_called(KIND).bytes_per_second or 0
    record.table(
        "Eight GPUs, scheme b: milliseconds of an iteration at each station of a worker",
        *("station", "milliseconds"),
    )
    record.row("device: conv phase on 128 images, 1/8 of the FC phase on 1024", 1e3 * one)
    for name, size in sizes.most_common(5):
        if size / ITERATIONS / rate > 1e-5:
            record.row(f"outgoing link: {name}", 1e3 * size / ITERATIONS / rate)
    record.row("the whole iteration", 1e3 * seconds)


def papers_machine(record: Record) -> None:
    """Record scheme b of eight workers, with one difference of the paper's machine after the
    other."""
    alone = ONE.paper or 0.0
    measured = kind_called(KIND).achieved * run(ONE).seconds / alone
    steps = {
        "as plan counts": AS_PLANNED,
        "half the rate between the halves": Machines(across=ACROSS),
        f"and updates at 208 GB/s, one GPU at its {measured / 1e12:.3g} TFLOP/s": Machines(
            measured, ACROSS, updates=True
        ),
    }
    three = (ONE, Case(8, "b"), Case(8, "b", variable=True))
    found = {
        name: [run(case, machines).seconds for case in three] for name, machines in steps.items()
    }
    found["the paper"] = [case.paper or 0.0 for case in three]
    record.table(
        "Eight GPUs: what the paper's machine has that plan does not count",
        *("counted", "ms, one GPU", "ms, b", "speed-up", "ms, b variable", "speed-up, variable"),
    )
    for name, (one, plain, variable) in found.items():
        both = (1e3 * plain, 8 * one / plain, 1e3 * variable, 8 * one / variable)
        record.row(name, 1e3 * one, *both)
