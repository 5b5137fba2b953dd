"""The output and actions of `up` after a run: on a terminal, after Ctrl-C, and in a pipe."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from runtime.cli.after import After
from runtime.cli.main import main
from runtime.errors import ConfigError
from runtime.plan.program import import_program
from runtime.program_interface import program_of
from tests.helpers.support import configure, environment, run_directory, run_up, runtime_command
from tests.helpers.terminal import terminal

TESTED = "[run]\ndirectory = 'runs'\n"


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_saves_shows_how_to_resume_and_tests_the_saved_model(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path, "single", iterations=10**6, test=True, paced=True)
    command = runtime_command("up", cluster.name, "--test", "--set", "train.kernels=numpy")
    with terminal(command, 80, 24, tmp_path, environment()) as screen:
        screen.until(
            lambda lines: any(line.startswith("iteration ") and "elapsed" in line for line in lines)
        )
        screen.type(b"\x03")
        assert screen.end() == 130
        lines = [*screen.scrolled(), *screen.shown()]
    directory = run_directory(cluster)
    text = "".join(lines).replace(" ", "")  # a terminal may drop a space where it breaks a line
    again = (
        f"go on     python -m runtime up cluster.toml --resume runs/{directory.name} "
        "--set train.kernels=numpy"
    )
    assert again.replace(" ", "") in text
    (last,) = (
        index
        for index, line in enumerate(lines)
        if line.startswith("iteration ") and line.endswith("finished")
    )
    assert lines[last + 1].startswith("loss ")
    assert [line for line in lines if line.startswith("iteration ")] == [lines[last]], (
        "only the last row of the table may remain"
    )
    assert "accuracy0." in text.partition("testruns/")[2]
    done = run_up(
        cluster,
        "--resume",
        f"runs/{directory.name}",
        "--set",
        "train.kernels=numpy",
        "--set",
        "train.max_iter=1",
    )
    assert "resumes    " in done.stdout + done.stderr


def test_a_program_without_the_command_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.toml").write_text('program = "tests.helpers.idle_adders"\n' + TESTED)
    monkeypatch.chdir(tmp_path)
    assert main(["up", "--test"]) == 2
    assert (
        "--test: program 'tests.helpers.idle_adders' has no command 'test'"
    ) in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_run_that_ends_by_itself_is_tested_and_shows_no_command_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = '[simulation]\nclock = "virtual"\n'
    cluster = configure(tmp_path, "single", iterations=3, test=True, more=more)
    monkeypatch.chdir(tmp_path)
    assert main(["up", "--test", "--set", "train.kernels=numpy"]) == 0
    out = capsys.readouterr().out
    directory = run_directory(cluster)
    assert f"\ntest      runs/{directory.name}/checkpoint-0000003.safetensors\naccuracy 0." in out
    assert "go on" not in out


@pytest.mark.parametrize("event", ["winding down", "stopped"])
def test_a_run_that_was_ended_from_outside_shows_how_to_resume(tmp_path: Path, event: str) -> None:
    """The exit code is 0, as if the run had ended by itself."""
    said: list[str] = []
    after = After(import_program("roles"), Path("cluster.toml"), (), test=False)
    lines = [
        {"t": 0.0, "actor": "a", "event": "checkpoint", "file": "checkpoint-0000003.safetensors"}
    ]
    for ended in ([], [{"t": 1.0, "actor": "supervisor", "event": event}]):
        text = "".join(json.dumps(line) + "\n" for line in (*lines, *ended))
        (tmp_path / "events.jsonl").write_text(text)
        assert after.told(0, tmp_path, None, said.append) == 0
        assert len(said) == len(ended)
    assert said == [f"go on     python -m runtime up cluster.toml --resume {tmp_path}"]


def test_the_command_that_resumes_a_run_is_shown_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = After(import_program("roles"), Path("my cluster.toml"), ("train.batch=3",), test=False)
    monkeypatch.setattr("sys.argv", ["/opt/bin/convoy", "up"])
    again = "convoy up 'my cluster.toml' --resume runs/one --set train.batch=3"
    assert after.again(Path("runs/one")) == again


def test_a_run_that_ends_before_its_first_save_shows_how_to_resume_from_its_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "single", iterations=2, more='[simulation]\nclock = "virtual"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["up"]) == 0
    first = run_directory(cluster).name
    diverges = ["--set", "train.base_lr=1e30", "--set", "train.max_iter=9"]
    assert main(["up", *diverges]) == 1
    assert "go on" not in capsys.readouterr().out, "the run did not begin with a checkpoint"
    assert main(["up", "--resume", f"runs/{first}", *diverges]) == 1
    again = (
        f"go on     python -m runtime up cluster.toml --resume runs/{first} --set "
        "train.base_lr=1e30"
    )
    assert again in capsys.readouterr().out
    assert not list(run_directory(cluster).glob("checkpoint-*"))


def journalled(runs: Path, name: str, *events: dict[str, str]) -> Path:
    """The directory of a run with these events and no checkpoint."""
    (runs / name).mkdir(parents=True)
    lines = [json.dumps({"t": 0.0, "actor": "supervisor", **event}) for event in events]
    (runs / name / "events.jsonl").write_text("\n".join([*lines, ""]))
    return runs / name


def test_a_scaled_run_that_never_began_is_resumed_from_the_run_before_it(tmp_path: Path) -> None:
    """A machine of the scaled run did not come, nor did it for the run as it was."""
    runs = tmp_path / "runs"
    first = journalled(
        runs, "one", {"event": "checkpoint", "file": "checkpoint-0000005.safetensors"}
    )
    journalled(runs, "two", {"event": "scaled", "after": "one"}, {"event": "failed"})
    last = journalled(runs, "three", {"event": "scaled", "after": "two"}, {"event": "failed"})
    said: list[str] = []
    after = After(import_program("roles"), Path("cluster.toml"), (), test=False)
    assert after.told(3, last, None, said.append) == 3
    assert said == [f"go on     python -m runtime up cluster.toml --resume {first}"]


def test_a_run_that_began_from_memory_is_resumed_from_the_last_run_before_it_that_saved(
    tmp_path: Path,
) -> None:
    """A model in memory is lost when `up` has ended."""
    runs = tmp_path / "runs"
    first = journalled(
        runs, "one", {"event": "checkpoint", "file": "checkpoint-0000005.safetensors"}
    )
    journalled(
        runs,
        "two",
        {"event": "restart", "after": "one"},
        {"event": "resumed", "memory": "replica-0"},
    )
    last = journalled(
        runs,
        "three",
        {"event": "restart", "after": "two"},
        {"event": "resumed", "memory": "replica-0"},
    )
    said: list[str] = []
    after = After(import_program("roles"), Path("cluster.toml"), (), test=False)
    assert after.told(4, last, None, said.append) == 4
    assert said == [f"go on     python -m runtime up cluster.toml --resume {first}"]
    alone = journalled(
        runs,
        "four",
        {"event": "restart", "after": "gone"},
        {"event": "resumed", "memory": "replica-0"},
    )
    assert after.told(4, alone, None, said.append) == 4
    assert len(said) == 1


def test_a_test_command_that_cannot_be_imported_is_reported_in_words(tmp_path: Path) -> None:
    module = ModuleType("scored")
    vars(module)["COMMANDS"] = {"test": "absent_module:test"}
    after = After(program_of(module), Path("cluster.toml"), (), test=True)
    with pytest.raises(ConfigError, match=r"^command 'test' \(absent_module:test\) cannot be imp"):
        after.told(0, None, tmp_path / "x.safetensors", print)
