"""`plan --target`: the time until a target is reached, from runs that have trained: 1, 2 and 4
groups on the digits."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from roles.tuning.momentum import compensated
from runtime.plan.prospects import Needed, Prospects, Wanted
from tests.helpers.learnt_runs import cluster_in, copied, events, found, told, trained

ACCURACY = 0.7
MOMENTUM = {1: 0.9, 2: 0.6, 4: 0.3}  # about the same total momentum
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cluster_in(tmp_path_factory.mktemp("learnt"))


@pytest.fixture(scope="module")
def runs(cluster: Path) -> dict[int, Path]:
    """Groups -> a run with this number of groups."""
    return {
        groups: trained(
            cluster,
            f"runs-{groups}",
            f"train.strategy.groups={groups}",
            f"train.momentum={momentum}",
        )
        for groups, momentum in MOMENTUM.items()
    }


def asked(
    cluster: Path, *runs: Path, target: str = f"accuracy={ACCURACY}", more: str = ""
) -> Prospects:
    return found(cluster, Wanted(learnt=runs, target=target), *more.split())


def reached(run: Path) -> tuple[int, float]:
    """The iteration and the time of the first test that reaches the target."""
    return next(
        (e["iteration"], e["t"])
        for e in events(run)
        if e["event"] == "test" and e["accuracy"] >= ACCURACY
    )


def training_seconds(run: Path, iteration: int) -> float:
    """The seconds until this iteration ended, without the tests before it. Each test begins when an
    iteration has been reported."""
    ended = {0: 0.0}
    tests = 0.0
    for event in events(run):
        if event["event"] == "progress":
            ended[int(event["iteration"])] = event["t"]
        if event["event"] == "test" and event["iteration"] < iteration:
            tests += event["t"] - ended[event["iteration"]]
    return float(ended[iteration] - tests)


def test_iterations_of_real_runs_times_predicted_seconds_are_the_time_that_they_took(
    cluster: Path, runs: dict[int, Path]
) -> None:
    choices = asked(cluster, *runs.values()).choices
    assert [choice.number for choice in choices] == [1, 2, 4]
    for choice in choices:
        iterations, _ = reached(runs[choice.number])
        assert (choice.needed.steps, choice.needed.seen) == (iterations, True)
        assert choice.to_target == pytest.approx(iterations * choice.seconds)
    # several groups stand still around each of the many tests
    took = training_seconds(runs[1], reached(runs[1])[0])
    assert choices[0].to_target == pytest.approx(took, rel=0.2)


@pytest.fixture(scope="module")
def lowered(cluster: Path) -> Path:
    """A run with 2 groups, whose momentum was lowered by itself."""
    return trained(cluster, "lowered", "train.strategy.groups=2")


def test_a_run_counts_with_the_momentum_that_it_really_had(
    cluster: Path, lowered: Path, tmp_path: Path
) -> None:
    seen = asked(cluster, lowered, target="loss=1.5")
    (_, (_, setting, _)) = seen.learnt
    assert setting.startswith(f"2 groups, momentum {compensated(0.9, 1):g}, base_lr 0.03")
    # the plan itself has one group, but its row with 2 groups has the run's momentum
    assert not [note for note in seen.notes if "the iterations are those of a run" in note]
    # an older version did not lower it, and its journal does not say so
    older = copied(lowered, tmp_path / "older")
    lines = [json.dumps(event) for event in events(lowered) if event["event"] != "compensated"]
    (older / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    seen = asked(cluster, older, target="loss=1.5")
    assert seen.learnt[1][1].startswith("2 groups, momentum 0.9, base_lr 0.03")
    (note,) = (note for note in seen.notes if "the iterations are those of a run" in note)
    assert note.startswith("2 groups of 2: the iterations are those of a run with momentum 0.9")
    assert note.endswith(f"this plan has {compensated(0.9, 1):g} and 0.03")


def test_a_training_loss_smoothed_as_in_reports_is_a_target_too(
    cluster: Path, runs: dict[int, Path]
) -> None:
    (one,) = (
        choice
        for choice in asked(cluster, runs[1], target="loss=1.0").choices
        if choice.number == 1
    )
    reports = [event for event in events(runs[1]) if event["event"] == "progress"]
    first = next(event for event in reports if event["loss"] <= 1.0)
    assert one.needed.steps == int(first["iteration"])


def test_an_unobserved_number_of_groups_is_estimated_between_two_runs_or_unknown(
    cluster: Path, runs: dict[int, Path]
) -> None:
    few = reached(runs[1])[0]
    more = reached(runs[4])[0]
    between = asked(cluster, runs[1], runs[4])
    # 2 is halfway from 1 to 4, on a logarithmic scale
    assert between.choices[1].needed.steps == pytest.approx((few + more) / 2)
    assert not between.choices[1].needed.seen
    assert any(note.startswith("~ lies between") for note in between.notes)
    beyond = asked(cluster, runs[1], runs[2])
    assert beyond.choices[2].needed == Needed(why="not known")
    assert not any(note.startswith("~ lies between") for note in beyond.notes)


def test_the_table_shows_iterations_time_and_cost_and_marks_the_best(
    cluster: Path, runs: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for run in (runs[1], runs[4]) for word in ("--learnt", str(run))]
    out = told(
        capsys, cluster, "--machine", "c4.4xlarge", "--target", f"accuracy={ACCURACY}", *words
    )
    assert re.search(rf"seconds per iteration  iterations +time to accuracy {ACCURACY} +cost ", out)
    assert re.search(
        (rf"^\*  1 group of 4 +[\d.]+ +{reached(runs[1])[0]} +[\d.]+ " rf"m?s"), out, re.MULTILINE
    )
    assert re.search(r"^   2 groups of 2 +[\d.]+ +~\d+ +[\d.]+ m?s", out, re.MULTILINE)
    assert (out.count("s, fastest"), out.count(", cheapest")) == (1, 1)
    assert re.search(
        (
            rf"{runs[4]}  4 groups, momentum 0.3, base_lr 0.03, conv layers stale  "
            rf"+at iteration \d+"
        ),
        out,
    )
    assert (
        "4 groups of 1: the iterations are those of a run with momentum 0.3 and base_lr "
        "0.03; this plan has"
    ) in out


def test_a_run_that_did_not_reach_the_target_is_shown_with_its_best_value(
    cluster: Path, runs: dict[int, Path]
) -> None:
    best = max(event["accuracy"] for event in events(runs[2]) if event["event"] == "test")
    failed = asked(cluster, runs[2], target="accuracy=1.0")
    assert failed.learnt[1][-1] == f"not reached: {best:.4g} at best in 20 iterations"
    assert failed.choices[1].needed == Needed(why="not reached")
    assert failed.fastest is None


def test_a_run_whose_groups_changed_before_the_target_counts_for_no_number_of_groups(
    cluster: Path, runs: dict[int, Path], tmp_path: Path
) -> None:
    iterations, when = reached(runs[1])
    changed = {
        "actor": "coordinator",
        "event": "regrouped",
        "groups": 2,
        "base_lr": 0.03,
        "momentum": 0.9,
    }
    early = copied(runs[1], tmp_path / "early", more=({"t": 0.01, "iteration": 3, **changed},))
    late = copied(
        runs[1], tmp_path / "late", more=({"t": when + 0.01, "iteration": iterations, **changed},)
    )
    tuned = asked(cluster, early)
    assert [choice.needed for choice in tuned.choices] == [Needed()] * 3
    assert "so the run counts for none of them" in tuned.learnt[1][-1]
    assert tuned.learnt[1][1] == "1, 2 groups in turn"
    assert asked(cluster, late).choices[0].needed.steps == iterations


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        (
            'net = "lenet"',
            'net = "caffenet"',
            "train.net: found 'caffenet', expected this plan's 'lenet'",
        ),
        (
            'split = "train"',
            'split = "test"',
            "train.data.train: found {'format': 'digits', 'split': 'test'}, expected",
        ),
        ("batch = 32", "batch = 16", "train.batch: found 16, expected this plan's 32"),
        (
            "[train]\n",
            '[train]\nresume = "old.safetensors"\n',
            ("train.resume: found 'old.safetensors', expected"),
        ),
    ],
)
def test_a_run_that_learnt_something_else_is_refused_by_name(
    cluster: Path,
    runs: dict[int, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    was: str,
    now: str,
    line: str,
) -> None:
    other = copied(runs[1], tmp_path / "other", was, now)
    said = told(capsys, cluster, "--target", "accuracy=0.9", "--learnt", other, code=2)
    assert said.startswith(f"--learnt {other}: config.toml: {line}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "--target accuracy=0.9",
            ("--target accuracy=0.9: has no effect without --learnt RUN, a run that reached it"),
        ),
        ("--learnt .", "--learnt: has no effect without --target, such as --target accuracy=0.985"),
        (
            "--learnt . --target accuracy",
            ("--target accuracy: expected NAME=NUMBER, such as accuracy=0.985 or loss=0.3"),
        ),
        (
            "--learnt . --target accuracy=98.5",
            "--target accuracy=98.5: found 98.5, expected a share of all images, > 0 and <= 1",
        ),
        (
            "--learnt . --target loss=1",
            ("--learnt .: not a run directory: it has no config.toml and events.jsonl"),
        ),
        (
            "--learnt {run} --target top=0.9",
            "--learnt {run}: its tests have no score 'top', expected one of accuracy, loss",
        ),
        (
            "--learnt {run} --target accuracy=1.0 --chart c.svg",
            "--chart c.svg: the time to accuracy 1 is not known for any number of groups",
        ),
    ],
)
def test_a_mistake_of_a_target_is_one_line_and_exit_2(
    cluster: Path,
    runs: dict[int, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = told(capsys, cluster, *words.format(run=runs[2]).split(), code=2)
    assert said == f"{line.format(run=runs[2])}\n"


def test_without_times_there_is_nothing_to_multiply_iterations_with(
    cluster: Path, runs: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = cluster.read_text().replace('service_times = "times.json"\n', "")
    untimed = cluster.with_name("untimed.toml")
    untimed.write_text(text)
    line = "--target: there are no predictions: give --profile FILE or --machine NAME\n"
    assert told(capsys, untimed, "--target", "accuracy=0.9", "--learnt", runs[1], code=2) == line


def test_the_chart_has_three_panels_and_the_third_is_the_product_of_the_others(
    cluster: Path, runs: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for run in (runs[1], runs[4]) for word in ("--learnt", str(run))]
    told(capsys, cluster, "--target", f"accuracy={ACCURACY}", *words, "--chart", tmp_path / "c.svg")
    drawn = ET.parse(tmp_path / "c.svg").getroot()
    dots = [
        (of.findtext(f"{SVG}title") or "", of.get("class"))
        for of in drawn.iter(f"{SVG}circle")
        if len(of)
    ]
    values = [float(about.split()[1]) for about, _ in dots]
    assert len(values) == 9
    products = [pace * steps for pace, steps in zip(values[:3], values[3:6], strict=True)]
    assert values[6:] == pytest.approx(products, rel=1e-3)
    # dots of estimates between two runs are open
    assert [kind for _, kind in dots[3:]] == ["predicted", "measured", "predicted"] * 2
    assert {
        "hardware efficiency",
        "statistical efficiency",
        "their product",
        "the fastest",
        "between two runs",
    } <= {of.text for of in drawn.iter(f"{SVG}text")}


def test_of_several_kinds_of_machines_there_is_a_row_each_and_the_best_is_marked(
    cluster: Path, runs: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.toml").write_text(
        '[machine.fast]\nflops = 2e12\nshare = 0.5\nbytes_per_second = "1GB"\nlatency = '
        "0.0\nprice_per_hour = 90.0\n"
        '[machine.slow]\nflops = 1e12\nshare = 0.5\nbytes_per_second = "0.5GB"\nlatency = '
        "0.0\nprice_per_hour = 9.0\n"
    )
    kinds = ("--machines", tmp_path / "m.toml", "--machine", "fast", "--machine", "slow")
    words = [word for run in runs.values() for word in ("--learnt", str(run))]
    out = told(
        capsys,
        cluster,
        *kinds,
        "--target",
        f"accuracy={ACCURACY}",
        *words,
        "--chart",
        tmp_path / "c.svg",
    )
    compared = out.split("compared:")[1]
    assert re.search(
        (r"^fast +\d groups? of \d +[\d.e-]+ +[\d.]+ m?s, fastest " r"+[\d.]+$"),
        compared,
        re.MULTILINE,
    )
    assert re.search(
        (r"^slow +\d groups? of \d +[\d.e-]+ +[\d.]+ m?s +[\d.e-]+, " r"cheapest$"),
        compared,
        re.MULTILINE,
    )
    assert {"fast", "slow"} <= {
        of.text for of in ET.parse(tmp_path / "c.svg").getroot().iter(f"{SVG}text")
    }
    to_the_end = told(capsys, cluster, *kinds).split("compared:")[1]
    assert "time to the end, 20 iterations" in to_the_end
    assert re.search(r"^slow +1 group of 4 .*, cheapest$", to_the_end, re.MULTILINE)


@pytest.mark.slow
def test_a_tuned_run_counts_for_the_groups_that_it_had_from_its_first_iteration_to_the_target(
    cluster: Path,
) -> None:
    tuning = ("train.tuning.budget=0.5", "train.tuning.probe_iterations=10", "train.max_iter=100")
    run = trained(cluster, "auto", "train.strategy.groups=auto", *tuning)
    regrouped = [event for event in events(run) if event["event"] == "regrouped"]
    assert {event["event"] for event in events(run)} >= {"probe", "tuning"}
    iterations, _ = reached(run)
    had = [event["groups"] for event in regrouped if event["iteration"] < iterations]
    if not regrouped or regrouped[0]["iteration"] > 0:
        had = [1, *had]
    counted = {choice.number for choice in asked(cluster, run).choices if choice.needed.seen}
    assert counted == ({had[0]} if len({*had}) == 1 else set())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no JSON", "events.jsonl is not the journal of a run: "),
        ("[1]", "events.jsonl is not the journal of a run: "),
        (
            '{"t": 1.0, "actor": "lead", "event": "test", "accuracy": 0.5}',
            "events.jsonl is not the journal of a run: 'iteration'",
        ),
        (
            '{"t": 1.0, "actor": "lead", "event": "test", "iteration": 1, "accuracy": "good"}',
            "events.jsonl is not the journal of a run: ",
        ),
        (
            '{"t": 1.0, "actor": "lead", "event": "regrouped", "iteration": 1}',
            "events.jsonl is not the journal of a run: 'momentum'",
        ),
        (
            '{"t": 1.0, "actor": "lead", "event": "progress", "iteration": "1/9", "loss": 2.0}',
            "events.jsonl: found no test, which would report",
        ),
        (
            '{"t": 1.0, "actor": "lead", "event": "test", "iteration": 1, "loss": 0.5}',
            "its tests have no score 'accuracy', expected one",
        ),
    ],
)
def test_a_journal_that_is_broken_or_lacks_the_target_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    cluster = cluster_in(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(cluster.read_text())
    (run / "events.jsonl").write_text(f"{line}\n")
    said = told(capsys, cluster, "--target", "accuracy=0.9", "--learnt", run, code=2)
    assert said.startswith(f"--learnt {run}: {why}")
    assert said.count("\n") == 1
