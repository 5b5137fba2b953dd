"""The benchmark of several machines compared with DDP: its verdicts on given turns, and both sides
once at a small size."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine, Refused, machines
from benchmarks.helpers.report import Record
from benchmarks.hosts import clusters as hosts_clusters
from benchmarks.hosts import hosts
from benchmarks.hosts import placements as hosts_placements
from benchmarks.hosts import starts as hosts_starts
from benchmarks.hosts.clusters import Work
from benchmarks.hosts.sides import Learnt, Ours
from roles.forecasting.costs import Timed
from roles.planning.strategies import preset_called
from runtime import Event
from runtime.plan.topology import Placement
from tests.helpers.far_machines import or_skip

LENET = Work("lenet", (1, 28, 28), 10, 16, 0.01, 0.0005)
NOWHERE = [Machine(f"nowhere{number}", f"10.87.64.{number + 1}") for number in range(4)]


@pytest.fixture(scope="module")
def two() -> Iterator[list[Machine]]:
    """Two machines with cables of 1 Gbit/s."""
    with or_skip(machines(2, hosts_clusters.GIGABIT)) as made:
        yield made


class Said:
    """A side whose iterations take the given seconds, one value per turn."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = iter(seconds)
        self.asked = list[int]()

    async def turn(self, iterations: int) -> float:
        self.asked.append(iterations)
        return next(self._seconds)


async def test_sides_take_turns_of_equal_length_and_the_first_does_not_count() -> None:
    sides = {"convoy": Said(0.1, 0.2, 0.3), "DDP": Said(9.0, 0.4, 0.5)}
    taken, busy = await hosts.in_turns(sides, turns=2, seconds=2.0)
    assert taken == {"convoy": [0.2, 0.3], "DDP": [0.4, 0.5]}
    assert [side.asked for side in sides.values()] == [[1, 20, 20], [1, hosts.LEAST, hosts.LEAST]]
    assert [len(of) for of in busy.values()] == [2, 2]


@pytest.mark.parametrize(("times", "status"), [(1.49, "failed"), (1.5, "running")])
async def test_real_work_is_judged_by_how_much_faster_it_is_than_ddp(
    times: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def beside(*_: object) -> float:
        return times

    monkeypatch.setattr(hosts, "beside", beside)
    bench = hosts.Bench(NOWHERE, tmp_path, argparse.Namespace(nets=["cifar10_quick"]))
    bench.known["cifar10_quick"] = hosts.Known(
        Timed({}, {}, 0.0), {}, {"firecaffe": 1.0}, {"layout": "nchw"}
    )
    record = Record("r")
    await hosts.worked(record, bench)
    assert record.status == status
    assert record.notes[-1].endswith(
        f"cifar10_quick: {times:.2f} times DDP's images a second, at least 1.5"
    )


async def told(*losses: float) -> AsyncGenerator[Event, None]:
    """The events of a run that reports these losses, one a second, and then stays silent."""
    yield Event(5.0, "supervisor", "began", {})
    yield Event(5.0, "tuner", "tuning", {"why": "so"})
    yield Event(5.0, "coordinator", "held", {})
    for number, loss in enumerate(losses, 1):
        yield Event(5.0 + number, "coordinator", "progress", {"loss": loss})
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0.5, 3.0, 2.0, 1.0, 0.0), Learnt(4.0, 4, 1.5)),
        ((3.0, 2.0), Learnt(0.2, 2, 2.5)),
        ((), Learnt(0.2, 0, math.inf)),
    ],
)
async def test_a_loss_is_reached_as_a_mean_of_a_window_or_the_time_is_over(
    losses: tuple[float, ...], expected: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Ours.__new__(Ours)
    events = told(*losses)
    monkeypatch.setattr(ours, "_events", events, raising=False)
    await ours.begun()
    learnt, tuned = await ours.learn(1.5, 2, 0.2)
    assert (learnt, [event.name for event in tuned]) == (expected, ["tuning"])
    await events.aclose()


async def test_a_run_that_ends_before_the_loss_is_reached_has_its_last_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ended() -> AsyncGenerator[Event, None]:
        yield Event(5.0, "supervisor", "began", {})
        yield Event(6.0, "coordinator", "progress", {"loss": 3.0})
        yield Event(7.0, "coordinator", "finished", {"iterations": 1})

    ours = Ours.__new__(Ours)
    events = ended()
    monkeypatch.setattr(ours, "_events", events, raising=False)
    await ours.begun()
    assert await ours.learn(1.5, 2, 60.0) == (Learnt(2.0, 1, 3.0), [])
    await events.aclose()


@pytest.mark.parametrize(("seconds", "status"), [(10.1, "failed"), (9.9, "passed")])
def test_starts_are_judged_by_their_median_and_need_no_pytorch(
    seconds: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = iter((1.0, seconds, 99.0))
    monkeypatch.setattr(hosts, "missing", lambda modules: list(modules.values()))
    monkeypatch.setattr(hosts_starts, "machines", lambda count, rate: nullcontext(NOWHERE))
    monkeypatch.setattr(hosts_starts, "_started", lambda *_: next(taken))
    assert hosts.main(["--parts", "start", "--results", str(tmp_path)]) == (status == "failed")
    (as_json,) = tmp_path.glob("hosts-*.json")
    assert json.loads(as_json.read_text())["parts"]["start"]["status"] == status


@pytest.mark.slow
def test_machines_are_started_and_nothing_is_left_on_them(two: list[Machine]) -> None:
    record = Record("r")
    record.table("t")
    assert hosts_starts._started(record, 1, two) > 0
    ((turn, began, first, processes, end),) = record.tables[0].rows
    assert (turn, processes, record.status) == (1, 5, "running")
    assert 0 < began < first
    assert end > 0


def test_without_pytorch_it_names_the_extra_and_leaves_the_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hosts, "missing", lambda modules: list(modules.values()))
    told = ["--parts", "work", "learning", "--results", str(tmp_path / "results")]
    assert hosts.main(told) == 0
    assert (
        "PyTorch is missing; install it with: python -m pip install 'convoy-runtime[reference]'"
    ) in (capsys.readouterr().out)
    assert not (tmp_path / "results").exists()


def test_a_part_that_has_none_of_the_named_nets_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = hosts.Bench(NOWHERE, tmp_path, argparse.Namespace(nets=["lenet"]))
    record = Record("r")
    hosts.run(record, hosts.worked, bench)
    assert record.status == "skipped"
    assert "left out: it measures cifar10_quick and caffenet; --nets names neither" in (
        capsys.readouterr().out
    )


def test_ours_is_the_fastest_predicted_preset_among_those_equal_to_ddp(
    tmp_path: Path,
) -> None:
    found = hosts_clusters.candidates(tmp_path, LENET, NOWHERE)
    assert {"omnivore", "firecaffe", "replicas", "one-weird-trick"} & found.keys()
    assert all(preset_called(name).equals_single for name in found)
    assert "single" not in found
    nothing = dict.fromkeys(
        ("conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2", "loss"), (0.0, 0.0)
    )
    timed = Timed({4: nothing}, dict.fromkeys(nothing, 0.0), 0.0)
    for name, checked in found.items():
        fast, slow = (hosts_clusters.predicted(checked, timed, rate) for rate in (10**8, 10**7))
        assert slow == pytest.approx(10 * fast, rel=0.1), name  # only the cables take time
    known = hosts.Known(timed, found, {"omnivore": 2.0, "firecaffe": 1.0}, {})
    assert known.preset == "firecaffe"


@pytest.mark.slow
def test_a_run_of_ours_rests_between_its_turns(tmp_path: Path, two: list[Machine]) -> None:
    cluster = hosts_clusters.cluster(tmp_path, LENET, two, "firecaffe", times={"*/*": 0.001})

    async def turns() -> list[float]:
        async with Ours(cluster) as ours:
            return [await ours.turn(3) for _ in range(2)]

    assert min(asyncio.run(turns())) > 0.001
    (journal,) = tmp_path.glob("runs/*/events.jsonl")
    kinds = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    told = [kind for kind in kinds if kind in ("held", "released", "progress")]
    assert told.count("released") == 2
    assert all(told[at + 1] == "released" for at, kind in enumerate(told[:-1]) if kind == "held")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_both_sides_are_measured_at_a_small_size(
    tmp_path: Path, two: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(hosts, "WORKS", {"lenet": LENET})
    monkeypatch.setattr(hosts, "REPEATS", {"lenet": 2})
    given = [
        "--parts",
        "choice",
        "work",
        "cores",
        "--machines",
        str(len(two)),
        "--turns",
        "1",
        "--seconds",
        "0.1",
    ]
    hosts.main([*given, "--results", str(tmp_path)])  # the bar is meant for eight machines
    (as_json,) = tmp_path.glob("hosts-*.json")
    parts = json.loads(as_json.read_text())["parts"]
    fastest = parts["choice"]["tables"][0]["rows"][0][2]
    for name in ("work", "cores"):
        ((net, batch, preset, ours, theirs, *_),) = parts[name]["tables"][0]["rows"]
        assert (net, batch, preset) == ("lenet", 16, fastest)
        assert min(ours, theirs) > 0


def test_placements_are_twelve_on_two_to_nine_machines_with_three_nets_and_mixed_kinds() -> None:
    cases = hosts_placements.CASES
    assert len(cases) == 12
    assert {len(case.kinds) for case in cases} <= set(range(2, 10))
    assert {case.net for case in cases} == set(hosts_placements.NETS)
    assert sum(len({*case.kinds}) > 1 for case in cases) >= 3


@pytest.mark.parametrize("case", hosts_placements.CASES[:1] + hosts_placements.CASES[8:9])
def test_paced_work_takes_the_time_of_its_machines_kind(
    case: hosts_placements.Case, tmp_path: Path
) -> None:
    made = [Machine(f"nowhere{n}", f"10.87.64.{n + 1}") for n in range(len(case.kinds))]
    path = hosts_placements.write(tmp_path, case, made)
    table = json.loads((tmp_path / "times.json").read_text())
    predicted, planned = hosts_placements.foretold(path)
    net = hosts_placements.NETS[case.net]
    worker = table["conv-0-0/backward conv2"]
    flops = net.kinds[case.kinds[0]][0]
    # the layer's multiplications and additions for one image, for its weights and for its input
    assert worker["mean"] / worker["rows"] == pytest.approx(
        2 * 2 * 50 * 20 * 25 * 8 * 8 / flops, rel=0.01
    )
    assert predicted > sum(
        entry["mean"]
        for key, entry in table.items()
        if key.startswith("conv-0-0/") and isinstance(entry, dict)
    )
    assert hosts_placements.homes(planned.placement)[f"m{len(made) - 1}"] == ["fc_server"]


@pytest.mark.parametrize(
    ("seconds", "same", "told"),
    [
        (1.09, True, ""),
        (1.11, True, "+0.110 from the prediction, at most 0.1"),
        (0.89, True, "-0.110 from the prediction"),
        (1.0, False, "the run's actors are not on the machines that plan tells"),
    ],
)
def test_a_placement_is_judged_by_its_actors_and_its_time(
    seconds: float,
    same: bool,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = hosts_placements.CASES[0]
    made = [Machine(f"nowhere{n}", f"10.87.64.{n + 1}") for n in range(2)]
    planned = hosts_clusters.check(hosts_placements.write(tmp_path, case, made), starts=False)
    other = replace(planned.placement, processes=planned.placement.processes[:-1])

    async def run(*_: object) -> tuple[float, Placement]:
        return seconds, planned.placement if same else other

    monkeypatch.setattr(hosts_placements, "machines", lambda *_: nullcontext(made))
    monkeypatch.setattr(hosts_placements, "foretold", lambda path: (1.0, planned))
    monkeypatch.setattr(hosts_placements, "_run", run)
    record = Record("r")
    record.table("t", *"0123456789")
    found = hosts_placements.measured(record, case)
    assert (told in found) if told else not found
    assert record.tables[0].rows[0][5] == ("yes" if same else "NO")


@pytest.mark.slow
def test_a_paced_run_over_cables_has_the_actors_of_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts_placements, "MEASURED", 4)
    record = Record("r")
    record.table("t", *"0123456789")
    try:
        hosts_placements.measured(record, hosts_placements.CASES[0])
    except Refused as why:
        pytest.skip(str(why))
    ((*_, as_planned, predicted, seconds, _, _),) = record.tables[0].rows
    assert as_planned == "yes"
    assert min(predicted, seconds) > 0
