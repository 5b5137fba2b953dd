"""The examples that train on real text and photographs: their plans work, they learn, and files and
databases give the same data.

The recipes reach their figures in minutes of training. The first comment of each recipe has the
figures; these tests run a few iterations only.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nets.tools.convert import images_to_lmdb
from runtime.cli.main import main
from tests.helpers.support import ROOT, Simulated, train

EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "data"
TEXT = SHARED / "shakespeare" / "input.txt"
PHOTOGRAPHS = SHARED / "imagenet-sample"
needs_text = pytest.mark.skipif(
    not TEXT.is_file(), reason=("shared/data/shakespeare is not next to this checkout")
)
needs_photographs = pytest.mark.skipif(
    not PHOTOGRAPHS.is_dir(), reason="shared/data/imagenet-sample is not next to this checkout"
)


def check(recipe: str, **sources: str) -> int:
    """Run `check` on a recipe as its first comment shows, with the data in another place."""
    settings = [f"--set=train.data.{phase}={value}" for phase, value in sources.items()]
    return main(["check", str(EXAMPLES / f"{recipe}.toml"), *settings])


def recipe(directory: Path, name: str, max_iter: int, changes: dict[str, str]) -> Simulated:
    """Train a copy of a recipe for a few iterations. `changes` are made in its cluster.toml."""
    for file in EXAMPLES.glob(f"{name}*"):
        (directory / file.name).write_text(
            file.read_text("utf-8").replace("display: 20", "display: 1"), "utf-8"
        )
    cluster = directory / f"{name}.toml"
    text = cluster.read_text("utf-8").replace("[train]\n", f"[train]\nmax_iter = {max_iter}\n", 1)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    cluster.write_text(text, "utf-8")
    return train(cluster)


@needs_text
def test_the_character_recipe_plans_with_the_text_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check("char_lstm", **{"train.source": str(TEXT), "test.source": str(TEXT)}) == 0
    assert "2 actors in 2 processes" in capsys.readouterr().out


@needs_photographs
def test_the_photograph_recipe_plans_with_the_images_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lists = {
        f"{phase}.source": str(PHOTOGRAPHS / f"{name}.txt")
        for phase, name in (("train", "train"), ("test", "val"))
    }
    assert check("jpeg10", **lists) == 0
    assert "2 actors in 2 processes" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "file"), [("char_lstm", "input.txt"), ("jpeg10", "train.txt")])
def test_a_recipe_without_its_data_names_the_missing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, file: str
) -> None:
    missing = {f"{phase}.source": str(tmp_path / file) for phase in ("train", "test")}
    assert check(name, **missing) == 2
    error = capsys.readouterr().err
    assert file in error
    assert "No such file" in error
    assert "Traceback" not in error


@pytest.mark.slow
@needs_text
def test_the_character_recipe_learns_and_predicts_text_it_never_read(
    tmp_path: Path,
) -> None:
    run = recipe(tmp_path, "char_lstm", 8, {"data/shakespeare/input.txt": str(TEXT)})
    first, last = (fields["loss"] for fields in run.journal.of("test"))
    assert first == pytest.approx(math.log(65), rel=0.01)  # 65 characters, all equally likely
    assert last < first - 0.4


@pytest.mark.slow
@needs_photographs
def test_the_photograph_recipe_learns_and_a_database_of_its_images_gives_the_same_losses(
    tmp_path: Path,
) -> None:
    photographs = {"data/jpeg10": str(PHOTOGRAPHS)}
    files = tmp_path / "files"
    database = tmp_path / "database"
    for directory in (files, database):
        directory.mkdir()
    from_files = recipe(files, "jpeg10", 12, photographs)
    # ten classes, all equally likely
    assert from_files.journal.of("test")[-1]["loss"] < math.log(10) - 0.2
    for name in ("train", "val"):
        images_to_lmdb(
            PHOTOGRAPHS / f"{name}.txt", database / f"{name}_lmdb", new_height=64, new_width=64
        )
    size = ", new_height = 64, new_width = 64"
    changes = {
        size: "",
        '"images"': '"lmdb"',
        "data/jpeg10/train.txt": "train_lmdb",
        "data/jpeg10/val.txt": "val_lmdb",
    }
    from_database = recipe(database, "jpeg10", 2, changes)
    assert from_database.losses()[0] == from_files.losses()[0]
