"""The part `plan` of `benchmarks.papers`: an iteration of each cluster of the papers, as the planner
predicts it for the machines of the catalogue."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.helpers.report import Record
from roles import Options, prospects
from runtime.plan.prospects import Prospect, Wanted
from runtime.runs.checking import check

IMAGENET = (3, 256, 256)  # cropped by each net
MACHINE = '[[machine]]\nkind = "{kind}"\n'
CLUSTER = """{machine}[train]
net = "{net}"
solver = "{net}_solver"
batch = {batch}
devices = {{ "*" = "emulated" }}
[train.data]
train = {{ format = "blank", shape = {shape}, size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}
"""


@dataclass(frozen=True)
class Case:
    """A net on `workers` machines of a kind of the catalogue, with a preset. `batch`: images of an
    iteration. `strategy`: further keys of [train.strategy]. `together`: all workers are on one
    machine, which has several devices."""

    net: str
    kind: str
    batch: int
    preset: str = "single"
    workers: int = 1
    strategy: str = ""
    together: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
        keys = f", {self.strategy}" if self.strategy else ""
        where = f"on one {self.kind}" if self.together else f"x {self.kind}"
        return f"{self.net}, {self.preset}{keys}, {self.workers} {where}, batch {self.batch}"


@cache
def planned(case: Case) -> Prospect:
    """The prediction of `plan`: with `--machine KIND`, or with the kind in cluster.toml."""
    machine = MACHINE.format(kind=case.kind) if case.together else ""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        file = Path(folder, "cluster.toml")
        text = CLUSTER.format(**vars(case), shape=list(IMAGENET), machine=machine)
        file.write_text(text)
        found = check(file, starts=False)
        assert isinstance(found.loaded.options, Options)
        wanted = Wanted(machine="" if case.together else case.kind)
        return prospects(
            found.loaded.config, found.loaded.options, found.placement, wanted
        ).of_chosen


def plan(record: Record, cases: Iterable[Case]) -> None:
    """Record a row for each case."""
    record.table(
        "Predicted iterations",
        *("plan", "ms an iteration", "images/s", "busiest station", "dollars an hour"),
    )
    for case in cases:
        found = planned(case)
        busiest = f"{found.bottleneck} {found.use[found.bottleneck]:.0%}"
        price = "" if found.hourly is None else round(found.hourly, 4)
        record.row(
            case.name,
            1e3 * found.seconds,
            case.batch / found.seconds,
            busiest,
            price,
        )
