"""Headlines of Omnivore: an optimizer for multi-device deep learning on CPUs and GPUs (Hadjis,
Zhang, Mitliagkas, Re 2016)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from benchmarks.helpers.report import Record
from benchmarks.papers.end_to_end import SYNC
from benchmarks.papers.headline import (
    END_TO_END,
    PLAN,
    Headline,
    Paper,
    Source,
    cell,
    shown,
    speed_up,
    table_of,
)
from benchmarks.papers.planned import Case
from benchmarks.papers.studies import FC_PHASE, LAZY, PASSES, SCHEDULE, SINGA, STEADY

CPU = Case("caffenet", "c4.4xlarge", 256)
GPU = Case("caffenet", "g2.2xlarge", 256)
# every worker a group, on 33 machines
MERGED = Case("caffenet", "c4.4xlarge", 256, "async", 32)
UNMERGED = Case("caffenet", "c4.4xlarge", 256, "mxnet-async", 32)
# the clusters of Figure 9, and the studies with as many workers and the same network rate
CPU_S, GPU_S, CPU_L = "cifar10-8-1", "cifar10-8-10", "cifar10-32-1"
DIGITS_S, DIGITS_L = "mnist-8-1", "mnist-32-1"
LEARNED = "virtual clock, real gradients"


def _sync(studied: str) -> Source:
    """The seconds of MXNet sync, as multiples of Omnivore's."""

    def read(record: Record) -> str:
        table = table_of(record, "Seconds to the target")
        return shown(cell(table, {"system": SYNC}, "times the seconds of Omnivore"))

    return Source("papers", f"{END_TO_END}-{studied}", read)


def _tradeoff(studied: str, read: Callable[[Record], str]) -> Source:
    return Source("tuning", f"tradeoff-{studied}", read)


def _ratio(column: str, row: str, other: str) -> Callable[[Record], str]:
    """A cell of one row of a trade-off, divided by that of another row."""

    def read(record: Record) -> str:
        table = table_of(record, "Up to the target")
        above, below = (cell(table, {"groups": groups}, column) for groups in (row, other))
        if isinstance(above, str) or isinstance(below, str):
            return f"not reached: {above if isinstance(above, str) else below}"
        return shown(above / below)

    return read


def _fact(name: str) -> Callable[[Record], str]:
    def read(record: Record) -> str:
        found = record.facts[name]
        return found if isinstance(found, str) else shown(found)

    return read


def _searches(record: Record) -> str:
    runs = [row[1] for row in table_of(record, "A Bayesian search").rows]
    times = record.facts["Bayesian search / best point"]
    return f"{median(runs):g} runs, {shown(times)} times the seconds"


def _errors(record: Record) -> str:
    errors = [abs(row[8]) for row in table_of(record, "Seconds per iteration").rows]
    return f"median {100 * median(errors):.2f} %, largest {100 * max(errors):.1f} %"


def _saturated(record: Record) -> str:
    row = {"cluster": "33 x c4.4xlarge, 1 Gbit/s"}
    table = table_of(record, "From how many groups")
    return f"{cell(table, row, 'formula')} by the formula, {cell(table, row, 'plan')} by plan"


def _network(record: Record) -> str:
    table = table_of(record, "33 x c4.4xlarge with other networks")
    rows = [{"Gbit/s": rate} for rate in (1, 2.5)]
    found = [shown(cell(table, row, "one group takes, times the best")) for row in rows]
    return f"{found[0]}; {found[1]} at 2.5 Gbit/s"


def _hundred(record: Record) -> str:
    table = table_of(record, "Every worker a group")
    return ", ".join(shown(row[1]) + " s" for row in table.rows)


def _clusters(dollars: tuple[float, float]) -> Callable[[Record], str]:
    """The price of an iteration on the cluster of CPUs, as a multiple of that of the GPUs."""

    def read(record: Record) -> str:
        cpus, gpus = (row[1] for row in table_of(record, "Every worker a group").rows)
        return shown(cpus * dollars[0] / (gpus * dollars[1]))

    return read


def _cost(record: Record) -> str:
    table = table_of(record, "Predicted iterations")
    cpu, gpu = (
        cell(table, {"plan": case.name}, "dollars an hour")
        / cell(table, {"plan": case.name}, "images/s")
        for case in (CPU, GPU)
    )
    return shown(cpu / gpu)


def _momentum(record: Record) -> str:
    table = table_of(record, "Implicit momentum")
    rows = [
        {"net": "LeNet on MNIST", "service times": "exponential", "groups": groups}
        for groups in (2, 4, 8, 16)
    ]
    return ", ".join(f"{cell(table, row, 'measured'):.2f}" for row in rows)


def _lesion(title: str, chosen: str, other: str) -> Source:
    """The seconds of the row with one choice fewer, divided by those of the row `chosen`."""

    def read(record: Record) -> str:
        table = table_of(record, title)
        less, more = (cell(table, {"chosen": name}, "seconds") for name in (other, chosen))
        return f"not reached without: {less}" if isinstance(less, str) else shown(less / more)

    return Source("tuning", "lesion", read)


def _recurrent(record: Record) -> str:
    names = ("synchronous", "asynchronous")
    return ", ".join(shown(record.facts[f"{name} / best number of groups"]) for name in names)


def _lowering(row: str) -> Callable[[Record], str]:
    def read(record: Record) -> str:
        table = table_of(record, "All convolutions")
        shares = [cell(table, {"way": way}, "% of SGEMM") for way in (row, "serial (OpenBLAS)")]
        return f"{shown(shares[0])} % of SGEMM, serial {shown(shares[1])} %"

    return read


def _batching(record: Record) -> str:
    table = table_of(record, "All convolutions")
    rates = [cell(table, {"way": f"b_p {images}"}, "images/s") for images in (4, 256, 1)]
    return f"{shown(rates[1] / rates[2])}; with b_p = 4 {shown(rates[0] / rates[2])}"


def _torch(record: Record) -> str:
    table = table_of(record, "Images")
    return shown(cell(table, {"net": "caffenet"}, "ratio to the better"))


def _shares(record: Record) -> str:
    table = table_of(record, "Speeds 1 and 3")
    both, ideal = (
        cell(table, {"shares": "throughput"}, column)
        for column in ("seconds of an iteration", "ideal")
    )
    faster = ideal * (1 + 3) / 3  # seconds of the device of speed 3 alone
    return f"{shown(100 * (faster / both - 1))} % of 33 %"


def _bytes(record: Record) -> str:
    table = table_of(record, "CaffeNet, batch 256")
    unmerged, merged = (
        cell(table, {"preset": preset}, "bytes an iteration") for preset in ("mxnet-sync", "sync")
    )
    return shown(unmerged / merged)


ABOVE = "As above"
NO_IMAGENET = (
    "CIFAR-10 quick on as many workers and the same network rate, batches of 64, in place of "
    "CaffeNet on ImageNet. With so small a batch the network is slower than the work"
)
SAME_RUNTIME = (
    "MXNet is its preset in our runtime, with the same kernels, so its slower kernels are not part "
    "of the figure"
)
OMNIVORE = Paper(
    "omnivore",
    (
        Headline(
            "abstract, Figure 10",
            "ImageNet on GPU-S: seconds of MXNet sync, times those of Omnivore",
            "4.5",
            LEARNED,
            _sync(GPU_S),
            f"{NO_IMAGENET}. {SAME_RUNTIME}",
        ),
        Headline(
            "abstract, Figure 10",
            "ImageNet on GPU-S: seconds of MXNet async, times those of Omnivore",
            "11",
            LEARNED,
            _lesion("CIFAR-10", "groups", "the rate"),
            f"{ABOVE}. MXNet async has the best of a few rates here, and the best point of the grid "
            "stands for Omnivore",
        ),
        Headline(
            "abstract, Figure 10",
            "ImageNet on CPU-L: seconds of MXNet sync, times those of Omnivore",
            "1.9",
            LEARNED,
            _sync(CPU_L),
            "As in the first row",
        ),
        Headline(
            "abstract, Figure 10",
            "ImageNet on CPU-L: seconds of MXNet async, times those of Omnivore",
            "12",
            "",
            None,
            "Each rate of MXNet async with 32 workers is a learning run of many minutes, and none "
            "was made. With 32 stale workers even the merged FC phase diverges here (Figure 7 below)",
        ),
        Headline(
            "Figure 12 a",
            "8 classes of ImageNet on CPU-S: seconds of MXNet sync, times those of Omnivore",
            "2.3",
            LEARNED,
            _sync(CPU_S),
            "As in the first row",
        ),
        Headline(
            "Figure 12 a",
            "8 classes on CPU-S: seconds of SINGA, times those of Omnivore",
            "11",
            LEARNED,
            SINGA,
            "LeNet on 8 workers at 1 Gbit/s to a mean loss of 0.2, each with the best of its groups, "
            "momenta and rates. SINGA is its preset: it sends what MXNet sends, and its groups are "
            "stale in the FC phase too",
        ),
        Headline(
            "Figure 12 b",
            "8 classes on GPU-S: seconds of MXNet sync, times those of Omnivore",
            "4.8",
            LEARNED,
            _sync(GPU_S),
            "As in the first row",
        ),
        Headline(
            "Figure 12 c",
            "8 classes on CPU-L: seconds of MXNet sync, times those of Omnivore",
            "3.2",
            LEARNED,
            _sync(CPU_L),
            "As in the first row",
        ),
        Headline(
            "Figure 12",
            "The same with LeNet on MNIST, 8 workers, 1 Gbit/s",
            "1.9 to 12",
            LEARNED,
            _sync(DIGITS_S),
            "The FC phase is 94 % of LeNet's parameters, and MXNet's preset sends them all in every "
            "iteration of 64 small images",
        ),
        Headline(
            "Figure 12",
            "The same with LeNet on MNIST, 32 workers, 1 Gbit/s",
            "1.9 to 12",
            LEARNED,
            _sync(DIGITS_L),
            ABOVE,
        ),
        Headline(
            "6.2.3, F.4",
            "The optimizer, applied to MXNet, chooses sync: the seconds of async at its usual rate, "
            "times those of sync",
            "7; async may diverge",
            LEARNED,
            _lesion("CIFAR-10", "the rate", "nothing"),
            "Async at momentum 0.9 and the published rate does not reach the target here",
        ),
        Headline(
            "5.2, Figure 7",
            "CPU-L: seconds of one group, times those of the groups that the optimizer chooses",
            "5.3",
            LEARNED,
            _tradeoff(CPU_L, _ratio("seconds", "1, usual", "auto")),
            NO_IMAGENET,
        ),
        Headline(
            "5.2, Figure 7",
            "The same with LeNet on MNIST",
            "5.3",
            LEARNED,
            _tradeoff(DIGITS_L, _ratio("seconds", "1, usual", "auto")),
            ABOVE,
        ),
        Headline(
            "5.2, Figure 7",
            "CPU-L: seconds of as many groups as workers, times those of the optimizer's",
            "1.4",
            LEARNED,
            _tradeoff(CPU_L, _ratio("seconds", "32", "auto")),
            "CIFAR-10 quick with 32 groups does not bear gradients that are 31 updates late from "
            "its first iteration on; the paper measured a warm net",
        ),
        Headline(
            "5.2, Figure 7",
            "CPU-L: an iteration of one group, times that of 32 groups",
            "6.7",
            "plan",
            Source("tuning", "clusters", _network),
            "At 1 Gbit/s all groups share the link of the conv model in the plan",
        ),
        Headline(
            "4.1, Figures 5, 20",
            "CPU-L: the number of groups from which the FC server is saturated",
            "4",
            "plan",
            Source("tuning", "clusters", _saturated),
            "As above; docs/tuning.md has the cause",
        ),
        Headline(
            "4.1, D.4",
            "The error of the predicted seconds of an iteration",
            "within 15 %",
            "virtual clock",
            Source("tuning", "prediction", _errors),
            "More presets and nets than in the paper; runs of real work are in docs/prediction.md",
        ),
        Headline(
            "4.1, Figure 22",
            "The spread of the seconds of an iteration",
            "under 6 %",
            "",
            None,
            "This project has no cluster of machines without other load; the virtual clock takes "
            "the paper's 6 % as the least spread",
        ),
        Headline(
            "4.2, Figure 6",
            "Implicit momentum of 2, 4, 8, 16 groups",
            "0.5, 0.75, 0.88, 0.94 by theory",
            LEARNED,
            Source("tuning", "momentum", _momentum),
            "LeNet with exponential service times, as the theorem assumes; measured times give "
            "less with few groups",
        ),
        Headline(
            "5.1, F.3.4",
            "The merged FC phase: seconds of an iteration without, times those with",
            "1.18 (HE)",
            "plan",
            speed_up(MERGED, UNMERGED),
            "CaffeNet on CPU-L at 1 Gbit/s. Unmerged, every iteration sends the 244 MB of the "
            "model twice; the paper's figure needs a network many times as fast",
        ),
        Headline(
            "5.1, F.3.4, Figure 31",
            "The merged FC phase: HE and SE apart, and both",
            "1.18, 2.55, 3.01",
            LEARNED,
            FC_PHASE,
            "LeNet with 8 groups of one worker, at 1 Gbit/s. Batches are small, so the model that "
            "travels costs much more than in the paper",
        ),
        Headline(
            "5.1",
            "The merged FC phase: bytes of an iteration without, times those with",
            "no figure",
            "virtual clock",
            Source("presets", "merged", _bytes),
            "CaffeNet, batch 256, 8 workers",
        ),
        Headline(
            "Figure 13",
            "A tuned momentum: seconds with the best rate at momentum 0.9, times those with both "
            "chosen",
            "1.5",
            LEARNED,
            _lesion("CIFAR-10", "momentum", "where the FC phase is"),
            "8 groups of CIFAR-10 quick on GPU-S",
        ),
        Headline(
            "F.3.4, Figure 31",
            "All choices together: seconds with the rate chosen, times those with all chosen",
            "over 20",
            LEARNED,
            _lesion("CIFAR-10", "groups", "the rate"),
            "8 workers in place of 32: fewer gradients are late. With no choice, or with LeNet, "
            "the target is not reached at all",
        ),
        Headline(
            "6.2.1, Figure 10",
            "The time of the optimizer, of the run",
            "10 %",
            LEARNED,
            _tradeoff(CPU_L, _fact("auto was held, of its seconds to the target")),
            "Part of the probes counts as training here",
        ),
        Headline(
            "6.3.2, Figure 34",
            "A Bayesian search up to a setting within 1 % of the best",
            "12 runs, 6 times the epochs",
            LEARNED,
            _tradeoff(GPU_S, _searches),
            "The search also asks for points that diverge or are cut. A run of the best point is "
            "one time",
        ),
        Headline(
            "F.6, Figure 32",
            "A recurrent net: seconds of one group and of as many groups as workers, times the best",
            "up to 2",
            LEARNED,
            Source("tuning", "recurrent", _recurrent),
            "4 workers; every worker as a group is the best",
        ),
        Headline(
            "F.7, Figure 33",
            "Seconds with the solver's own schedule, times those with the optimizer",
            "1.5",
            LEARNED,
            SCHEDULE,
            "CIFAR-10 quick, half as long as the published schedule",
        ),
        Headline(
            "F.3.2, Figures 26, 27",
            "A warm net bears all groups: iterations do not rise with the groups",
            "nearly flat",
            LEARNED,
            STEADY,
            "LeNet; the warm start is after some hundred iterations of one process",
        ),
        Headline(
            "F.3.3, Figures 28, 29",
            "The wrong groups on 8 workers: seconds, times the best",
            "1.5",
            LEARNED,
            _tradeoff(GPU_S, _ratio("seconds", "1", "4, best")),
            "One group in place of four, both with their best momentum and rate; 8 groups take "
            "nearly as long as one",
        ),
        Headline(
            "E.1, Figure 23",
            "Too large a batch takes so many times the epochs",
            "up to 30",
            LEARNED,
            PASSES,
            "LeNet; the largest of the batches, compared with the smallest, each at its best rate",
        ),
        Headline(
            "D.1.2",
            "Layers are pulled lazily: iterations saved",
            "20 %",
            LEARNED,
            LAZY,
            "LeNet, as many groups as workers. If all layers travel over a slow link, groups that pull "
            "lazily send and receive together, and each iteration takes longer (docs/tuning.md)",
        ),
        Headline(
            "6.2.2, Figure 11",
            "CaffeNet on one CPU and on two: times the speed of Caffe",
            "3.9, 5.36",
            "real run",
            Source("training-fast", "2 threads", _torch),
            "PyTorch's better layout in place of Caffe, on two cores; PyTorch has had ten more "
            "years of kernels",
        ),
        Headline(
            "3, Figure 3",
            "Convolutions, as a share of the peak, Omnivore and Caffe",
            "56 and 18 %; 69 and 22 % of SGEMM",
            "real run",
            Source("lowering", "lowering", _lowering("b_p 4")),
            "Two cores. Serial lowering is Caffe's way, with the same products",
        ),
        Headline(
            "3.2, Figure 4",
            "One product for 256 images in place of 256 products",
            "2",
            "real run",
            Source("lowering", "lowering", _batching),
            "Two cores of a newer processor: 2 GB of lowered images do not stay in its caches, and "
            "a single image is product enough for two cores",
        ),
        Headline(
            "6.2.2, C.4",
            "A CPU and a GPU share a batch: gain over the faster one alone",
            "18 %",
            "virtual clock",
            Source("scaling", "shares", _shares),
            "Two devices of speeds 1 and 3, of which 33 % are possible; the paper's CPU has half of the "
            "GPU's speed",
        ),
        Headline(
            "6.2.2, Figure 11",
            "The speed of g2.2xlarge, times that of c4.4xlarge",
            "1.8",
            "plan",
            speed_up(GPU, CPU),
            "The catalogue has the paper's shares of the peak for convolutions alone",
        ),
        Headline(
            "appendix G.1",
            "100 iterations of CPU-S and GPU-S, every worker a group",
            "34 s, 6 s",
            "plan",
            Source("tuning", "clusters", _hundred),
            "The paper says 34 and 6 s/iter; a batch takes one of these machines 2.7 s",
        ),
        Headline(
            "appendix G",
            "The price of training on c4.4xlarge, times that on g2.2xlarge",
            "2.1",
            "plan",
            Source("papers", PLAN, _cost, (CPU, GPU)),
            "None",
        ),
        Headline(
            "appendix G",
            "The price of an iteration on CPU-S, times that on GPU-S",
            "1.8",
            "plan",
            Source("tuning", "clusters", _clusters((0.84, 2.60))),
            "None",
        ),
    ),
)
