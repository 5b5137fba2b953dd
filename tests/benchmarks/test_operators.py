"""The driver of operators' commands: it draws every kind of step, judges answers correctly, and
keeps its own promises."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpers.report import ROOT
from benchmarks.operators import mutants as operators_mutants
from benchmarks.operators import operators
from benchmarks.operators.draw import Place, Step, Trial, draw
from benchmarks.operators.mutants import MUTANTS, seeds
from benchmarks.operators.operators import Means
from benchmarks.operators.trial import Told
from benchmarks.operators.truth import (
    BETWEEN,
    CHANGING,
    GONE,
    LOST,
    STOPPED,
    TRAINS,
    Answer,
    Known,
    Truth,
    broken,
    wrong_down,
    wrong_down_of_lost,
    wrong_ps,
    wrong_resume,
    wrong_save,
    wrong_scale,
    wrong_status,
)
from benchmarks.operators.world import MARK, NO_HOME, Refused, World, clock_library, namespaces

HERE = Place()
AWAY = Place(private_tmp=True)


# -- drawing trials


def test_a_seed_draws_the_same_trial_again_and_another_seed_another() -> None:
    assert draw(7) == draw(7)
    assert len({draw(seed).steps for seed in range(50)}) > 45


def test_every_kind_of_step_and_of_place_is_drawn() -> None:
    drawn = [draw(seed) for seed in range(400)]
    kinds = Counter(step.kind for trial in drawn for step in trial.steps)
    assert kinds.keys() >= {
        "ps", "status", "events", "report", "save", "scale", "down", "down-now", "resume",
        "kill", "stop", "kill-up", "stop-up", "continue", "hold", "release", "clock", "lose",
    }  # fmt: skip
    places = [each.place for trial in drawn for each in (*trial.starts, *trial.steps)]
    for name in ("zone", "pids", "private_tmp", "host", "far", "descriptors"):
        assert any(getattr(place, name) for place in places), name
    assert not all(place.home for place in places)
    assert {len(trial.starts) for trial in drawn} == {1, 2}
    assert not any(
        start.place.pids for trial in drawn if len(trial.starts) > 1 for start in trial.starts
    )


def test_a_trial_leaves_no_run_alive_that_it_started() -> None:
    for seed in range(100):
        trial = draw(seed)
        lives = set[str]()
        lives |= {start.name for start in trial.starts}
        for step in trial.steps:
            if step.kind in ("down", "down-now", "kill-up"):
                lives.discard(step.name)
            if step.kind == "resume":
                lives.add(step.name)
        assert not lives, seed


def test_a_step_is_described_in_one_line() -> None:
    step = Step("scale", "exp", Place(zone="XXX-14", host="node1"), 3, named=False)
    assert str(step) == "scale exp 3 (unnamed) [zone, host node1]"
    assert str(Step("ps", "exp")) == "ps exp"


def test_a_machine_without_namespaces_or_a_compiler_plays_the_possible_trials(
    tmp_path: Path,
) -> None:
    without = Means(tmp_path, None, namespaces=False)
    for seed in range(60):
        trial = without.trial(seed)
        places = [each.place for each in (*trial.starts, *trial.steps)]
        assert not any(
            place.pids or place.private_tmp or place.host or place.far for place in places
        )
        assert "clock" not in {step.kind for step in trial.steps}


# -- judging answers


def answer(code: int | None = 0, out: str = "", err: str = "", *words: str) -> Answer:
    return Answer(words or ("ps",), code, out, err)


def truth(**states: str) -> Truth:
    ups = {
        name: Known(name, HERE, state, [f"r-{name}"], [f"r-{name}"])
        for name, state in states.items()
    }
    return Truth("here", ups)


def listed(*runs: tuple[str, str]) -> Answer:
    return answer(
        0,
        json.dumps(
            [{"name": name, "directory": f"../runs/{name}", "state": state} for name, state in runs]
        ),
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (answer(None), "hangs"),
        (answer(7, err="x"), "an exit code that is not documented"),
        (answer(1, err="Traceback (most recent call last):"), "a traceback"),
        (answer(1), "it fails without a message"),
    ],
)
def test_a_command_that_hangs_or_ends_without_words_is_wrong(wrong: Answer, why: str) -> None:
    assert any(why in text for text in broken(wrong))
    assert list(broken(answer())) == list(broken(answer(2, err="cluster.toml: no"))) == []


@pytest.mark.parametrize(
    ("state", "asked", "words", "is_right"),
    [
        (TRAINS, HERE, "running", True),
        (TRAINS, HERE, "between two runs", False),
        (TRAINS, HERE, "runs on here", False),
        (TRAINS, AWAY, "runs on here", True),
        (TRAINS, AWAY, "running", False),
        (BETWEEN, HERE, "between two runs", True),
        (BETWEEN, AWAY, "runs on here", False),
        (STOPPED, HERE, "does not answer", True),
        (STOPPED, HERE, "running", False),
        (STOPPED, AWAY, "runs on here", True),
        (CHANGING, HERE, "between two runs", True),
        (CHANGING, HERE, "finished", False),
    ],
)
def test_a_live_up_is_listed_with_its_present_activity(
    state: str, asked: Place, words: str, is_right: bool
) -> None:
    assert (list(wrong_ps(truth(exp=state), asked, listed(("r-exp", words)))) == []) is is_right
    said = answer(0, json.dumps({"name": "r-exp", "directory": "r-exp", "state": words}))
    known = truth(exp=state)
    assert (list(wrong_status(known, known.ups["exp"], asked, said)) == []) is is_right


def test_a_run_that_has_just_begun_belongs_to_its_name_in_run_json(tmp_path: Path) -> None:
    second = tmp_path / "20261128-103451-exp-2-2"  # the second run of exp-2 within one second
    second.mkdir()
    said = answer(
        0, json.dumps([{"name": second.name, "directory": str(second), "state": "running"}])
    )
    assert list(wrong_ps(truth(**{"exp-2": CHANGING}), HERE, said)) != []
    (second / "run.json").write_text('{"name": "exp-2"}')
    assert list(wrong_ps(truth(**{"exp-2": CHANGING}), HERE, said)) == []


def test_each_live_run_is_listed_once_and_no_other_run_is() -> None:
    two = truth(exp=TRAINS, other=GONE)
    assert list(wrong_ps(two, HERE, listed(("r-exp", "running")))) == []
    for wrong in (
        listed(),
        listed(("r-exp", "running"), ("r-exp", "running")),
        listed(("r-exp", "running"), ("r-other", "running")),
        answer(1, err="no"),
    ):
        assert list(wrong_ps(two, HERE, wrong)) != []
    two.lost = "r-lost"
    lost = ("r-lost", f"{LOST}: last sign 9 s ago")
    assert list(wrong_ps(two, HERE, listed(("r-exp", "running"), lost))) == []
    assert list(wrong_ps(two, HERE, listed(("r-exp", "running")))) != []


def test_status_reports_the_newest_run_of_a_name_and_never_reports_an_ended_run_as_live() -> None:
    known = truth(exp=GONE)
    known.ups["exp"].runs.append("r-newer")

    def judged(name: str, state: str) -> list[str]:
        said = answer(0, json.dumps({"name": name, "directory": name, "state": state}))
        return list(wrong_status(known, known.ups["exp"], HERE, said))

    assert judged("r-newer", "finished") == []
    assert judged("r-exp", "finished") != [] and judged("r-newer", "running") != []
    assert (
        list(wrong_status(truth(a=TRAINS, b=TRAINS), None, HERE, answer(2, err="say which"))) == []
    )
    assert list(wrong_status(truth(a=TRAINS, b=TRAINS), None, HERE, answer(0))) != []


@pytest.mark.parametrize(
    ("state", "code", "is_gone", "is_right"),
    [
        (TRAINS, 0, True, True),
        (TRAINS, 0, False, False),
        (TRAINS, 1, True, False),
        (BETWEEN, 0, False, False),
        (BETWEEN, 1, False, False),
        (CHANGING, 1, True, True),
        (CHANGING, 1, False, False),
        (STOPPED, 1, False, True),
        (STOPPED, 0, False, False),
    ],
)
def test_down_with_exit_0_means_that_up_has_ended(
    state: str, code: int, is_gone: bool, is_right: bool
) -> None:
    known = truth(exp=state)
    said = answer(code, "r-exp has ended; last checkpoint: x", "" if code == 0 else "no")
    assert (
        list(wrong_down(known, known.ups["exp"], HERE, said, is_gone=is_gone, now=False)) == []
    ) is is_right


def test_down_saves_and_names_ended_runs_and_claims_nothing_about_a_silent_host() -> None:
    known = truth(exp=TRAINS, over=GONE)
    none = answer(0, "r-exp has ended; last checkpoint: none")
    assert list(wrong_down(known, known.ups["exp"], HERE, none, is_gone=True, now=False)) != []
    assert list(wrong_down(known, known.ups["exp"], HERE, none, is_gone=True, now=True)) == []
    before = answer(0, "r-over was over before; last checkpoint: none")
    assert list(wrong_down(known, known.ups["over"], HERE, before, is_gone=True, now=False)) == []
    assert list(wrong_down(known, known.ups["over"], HERE, none, is_gone=True, now=False)) != []
    assert list(wrong_down_of_lost(answer(1, err=f"{LOST}: last sign 9 s ago: nobody knows"))) == []
    assert list(wrong_down_of_lost(answer(0))) != []


def test_a_killed_up_may_seem_alive_from_another_host_but_not_from_its_own() -> None:
    known = truth(exp=GONE)
    far = Place(private_tmp=True, host="node3", far=True)
    up = known.ups["exp"]
    seen = listed(("r-exp", "runs on here"))
    silent = answer(1, err="the run r-exp does not answer: its `up` gives no sign of life")
    for killed in (False, True):
        up.was_killed = killed
        assert (list(wrong_ps(known, far, seen)) == []) is killed
        assert (list(wrong_down(known, up, far, silent, is_gone=True, now=False)) == []) is killed
        assert list(wrong_ps(known, HERE, seen)) != []
        assert list(wrong_down(known, up, HERE, silent, is_gone=True, now=False)) != []


def test_save_and_scale_that_exit_with_0_have_done_their_work() -> None:
    known = truth(exp=TRAINS)
    up = known.ups["exp"]
    saved = answer(0, "../runs/r-exp/checkpoint-1.safetensors\n")
    assert list(wrong_save(known, up, HERE, saved, whole=True)) == []
    assert list(wrong_save(known, up, HERE, saved, whole=False)) != []
    assert list(wrong_save(known, up, HERE, answer(0, "../runs/r-old/c\n"), whole=True)) != []
    assert list(wrong_save(known, up, HERE, answer(1, err="no"), whole=False)) != []
    assert list(wrong_save(known, up, AWAY, answer(1, err="no"), whole=False)) == []
    assert list(wrong_scale(up, HERE, answer(0), 3, 3)) == []
    assert list(wrong_scale(up, HERE, answer(0), 3, 2)) != []
    up.state = BETWEEN
    assert list(wrong_scale(up, HERE, answer(0), 3, 3)) != []
    assert list(wrong_scale(up, HERE, answer(1, err="between two runs"), 3, 0)) == []


def test_resume_takes_the_newest_run_that_has_a_checkpoint() -> None:
    up = Known("exp", runs=["a", "b", "c"])
    assert list(wrong_resume(up, ["a", "b"], "b", answer())) == []
    assert list(wrong_resume(up, ["a", "b"], "a", answer())) != []
    assert list(wrong_resume(up, ["a"], None, answer(2, err="found no checkpoint"))) != []
    assert list(wrong_resume(up, [], None, answer(2, err="found no checkpoint"))) == []
    assert list(wrong_resume(up, [], "a", answer())) != []


# -- the surroundings of a trial


def test_the_clock_of_a_process_steps_and_the_machines_clock_does_not(tmp_path: Path) -> None:
    try:
        library = clock_library(tmp_path)
    except Refused as why:
        pytest.skip(str(why))
    world = World(tmp_path / "world", library)
    ask = [sys.executable, "-c", "import time; print(time.time()); input(); print(time.time())"]
    with subprocess.Popen(
        ask,
        env=world.environment(HERE, "test", tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        before = float(process.stdout.readline())
        world.step(-3600)
        process.stdin.write("\n")
        process.stdin.flush()
        assert -3600 <= float(process.stdout.readline()) - before < -3000
    assert abs(world.now() - (before - 3600)) < 600
    world.end()


def test_remains_of_a_trial_are_found(tmp_path: Path) -> None:
    world = World(tmp_path / "world", None)
    assert list(world.left({}, 0)) == []
    (world.runs / ".up-1.lock").touch()
    (world.runs / "run").mkdir()
    (world.tmp / "convoy-kernels-0").mkdir()
    found = list(world.left({}, 0))
    assert [text.partition(":")[0] for text in found] == [
        "left next to the runs",
        "an empty run directory is left",
    ]
    assert list(world.left({"exp": 1}, 0)) == []
    environment = world.environment(HERE, "up exp ", tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE
    ) as process:
        assert world.pids("up exp ") == [process.pid] and world.pids("up exp-2 ") == []
        world.end()
    assert not world.folder.exists()


def test_a_place_is_built_from_its_description(tmp_path: Path) -> None:
    world = World(tmp_path / "world", None)
    assert world.words(["up"], HERE) == ["up"]
    far = world.words(["up"], Place(private_tmp=True, host="node2", far=True, descriptors=256))
    assert far[:3] == ["unshare", "-m", "-u"] and "ulimit -n 256" in far[5] and "boot_id" in far[5]
    assert world.environment(Place(home=False), "x", tmp_path)["HOME"] == NO_HOME
    assert world.environment(Place(zone="XXX-14"), "x", tmp_path)[MARK].endswith(" x")
    world.end()


# -- mutants, and a whole trial


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_text_of_a_mutant_stands_once_in_its_file_and_trials_are_about_it(
    mutant: Any, tmp_path: Path
) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.text) == 1
    assert next(seeds(Means(tmp_path, tmp_path, namespaces=True), mutant.is_met)) < 2000


def test_each_promise_has_two_mutants_at_least() -> None:
    assert min(Counter(mutant.promise for mutant in MUTANTS).values()) >= 2


def test_a_wrong_answer_and_an_unnoticed_mutant_fail_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(self: Means, trial: Trial, tree: Path = ROOT) -> Told:
        return Told(
            trial,
            Counter({"ps: 0": 1}),
            Counter({"kill": 1}),
            ["ps lies"] if trial.seed == 3 else [],
        )

    monkeypatch.setattr(Means, "play", play)
    monkeypatch.setattr(operators_mutants, "planted", lambda mutant, tree: None)
    means = Means(tmp_path, tmp_path, namespaces=True)
    right = operators.trials(means, range(1, 3))
    wrong = operators.trials(means, range(1, 4))
    assert (right.status, wrong.status) == ("passed", "failed")
    assert wrong.notes == ["seed 3: ps lies"] and wrong.facts["trials with a wrong answer"] == 1
    everything = next(mutant for mutant in MUTANTS if not mutant.steps and not mutant.far)
    assert operators_mutants.mutants(means, (everything,)).status == "passed"
    monkeypatch.setattr(Means, "play", lambda self, trial, tree=ROOT: Told(trial))
    assert operators_mutants.mutants(means, (everything,)).status == "failed"


@pytest.mark.slow  # a few trials: half a minute
@pytest.mark.timeout(600)
def test_a_few_trials_have_right_answers_and_leave_nothing() -> None:
    # sockets are created in this folder, and their paths must be short
    with tempfile.TemporaryDirectory(prefix="op", dir="/tmp") as short:
        means = Means.here(Path(short))
        for told in operators.in_parallel(
            lambda seed: means.play(means.trial(seed)), (1, 2, 5, 13), 2
        ):
            assert told.wrong == []
            assert told.commands


def test_where_namespaces_are_refused_the_reason_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Refused, match="no namespaces here"):
        namespaces()
    with pytest.raises(Refused, match="no C compiler"):
        clock_library(Path())
