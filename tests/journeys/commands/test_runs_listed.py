"""`runs` and `compare`: lists of runs with their scores, and the keys that differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.cells import get_character_cell_size

from runtime.cli.main import main
from runtime.records.run_identity import Identity
from runtime.report.columns import cells
from runtime.report.run_summary import FILE, Summing, write
from tests.helpers.support import ROOT

OPENED: list[str] = []  # files that this process opens while COUNTING is not empty
COUNTING: list[Path] = []


def _opens(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and COUNTING and str(arguments[0]).startswith(str(COUNTING[0])):
        OPENED.append(Path(str(arguments[0])).name)


sys.addaudithook(_opens)


def made(
    folder: Path,
    number: int,
    *,
    net: str = "lenet",
    workers: int = 2,
    accuracy: float = 0.9,
    state: str = "ended",
    kept: bool = True,
) -> Path:
    """The directory of a run that ended so, with or without its summary."""
    path = folder / f"20260101-{number:06d}-{net}"
    path.mkdir(parents=True)
    Identity(f"{number:016x}", net, 1.7e9 + number, up="aa").write(path)
    (path / "config.toml").write_text(
        f'[run]\nbase = "{number}"\n[train]\nnet = "{net}"\n'
        f'[train.strategy]\npreset = "omnivore"\nworkers = {workers}\n'
    )
    told: list[tuple[str, dict[str, Any]]] = [
        ("began", {}),
        ("progress", {"iteration": 10, "max_iter": 20, "loss": 0.5}),
        ("test", {"iteration": 10, "accuracy": accuracy, "loss": 0.4}),
        ("progress", {"iteration": 20, "max_iter": 20, "loss": 0.3}),
        ("test", {"iteration": 20, "accuracy": accuracy / 2, "loss": 0.6}),
    ]
    ends = {
        "ended": [("finished", {"iterations": 20}), ("ended", {})],
        "failed": [("failed", {"error": "the loss is nan"})],
        "interrupted": [("stopped", {})],
    }
    told += ends[state]
    summing = Summing()
    with (path / "events.jsonl").open("w") as journal:
        for t, (event, fields) in enumerate(told):
            line = {"t": float(t), "actor": "coordinator", "event": event, **fields}
            journal.write(json.dumps(line) + "\n")
            summing.event(float(t), event, fields)
    if kept:
        write(summing, path)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `runs` of the working directory, with four runs."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    made(folder, 1, accuracy=0.95)
    made(folder, 2, net="vgg16", workers=4, accuracy=0.7, kept=False)
    made(folder, 3, accuracy=0.2, state="failed")
    made(folder, 4, workers=8, state="interrupted", kept=False)
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    out, error = capsys.readouterr()
    assert error == ""
    return out


def test_runs_lists_each_run_with_its_state_its_scores_and_the_keys_that_differ(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title, *lines = said(capsys, "runs").splitlines()
    words = "run began state net preset iteration best last keys that differ"
    assert " ".join(title.split()) == words
    rows = [line.split() for line in lines]
    assert [" ".join([row[0], *row[3:]]) for row in rows] == [
        "20260101-000001-lenet ended lenet omnivore 20/20 accuracy 0.95 at 10 0.475 workers=2",
        "20260101-000002-vgg16 ended vgg16 omnivore 20/20 accuracy 0.7 at 10 0.35 workers=4",
        "20260101-000003-lenet failed lenet omnivore 20/20 accuracy 0.2 at 10 0.1 workers=2",
        "20260101-000004-lenet interrupted lenet omnivore 20/20 accuracy 0.9 at 10 0.45 workers=8",
    ]
    assert said(capsys, "runs", str(here)) == "\n".join([title, *lines]) + "\n"


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--filter", "net=lenet"], [1, 3, 4]),
        (["--filter", "net=VGG*"], [2]),
        (["--filter", "state=failed"], [3]),
        (["--filter", "state!=ended"], [3, 4]),
        (["--filter", "accuracy>0.65"], [1, 2, 4]),
        (["--filter", "accuracy > 0.65", "--filter", "workers<=4"], [1, 2]),
        (["--filter", "train.strategy.workers=8"], [4]),
        (["--filter", "best<0.3"], [3]),
        (["--filter", "loss=0.4"], [1, 2, 3, 4]),
        (["--sort", "accuracy"], [3, 2, 4, 1]),
        (["--sort", "accuracy", "--reverse"], [1, 4, 2, 3]),
        (["--sort", "net"], [1, 3, 4, 2]),
        (["--reverse"], [4, 3, 2, 1]),
    ],
)
@pytest.mark.usefixtures("here")
def test_filters_and_orders_take_facts_scores_and_keys(
    capsys: pytest.CaptureFixture[str], words: list[str], numbers: list[int]
) -> None:
    found = json.loads(said(capsys, "runs", "--json", *words))
    assert [int(Path(run["directory"]).name.split("-")[1]) for run in found] == numbers


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["runs", "--filter", "lenet"], "--filter lenet: expected NAME=VALUE, such as net=lenet"),
        (["runs", "--filter", "accuracy>high"], "found 'high', expected a number"),
        (["runs", "--filter", "acuracy>0.9"], "no run here has such a fact, score or key (did you"),
        (["runs", "--sort", "workrs"], "--sort workrs: no run here has such a fact"),
        (["runs", "nowhere"], "runs nowhere: found no folder of that name, expected the folder"),
        (["compare", "lenet", "nobody"], "nobody: found no such folder and no run of this name"),
        (
            ["compare", "lenet", "vgg16", "--score", "acc"],
            "--score acc: none of these runs reports this score",
        ),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_wrong_filter_or_run_is_one_line_that_says_what_is_expected(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert text in error


def test_a_folder_without_runs_and_a_filter_that_nothing_fits_are_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here.parent / "empty").mkdir()
    assert said(capsys, "runs", "empty") == "no run in empty\n"
    assert said(capsys, "runs", "--filter", "net=alexnet") == (
        "no run in runs that fits, among 4\n"
    )


def test_a_list_of_a_thousand_runs_opens_two_small_files_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1000):
        made(tmp_path / "runs", number, workers=number)
    COUNTING.append(tmp_path)
    try:
        lines = said(capsys, "runs", str(tmp_path / "runs")).splitlines()
    finally:
        COUNTING.clear()
    assert len(lines) == 1001
    assert Counter(OPENED) == {"run.json": 1000, FILE: 1000}
    assert max((path.stat().st_size for path in tmp_path.rglob(FILE)), default=0) < 10_000
    OPENED.clear()


def test_a_list_of_runs_imports_neither_arrays_nor_messages(here: Path) -> None:
    list_runs = (
        "import sys; from runtime.cli.main import main; main(['runs']); "
        "print({'numpy', 'msgpack', 'zmq'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", list_runs], capture_output=True, text=True, env=environment
    )
    assert done.stdout.splitlines()[0].startswith("run")
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


@pytest.mark.parametrize("text", ["", "lenet", "b=1…", "分 c", "e\u0301", "a\tb", "x" * 600 + "…"])
def test_the_width_of_a_text_is_that_of_all_its_characters(text: str) -> None:
    assert cells(text) == sum(get_character_cell_size(character) for character in text)


def test_compare_shows_the_ends_the_keys_that_differ_and_the_scores_by_iteration(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(
        capsys, "compare", "20260101-000001-lenet", "vgg16", str(here / "20260101-000004-lenet")
    )
    ends, keys, scores = out.split("\n\n")
    assert [line.split()[:3] for line in ends.splitlines()[1:]] == [
        ["A", "20260101-000001-lenet", "ended"],
        ["B", "20260101-000002-vgg16", "ended"],
        ["C", "20260101-000004-lenet", "interrupted"],
    ]
    assert [line.split() for line in keys.splitlines()] == [
        ["key", "A", "B", "C"],
        ["net", "lenet", "vgg16", "lenet"],
        ["workers", "2", "4", "8"],
    ]
    assert [line.split() for line in scores.splitlines()] == [
        ["iteration", "accuracy", "A", "accuracy", "B", "accuracy", "C"],
        ["10", "0.95", "0.7", "0.9"],
        ["20", "0.475", "0.35", "0.45"],
    ]
    told = json.loads(said(capsys, "compare", "vgg16", "lenet", "--score", "loss", "--json"))
    assert told["keys"] == {"train.net": ["vgg16", "lenet"], "train.strategy.workers": [4, 8]}
    assert [run["curve"] for run in told["runs"]] == [[[10, 0.4], [20, 0.6]]] * 2


def test_runs_with_equal_keys_are_said_to_have_them_and_long_curves_are_thinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        journal = made(tmp_path / "runs", number) / "events.jsonl"
        tests = (
            {"t": 9.0, "actor": "a", "event": "test", "iteration": at, "accuracy": 0.1}
            for at in range(30, 1000)
        )
        with journal.open("a") as file:
            file.writelines(json.dumps(test) + "\n" for test in tests)
    out = said(capsys, "compare", "20260101-000001-lenet", "20260101-000002-lenet")
    assert "\n\nno key of cluster.toml differs\n\n" in out
    steps = [line.split()[0] for line in out.rpartition("\n\n")[2].splitlines()[1:]]
    assert (len(steps), steps[0], steps[-1]) == (20, "10", "999")
