"""A full disk: commands whose output or files cannot be written end with one line that says so."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nets.files.weights import write_weights
from runtime.cli.main import VERSION
from tests.helpers.pictures import saved
from tests.helpers.support import configure, environment, runtime_command

image = pytest.importorskip("PIL.Image")
FULL = "stdout: No space left on device\n"
COMMANDS = (
    "--help",
    "up --help",
    VERSION,
    "check",
    "plan",
    "ps",
    "completion bash",
    "init {new}",
    "time --iterations 1",
    "test a.caffemodel.h5 --set train.net=net.prototxt",
    "predict a.caffemodel.h5 a.png --net net.prototxt --size 28x28 --order gray --top 1",
    "extract a.caffemodel.h5 a.png --layer ip --net net.prototxt --size 28x28 --order gray",
    "convert a.caffemodel.h5 {new}.safetensors",
    "convert list.txt {new}",
)
NET = """
layer { name: "in" type: "Data" top: "data" top: "label" data_param { batch_size: 16 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a net, weights for it, a picture and a list."""
    pytest.importorskip("h5py")
    pytest.importorskip("lmdb")
    folder = tmp_path_factory.mktemp("full")
    configure(folder, "single", iterations=1, test=True)
    (folder / "net.prototxt").write_text(NET)
    weights = np.zeros((10, 784), np.float32)
    write_weights(folder / "a.caffemodel.h5", {"ip": (weights, weights[:, 0])})
    (folder / "a.png").write_bytes(saved(image.new("L", (28, 28)), "PNG"))
    (folder / "list.txt").write_text("a.png 0\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_whose_output_cannot_be_written_ends_with_one_line(
    here: Path, words: str, buffered: bool
) -> None:
    words = words.format(new=f"new-{buffered}-{COMMANDS.index(words)}")
    variables = environment() | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            runtime_command(*words.split()),
            cwd=here,
            env=variables,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    told = [line for line in ended.stderr.splitlines() if not line.startswith("warning: ")]
    assert (ended.returncode, told) == (1, [FULL.strip()])


def _whole_bytecode() -> dict[str, str]:
    """The environment of a process with small files: Python must not keep the beginnings of
    modules that it compiles."""
    return environment() | {"PYTHONDONTWRITEBYTECODE": "1"}


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["b.safetensors", "b.caffemodel", "b.caffemodel.h5", "format=digits"]
)
def test_a_file_that_cannot_be_written_is_named_in_one_line_and_leaves_nothing(
    here: Path, target: str, tmp_path: Path
) -> None:
    data = target.startswith("format=")
    made = tmp_path / ("lmdb" if data else target)
    words = [target if data else "a.caffemodel.h5", str(made)]
    ended = subprocess.run(
        runtime_command("convert", *words, "--net", "net.prototxt"),
        cwd=here,
        env=_whole_bytecode(),
        preexec_fn=_small_files,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"{made}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["features.csv", "features.safetensors"])
def test_features_that_cannot_be_written_leave_the_file_that_was_there(
    here: Path, name: str, tmp_path: Path
) -> None:
    made = tmp_path / name
    made.write_text("earlier")
    pictures = ["a.png"] * 200
    options = ("--layer", "ip", "--net", "net.prototxt", "--size", "28x28", "--order", "gray")
    ended = subprocess.run(
        runtime_command("extract", "a.caffemodel.h5", *pictures, *options, "--output", str(made)),
        cwd=here,
        env=_whole_bytecode(),
        preexec_fn=_small_files,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith(f"{made}: cannot be written")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert made.read_text() == "earlier"
