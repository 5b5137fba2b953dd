"""Commands in surroundings that a batch system, a container or a shell gives them: each works, or
ends with one line. None ends with a traceback."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.support import environment, run_directory, run_up, runtime_command
from tests.helpers.surroundings import SURROUNDINGS, Surrounding

CLASSES = ("дуб", "сосна")
COMMANDS = {
    "up": ("up", "--set", "run.directory=again"),
    "check": ("check",),
    "plan": ("plan",),
    "predict": ("predict", "w.safetensors", "photos/сосна", "--top", "2"),
    "test": ("test", "w.safetensors", "--top", "2", "--confusion"),
    "init": ("init", "made", "--images", "photos"),
    "report": ("report", "runs/trained"),
}
# A locale of ASCII cannot name these files: Python shows the bytes of their names, so a command
# that reads or writes a name says that it cannot.
REFUSED = {("ASCII locale", name) for name in ("up", "check", "plan", "predict", "test", "init")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photos with Cyrillic names, a cluster.toml that trains on them, and a run."""
    folder = tmp_path_factory.mktemp("project")
    numbers = np.random.default_rng(0)
    for name in CLASSES:
        (folder / "photos" / name).mkdir(parents=True)
        for at in range(6):
            pixels = numbers.integers(0, 255, (64, 64, 3), dtype="uint8")
            Image.fromarray(pixels).save(folder / "photos" / name / f"{at}.jpg")
    made = Surrounding().run(folder, "init", ".", "--images", "photos")
    assert made.returncode == 0, made.stderr
    ended = run_up(folder / "cluster.toml", "--set", "train.max_iter=4")
    assert ended.returncode == 0, ended.stderr
    run = run_directory(folder / "cluster.toml")
    shutil.copy(next(run.glob("checkpoint-*.safetensors")), folder / "w.safetensors")
    run.rename(run.with_name("trained"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_says_one_line_in_each_surrounding(
    command: str, name: str, trained: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    shutil.copytree(trained, project)
    words = [*COMMANDS[command], *(["--set", "train.max_iter=4"] if command == "up" else [])]
    ended = SURROUNDINGS[name](tmp_path).run(project, *words)
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "Error:" not in ended.stdout + ended.stderr
    assert ended.returncode in ({0, 2} if (name, command) in REFUSED else {0}), ended
    if command == "up":
        logs = "".join(path.read_text("utf-8") for path in project.rglob("logs/*.log"))
        assert "Traceback" not in logs


@pytest.mark.parametrize("command", ["up", "check", "ps", "init"])
def test_a_command_in_a_folder_that_was_removed_is_refused_in_one_line(
    command: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = subprocess.run(
        [
            *("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh"),
            *runtime_command(command, tmp_path / "cluster.toml"),
        ],
        cwd=gone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "the working folder: No such file or directory: start the command from another folder\n"
    )


@pytest.mark.parametrize("name", ["no home", "latin-1 output", "all closed", "no name"])
def test_check_works_in_each_surrounding(name: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("[train.strategy]\npreset = 'single'\nworkers = 1\n")
    ended = SURROUNDINGS[name](tmp_path).run(tmp_path, "check")
    assert (ended.returncode, ended.stderr) == (0, "")
