"""`python -m benchmarks.finetuning`: whether a trained net learns other classes from few images
better than the same net from scratch.

resnet20 learns six classes of CIFAR-10. Then it learns the other four from 50 images each, by
`train.recipe = "finetune"`: from scratch, from the weights of the six classes, and from them with
all layers but the last frozen. All three take the same images, rate and epochs, and are scored on
the 4 000 test images of the four classes. Accuracy does not depend on the load of the machine, so
the runs may share it with other work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.helpers.report import ROOT, Record, machine, write
from nets import load_net
from nets.data.sources.cifar10 import NAMES, read
from nets.tools.other_classes import for_classes

BAR = 0.10  # of accuracy, between the trained net and the one from scratch
SEEDS = (1, 2, 3)
KNOWN, NEW = range(6), range(6, 10)  # labels of CIFAR-10
FEW = 50  # images of each new class
FILES = [f"data_batch_{number}.bin.gz" for number in range(1, 6)]
TESTED = ["test_batch_10000.bin.gz"]
CLUSTER = """
[train]
net = "{net}"
seed = {seed}
epochs = {epochs:g}
test_epochs = {epochs:g}
{keys}
[train.data]
train = {{ format = "cifar10", files = ["{data}_train.bin"] }}
test = {{ format = "cifar10", files = ["{data}_test.bin"] }}
mean = [121.0]
deviation = [64.0]
[train.strategy]
preset = "single"
workers = 1
[checkpoint]
seconds = 0
[liveness]  # the machine may be busy
missed = 120
"""
TRAINED = 'recipe = "cifar"\nbatch = 128\nschedule = { warmup_epochs = 0.5 }\n'
LAST = "fc"  # the layer of the classes
# from scratch the last layer also takes ten times the rate, so that all ways learn with the same rates
TUNED = f'recipe = "finetune"\nbatch = 50\nlr_scale = {{ "{LAST}" = 10 }}\n'


@dataclass(frozen=True)
class Way:
    """A way to learn the new classes: its name, and its keys of [train]. `{weights}` stands for the
    checkpoint of the six classes."""

    name: str
    keys: str = ""


SCRATCH = Way("from scratch")
WHOLE = Way("trained on six classes", f'weights = "{{weights}}"\nfresh = ["{LAST}"]\n')
ONLY_LAST = Way("the same, all but the last layer frozen", WHOLE.keys + 'freeze = ["[!f]*", "fi*"]')
WAYS = (SCRATCH, WHOLE, ONLY_LAST)


def main(arguments: list[str] | None = None) -> int:
    """Train, score and write the results. Returns 1 if the trained net misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finetuning", description=__doc__)
    parser.add_argument("--cifar10", type=Path, required=True, help="folder of the binary batches")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--epochs", type=float, default=5.0, help="epochs of the six classes")
    parser.add_argument("--few-epochs", type=float, default=20.0, help="epochs of the four classes")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    found: dict[Way, list[float]] = {way: [] for way in WAYS}
    before: list[float] = []
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as folder:
            first, scores = of_seed(Path(folder), given.cifar10.resolve(), seed, given)
        before.append(first)
        for way, score in scores.items():
            found[way].append(score)
            print(f"{way.name}, seed {seed}: {score:.4f}", flush=True)
    record = judged(found, before, given)
    print("results:", *write(given.results, "finetuning", machine(), {"resnet20": record}))
    return int(record.status == "failed")


def of_seed(
    folder: Path, data: Path, seed: int, given: argparse.Namespace
) -> tuple[float, dict[Way, float]]:
    """The accuracy on the six classes, and that of each way on the four."""
    prepare(folder, data, seed)
    values = {"net": "known.prototxt", "data": "known", "epochs": given.epochs, "keys": TRAINED}
    first = _trained(folder, "known", seed=seed, **values)
    (weights,) = folder.glob("known/*/checkpoint-*.safetensors")
    values = {"net": "new.prototxt", "data": "new", "epochs": given.few_epochs}
    scores = {}
    for number, way in enumerate(WAYS):
        keys = TUNED + way.keys.replace("{weights}", str(weights))
        scores[way] = _trained(folder, f"way-{number}", seed=seed, keys=keys, **values)
    return first, scores


def prepare(folder: Path, data: Path, seed: int) -> None:
    """Write the nets and the images of both groups of classes. The seed draws the few images."""
    net = load_net("resnet20")
    draws = np.random.default_rng(seed)
    for name, classes in (("known", KNOWN), ("new", NEW)):
        text = for_classes(net, len(classes), (128, 100), folder).text
        (folder / f"{name}.prototxt").write_text(text)
        for part, files in (("train", FILES), ("test", TESTED)):
            images, labels, _ = read(base_dir=data, files=files)
            few = FEW if (name, part) == ("new", "train") else None
            chosen = [draws.permutation(np.flatnonzero(labels == each))[:few] for each in classes]
            places = np.concatenate(chosen)
            numbers = np.repeat(np.arange(len(classes)), [len(each) for each in chosen])
            records = np.column_stack((numbers, images[places].reshape(len(places), -1)))
            (folder / f"{name}_{part}.bin").write_bytes(records.astype(np.uint8).tobytes())


def judged(
    found: dict[Way, list[float]], before: Sequence[float], given: argparse.Namespace
) -> Record:
    """Compare the trained net with the one from scratch, by the means over the seeds."""
    record = Record("resnet20 on four classes of CIFAR-10, 50 images each", status="passed")
    record.facts = {
        "classes that it knew": ", ".join(NAMES[each] for each in KNOWN),
        "new classes": ", ".join(NAMES[each] for each in NEW),
        "epochs of the known classes": given.epochs,
        "epochs of the new classes": given.few_epochs,
        "mean accuracy on the known classes": round(mean(before), 4),
    }
    seeds = [f"seed {seed}" for seed in given.seeds]
    record.table("Accuracy on the test images of the new classes", "way", *seeds, "mean")
    means = {way: mean(scores) for way, scores in found.items()}
    for way, scores in found.items():
        record.row(way.name, *scores, means[way])
    more = means[WHOLE] - means[SCRATCH]
    text = (
        f"the trained net has {100 * more:+.1f} points of accuracy compared with the net from "
        f"scratch, bar at least {100 * BAR:+.0f}"
    )
    if more < BAR:
        record.fail(f"MISSED {text}")
    else:
        record.note(text)
    return record


def _trained(folder: Path, run: str, **values: object) -> float:
    """The accuracy at the end of a run of `up`. Raises CalledProcessError."""
    (folder / "cluster.toml").write_text(CLUSTER.format(**values))
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
    subprocess.run(
        [*command, "--set", f"run.directory={run}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (events,) = folder.glob(f"{run}/*/events.jsonl")
    told = map(json.loads, events.read_text("utf-8").splitlines())
    return float([each["accuracy"] for each in told if each["event"] == "test"][-1])


if __name__ == "__main__":
    sys.exit(main())
