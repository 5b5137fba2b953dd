"""After a death: the actors that hold the complete state of a run, the work that is still due in
the next run, and the state that it starts with."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from nets.files.histories import SOLVER
from roles.checkpoints.best import _read as heard_before
from roles.coordination.regroup import SUITED, followed, gone_on
from roles.coordination.schedule import NetTest, RunStage, Schedule, Timetable
from roles.coordination.state_holders import HELD, NOBODY, STREAMS, holders_of
from roles.learning.job import Job
from roles.learning.resume import KEPT, Kept, keep, kept_of, lead_facts, losses_of
from roles.messages import TRAIN, Regroup, Ticket
from roles.options import Train
from roles.planning.auto_settings import AutoSettings
from roles.planning.strategies import preset_called
from roles.workers.replica import Replica
from runtime import Holders, LaunchError, RoleDied
from runtime.errors import by
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology
from runtime.runs.healing import died_with, furthest

TESTED = (NetTest(4, 4),)


def holders(
    replicas: list[str], schedule: Schedule, *, quiet: bool = True, recurrent: bool = False
) -> Holders:
    probing: Any = SimpleNamespace(quiet=quiet)
    return holders_of(
        replicas,
        schedule,
        probing,
        batch=8,
        losses=[0.5],
        run=Path("runs/one"),
        more={"a": "b"},
        recurrent=recurrent,
    )


def test_a_runs_known_position_is_the_last_iteration_with_all_reports_not_the_last_ticket() -> None:
    schedule = Schedule(Timetable(last=10, batch=8))
    schedule.next_pass(1, at_most=4)
    assert schedule.reported(0)
    found = holders(["r0", "r1"], schedule)
    assert (found.actors, found.why) == (("r0", "r1"), "")
    assert {key: found.facts[key] for key in ("iteration", "images", "batch")} == {
        "iteration": 1, "images": 8, "batch": 8,
    }  # fmt: skip


def test_no_worker_holds_all_of_a_run_with_recurrent_layers() -> None:
    found = holders(["r0", "r1"], Schedule(Timetable(last=10, batch=8)), recurrent=True)
    assert (found.actors, found.why) == ((), STREAMS)


def test_a_run_that_is_held_or_has_one_model_only_has_no_holders() -> None:
    schedule = Schedule(Timetable(last=10, batch=8))
    assert (holders([], schedule).actors, holders([], schedule).why) == ((), NOBODY)
    assert (
        holders(["r0"], schedule, quiet=False).actors,
        holders(["r0"], schedule, quiet=False).why,
    ) == ((), HELD)


@pytest.mark.parametrize(
    ("reached", "expected"),
    [({"r0": 7, "r1": 7}, "r0"), ({"r0": 7, "r1": 8}, "r1"), ({"r2": 0}, "r2")],
)
def test_the_state_of_the_holder_with_most_iterations_is_used_and_among_equals_the_first(
    reached: dict[str, int], expected: str
) -> None:
    assert furthest(reached) == expected


def test_a_death_belongs_to_the_process_that_ended_or_whose_actor_failed() -> None:
    actors = (ActorSpec("lead", "lead", {}), ActorSpec("r0", "replica", {}))
    topology = Topology("roles", actors, (), "lead")
    placement = Placement(
        topology, (ProcessSpec("p0", "here", ("lead",)), ProcessSpec("p1", "here", ("r0",)))
    )
    assert died_with(by("p1", RoleDied("killed")), placement) == {"p1"}
    assert died_with(by("r0", RoleDied("failed")), placement) == {"p1"}
    assert died_with(by("p0 p1", RoleDied("a link")), placement) == set()
    assert died_with(LaunchError("no"), placement) == set()


@pytest.mark.parametrize(
    ("tested", "iteration", "due"),
    [
        (-1, 10, True),
        (5, 10, True),
        (10, 10, False),
        (5, 11, False),
        (10, 20, True),
        (15, 23, True),
        (23, 23, False),
    ],
)
def test_the_test_of_an_untested_model_is_still_due(tested: int, iteration: int, due: bool) -> None:
    """A test is due every 5 iterations, and at the end, 23."""
    assert Kept("r0", "runs/one", tested).due(iteration, 5, 23) == due


def test_a_run_from_memory_runs_the_due_test_then_saves_then_trains() -> None:
    schedule = Schedule(
        Timetable(first=10, last=20, batch=4, test_interval=5, tests=TESTED, snapshot_interval=10)
    )
    assert schedule.stage is RunStage.TRAINING and schedule.tested_at == 10
    schedule.begin_unsettled(test=True)
    assert schedule.stage is RunStage.TESTING and schedule.tested_at == -1
    schedule.next_pass(1)
    assert schedule.tested()
    assert schedule.stage is RunStage.SAVING and schedule.save_wanted, (
        "the solver has a snapshot at 10"
    )
    schedule.saved()
    assert schedule.stage is RunStage.TRAINING and schedule.issued == 10


def test_a_run_from_memory_that_was_tested_and_is_between_snapshots_saves_once() -> None:
    schedule = Schedule(
        Timetable(first=11, last=20, batch=4, test_interval=5, tests=TESTED, snapshot_interval=10)
    )
    schedule.begin_unsettled(test=False)
    assert schedule.stage is RunStage.SAVING and schedule.to_be_saved and not schedule.save_wanted
    schedule.saved()
    assert schedule.stage is RunStage.TRAINING


def test_a_run_from_memory_that_was_at_its_end_saves_for_good_and_ends() -> None:
    schedule = Schedule(Timetable(first=20, last=20, batch=4))
    schedule.begin_unsettled(test=False)
    assert schedule.stage is RunStage.SAVING and schedule.save_wanted
    schedule.saved()
    assert schedule.stage is RunStage.DONE


PLANNED = {"workers": 4, "groups": 1, "base_lr": 0.01, "momentum": 0.9, "batch": 64}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (PLANNED, {**PLANNED, "base_lr": 0.005}, Regroup(base_lr=0.005)),
        (PLANNED, {**PLANNED, "groups": 2, "momentum": 0.3}, Regroup(groups=2, momentum=0.3)),
        # the plan has another rate by now
        ({**PLANNED, "base_lr": 0.1}, {**PLANNED, "base_lr": 0.005}, None),
        (PLANNED, PLANNED, None),
    ],
)
def test_a_run_with_an_unchanged_plan_keeps_the_settings_that_the_run_before_had_reached(
    before: dict[str, float], after: dict[str, float], expected: Regroup | None
) -> None:
    assert repr(gone_on(json.dumps([before, after]), PLANNED)) == repr(expected)


FOLLOWS = {**PLANNED, SUITED: 0.9, "groups": 4, "momentum": 0.6}
FEWER = {**FOLLOWS, "groups": 2, "momentum": 0.8}
BY_HAND = {**{key: FOLLOWS[key] for key in PLANNED}, "momentum": 0.5}


@pytest.mark.parametrize(
    ("before", "after", "planned", "expected"),
    [
        pytest.param(FOLLOWS, FEWER, FOLLOWS, Regroup(groups=2), id="fewer groups"),
        pytest.param(FOLLOWS, FOLLOWS, FEWER, None, id="scaled since"),
        pytest.param(FOLLOWS, BY_HAND, FOLLOWS, Regroup(momentum=0.5), id="set by a request"),
        pytest.param(FOLLOWS, BY_HAND, FEWER, Regroup(momentum=0.5), id="set, then scaled"),
        # 0.6 is what the rule gives too, but a request has named it
        pytest.param(
            FOLLOWS,
            {**BY_HAND, "momentum": 0.6},
            FOLLOWS,
            Regroup(momentum=0.6),
            id="set to the rule's",
        ),
        pytest.param(PLANNED, {**PLANNED, "momentum": 0.5}, FEWER, Regroup(momentum=0.5), id="old"),
        pytest.param(PLANNED, {**PLANNED, "groups": 2}, FEWER, None, id="old, planned otherwise"),
    ],
)
def test_a_momentum_that_followed_the_groups_is_not_taken_over_but_one_by_hand_is(
    before: dict[str, float],
    after: dict[str, float],
    planned: dict[str, float],
    expected: Regroup | None,
) -> None:
    assert repr(gone_on(json.dumps([before, after]), planned)) == repr(expected)


@pytest.mark.parametrize("known", ["", "nonsense", "[1]", "[{}, {}]", "[1, 2]", "[" * 100_000])
def test_a_run_of_an_older_version_did_not_lower_its_momentum(known: str) -> None:
    assert not followed(known)
    assert not followed(json.dumps([PLANNED, FEWER]))
    assert followed(json.dumps([FOLLOWS, PLANNED]))


DEEP = pytest.param("[" * 100_000, id="nested without end")


@pytest.mark.parametrize("known", ["", "nonsense", "[1]", "[{}, {}]", '[{"workers": 1}, {}]', DEEP])
def test_a_state_without_settings_changes_nothing(known: str) -> None:
    assert gone_on(known, PLANNED) is None


@pytest.mark.parametrize("said", ["", "nonsense", "[1]", '{"by": "replica-0"}', DEEP])
def test_metadata_that_no_run_has_written_count_as_missing(said: str) -> None:
    assert kept_of({KEPT: said}) is None
    assert losses_of({"losses": said.replace("1", "null")}) == []
    assert heard_before(said, ["accuracy"]) == []


def test_a_checkpoint_in_memory_is_the_file_that_would_have_been_written(tmp_path: Path) -> None:
    arrays = {
        "conv.0": np.arange(6, dtype=np.float32).reshape(2, 3),
        "conv.0.history": np.zeros(0, np.float32),
    }
    checkpoint.save(tmp_path / "one", arrays, {"iteration": "7"})
    file = checkpoint.in_memory(arrays, {"iteration": "7"})
    try:
        path = Path(f"/proc/{os.getpid()}/fd/{file}")
        assert path.read_bytes() == (tmp_path / "one").read_bytes()
        assert checkpoint.verify(path) == {"iteration": "7"}
    finally:
        os.close(file)


def test_a_checkpoint_in_memory_names_the_type_of_its_solver(tmp_path: Path) -> None:
    (tmp_path / "s.prototxt").write_text(
        'base_lr: 0.1 lr_policy: "fixed" max_iter: 9 type: "AdaGrad"'
    )
    job = Job("lenet", str(tmp_path / "s.prototxt"), {TRAIN: {}}, 1, 8, (), str(tmp_path))
    facts = lead_facts((6, 48), 8, [], -1, tmp_path, {})
    store: Any = SimpleNamespace(state=lambda: {"a.0": np.zeros(1, np.float32)})
    file = keep(store, job, 7, "replica-0", facts)
    try:
        assert checkpoint.verify(Path(f"/proc/{os.getpid()}/fd/{file}"))[SOLVER] == "AdaGrad"
    finally:
        os.close(file)


class Half(Replica, overrides=("compute",)):
    """A replica whose second bucket is never summed, since its peer has died."""

    def __init__(self, *, atomic: bool) -> None:
        self._atomic = atomic
        self._clips = False
        self._chosen: Any = SimpleNamespace(reads_device=True)
        self._updating = asyncio.Lock()
        self._buckets = [SimpleNamespace(number=number) for number in (0, 1)]  # type: ignore[misc]
        self._exposure: Any = SimpleNamespace(measured=nullcontext)
        self._exchange: Any = self
        self.asked: list[int] = []
        self.updated: list[int] = []

    async def sum(self, key: tuple[int, int], mine: Any) -> Any:
        self.asked.append(key[1])
        if key[1]:
            await asyncio.Event().wait()
        return mine

    async def compute(self, label: str, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    async def _before(self, ticket: Ticket) -> tuple[None, Callable[[], None]]:
        return None, lambda: None

    def _backward(self, bucket: Any) -> Any:
        return np.zeros(1)

    def _update(self, bucket: Any, total: Any) -> None:
        self.updated.append(bucket.number)


@pytest.mark.parametrize(("atomic", "updated"), [(True, []), (False, [0])])
async def test_a_replica_that_may_be_asked_for_its_model_never_holds_half_an_iteration(
    atomic: bool, updated: list[int]
) -> None:
    replica = Half(atomic=atomic)
    task = asyncio.create_task(replica._train(Ticket(phase=TRAIN, number=3)))
    for _ in range(50):  # turns of the event loop: the replica waits only for the second sum
        await asyncio.sleep(0)
    assert (replica.asked, replica.updated) == ([0, 1], updated)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


RECORD = {
    "choice": {"groups": 1, "momentum": 0.6, "base_lr": 0.01, "batch": 64},
    "saturated_groups": 0,
    "next_groups": 1,
}


@pytest.mark.parametrize(
    ("record", "said", "begins"),
    [
        (json.dumps(RECORD), {"momentum": "auto"}, True),
        ("half of a rec", {"momentum": "auto"}, False),
        (json.dumps(RECORD), {}, False),  # the run is not tuned
        # nor probed
        (json.dumps(RECORD), {"momentum": "auto", "tuning": {"momentum_by": "closed-loop"}}, False),
    ],
)
def test_a_tuner_begins_with_the_choice_of_the_run_before(
    tmp_path: Path, record: str, said: dict[str, Any], begins: bool
) -> None:
    (tmp_path / "tuning.json").write_text(record)
    train = Train.model_validate({"strategy": {"preset": "replicas", "workers": 2}, **said})
    going_on = AutoSettings(train, preset_called("replicas"), tmp_path).going_on(tmp_path)
    assert going_on.tuning.start == (str(tmp_path / "tuning.json") if begins else None)


def test_a_start_that_cluster_toml_names_stays(tmp_path: Path) -> None:
    (tmp_path / "tuning.json").write_text(json.dumps(RECORD))
    train = Train.model_validate({"momentum": "auto", "tuning": {"start": "other.json"}})
    assert (
        AutoSettings(train, preset_called("replicas"), tmp_path).going_on(tmp_path).tuning.start
        == "other.json"
    )
