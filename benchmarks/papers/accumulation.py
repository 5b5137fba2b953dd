"""Headlines of Accelerating multi-GPU deep learning by collecting and accumulating gradients on
CPUs (Sekiyama, Imai, Negishi, Le Duc, Kawachiya 2017)."""

from __future__ import annotations

from benchmarks.helpers.report import Record
from benchmarks.papers.gpu_memory import ON_GPU, ON_HOST
from benchmarks.papers.headline import (
    GPU_MEMORY,
    PLAN,
    Headline,
    Paper,
    Source,
    cell,
    efficiency,
    shown,
    speed_up,
    table_of,
)
from benchmarks.papers.planned import Case

P100 = "power8-p100"
GPUS = 4
ROWS = {"alexnet": 256, "googlenet": 64, "vgg16": 32}  # of a GPU, Table 2
CAFFES = {"alexnet": "AlexNet", "googlenet": "GoogLeNet", "vgg16": "VGG-16"}
ITERATIONS = 21_000  # of AlexNet to 50 %
TESTS = 21 * 14.7  # seconds of all tests of these iterations


def _case(net: str, preset: str = "single", workers: int = 1) -> Case:
    return Case(net, P100, workers * ROWS[net], preset, workers, together=True)


def _ms(record: Record, case: Case) -> float:
    table = table_of(record, "Predicted iterations")
    return float(cell(table, {"plan": case.name}, "ms an iteration"))


def _overhead(preset: str) -> Source:
    cases = (_case("alexnet", preset, GPUS), _case("alexnet"))

    def read(record: Record) -> str:
        many, one = (_ms(record, case) for case in cases)
        return f"{shown(many - one)} ms of {shown(many)} ms"

    return Source("papers", PLAN, read, cases)


def _minutes(preset: str) -> Source:
    case = _case("alexnet", preset, GPUS)

    def read(record: Record) -> str:
        return f"{shown((ITERATIONS * _ms(record, case) / 1e3 + TESTS) / 60)} min"

    return Source("papers", PLAN, read, (case,))


def _same_numbers(record: Record) -> str:
    table = table_of(record, "Largest difference")
    row = {"net": "LeNet", "preset": "host-accumulate"}
    return f"difference {cell(table, row, 'both after 10, reproducible'):g}"


def _more_images(record: Record) -> str:
    table = table_of(record, "vgg16")
    host, gpu = (cell(table, {"sums": place}, "images") for place in (ON_HOST, ON_GPU))
    return f"{shown(100 * (host / gpu - 1))} %"


SERVER = (
    "The preset `parameter-server` stands for Caffe, which sums on a tree of GPUs and broadcasts "
    "the model from one of them"
)
FASTER = (("alexnet", "1.19"), ("googlenet", "1.04"), ("vgg16", "1.21"))
ACCUMULATION = Paper(
    "accumulation",
    (
        *(
            Headline(
                "4.2.1",
                f"{CAFFES[net]} on 4 GPUs: times the speed of Caffe",
                theirs,
                "plan",
                speed_up(_case(net, "host-accumulate", GPUS), _case(net, "parameter-server", GPUS)),
                SERVER if net == "alexnet" else "As above",
            )
            for net, theirs in FASTER
        ),
        *(
            Headline(
                "abstract, Figure 4",
                f"{CAFFES[net]}: weak scaling with 4 GPUs",
                "over 90 %, 96 % by Table 3" if net == "alexnet" else "over 90 %",
                "plan",
                efficiency(_case(net, "host-accumulate", GPUS), _case(net)),
                "Sums on the CPUs and the calls between layers take no time in the plan",
            )
            for net in ROWS
        ),
        *(
            Headline(
                "Figure 4",
                f"{CAFFES[net]}: weak scaling of Caffe with 4 GPUs",
                "79 % by Table 3" if net == "alexnet" else "drops",
                "plan",
                efficiency(_case(net, "parameter-server", GPUS), _case(net)),
                "As above",
            )
            for net in ROWS
        ),
        Headline(
            "Table 3",
            "AlexNet on 4 GPUs: time of the exchange that is not hidden",
            "0.0218 ms of 167.1 ms",
            "plan",
            _overhead("host-accumulate"),
            "The paper counts the last layer alone; its backward pass is 7 ms longer than Caffe's, "
            "which the plan does not count",
        ),
        Headline(
            "Table 3",
            "The same with Caffe",
            "43 ms of 202.7 ms",
            "plan",
            _overhead("parameter-server"),
            SERVER,
        ),
        Headline(
            "4.2.1",
            "AlexNet to 50 %: 21000 iterations and their tests",
            "62 min",
            "plan",
            _minutes("host-accumulate"),
            "By the catalogue's share of the peak the iterations alone take 62 min; tests and copies come in "
            "addition",
        ),
        Headline(
            "4.2.1",
            "The same with Caffe",
            "79 min",
            "plan",
            _minutes("parameter-server"),
            SERVER,
        ),
        Headline(
            "1",
            "VGG-16 trains with so many more images in the memory of a GPU",
            "10 %",
            "plan",
            Source("papers", GPU_MEMORY, _more_images),
            "On 16 GiB, compared with a GPU that holds all gradients and their sum. Every exchange and "
            "server here adds up in host memory, so all presets have the gain",
        ),
        Headline(
            "4.2.5",
            "The same outputs as with Caffe",
            "the same outputs",
            "real run",
            Source("presets", "equality", _same_numbers),
            "Compared with one process, with `reproducible`",
        ),
    ),
)
