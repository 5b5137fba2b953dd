"""The first commands of a new user: the command itself, its version, completion, and a first
cluster.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from nets.data import open_source
from nets.tools.convert import source_to_lmdb
from roles.commands.init import write
from runtime.cli.main import main
from runtime.errors import ConfigError
from runtime.runs.checking import check
from tests.helpers.support import ROOT, train

Capture = pytest.CaptureFixture[str]
CONVOY = Path(sys.executable).with_name("convoy")
HINT = "cluster.toml: no such file; `python -m runtime init` writes a first one\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_cluster_toml_here_those_in_folders_below_are_named(
    here: Path, capsys: Capture
) -> None:
    assert main(["init", "first"]) == 0
    capsys.readouterr()
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        "cluster.toml: no such file; give the path of one, such as first/cluster.toml; "
        "`python -m runtime init` writes a first one\n"
    )


@pytest.fixture
def pictures(here: Path) -> Path:
    """Ten images each of two classes. Their folders' names break TOML that is written without
    care."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    folder = here / 'my "pictures"'
    for name in ("ants", "bees"):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(0, 256, (70, 80, 3), np.uint8)
            image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def test_the_command_convoy_is_python_m_runtime() -> None:
    if not CONVOY.exists():
        pytest.skip("convoy is not installed for this Python")
    for words in (["check", str(ROOT / "cluster.toml")], ["up", "--help"]):
        one, other = (
            subprocess.run(
                [*command, *words], cwd=ROOT, capture_output=True, text=True, check=False
            )
            for command in ([str(CONVOY)], [sys.executable, "-m", "runtime"])
        )
        assert one.returncode == other.returncode
        assert one.stdout.replace("Usage: convoy", "Usage: python -m runtime") == other.stdout
        assert one.stderr == other.stderr


def test_the_printed_version_is_the_version_of_the_package(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"convoy {version('convoy-runtime')}\n"


def test_asking_for_the_version_imports_no_commands() -> None:
    text = (
        "import sys; from runtime.cli.main import main; main(['--version']); "
        "print('roles' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == ["False"]


@pytest.mark.parametrize(
    "words",
    [["check"], ["plan"], ["time"], ["test", "a.safetensors"], ["check", "sub/cluster.toml"]],
)
def test_commands_without_a_cluster_toml_show_how_to_get_one(
    here: Path, capsys: Capture, words: list[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == HINT if "sub/cluster.toml" not in words else f"sub/{HINT}"


def test_init_writes_a_file_that_passes_check_and_never_overwrites_it(
    here: Path, capsys: Capture
) -> None:
    assert main(["init"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "wrote cluster.toml",
        ("train it: python -m runtime up cluster.toml"),
    ]
    assert told.err == ""
    assert len(check(Path("cluster.toml")).placement.processes) == 5
    Path("cluster.toml").write_text("mine")
    assert main(["init"]) == 2
    assert capsys.readouterr().err == (
        "cluster.toml: exists already: name another folder, or move it\n"
    )
    assert Path("cluster.toml").read_text() == "mine"


def test_a_net_trained_on_the_images_of_init_predicts_the_names_of_their_folders(
    pictures: Path, capsys: Capture
) -> None:
    assert main(["init", "trial", "--images", str(pictures)]) == 0
    cluster = Path("trial/cluster.toml")
    cluster.write_text(cluster.read_text().replace("seed = 1", "seed = 1\nmax_iter = 1"))
    saved = train(cluster).journal.of("checkpoint")[-1]["file"]
    capsys.readouterr()
    assert main(["predict", f"trial/{saved}", str(pictures / "ants" / "0.png")]) == 0
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]} == {
        "ants",
        "bees",
    }


def test_init_for_a_folder_of_images_writes_lists_a_net_and_a_solver_that_pass_check(
    pictures: Path, capsys: Capture
) -> None:
    assert main(["init", "trial", "--images", str(pictures)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.splitlines()[-1] == "train it: python -m runtime up trial/cluster.toml"
    trial = Path("trial")
    assert (trial / "classes.txt").read_text() == "ants\nbees\n"
    lists = {name: (trial / name).read_text().splitlines() for name in ("train.txt", "val.txt")}
    assert [line.partition("/")[0] for line in lists["val.txt"]] == ["ants", "ants", "bees", "bees"]
    assert len(lists["train.txt"]) == 16
    assert not {*lists["train.txt"]} & {*lists["val.txt"]}
    checked = check(trial / "cluster.toml")
    assert checked.warnings == ()


def test_the_seed_draws_the_images_for_tests(pictures: Path, capsys: Capture) -> None:
    drawn = []
    for at, seed in enumerate(("1", "1", "2", "3")):
        assert main(["init", f"trial-{at}", "--images", str(pictures), "--seed", seed]) == 0
        drawn.append(Path(f"trial-{at}", "val.txt").read_text())
        assert f"drawn by the seed {seed}" in Path(f"trial-{at}", "cluster.toml").read_text()
    assert drawn[0] == drawn[1]
    assert len({*drawn}) > 1
    capsys.readouterr()
    assert main(["init", "other", "--images", str(pictures), "--seed", "-1"]) == 2
    assert "--seed: found -1, expected an integer >= 0" in capsys.readouterr().err


def test_if_one_of_the_files_that_init_would_write_exists_none_is_written(
    pictures: Path, capsys: Capture
) -> None:
    trial = Path("trial")
    trial.mkdir()
    (trial / "solver.prototxt").write_text("mine")
    assert main(["init", "trial", "--images", str(pictures)]) == 2
    assert capsys.readouterr().err == (
        "trial/solver.prototxt: exists already: name another folder, or move it\n"
    )
    assert [path.name for path in trial.iterdir()] == ["solver.prototxt"]


def test_if_one_of_the_files_of_init_cannot_be_written_none_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        write(tmp_path, {"cluster.toml": "a = 1", "no folder/train.txt": "дуб/1.jpg 0"})
    assert list(tmp_path.iterdir()) == []


def test_init_for_a_solver_of_caffe_trains_the_net_that_it_names(
    here: Path, capsys: Capture
) -> None:
    source_to_lmdb(open_source({"format": "digits"}, Path()), here / "digits_lmdb")
    net = (ROOT / "nets" / "zoo" / "lenet.prototxt").read_text()
    assert "data_param {" in net
    (here / "net.prototxt").write_text(
        net.replace("data_param {", ('data_param { source: "digits_lmdb" backend: LMDB'))
    )
    (here / "solver.prototxt").write_text(
        'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 5 test_iter: 2\n'
    )
    assert main(["init", "trial", "--solver", "solver.prototxt"]) == 0
    told = capsys.readouterr()
    assert "to mend" not in told.err, told.err
    assert check(Path("trial/cluster.toml")).placement.topology.lead


def test_the_reason_why_a_new_cluster_toml_would_not_pass_check_is_reported_at_once(
    here: Path, capsys: Capture
) -> None:
    (here / "solver.prototxt").write_text(
        'net: "gone.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 5\n'
    )
    assert main(["init", "trial", "--solver", "solver.prototxt"]) == 0
    told = capsys.readouterr()
    assert "wrote trial/cluster.toml" in told.out
    assert "warning: to correct before `up`: " in told.err
    assert "gone.prototxt" in told.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["init", "--images", "nowhere"],
            ("nowhere: no such folder; expected one with a folder of images per class\n"),
        ),
        (
            ["init", "--images", "empty"],
            ("empty: found no folders, expected a folder of images per class\n"),
        ),
        (
            ["init", "--solver", "nowhere"],
            ("nowhere: no such file; expected Caffe's solver.prototxt\n"),
        ),
        (
            ["init", "--solver", "a", "--images", "b"],
            ("init: found --images and --solver, expected one of them\n"),
        ),
        (["init", "file/sub"], "file/sub: cannot be written: Not a directory\n"),
    ],
)
def test_init_refuses_unsuitable_files_in_words(
    here: Path, capsys: Capture, words: list[str], told: str
) -> None:
    (here / "empty").mkdir()
    (here / "file").write_text("")
    assert main(words) == 2
    assert capsys.readouterr().err == told
    assert sorted(path.name for path in here.iterdir()) == ["empty", "file"]


@pytest.mark.parametrize(
    ("typed", "wanted"), [("ch", "check"), ("ini", "init"), ("compl", "completion")]
)
def test_bash_completes_commands(capsys: Capture, typed: str, wanted: str) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = f'{script}\nCOMP_WORDS=(convoy {typed}); COMP_CWORD=1; _convoy; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [wanted]


def test_completion_is_installed_where_the_shell_looks(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("SHELL", "/bin/bash")
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    assert main(["completion", "--install"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"wrote {here}")
    assert "_convoy" in Path(told.split()[1].rstrip(";")).read_text()


def test_an_unknown_shell_is_reported_with_the_known_ones(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["completion"]) == 2
    told = (
        "completion: found the shell 'tcsh' in $SHELL, expected bash, zsh or fish as the argument\n"
    )
    assert capsys.readouterr().err == told
