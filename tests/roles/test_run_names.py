"""The names that runs get from their nets, and the earlier names under which they are still
found."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets.definition.spec import ZOO
from roles import training
from roles.commands.resuming import resumed
from roles.options import Options
from roles.planning.planner import plan
from runtime.config.file import load_with_program
from runtime.plan.run_names import names_of
from runtime.records.run_identity import Identity
from runtime.runs.scripting import launch
from tests.helpers.support import train

DATA = 'train = { format = "digits", split = "train" }'


def configured(folder: Path, net: str, more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "cluster.toml"
    file.write_text(
        f'[train]\nnet = "{net}"\nsolver = "lenet_digits_solver"\nmax_iter = 1\nbatch = 8\n'
        f'[train.data]\n{DATA}\n[train.strategy]\npreset = "single"\nworkers = 1\n{more}'
    )
    return file


def names(file: Path) -> tuple[str, ...]:
    loaded = load_with_program(file)
    assert isinstance(loaded.options, Options)
    return names_of(loaded.config, plan(loaded.config, loaded.options))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("LeNet no. 5.prototxt", "LeNet-no.-5"),
        ("net.prototxt", "digits-of-mine"),
        ("Train_Val.prototxt", "digits-of-mine"),
    ],
)
def test_a_run_is_named_after_its_net_or_after_the_folder_of_a_file_with_a_common_name(
    tmp_path: Path, file: str, name: str
) -> None:
    cluster = configured(tmp_path / "digits of mine", file)
    (cluster.parent / file).write_bytes((ZOO / "lenet.prototxt").read_bytes())
    assert names(cluster) == (name, "roles")


def test_a_net_of_the_zoo_gives_its_name_without_arguments_and_run_name_counts_alone(
    tmp_path: Path,
) -> None:
    cluster = configured(tmp_path, "resnet18(classes=10)")
    cluster.write_text(cluster.read_text().replace(DATA, DATA[:-2] + ", shape = [3, 224, 224] }"))
    cluster.write_text(
        cluster.read_text().replace(
            '"digits", split = "train"', '"synthetic", classes = 10, size = 16'
        )
    )
    assert names(cluster) == ("resnet18", "roles")
    assert names(configured(tmp_path, "lenet", '[run]\nname = "mine"\n')) == ("mine",)


def test_a_run_that_an_earlier_version_named_after_the_program_is_still_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = configured(tmp_path, "lenet")
    monkeypatch.chdir(tmp_path)
    train(cluster)
    (checkpoint,) = tmp_path.glob("*.safetensors")
    for began, name in enumerate(("roles", "lenet", "other")):
        run = tmp_path / "runs" / f"20260101-00000{began}-{name}"
        run.mkdir(parents=True)
        (run / checkpoint.name).write_bytes(checkpoint.read_bytes())
        (run / "config.toml").write_text(f'program = "roles"\n{cluster.read_text()}')
        (run / "events.jsonl").touch()
        Identity.new(name, 1e9 + began).write(run)
        loaded = load_with_program(cluster)
        options, _ = resumed(loaded.config, loaded.options, None)
        newest = "20260101-000001-lenet" if name == "other" else run.name
        assert Path(options.train.resume).parent.name == newest


def test_a_script_s_run_of_a_net_is_named_after_the_net(tmp_path: Path) -> None:
    topology = training({"net": "lenet", "max_iter": 1, "data": {"train": {"format": "digits"}}})
    made = launch(topology, directory=tmp_path, processes="here")
    assert made._config.run.name == "lenet"
