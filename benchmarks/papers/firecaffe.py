"""Headlines of FireCaffe: near-linear acceleration of deep neural network training on compute
clusters (Iandola, Ashraf, Moskewicz, Keutzer 2016)."""

from __future__ import annotations

from benchmarks.helpers.report import Record
from benchmarks.papers.headline import (
    PLAN,
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

TITAN = "titan-k20x"
NODES = 32
IMAGES = 1_281_167  # of ImageNet, an epoch
MORE_EPOCHS = 72 / 64  # that GoogLeNet needs with the larger batch
ONE = {batch: Case("nin", TITAN, batch) for batch in (256, 1024)}
NIN = {batch: Case("nin", TITAN, batch, "firecaffe", NODES) for batch in (256, 1024)}
SERVER = Case("nin", TITAN, 1024, "parameter-server", NODES)
ONE_GOOGLENET = Case("googlenet", TITAN, 1024)
SMALL_GOOGLENET = Case("googlenet", TITAN, 32)
GOOGLENET = Case("googlenet", TITAN, 1024, "firecaffe", NODES)


def _hours(case: Case, epochs: int) -> Source:
    def read(record: Record) -> str:
        rate = cell(table_of(record, "Predicted iterations"), {"plan": case.name}, "images/s")
        return f"{shown(epochs * IMAGES / rate / 3600)} h"

    return Source("papers", PLAN, read, (case,))


def _absolute(record: Record) -> str:
    """The speed-up to the same accuracy, which takes more epochs with the larger batch."""
    plain = float(speed_up(GOOGLENET, SMALL_GOOGLENET).read(record))
    return shown(plain / MORE_EPOCHS)


def _link(record: Record) -> str:
    table = table_of(record, "Predicted iterations")
    both = [cell(table, {"plan": case.name}, "ms an iteration") for case in (NIN[1024], ONE[1024])]
    computing = both[1] / NODES
    return f"{shown(both[0] - computing)} ms of {shown(both[0])} ms"


def _volume(column: str, nets: tuple[str, ...], unit: str) -> Source:
    def read(record: Record) -> str:
        table = table_of(record, "Volumes")
        return ", ".join(shown(cell(table, {"net": net}, column)) for net in nets) + unit

    return Source("papers", VOLUMES, read)


def _ratio(more: str, fewer: str) -> Source:
    def read(record: Record) -> str:
        table = table_of(record, "Volumes")
        many, few = (cell(table, {"net": net}, "weights MB") for net in (more, fewer))
        return shown(many / few)

    return Source("papers", VOLUMES, read)


def _tree(record: Record) -> str:
    table = table_of(record, "Seconds, 30 MB in one message")
    return shown(cell(table, {"workers": NODES}, "server's gradients / tree"))


def _same_numbers(record: Record) -> str:
    table = table_of(record, "Largest difference")
    row = {"net": "LeNet", "preset": "firecaffe"}
    return f"difference {cell(table, row, 'both after 10, reproducible'):g}"


HIDDEN = (
    "Sums travel during the backward pass here, and afterwards in the paper. Its hours leave about "
    "0.09 s of an iteration for communication with both batches; equation 4 gives 0.05 s at 6 GB/s"
)
NETS = ("nin", "alexnet", "googlenet", "vgg19")
FIRECAFFE = Paper(
    "firecaffe",
    (
        Headline(
            "Table 2",
            "NiN on 32 GPUs, batch 256: times the speed of one GPU",
            "13",
            "plan",
            speed_up(NIN[256], ONE[256]),
            HIDDEN,
        ),
        Headline(
            "abstract, Table 2",
            "NiN on 32 GPUs, batch 1024: times the speed of one GPU",
            "23",
            "plan",
            speed_up(NIN[1024], ONE[1024]),
            "As above",
        ),
        Headline(
            "Table 2",
            "NiN, 47 epochs on 32 GPUs, batch 256",
            "11 h",
            "plan",
            _hours(NIN[256], 47),
            "As above. Tests and reading of images are not counted",
        ),
        Headline(
            "Table 2",
            "NiN, 47 epochs on 32 GPUs, batch 1024",
            "6 h",
            "plan",
            _hours(NIN[1024], 47),
            "As above",
        ),
        Headline(
            "7.3",
            "GoogLeNet on 32 GPUs, batch 1024: times the speed of one GPU, equal epochs",
            "18",
            "plan",
            speed_up(GOOGLENET, SMALL_GOOGLENET),
            "As for NiN. The plan counts NiN's share of the peak for GoogLeNet too, and the same "
            "share for 32 and for 1024 images",
        ),
        Headline(
            "abstract, Table 3",
            "GoogLeNet on 32 GPUs to 68.3 %: times the speed of one GPU with 72 epochs in place "
            "of 64",
            "16",
            "plan",
            Source("papers", PLAN, _absolute, (GOOGLENET, SMALL_GOOGLENET)),
            "As above, divided by 72 / 64 epochs, which are the paper's",
        ),
        Headline(
            "Table 3",
            "GoogLeNet, 64 epochs on one GPU, batch 32",
            "504 h",
            "plan",
            _hours(SMALL_GOOGLENET, 64),
            "GoogLeNet reached half of the FLOP/s that NiN reached on a K20",
        ),
        Headline(
            "Table 3",
            "GoogLeNet, 72 epochs on 32 GPUs, batch 1024",
            "31 h",
            "plan",
            _hours(GOOGLENET, 72),
            "As above",
        ),
        Headline(
            "6.2, Figure 4",
            "A server takes so many times as long as a reduction tree to sum gradients of 32 "
            "workers",
            "3.2 by equations 3 and 4",
            "virtual clock",
            Source("scaling", "communication", _tree),
            "Equal to the equations",
        ),
        Headline(
            "6.2",
            "NiN on 32 GPUs, batch 1024: the tree's speed, of a parameter server's",
            "no figure",
            "plan",
            speed_up(NIN[1024], SERVER),
            "The server's gradients arrive during the backward pass, so equations 3 and 4 do not "
            "apply to whole iterations",
        ),
        Headline(
            "7.2, 9",
            "NiN on 32 GPUs, batch 1024: communication and computation take equal times",
            "1 : 1",
            "plan",
            Source("papers", PLAN, _link, (NIN[1024], ONE[1024])),
            "Communication that is not hidden behind computation; most of it is",
        ),
        Headline(
            "Table 1",
            "Weights of NiN, AlexNet, GoogLeNet and VGG-19",
            "30, 249, 54, 575 MB",
            "counted",
            _volume("weights MB", NETS, " MB"),
            "The two auxiliary classifiers of GoogLeNet count here",
        ),
        Headline(
            "Table 1",
            "Activations of these nets for 1024 images",
            "5800, 1680, 19100, 42700 MB",
            "counted",
            _volume("data MB", NETS, " MB"),
            "The printed equation 2 does not give the numbers of the table; the bytes that layers "
            "with weights read do",
        ),
        Headline(
            "Table 1",
            "Computation of these nets for 1024 images",
            "6.7, 7.0, 9.7, 120 TFLOP",
            "counted",
            _volume("forward and backward TFLOP", NETS, " TFLOP"),
            "AlexNet has two groups here, and the paper counts one; the auxiliary classifiers of "
            "GoogLeNet count here",
        ),
        Headline(
            "5",
            "AlexNet has so many times the weights of NiN",
            "8",
            "counted",
            _ratio("alexnet", "nin"),
            "None",
        ),
        Headline(
            "5",
            "VGG-19 has so many times the weights of GoogLeNet",
            "10",
            "counted",
            _ratio("vgg19", "googlenet"),
            "None",
        ),
        Headline(
            "Table 2",
            "Top-1 accuracy of NiN on ImageNet with one GPU, 32 GPUs, and batch 1024",
            "58.9, 58.9, 58.6 %",
            "",
            None,
            "Needs ImageNet, which this project may not copy, and weeks of a GPU. The row on equal numbers "
            "below stands for the first two",
        ),
        Headline(
            "7.3",
            "GoogLeNet, batch 1024: of the rates 0.02 to 0.32 the best is 0.08; 0.16 does not learn",
            "8 times the rate at 32 times the batch",
            "virtual clock, real gradients",
            RATES,
            "LeNet on MNIST, the best rate of each batch",
        ),
        Headline(
            "6, appendix 6",
            "Sums of gradients give the numbers of one GPU, with dropout off",
            "the same numbers",
            "real run",
            Source("presets", "equality", _same_numbers),
            "With `reproducible`; otherwise the order of the sums matters",
        ),
    ),
)
