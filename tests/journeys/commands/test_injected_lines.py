"""Names that contain an end of line, or more: they add no line to a file written for other
programs."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from nets.data.sources.images import read_list
from nets.predict.deployment import read_classes
from runtime.cli.main import main
from runtime.cli.sbatch import script
from runtime.cluster.kubernetes.objects import job_set
from runtime.cluster.launchers.agents import shell_line
from runtime.config.file import of_script
from runtime.config.recorded import dump
from runtime.config.sections import Machine
from runtime.errors import ConfigError
from runtime.runs.checking import Checked
from tests.helpers.support import configure

EVIL = "a\n#SBATCH --uid=0\ntouch injected\n\x1b[2J"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such a name."""
    folder = tmp_path / EVIL
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("ending", ["", "\udce9"])  # a byte that is not UTF-8
def test_a_path_adds_no_line_to_a_script_for_slurm(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    folder = tmp_path / f"{EVIL}{ending}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", f"{folder}/more")
    cluster = configure(folder, "sync", workers=2, more='[launcher]\nkind = "slurm"\n')
    assert main(["up", str(cluster), "--set", "train.seed=2", "--sbatch", "job.sh"]) == 0
    text = os.fsdecode((folder / "job.sh").read_bytes())
    # from the first command on, sbatch reads no options, and sh understands quotes
    head, cd, rest = text.partition("cd ")
    assert cd and all(line.startswith("#") for line in head.splitlines())
    options = [line for line in head.splitlines() if line.startswith("#SBATCH")]
    assert all(not option.startswith("#SBATCH --uid") for option in options)
    assert len(options) == 7
    (folder / "program").write_text('#!/bin/sh\nprintf "%s\\0" "$PWD" "$PYTHONPATH" "$@"\n')
    (folder / "program").chmod(0o700)
    run = f"cd {rest}".replace("exec ", "exec ./program ", 1)
    done = subprocess.run(
        ["sh", "-c", run.encode("utf-8", "surrogateescape")], capture_output=True, check=True
    )
    words = [os.fsdecode(word) for word in done.stdout.split(b"\0")]
    assert words[:2] == [str(folder), f"{folder}/more"]
    assert words[words.index("up") + 1] == str(cluster)
    assert not (folder / "injected").exists()
    capfdbinary.readouterr()
    assert main(["up", str(cluster), "--set", "train.seed=2", "--sbatch", "-"]) == 0
    assert capfdbinary.readouterr().out == os.fsencode(text)


@pytest.mark.parametrize("host", ["n1 --uid=0", "n1,n2", "n1#", "-n1"])
def test_a_host_that_is_not_just_a_nodes_name_is_refused_in_a_script_for_slurm(
    host: str,
) -> None:
    tables = {
        "machine": [{"name": "m", "host": host, "address": "10.0.0.1"}],
        "launcher": {"kind": "slurm"},
    }
    config = of_script("launch()", tables, Path())
    placement = SimpleNamespace(topology=SimpleNamespace(title="lenet"))
    loaded = SimpleNamespace(config=config)
    checked = cast(Checked, SimpleNamespace(loaded=loaded, placement=placement))
    with pytest.raises(
        ConfigError,
        match=(r"is not a name of a Slurm node, expected a name " r"of up to 64 letters"),
    ):
        script(checked, Path("cluster.toml"), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host", EVIL), ("hosts", [EVIL]), ("hosts", EVIL), ("hostfile", EVIL), ("python", EVIL), ("data", f"/{EVIL}"),
        ("directory", f"/{EVIL}"), ("python", "a\0"), ("environment", {"A": "x\0y"}), ("name", EVIL), ("address", EVIL),
    ],
)  # fmt: skip
def test_a_machine_with_control_characters_in_its_words_is_refused_by_its_key(
    key: str, value: object
) -> None:
    machine = (
        {"name": "m", key: value} if not key.startswith("host") or key == "host" else {key: value}
    )
    with pytest.raises(ConfigError) as refused:
        of_script("launch()", {"machine": [machine], "launcher": {"kind": "ssh"}}, Path())
    assert all(
        f"machine[0].{key}" in problem or f"machine.{key}" in problem
        for problem in refused.value.problems
    )
    assert all("\n" not in problem and problem.isprintable() for problem in refused.value.problems)


@pytest.mark.parametrize("key", ["image", "namespace", "context", "service_account"])
def test_words_of_kubernetes_hold_no_control_characters(key: str) -> None:
    wishes = {"image": "i", key: EVIL}
    with pytest.raises(ConfigError, match="a non-empty string without control characters"):
        of_script("launch()", {"launcher": {"kind": "kubernetes", "kubernetes": wishes}}, Path())


def test_values_of_variables_may_contain_lines_and_stay_values() -> None:
    machine = Machine(
        name="m",
        environment={"A": EVIL, "B": "$(touch injected) 'x'"},
        directory="/it's; $HOME `x`",
    )
    line = shell_line(machine, ["printenv", "A", "B"]).replace("cd ", "true ", 1)
    assert subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=True
    ).stdout == (f"{EVIL}\n$(touch injected) 'x'\n")
    wishes = SimpleNamespace(
        image="i",
        volumes={},
        service_account=None,
        node_selector={},
        tolerations=(),
        most_seconds=1,
        resources={},
    )
    made = json.loads(json.dumps(job_set("s", [machine], "10.0.0.1:7", wishes)))  # type: ignore[arg-type]
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert container["env"][0] == {"name": "A", "value": EVIL}


def test_a_configuration_is_written_and_read_back_with_every_character() -> None:
    texts = "".join(map(chr, [*range(1, 32), 0x7F, 0x85, 0x2028])) + "\"'\\#[]"
    config = of_script(
        "launch()", {"machine": [{"name": "m", "environment": {"A": texts}}]}, Path()
    )
    assert tomllib.loads(dump(config))["machine"][0]["environment"] == {"A": texts}


def test_init_in_a_folder_with_such_a_name_writes_comments_that_stay_comments(
    evil: Path, capsys: Said
) -> None:
    target = evil / EVIL
    assert main(["init", str(target)]) == 0
    lines = (target / "cluster.toml").read_text().splitlines()
    assert "touch injected" not in lines
    (evil / "s\nseed = 7\n.prototxt").write_text(
        'net: "lenet.prototxt" base_lr: 0.01 max_iter: 1 lr_policy: "fixed"\n'
    )
    main(["init", str(evil / "of"), "--solver", str(evil / "s\nseed = 7\n.prototxt")])
    table = tomllib.loads((evil / "of" / "cluster.toml").read_text())
    assert table["train"]["seed"] == 1
    assert (evil / "of" / table["train"]["solver"]).is_file()
    capsys.readouterr()


@pytest.mark.parametrize("name", ["x 1\ny", " x", "x\r", "x\x1b[2J", "x\x7f", "x\udce9"])
@pytest.mark.parametrize("place", ["class", "image"])
def test_a_name_that_cannot_be_a_line_of_a_list_is_refused_by_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str, capsys: Said
) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    for label in ("ants", name if place == "class" else "bees"):
        (tmp_path / "set" / label).mkdir(parents=True)
        for number in range(5):
            file = f"{name}{number}.png" if place == "image" and number == 4 else f"{number}.png"
            image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(
                os.fsencode(tmp_path / "set" / label / file).decode("utf-8", "surrogateescape")
            )
    code = main(["init", "trial", "--images", "set"])
    said = capsys.readouterr().err.rstrip("\n")
    if name == " x" and place == "image":  # a space matters only at the start of a line
        assert (code, said) == (0, "")
        return
    assert code == 2
    assert (
        "found a control character, a space at an end or bytes that are not UTF-8 in this name"
    ) in said
    assert said.isprintable()
    assert not (tmp_path / "trial").exists()


def test_lists_are_cut_at_ends_of_lines_only(tmp_path: Path) -> None:
    names = ["a\x85b.png", "a\u2028b.png", "a b.png", "a\u202fb.png"]
    (tmp_path / "list").write_text(
        "".join(f"{name} {at}\n" for at, name in enumerate(names)), "utf-8", newline=""
    )
    assert read_list(tmp_path / "list", tmp_path) == (
        [tmp_path / name for name in names],
        [0, 1, 2, 3],
    )
    (tmp_path / "list").write_text("a.png 0\r\nb.png 1\r\n", newline="")
    assert read_list(tmp_path / "list", tmp_path) == (
        [tmp_path / "a.png", tmp_path / "b.png"],
        [0, 1],
    )
    (tmp_path / "classes").write_text("cat\u2028s\r\ndogs\n\n", "utf-8", newline="")
    assert read_classes(tmp_path / "classes") == ("cat\u2028s", "dogs")
