"""Runs of `presets`: options for each net and data set, runs in processes and on virtual time, and
the bytes that they send."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import roles
import runtime
from nets.files import checkpoint
from runtime import Actor, Topology
from runtime.plan.topology import Placement, ProcessSpec
from runtime.report.event_stream import Event
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate

# The rate falls to 0, so that the noise of the last steps does not decide which images are correct
SOLVER = """
net: "{net}.prototxt"
base_lr: {rate} momentum: 0.9 weight_decay: {decay} lr_policy: "poly" power: 1
max_iter: 100 display: 50 snapshot: 0 test_interval: 1000000 test_initialization: false
"""
PAYLOAD = re.compile(
    r'convoy_payload_bytes_received_total\{actor="(.*?)",kind="roles\.(\w+)",peer="(.*?)",role="\w*"\} '
    r""
    r""
    r"(\S+)"
)
Options = dict[str, Any]
DOUBLE: Options = {"precision": "double"}  # the same run in float64
Makes = Callable[..., Options]  # (strategy, iterations) -> options


class Data:
    """Folders of data sets. Without MNIST, the digits that ship are used."""

    def __init__(self, mnist: Path | None, cifar: Path | None) -> None:
        self.mnist = mnist
        self.cifar = cifar
        self.digits_name = "MNIST" if mnist else "the digits that ship"
        self._folder = tempfile.TemporaryDirectory(prefix="convoy-benchmark-")

    def __repr__(self) -> str:
        return f"<{self.digits_name}, {self.cifar or 'no CIFAR-10'}>"

    def lenet(
        self, strategy: Options, iterations: int, *, momentum: float = 0.9, test: bool = True
    ) -> Options:
        """LeNet, 64 images an iteration."""
        data = {"train": self._digits("train"), "shuffle": True}
        if test:
            data["test"] = self._digits("test")
        rate = 0.2 * (1 - momentum)  # the same step in the long run for every momentum
        return self._options("lenet", rate, 0.0005, data, strategy, iterations) | {
            "momentum": momentum
        }

    def cifar_full(self, strategy: Options, iterations: int) -> Options:
        """CIFAR-10 full, with LRN, at its published rate; 100 images an iteration."""
        data = {"train": self._photographs("test_batch_1000.bin.gz")}
        return self._options("cifar10_full", 0.001, 0.004, data, strategy, iterations) | {
            "batch": 100
        }

    def cifar_quick(self, strategy: Options, iterations: int, batch: int) -> Options:
        """CIFAR-10 quick. The rate grows with the batch in the way that One weird trick, section 5,
        found best."""
        assert self.cifar is not None
        files = sorted(file.name for file in self.cifar.glob("data_batch_*.bin*"))
        data = {
            "train": self._photographs(*files),
            "test": self._photographs("test_batch_1000.bin.gz"),
            "shuffle": True,
        }
        rate = 0.001 * (batch / 128) ** 0.5
        return self._options("cifar10_quick", rate, 0.004, data, strategy, iterations) | {
            "batch": batch
        }

    def caffenet(self, strategy: Options, batch: int) -> Options:
        """CaffeNet on made-up images, for plans only: it is not trained."""
        data = {
            "train": {"format": "synthetic", "shape": [3, 227, 227], "classes": 1000, "size": batch}
        }
        return self._options("caffenet", 0.01, 0.0005, data, strategy, 1) | {"batch": batch}

    def _options(
        self, net: str, rate: float, decay: float, data: Options, strategy: Options, iterations: int
    ) -> Options:
        solver = Path(self._folder.name, f"{net}-{rate:g}.prototxt")
        solver.write_text(SOLVER.format(net=net, rate=rate, decay=decay))
        return {
            "net": net,
            "solver": str(solver),
            "max_iter": iterations,
            "data": data,
            "strategy": strategy,
            "precision": "exact",
        }

    def _digits(self, split: str) -> Options:
        if self.mnist is None:
            return {"format": "digits", "split": split}
        name = {"train": "train", "test": "t10k"}[split]
        images, labels = (
            str((self.mnist / f"{name}-{kind}-ubyte.gz").resolve())
            for kind in ("images-idx3", "labels-idx1")
        )
        return {"format": "idx", "images": images, "labels": labels}

    def _photographs(self, *files: str) -> Options:
        assert self.cifar is not None
        return {
            "format": "cifar10",
            "files": [str((self.cifar / file).resolve()) for file in files],
        }


def run(topology: Topology) -> list[dict[str, Any]]:
    """Run in processes. Returns the events with their names and fields."""
    events: list[dict[str, Any]] = []

    def note(event: Event) -> None:
        events.append({"event": event.name, **event.fields})

    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        runtime.run(topology, on_event=note, directory=folder, machine=[{"threads": 1}])
    return [event for event in events if event["event"] in ("progress", "test", "finished")]


def arrays_of(options: Options, snapshot: Path | None = None) -> dict[str, Any]:
    """The arrays in the checkpoint of a run on virtual time. The checkpoint is copied to `snapshot`
    if that is given."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        journal = virtual(roles.training(options), Path(folder))
        file = Path(folder, journal.of("checkpoint")[-1]["file"])
        if snapshot is not None:
            snapshot.write_bytes(file.read_bytes())
        arrays, _ = checkpoint.load(file)
        return dict(arrays)


def one_step(makes: Makes, strategy: Options, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays after iteration `at` by this strategy and by one process. Both start from the
    state of one process before that iteration."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        more: Options = {}
        if at:
            before = Path(folder, "before.safetensors")
            arrays_of(makes({"preset": "single"}, at), before)
            more = {"resume": str(before)}
        found, alone = (
            arrays_of(makes(of, at + 1) | more) for of in (strategy, {"preset": "single"})
        )
    return found, alone


def bytes_seen(topology: Topology) -> dict[tuple[str, str], int]:
    """(sender, receiver) -> bytes of arrays that the metrics counted, except the checkpoint's."""
    pages: dict[str, Any] = {}

    def look(actors: dict[str, Actor]) -> None:
        pages.update({name: actor._runtime.host.metrics for name, actor in actors.items()})

    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        virtual(topology, Path(folder), look)
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for metrics in pages.values():
        for receiver, kind, sender, size in PAYLOAD.findall(metrics.text()):
            if kind != "State":
                found[sender, receiver] += int(float(size))
    return dict(found)


def virtual(
    topology: Topology,
    folder: Path,
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
) -> Journal:
    """Run on virtual time, with every actor in its own process."""
    processes = tuple(ProcessSpec(actor.name, "local", (actor.name,)) for actor in topology.actors)
    return run_virtual(
        simulate(Placement(topology, processes), roles.ROLES, directory=folder, prepared=prepared)
    )
