"""Headlines of One weird trick for parallelizing convolutional neural networks (Krizhevsky 2014)."""

from __future__ import annotations

from benchmarks.helpers.report import Record
from benchmarks.papers.headline import (
    VOLUMES,
    Headline,
    Paper,
    Source,
    cell,
    shown,
    speed_up,
    table_of,
)
from benchmarks.papers.planned import Case
from benchmarks.papers.studies import RATES

K20 = "k20"
NET = "alexnet_owt"
ROWS = 128
ONE = Case(NET, K20, ROWS)


def _speed_up(gpus: int, variable: str, scheme: str = "b") -> Source:
    def read(record: Record) -> str:
        row = {"GPUs": gpus, "scheme": scheme, "variable batch": variable}
        return shown(cell(table_of(record, "Milliseconds per iteration"), row, "speed-up by plan"))

    return Source("tuning", "weird-trick", read)


def _share(column: str) -> Source:
    def read(record: Record) -> str:
        return f"{shown(cell(table_of(record, 'Volumes'), {'net': NET}, column))} %"

    return Source("papers", VOLUMES, read)


def _c_of_b(record: Record) -> str:
    table = table_of(record, "Milliseconds per iteration")
    c, b = (
        cell(table, {"GPUs": 8, "scheme": scheme}, "speed-up of the run") for scheme in ("c", "b")
    )
    return shown(c / b)


def _of_a(record: Record) -> str:
    table = table_of(record, "Images a second")
    return ", ".join(shown(cell(table, {"net": NET}, f"{scheme} / a")) for scheme in "bc")


def _accuracies(record: Record) -> str:
    table = table_of(record, "CIFAR-10 quick")
    rows = [{"batch": 128}, {"batch": 512, "FC batch": 512}, {"batch": 512, "FC batch": 128}]
    return ", ".join(shown(100 - cell(table, row, "accuracy %")) for row in rows) + " %"


ONE_GPU = (
    "A K20 has a fixed share of its peak in the plan, so that the paper's losses with small "
    "products are missing; docs/strategies.md has the stations"
)
TABLE_1 = ((2, "1.95", "1.93"), (4, "3.74", "3.66"), (8, "6.25", "6.16"))
LIKE_ABOVE = "As above"
WEIRD_TRICK = Paper(
    "one weird trick",
    (
        *(
            Headline(
                "Table 1",
                f"AlexNet in one tower, scheme b, {gpus} GPUs{also}: times the speed of one GPU",
                theirs,
                "plan, and virtual clock",
                _speed_up(gpus, variable),
                ONE_GPU if (gpus, variable) == (2, "no") else LIKE_ABOVE,
            )
            for gpus, plain, varied in TABLE_1
            for also, theirs, variable in (
                ("", plain, "no"),
                (", variable batch", varied, "yes"),
            )
        ),
        Headline(
            "4, 8",
            "Scheme c scales better than b: its speed on 8 GPUs, of that with b",
            "no figure",
            "virtual clock",
            Source("tuning", "weird-trick", _c_of_b),
            "Here all workers of scheme b send at once, so that b is hardly slower",
        ),
        Headline(
            "4",
            "Schemes b and c: their speed, of that of scheme a",
            "no figure",
            "real run",
            Source("presets", "schemes", _of_a),
            "Two workers of one core in place of GPUs, 32 images each. A shard reads its weights once for "
            "each FC batch, which has half as many rows with b and c",
        ),
        Headline(
            "6",
            "Data parallelism in all layers, 4 GPUs: times the speed of one GPU",
            "2.2 (Yadan and others)",
            "plan",
            speed_up(Case(NET, K20, 4 * ROWS, "replicas", 4), ONE),
            "The preset `replicas`. Yadan and others had other GPUs, and model parallelism in "
            "addition; sums hide behind the backward pass here",
        ),
        Headline(
            "6",
            "The trick's speed, of data parallelism in all layers, 8 GPUs",
            "no figure",
            "plan",
            speed_up(
                Case(NET, K20, 8 * ROWS, "one-weird-trick", 8, 'scheme = "b"'),
                Case(NET, K20, 8 * ROWS, "replicas", 8),
            ),
            LIKE_ABOVE,
        ),
        Headline(
            "3",
            "Share of the computation in convolutions",
            "90 to 95 %",
            "counted",
            _share("FLOPs of the conv phase %"),
            "None",
        ),
        Headline(
            "3",
            "Share of the parameters in fully connected layers",
            "95 %",
            "counted",
            _share("parameters of the FC phase %"),
            "None",
        ),
        Headline(
            "Table 1",
            "Error with a batch, with 8 times the batch, and with that and small FC batches",
            "42.33, 43.28, 42.86 %",
            "real run",
            Source("presets", "variable", _accuracies),
            "CIFAR-10 quick with 128, 4 times 128, and 4 times 128 with FC batches of 128, equal "
            "epochs, few of them: the order is that of the paper. Needs ImageNet, which this project may not copy",
        ),
        Headline(
            "5",
            "The rate grows with the batch, and not with its square root",
            "k times the rate at k times the batch",
            "virtual clock, real gradients",
            RATES,
            "LeNet on MNIST, the best rate of each batch",
        ),
    ),
)
