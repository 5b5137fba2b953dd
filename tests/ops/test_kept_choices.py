"""cuDNN's choices between starts: what a second start reads, and every file that it cannot use."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ops import ConvGeometry
from ops.backends.cupy_backend import CupyBackend
from ops.cuda.conv import trial
from ops.cuda.conv.algorithm import PLAIN, ConvShape, Direction, Epilogue
from ops.cuda.conv.candidates import Recipe
from ops.cuda.conv.cudnn import Engine, Planned
from ops.cuda.conv.folded import Folded
from ops.cuda.conv.kept_choices import Kept, KeptChoices
from ops.cuda.conv.lowered import Lowered
from tests.helpers.support import environment
from tests.ops.tried import FLOAT, SMALL, Made, algorithms, convolved, right, told

CARD = {"card": "stand-in", "CUDA of the driver": "13000"}
Start = Callable[..., CupyBackend]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "convoy" / "cudnn"


@pytest.fixture
def start(
    make: Made, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Start:
    """Start on a card and compute every pass of a shape. Engine 9 is the fastest."""

    def seconds(self: object, *tried: Any) -> list[float]:
        assert len(tried) > 1
        return [*[0.003, 0.001, 0.004, 0.004][: len(tried) - 1], 0.002]

    monkeypatch.setattr(trial.Trial, "seconds", seconds)

    def started(*, card: dict[str, str] = CARD, mode: str = "fastest", n: int = 3) -> CupyBackend:
        caplog.clear()
        backend = make(mode)
        vars(backend)["card"] = card
        right(convolved(backend, SMALL, 4, 6, n), SMALL, 4, 6, n)
        return backend

    return started


def test_a_second_start_tries_nothing_and_compares_the_chosen_plan_once(
    start: Start, folder: Path, cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    start()
    assert len(list(folder.iterdir())) == 4 and len(cudnn.made) == 10
    cudnn.made.clear()
    monkeypatch.delattr(trial.Trial, "seconds")
    monkeypatch.delattr(cudnn.pygraph, "create_execution_plans")
    assert algorithms(start()) == [Planned] * 4
    assert [graph.engine for graph in cudnn.made] == [9] * 4
    assert sum("taken, engine 9, not timed; error " in line for line in told(caplog)) == 3
    assert "taken, engine 9 with its epilogue, not timed; error " in told(caplog)[1]


def test_a_choice_holds_for_other_numbers_of_images_of_the_same_start(
    start: Start, cudnn: ModuleType
) -> None:
    backend = start()
    cudnn.made.clear()
    right(convolved(backend, SMALL, 4, 6, 5), SMALL, 4, 6, 5)
    assert [graph.engine for graph in cudnn.made] == [9] * 4


def test_lowering_is_kept_too(
    start: Start, cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(trial.Trial, "seconds", lambda self, *tried: [*range(len(tried), 0, -1)])
    start()
    cudnn.made.clear()
    assert algorithms(start()) == [Lowered] * 4 and not cudnn.made
    assert all(line.endswith(": lowered, as chosen at an earlier start") for line in told(caplog))


def test_without_a_clock_or_a_card_nothing_is_kept(start: Start, folder: Path) -> None:
    start(mode="deterministic")
    start(card=None)
    assert not folder.exists()


def damaged(folder: Path, change: Callable[[Any], Any]) -> None:
    for path in folder.iterdir():
        path.write_text(json.dumps(change(json.loads(path.read_text()))))


UNREADABLE = {
    "empty": b"",
    "half of it": b'{"made for": {"card"',
    "bytes": bytes(range(256)),
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "other keys": b"{}",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_garbage_is_named_and_everything_is_tried_again(
    name: str, start: Start, folder: Path, cudnn: ModuleType, caplog: Any
) -> None:
    start()
    for path in folder.iterdir():
        path.write_bytes(UNREADABLE[name])
    cudnn.made.clear()
    assert algorithms(start()) == [Planned] * 4 and len(cudnn.made) == 10
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and all(" is not used: " in line for line in lines)
    assert all(line.endswith("delete the file") for line in lines)
    cudnn.made.clear()
    start()  # the garbage was replaced
    assert len(cudnn.made) == 4 and not told(caplog, logging.WARNING)


CHOICES: dict[str, object] = {
    "a word": "fastest",
    "no number": {"engine": "9", "knobs": {}, "folded": None, "whole": False},
    "a truth": {"engine": True, "knobs": {}, "folded": None, "whole": False},
    "half a block": {"engine": 9, "knobs": {}, "folded": [2], "whole": False},
    "knobs in a list": {"engine": 9, "knobs": [], "folded": None, "whole": False},
    "one key more": {"engine": 9, "knobs": {}, "folded": None, "whole": False, "more": 1},
    "no truth": {"engine": 9, "knobs": {}, "folded": None, "whole": 0},
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_of_another_form_is_named_and_everything_is_tried_again(
    name: str, start: Start, folder: Path, caplog: Any
) -> None:
    start()
    damaged(folder, lambda found: {**found, "choice": CHOICES[name]})
    assert algorithms(start()) == [Planned] * 4
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and all("expected an engine; delete the file" in line for line in lines)


PLANS: dict[str, tuple[object, str]] = {
    "an engine that is not there": (
        {"engine": 77, "knobs": {}, "folded": None, "whole": False},
        "no engine 77 (cudnnGraphNotSupportedError: no engine 77 with {}); tried again",
    ),
    "a knob that is not there": (
        {"engine": 9, "knobs": {"TWIST": 1}, "folded": None, "whole": False},
        "no engine 9 (TWIST=1) (AttributeError: ",
    ),
    "a block of nothing": (
        {"engine": 9, "knobs": {}, "folded": [0, 0], "whole": False},
        "no engine 9 with folded pixels (ZeroDivisionError: ",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_is_no_longer_there_is_named_and_everything_is_tried_again(
    name: str, start: Start, folder: Path, caplog: Any
) -> None:
    start()
    choice, told_of = PLANS[name]
    damaged(folder, lambda found: {**found, "choice": choice})
    assert algorithms(start()) == [Planned] * 4
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and all(told_of in line for line in lines)


def test_a_kept_engine_that_computes_wrongly_is_named_and_another_one_computes(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    start()
    monkeypatch.setenv("FAKE_CUDNN", "wrong 9")
    # engine 7 is slower than lowering, except behind two that are not
    assert algorithms(start()) == [Lowered, Planned, Lowered, Lowered]
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and all("differs from lowering by " in line for line in lines)
    assert all(line.endswith("; tried again") for line in lines)


@pytest.mark.parametrize(
    "card", [{**CARD, "card": "another"}, {**CARD, "CUDA of the driver": "13010"}], ids=str
)
def test_choices_of_another_card_or_driver_are_not_used(
    card: dict[str, str], start: Start, folder: Path, cudnn: ModuleType, caplog: Any
) -> None:
    start()
    cudnn.made.clear()
    start(card=card)
    assert len(cudnn.made) == 10 and len(list(folder.iterdir())) == 8
    assert not told(caplog, logging.WARNING)


def test_choices_of_another_version_of_cudnn_are_not_used(
    start: Start, cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    cudnn.made.clear()
    monkeypatch.setattr(cudnn, "backend_version_string", lambda: "9.1.0 that is none")
    start()
    assert len(cudnn.made) == 10


def test_a_file_that_was_made_for_another_card_says_so(
    start: Start, folder: Path, caplog: Any
) -> None:
    start()
    damaged(folder, lambda found: {**found, "made for": {**found["made for"], "card": "another"}})
    assert algorithms(start()) == [Planned] * 4
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4
    assert all("it was made for card another, expected stand-in" in line for line in lines)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing_is_named_once_and_nothing_is_left(
    code: int, start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code), str(target))

    monkeypatch.setattr(Path, "replace", refused)
    assert algorithms(start()) == [Planned] * 4
    (line,) = told(caplog, logging.WARNING)
    assert line == (
        f"cuDNN's choices are not kept in {folder}: {os.strerror(code)}; "
        "the next start tries them again"
    )
    assert not list(folder.iterdir())


def test_a_folder_that_is_a_file_is_named(start: Start, folder: Path, caplog: Any) -> None:
    folder.parent.mkdir()
    folder.write_text("")
    assert algorithms(start()) == [Planned] * 4
    unread, unkept = told(caplog, logging.WARNING)  # each once, not for each pass
    assert unread.endswith(" is not used: Not a directory")
    assert unkept.startswith("cuDNN's choices are not kept in ")


def test_a_named_pipe_in_the_place_of_a_choice_is_not_waited_for(
    start: Start, folder: Path, caplog: Any
) -> None:
    start()
    for path in folder.iterdir():
        path.unlink()
        os.mkfifo(path)
    assert algorithms(start()) == [Planned] * 4
    lines = told(caplog, logging.WARNING)
    assert len(lines) == 4 and all("it is not a regular file" in line for line in lines)
    assert all(path.is_file() for path in folder.iterdir())  # replaced


SHAPE = ConvShape((2, 3, 9, 9), 4, ConvGeometry((3, 3), stride=(2, 2)), FLOAT)
PASS = SHAPE, Direction.FORWARD, (3, 4), Epilogue(True, True)
OFTEN = """
import sys
from pathlib import Path
from ops.cuda.conv.candidates import Recipe
from tests.ops import test_kept_choices as given
kept = given.KeptChoices(Path(sys.argv[1]), given.CARD)
knobs = tuple((f"K{number:04}", number) for number in range(1000))
ways = [Recipe(given.Engine(engine, knobs), (2, 2)) for engine in (1, 2)]
for _ in range(200):
    kept.write(given.PASS, ways[int(sys.argv[2])])
    found = kept.read(given.PASS)
    assert found is not None and found.recipe in ways, found
"""


def test_processes_that_keep_one_choice_at_once_read_whole_ones(tmp_path: Path) -> None:
    words = [sys.executable, "-c", OFTEN, str(tmp_path)]
    both = [
        subprocess.Popen([*words, number], env=environment(), stderr=subprocess.PIPE, text=True)
        for number in "01"
    ]
    for process in both:
        _, wrong = process.communicate(timeout=60)
        assert process.returncode == 0, wrong
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "recipe",
    [
        None,
        Recipe(Engine(0)),
        Recipe(Engine(3, (("A", 1), ("B", 0)))),
        Recipe(Engine(3), (2, 2)),
        Recipe(Engine(3), None, True),
    ],
    ids=str,
)
def test_a_choice_is_read_as_it_was_written(recipe: Recipe | None, tmp_path: Path) -> None:
    kept = KeptChoices(tmp_path, CARD)
    kept.write(PASS, recipe)
    assert kept.read(PASS) == Kept(recipe)
    assert kept.read((SHAPE, Direction.WEIGHTS, (3, 4), PLAIN)) is None
    assert kept.read((*PASS[:2], (3, 8), PASS[3])) is None
    assert kept.read((*PASS[:3], PLAIN)) is None


def test_a_folded_way_is_made_again_from_its_choice(
    start: Start, make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the last way before lowering: padded channels
    monkeypatch.setattr(
        trial.Trial, "seconds", lambda self, *tried: [3] * (len(tried) - 2) + [1, 2]
    )
    for _ in range(2):
        backend = make("fastest")
        vars(backend)["card"] = CARD
        right(convolved(backend, SMALL, 3), SMALL, 3)
        assert algorithms(backend) == [Folded] * 4
        monkeypatch.setattr(trial.Trial, "seconds", lambda self, *tried: 1 / 0)
