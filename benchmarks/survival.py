"""`python -m benchmarks.survival`: the cost of being able to survive, while no process dies.

Two workers with the whole net each (`replicas`) train LeNet on the digits, and CaffeNet on
synthetic images. Runs that are alive at once take turns (`turns`):

- one with `recovery.restarts = 0`;
- one with `restarts = 3`, which resumes from a living worker's memory after a death, so that
  updates wait until every sum of an iteration is there;
- the same with checkpoints far more often than in practice, to measure the cost of one;
- with `--against`, one of another checkout, such as one from before runs survived deaths.

There are `--lives` runs of each kind, one after another.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.helpers.turns import PARTS, Sleeper, taken_in_lives

IMAGES_LEAST = 0.98  # relative to a run that could not survive
EXPOSED_MOST = 0.01  # the share of a run's seconds in which training waits for checkpoints
EVERY = 300  # seconds between two checkpoints, as in docs/recovery.md
OFF = ""
ON = "[recovery]\nrestarts = 3\n"
SAVES = ON + "[checkpoint]\nseconds = {seconds:g}\n"
CLUSTER = """program = "roles"
[train]
net = "{net}"
solver = "solver.prototxt"
seed = 1
batch = {batch}
[train.data]
train = {data}
[train.strategy]
preset = "replicas"
workers = 2
[liveness]  # a run that sleeps is neither stuck nor dead
progress_seconds = 3600
missed = 240
"""
SOLVER = (
    'base_lr: 0.001 momentum: 0.9 lr_policy: "fixed" max_iter: 100000000 display: {display} '
    "snapshot: 0\n"
    "snapshot_after_train: false\n"
)


@dataclass(frozen=True)
class Net:
    """A net, its batch and data, the iterations between two lines of progress, the seconds of a
    turn, and the seconds between two checkpoints."""

    name: str
    batch: int
    data: str
    display: int
    turn: float
    seconds: float


NETS = {
    "lenet": Net("lenet", 64, '{ format = "digits", split = "train" }', 20, 2.0, 2.0),
    "caffenet": Net(
        "caffenet",
        64,
        ('{ format = "synthetic", shape = [3, 227, 227], size = 256 }'),
        1,
        20.0,
        8.0,
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("survival", __doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(NETS), default=list(NETS))
    parser.add_argument(
        "--lives", type=int, default=10, help="runs of each kind, one after another"
    )
    parser.add_argument("--rounds", type=int, default=2, help="turns of each run")
    parser.add_argument("--turn", type=float, help="seconds of a turn, instead of each net's")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {}
    for part in given.parts:
        records[part] = Record(f"{NETS[part].name}: what it costs to be able to survive")
        turn = given.turn or NETS[part].turn
        compare(records[part], NETS[part], given.lives, given.rounds, turn, given.against)
    print("results:", *write(given.results, "survival", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def compare(
    record: Record, net: Net, lives: int, rounds: int, seconds: float, against: Path | None
) -> None:
    """Compare runs in turns. The cost of a checkpoint is the time by which its run fell behind,
    part of which is exposed: training waits."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        kinds = {
            "restarts = 0": ("off", OFF, ROOT),
            "restarts = 3": ("on", ON, ROOT),
            "and saves": ("saves", SAVES.format(seconds=net.seconds), ROOT),
        }
        if against:
            kinds[f"of {against.name}"] = ("other", OFF, against)

        def start(life: int) -> dict[str, Callable[[], Sleeper]]:
            (folder / str(life)).mkdir()
            return {
                kind: partial(sleeper, folder / str(life) / where, net, more, checkout)
                for kind, (where, more, checkout) in kinds.items()
            }

        found = taken_in_lives(start, lives, rounds, seconds)
        exposed = [each for life in range(lives) for each in waited(folder / str(life) / "saves")]
    off, on, saves = (found[kind] for kind in list(kinds)[:3])
    record.facts["turns"] = (
        f"{rounds} of {seconds:g} s each of {lives} lives, one life of each kind at once"
    )
    if not all(all(turns.parts()) for turns in found.values()):
        record.fail(
            f"turns of {seconds:g} s are too short here: a fifth of a run's turns had no "
            "iteration (--turn)"
        )
        return
    parts = [f"part {number + 1}" for number in range(PARTS)]
    record.table(
        f"Images a second, batch {net.batch}", "run", "in all", "of those of restarts = 0", *parts
    )
    for kind in kinds:
        turns = found[kind]
        ratios = [ours / theirs for ours, theirs in zip(turns.parts(), off.parts(), strict=True)]
        record.row(kind, net.batch * turns.rate, turns.rate / off.rate, *ratios)
    cost = max(0.0, sum(saves.seconds) * (1.0 - saves.rate / on.rate)) / max(1, len(exposed))
    record.facts |= {"checkpoints": len(exposed), "seconds that one costs": cost}
    every = f"of a run with a checkpoint every {EVERY} s"
    record.judge(
        ("images a second, of those of a run that could not survive"),
        on.rate / off.rate,
        least=IMAGES_LEAST,
    )
    if against:
        before = f"of {against.name}"
        record.judge(
            f"images a second, of those {before}", on.rate / found[before].rate, least=IMAGES_LEAST
        )
    mean = sum(exposed) / max(1, len(exposed))
    record.judge(f"share {every} that training waits for them", mean / EVERY, most=EXPOSED_MOST)
    record.judge(f"share {every} that they cost in all", cost / EVERY, most=1 - IMAGES_LEAST)
    record.status = "passed" if record.status == "running" else record.status


def sleeper(folder: Path, net: Net, more: str, checkout: Path = ROOT) -> Sleeper:
    """A run with `more` in its cluster.toml."""
    folder.mkdir()
    (folder / "cluster.toml").write_text(
        CLUSTER.format(net=net.name, batch=net.batch, data=net.data) + more
    )
    (folder / "solver.prototxt").write_text(SOLVER.format(display=net.display))
    return Sleeper(folder / "cluster.toml", checkout)


def waited(folder: Path) -> list[float]:
    """The seconds that training waited for each checkpoint of a run."""
    (journal,) = (folder / "runs").glob("*/events.jsonl")
    told = map(json.loads, journal.read_text().splitlines())
    return [event["exposed_seconds"] for event in told if event["event"] == "checkpoint"]


if __name__ == "__main__":
    sys.exit(main())
