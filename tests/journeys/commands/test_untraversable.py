"""Paths that this user may not look at, and names that are too long: each command works without
them, or ends with lines for people and exit code 2 or 3."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.helpers.support import environment
from tests.helpers.surroundings import ORDINARY, Surrounding, allowed

# One process types all commands, since most of the time of each would be imports.
TYPED = """
import contextlib, io, json, sys, traceback
from runtime.cli.main import main
for words in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main(words)
        except BaseException:
            code = -1
            traceback.print_exc()
    print(json.dumps([words, code, out.getvalue()]), flush=True)
"""
KEYS = (
    "train.net",
    "train.solver",
    "train.weights",
    "train.resume",
    "train.data.classes",
    "placement.kinds",
    "run.directory",
    "machine.0.hostfile",
    "program",
)
FORMATS = ("images", "hdf5", "lmdb", "text", "cifar10")
# V is the path
LINES = (
    "check V",
    "plan V",
    "up V",
    "ps V",
    "status V",
    "events V",
    "report V",
    "top V --once",
    "stack V conv-0-0",
    "logs V coordinator",
    "trace start V",
    "save V",
    "scale V --workers 1",
    "down V",
    "init V",
    "init made --images V",
    "init made --solver V",
    "test V",
    "predict V image.png",
    "predict w.safetensors V",
    "predict w.caffemodel image.png --net V",
    "predict w.caffemodel image.png --net lenet --classes V",
    "predict w.caffemodel image.png --net lenet --mean V",
    "predict w.caffemodel --net lenet --data format=images,source=V",
    "convert V out.h5",
    "convert V,V out.h5",
    "convert w.safetensors V",
    "convert format=images,source=V out.mdb",
    "convert format=digits V.lmdb",
    "convert format=digits V",
    "time --profile V --iterations 1",
    "plan --profile V",
    "plan --svg V",
    "up --resume V",
    "up --sbatch V",
    "ps --connect V",
    "status --connect V",
    "ps --connect localhost:1 --key V",
    *(f"check --set {key}=V" for key in KEYS),
    "check --set train.weights=V.caffemodel",
    "check --set train.weights=['V.caffemodel','V.h5']",
    "check --set train.tuning.learnt=['V'] --set train.strategy.groups=auto",
    "check --set train.net=data.prototxt",
    "check --set train.net=hdf5.prototxt",
    "check --set train.solver=solver.prototxt",
    *(f"check --set train.data.train={{format='{name}',source='V'}}" for name in FORMATS),
    "check --set train.data.train={format='idx',images='V',labels='V'}",
)


def typed(folder: Path, path: str) -> list[tuple[list[str], int, str]]:
    """The exit code and the output of each command, with this path, as an ordinary user."""
    words = [[word.replace("V", path) for word in line.split()] for line in LINES]
    done = subprocess.run(
        [*ORDINARY, sys.executable, "-c", TYPED],
        cwd=folder,
        env=environment(),
        input=json.dumps(words),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("value", ["locked/runs", "x" * 300, "cluster.toml/runs"])
def test_check_and_up_refuse_the_same_run_directories(value: str, tmp_path: Path) -> None:
    if not allowed(ORDINARY):
        pytest.skip("root cannot become an ordinary user here")
    (tmp_path / "cluster.toml").write_text("[train.strategy]\npreset = 'single'\nworkers = 1\n")
    (tmp_path / "locked").mkdir(mode=0)
    said = []
    for command in ("check", "up"):
        done = Surrounding(ORDINARY).run(tmp_path, command, "--set", f"run.directory={value}")
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), done.stderr
        said.append(done.stderr.partition(" (")[0].strip())
    assert said[0] == said[1]


@pytest.mark.parametrize("command", ["check", "up"])
def test_a_machine_without_a_temporary_folder_is_refused(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cluster.toml").write_text("[train.strategy]\npreset = 'single'\nworkers = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "no")])
    assert main([command]) == 3
    *_, line = capsys.readouterr().err.splitlines()
    assert line.endswith("set TMPDIR to a folder that this user may write to")


@pytest.mark.parametrize("path", ["locked/inside", "x" * 300, "locked/" + "x" * 300])
def test_a_path_that_cannot_be_looked_at_ends_no_command_with_a_traceback(
    path: str, tmp_path: Path
) -> None:
    if not allowed(ORDINARY):
        pytest.skip("root cannot become an ordinary user here")
    (tmp_path / "cluster.toml").write_text("[train.strategy]\npreset = 'single'\nworkers = 1\n")
    for kind, block in (("Data", "data_param"), ("HDF5Data", "hdf5_data_param")):
        (tmp_path / f"{kind.removesuffix('Data').lower() or 'data'}.prototxt").write_text(
            f'layer {{ name: "d" type: "{kind}" top: "data" top: "label" '
            f'{block} {{ source: "{path}" batch_size: 2 }} }}\n'
        )
    (tmp_path / "solver.prototxt").write_text(f'net: "{path}" base_lr: 0.1 max_iter: 1\n')
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0)
    try:
        found = typed(tmp_path, path)
    finally:
        locked.chmod(0o700)
    assert len(found) == len(LINES)
    faulty = [each for each in found if each[1] not in (0, 1, 2, 3) or "Traceback" in each[2]]
    assert faulty == []
    # a long path in a table of the help is no line of an error
    unsaid = [words for words, code, said in found if code and not said.strip()]
    assert unsaid == []
    assert list(locked.iterdir()) == []
