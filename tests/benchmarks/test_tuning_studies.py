"""The studies of the papers in `benchmarks.tuning`. Their runs here are small, on the digits that
ship with Convoy; tables and verdicts are tested with trials that are made up."""

from __future__ import annotations

import asyncio
import json
import math
import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpers.report import Record
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept, Repeated, Trials
from benchmarks.tuning.recurrent import TEXT
from benchmarks.tuning.runs import OMNIVORE, SINGA, Reached, Setting, Task, Times, lenet, trial
from benchmarks.tuning.studies import (
    fc_phase,
    lazy_pull,
    rate_batch,
    same_samples,
    schedule,
    steady,
    tasks,
)
from nets.files import checkpoint
from roles.options import Options
from roles.planning.planner import plan
from runtime import Actor, Topology
from runtime.config.file import of_script, program_options
from runtime.simulation.clock import run_virtual
from runtime.transport.network_model import Network

TIMES: Times = {
    "conv_compute/forward conv1": (0.01, 0.06),
    "conv_compute/backward conv1": (0.01, 0.06),
    "fc_server/fc TRAIN": (0.002, 0.06),
}
TASK = Task("t", {}, 100, loss=1.0)
Taken = Callable[[Setting, str], tuple[int, float]]  # setting, preset -> iterations, their seconds


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    data = Data(None, None)
    yield lenet(data, tmp_path, 6, 0.0)
    data._folder.cleanup()


def made_up(taken: Taken, workers: int = 4, kept: Kept | None = None) -> Trials:
    def make(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        assert setting is not None
        iterations, pace = taken(setting, preset)
        return Reached(iterations, iterations * pace, pace)

    return Trials(TASK, workers, "made up", make, kept or Kept())


def ran(task: Task, prepared: Callable[[dict[str, Actor]], None] | None = None) -> Reached:
    return trial(task, 2, Setting(1, 0.9, 0.01), TIMES, rate=1e7, prepared=prepared)


def topology_of(task: Task, folder: Path) -> Topology:
    strategy = {"preset": OMNIVORE, "workers": 2, "groups": "auto"}
    more = {"momentum": "auto", "base_lr": "auto", "strategy": strategy}
    config = of_script("task", {"train": {**task.options, **more}}, folder)
    return plan(config, program_options(config, Options))


def test_a_worker_that_pulls_the_whole_model_waits_for_it_and_learns_the_same_in_one_group(
    task: Task,
) -> None:
    short = replace(task, loss=100.0, window=5)
    layer = ran(short)
    whole = ran(short, lazy_pull.at_once)
    assert layer.seconds is not None and whole.seconds is not None
    assert whole.seconds > layer.seconds
    assert whole.iterations == layer.iterations == 5
    losses = [ran(replace(short, loss=0.0), how) for how in (None, lazy_pull.at_once)]
    assert [found.iterations for found in losses] == [None, None]


@pytest.mark.parametrize(("in_turn", "expected"), [(False, [2.0, 2.0]), (True, [1.0, 2.0])])
def test_messages_in_turn_have_the_whole_link_one_after_the_other(
    in_turn: bool, expected: list[float]
) -> None:
    async def main() -> list[float]:
        network = Network(bytes_per_second=100.0, interfaces={name: name for name in "abc"})
        line: deque[Any] = deque()
        loop = asyncio.get_running_loop()
        arrivals = []
        for to in "bc":
            route = network.route("a", to, "bulk")
            assert route is not None
            way = lazy_pull.InTurn(route, line) if in_turn else route
            arrived = loop.create_future()
            arrivals.append(arrived)
            way.send(100, lambda arrived=arrived: arrived.set_result(loop.time()))
        return list(await asyncio.gather(*arrivals))

    assert run_virtual(main()) == pytest.approx(expected)


def test_workers_whose_messages_leave_in_turn_learn_the_same_in_one_group(task: Task) -> None:
    short = replace(task, loss=100.0, window=5)
    routes: list[object] = []

    def watched(actors: dict[str, Actor]) -> None:
        lazy_pull.in_turn(actors)
        roads = {
            home.road
            for actor in actors.values()
            for home in actor._runtime.host.router._homes.values()
        }
        routes.extend(road._links[key].route for road in roads for key in road._links)

    assert ran(short, watched).iterations == ran(short).iterations == 5
    turns = [route for route in routes if isinstance(route, lazy_pull.InTurn)]
    assert 2 * len(turns) == len(routes)  # the bulk lane of each link


def test_groups_that_share_a_link_and_do_not_gain_by_turns_miss_the_bar() -> None:
    def of(pace: float) -> Trials:
        return made_up(lambda setting, preset: (10, pace))

    for pace, status in ((0.05, "running"), (0.2, "failed")):
        record = Record("r")
        ways = {lazy_pull.WHOLE: of(0.1), lazy_pull.TURNS: of(pace)}
        lazy_pull.compare(record, of(0.1), ways)
        assert record.status == status
        assert [table.rows[0][1:] for table in record.tables[1:]] == [[1.0, 1.0], [1.0, pace / 0.1]]


def test_the_fc_phase_counts_in_hardware_and_in_statistical_efficiency_apart() -> None:
    def taken(setting: Setting, preset: str) -> tuple[int, float]:
        late = setting.groups if preset == SINGA else 1
        return (10 * late + int(10 * setting.momentum), 0.2 if preset == SINGA else 0.1)

    record = Record("r")
    found = fc_phase.compare(record, made_up(taken))
    assert record.status == "running"  # no bar is missed
    assert record.tables[1].rows == [[1, 2.0, 1.0, 2.0], [2, 2.0, 2.0, 4.0], [4, 2.0, 4.0, 8.0]]
    momenta = {row[0]: row[1] for row in record.tables[2].rows if row[0].startswith("4")}
    assert momenta == {"4, published": 0.9, "4, tuned for 1 group": 0.0, "4, tuned": 0.0}
    ET.fromstring(fc_phase.picture(found, "t"))


def test_a_merged_fc_phase_that_is_slower_or_learns_worse_misses_its_bar() -> None:
    record = Record("r")
    fc_phase.compare(
        record, made_up(lambda of, preset: (20, 0.1) if preset == OMNIVORE else (10, 0.05))
    )
    assert record.status == "failed"
    assert sum(note.startswith("MISSED") for note in record.notes) == 2


def test_every_batch_sees_the_same_images_and_averages_its_loss_over_the_same(task: Task) -> None:
    small, large = (rate_batch.with_batch(task, batch) for batch in (64, 256))
    assert small.iterations * 64 == large.iterations * 256 == rate_batch.IMAGES
    assert (small.window, large.window) == (50, 12)
    assert rate_batch.with_batch(task, 4096).window == rate_batch.LEAST
    assert (small.name, large.options["batch"]) == ("LeNet, batches of 64", 256)


def test_work_on_rows_takes_as_much_longer_as_the_batch_is_larger_and_updates_do_not() -> None:
    times: Times = {"fc_server/fc TRAIN": (0.002, 0.06), "conv_model/update conv1": (0.1, 0.2)}
    assert rate_batch.scaled(times, 256) == {**times, "fc_server/fc TRAIN": (0.008, 0.06)}


def test_the_best_rate_of_a_batch_is_the_one_that_is_soonest_at_the_target() -> None:
    def of(batch: int) -> Trials:
        def taken(setting: Setting, preset: str) -> tuple[int, float]:
            best = batch / 6400
            return int(100 * max(best / setting.base_lr, setting.base_lr / best)), 0.001 * batch

        return made_up(taken)

    record = Record("r")
    batches = (64, 256)
    best = rate_batch.sweep(record, [of(batch) for batch in batches], batches, (0.01, 0.04))
    assert [(each.batch, each.rate) for each in best] == [(64, 0.01), (256, 0.04)]
    assert best[1].passes == pytest.approx(4 * best[0].passes)
    ET.fromstring(rate_batch.picture(best, "t"))


def test_a_batch_that_no_rate_teaches_is_reported_and_has_no_best_rate() -> None:
    def never(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        return Reached(pace=0.1, diverged=seed > 1)

    record = Record("r")
    lost = Trials(TASK, 4, "made up", never, Kept())
    found = rate_batch.sweep(record, [made_up(lambda *of: (10, 0.1)), lost], (64, 256), (0.01,))
    assert [each.batch for each in found] == [64]
    assert "batches of 256: no rate reached the target" in record.notes
    assert record.tables[0].rows[1][3:] == ["not reached"] * 3


def test_a_warm_start_begins_with_the_model_of_its_iterations(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "WARM", 2)
    with steady.warmed(task) as weights:
        arrays, _ = checkpoint.load(weights)
        assert arrays.keys() >= {"conv1.0", "ip2.1"}
        later = replace(
            task, options=task.options | {"weights": str(weights)}, loss=100.0, window=5
        )
        assert ran(later).iterations == 5


def ways(end: float) -> list[same_samples.Way]:
    return [same_samples.Way(0.9, [2 * end, end]) for _ in range(same_samples.SEEDS)]


@pytest.mark.parametrize(
    ("end", "status"), [(1.79, "running"), (1.7, "running"), (1.81, "failed"), (math.nan, "failed")]
)
def test_groups_are_judged_by_their_loss_above_that_of_one_process(end: float, status: str) -> None:
    record = Record("r")
    found = {
        case: ways(1.75 if case.preset == same_samples.SINGLE else end)
        for case in (*same_samples.CASES, same_samples.SAME_GAIN)
    }
    same_samples.compare(record, found)
    assert record.status == status
    above = [row[6] for row in record.tables[0].rows if row[0] == "SGD, 4 groups"]
    assert above == pytest.approx([end - 1.75], nan_ok=True)
    ET.fromstring(same_samples.picture(found, "t"))


@pytest.mark.skipif(not TEXT.is_file(), reason="needs the folder shakespeare in ../shared/data")
@pytest.mark.parametrize(
    ("solver", "momentum"), [pytest.param("SGD", 0.6), pytest.param("Adam", 0.9)]
)
def test_convoy_chooses_the_momentum_of_the_groups_and_a_kept_run_is_not_made_again(
    tmp_path: Path, solver: str, momentum: float
) -> None:
    results = Kept(tmp_path / "kept.jsonl")
    name = same_samples.characters(tmp_path, solver, 2).name
    results.put(f"{name}, omnivore: service times", {"conv_compute/read": (0.01, 0.06)})
    cases = [same_samples.Case(solver, preset, iterations=2) for preset in same_samples.STRATEGIES]
    alone, apart = (same_samples.way(tmp_path, case, results, 1) for case in cases)
    assert (alone.momentum, apart.momentum) == (0.9, momentum)
    lines = (tmp_path / "kept.jsonl").read_bytes()
    again = same_samples.way(tmp_path, cases[0], Kept(tmp_path / "kept.jsonl"), 1)
    assert again == alone
    assert (tmp_path / "kept.jsonl").read_bytes() == lines


def test_steady_state_is_judged_by_the_cost_of_the_most_groups() -> None:
    def runs(cost: int) -> dict[int, Repeated]:
        counts = (1, 2, 4)
        return {g: Repeated((Reached(100 * g**cost, 1.0, 0.01),)) for g in counts}

    for costs, status in (((2, 1), "running"), ((1, 2), "failed")):
        record = Record("r")
        found = dict(zip(("cold", "warm"), map(runs, costs), strict=True))
        steady.judge(record, found)
        assert record.status == status
        ET.fromstring(steady.picture(found, "t"))


def test_the_published_schedule_falls_at_its_step_and_the_tuner_searches_once(
    task: Task, tmp_path: Path
) -> None:
    long = replace(task, options=task.options | {"max_iter": schedule.ITERATIONS})
    made = schedule.published(long, tmp_path)
    topology = topology_of(made, tmp_path)
    (tuner,) = (actor.options for actor in topology.actors if actor.name == "tuner")
    assert tuner.choices.epoch_iterations == schedule.ITERATIONS
    solver = tuner_solver(topology)
    assert (solver.lr_policy, list(solver.stepvalue)) == ("multistep", [schedule.STEP])


def tuner_solver(topology: Topology) -> Any:
    (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
    return lead.job.solver_spec.proto


def test_the_tuner_is_compared_at_the_loss_that_both_runs_reach() -> None:
    slow = Reached(way=[(1.0, 2.0), (2.0, 1.0), (4.0, 0.5)])
    fast = Reached(way=[(1.0, 1.5), (2.0, 0.5), (4.0, 0.4)])
    record = Record("r")
    found = {schedule.PUBLISHED: slow, schedule.TUNED: fast}
    schedule.compare(record, found)
    assert record.tables[1].rows == [[4.0, 2.0]]
    assert record.status == "running"
    ET.fromstring(schedule.picture(found, "t"))


def test_results_of_other_files_are_known_and_new_ones_go_to_the_own_file(tmp_path: Path) -> None:
    others, own = tmp_path / "others.jsonl", tmp_path / "own.jsonl"
    Kept(others).put("old", 1)
    kept = Kept(own, others)
    assert not kept.origins  # no result was used yet
    assert kept.get("old") == 1 and len(kept.origins) == 1
    before = others.read_bytes()
    kept.put("new", 2)
    assert others.read_bytes() == before
    assert Kept(own).get("new") == 2 and Kept(own).get("old") is None


def test_the_kept_trials_of_a_study_have_an_origin() -> None:
    files = sorted(tasks.FOLDER.glob("*.jsonl"))
    assert files
    for line in (line for path in files for line in path.read_text().splitlines() if line):
        assert json.loads(line).keys() == {"name", "origin", "found"}
