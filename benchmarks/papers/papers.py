"""`python -m benchmarks.papers`: the headlines of the four papers, compared with our figures.

    plan            iterations of the papers' clusters, as `plan --machine KIND` predicts them
    volumes         weights, activations and FLOPs of the papers' nets
    gpu-memory      the images of VGG-16 that fit into a GPU, with the sums of gradients there or in host memory
    end-to-end-...  seconds to a target of Omnivore and of the preset that stands for MXNet, with the iterations of the
                    learning runs of `benchmarks.tuning`

Other figures come from the kept results of other benchmarks. `python -m tests.house --write` writes
the tables of docs/papers.md from all of them; the command ends with the lines of the tables whose
figures are still missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.papers import end_to_end, gpu_memory, volumes
from benchmarks.papers.accumulation import ACCUMULATION
from benchmarks.papers.firecaffe import FIRECAFFE
from benchmarks.papers.headline import END_TO_END, GPU_MEMORY, PLAN, VOLUMES, Paper
from benchmarks.papers.omnivore import OMNIVORE
from benchmarks.papers.page import UNMEASURED, row
from benchmarks.papers.planned import Case, plan
from benchmarks.papers.weird_trick import WEIRD_TRICK

PAPERS: tuple[Paper, ...] = (OMNIVORE, FIRECAFFE, WEIRD_TRICK, ACCUMULATION)


def cases() -> list[Case]:
    """All plans that a headline needs, each once."""
    sources = [each.ours for paper in PAPERS for each in paper.headlines if each.ours is not None]
    return list(dict.fromkeys(case for source in sources for case in source.cases))


def _plan(record: Record) -> None:
    plan(record, cases())


PARTS: dict[str, tuple[str, Callable[[Record], None]]] = {
    PLAN: ("The papers' clusters, as `plan` predicts them", _plan),
    VOLUMES: ("The papers' nets", volumes.measure),
    GPU_MEMORY: ("Images in the memory of a GPU", gpu_memory.measure),
    **{
        f"{END_TO_END}-{studied}": (
            f"Omnivore and MXNet: {studied.title.partition(': ')[2]}",
            partial(end_to_end.compare, studied=studied),
        )
        for studied in end_to_end.STUDIED
    },
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts, write the results and list the missing figures. Returns 1 if a part fails."""
    parser = parser_of("papers", __doc__)
    parser.add_argument(
        "--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), metavar="PART"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    failed = False
    for name in given.parts:
        title, measure = PARTS[name]
        record = Record(title)
        print(title, flush=True)
        measure(record)
        if record.status == "running":
            record.status = "passed"
        failed |= record.status == "failed"
        print("results:", *write(given.results, "papers", machine(), {name: record}))
    for paper in PAPERS:
        for headline in paper.headlines:
            where, _, _, figure, how, _ = row(headline)
            if figure == UNMEASURED:
                print(f"{figure}: {paper.key}, {where}: {how}")
    print("`python -m tests.house --write` writes the tables of docs/papers.md")
    return int(failed)
