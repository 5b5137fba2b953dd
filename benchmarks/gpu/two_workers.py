"""A part of the GPU benchmark: two workers on one card, in several processes and in one, compared
with one worker; and a worker on the CPU beside the one on the card.

Each run trains for at least 8 s and is then told to end. Its speed is that after its first passes.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.gpu.runs import configured, exposed, journal, steady
from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import Record

APART, TOGETHER = "one-per-actor", "per-device"
RUN_SECONDS = 12.0  # of a run with its start, which takes up to 4 s
BARS = {"two workers": 0.8, "card and CPU": 1.0}  # of the speed of one worker on the card


class Case(NamedTuple):
    """A way to train. `others`: actors that have another device than the card."""

    name: str
    preset: str
    workers: int
    processes: str = APART
    others: tuple[tuple[str, str], ...] = ()


CASES = (
    Case("one worker", "single", 1),
    Case("two workers", "host-accumulate", 2, TOGETHER),
    Case("two workers", "host-accumulate", 2, APART),
    Case("card and CPU", "replicas", 2, APART, (("replica-1", "cpu"),)),
)


def two_workers(record: Record, sizes: Sizes) -> None:
    """Record the speed of one worker, and of the others compared with it. Each row is saved when it
    is known."""
    record.table(
        "Two workers on one card",
        "net",
        "batch",
        "case",
        "preset",
        "processes",
        "images/s",
        "compared with one worker",
        "seconds",
        "exposed, part of an iteration",
    )
    assert record.path is not None
    for net, batch, iterations in sizes.two_workers:
        alone = 0.0
        best = dict.fromkeys(BARS, 0.0)
        for number, case in enumerate(CASES):
            folder = record.path.with_suffix("") / f"{net}-{number}"
            configured(
                folder, net, batch, iterations, case.preset, case.workers, sizes.device,
                case.processes, dict(case.others),
            )  # fmt: skip
            made = journal(record, folder, f"{net}, {case.name}, {case.processes}", RUN_SECONDS)
            if made is None:
                continue
            rate = steady(made)
            alone = alone or rate
            if case.name in best:
                best[case.name] = max(best[case.name], rate / alone)
            cells = rate, rate / alone, made["finished"][-1]["seconds"], exposed(made, batch)
            record.row(net, batch, case.name, case.preset, case.processes, *cells)
        for name, bar in BARS.items() if sizes.judged else ():
            record.judge(f"{net}, {name} compared with one worker", best[name], least=bar)
