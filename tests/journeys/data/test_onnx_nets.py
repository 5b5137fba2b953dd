"""`train.net = "model.onnx"`: a graph of ONNX is trained, tested and refused as any net is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.cli.main import main
from tests.helpers.onnx_graphs import small_net
from tests.helpers.support import events, run_directory

pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")

CLUSTER = """
[train]
net = "net.onnx"
batch = 16
max_iter = 20
base_lr = 0.05
[train.data]
train = { format = "synthetic", shape = [1, 8, 8], classes = 10, size = 64 }
test = { format = "synthetic", shape = [1, 8, 8], classes = 10, size = 32 }
[train.strategy]
preset = "PRESET"
workers = 2
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster.toml of a small graph, in the working directory."""
    monkeypatch.chdir(tmp_path)
    graph, out = small_net()
    graph.write(Path("net.onnx"), out)
    path = Path("cluster.toml")
    path.write_text(CLUSTER.replace("PRESET", "replicas"))
    return path


def test_a_graph_is_trained_from_its_weights_and_tested(cluster, capsys):
    assert main(["up", str(cluster), "--set", "train.max_iter=100"]) == 0
    losses = [event["loss"] for event in events(run_directory(cluster), "progress")]
    assert losses[-1] < losses[0]
    (checkpoint,) = run_directory(cluster).glob("checkpoint-*.safetensors")
    capsys.readouterr()
    assert main(["test", str(checkpoint)]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_a_graph_whose_rows_are_open_needs_a_batch(cluster, capsys):
    cluster.write_text(re.sub("batch = .*\n", "", cluster.read_text()))
    assert main(["check", str(cluster)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "train.batch: missing: net.onnx leaves" in line] == said


def test_a_graph_that_is_missing_is_reported_once(cluster, capsys):
    assert main(["check", str(cluster), "--set", "train.net=gone.onnx"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "train.net: gone.onnx: cannot be read: No such file or directory" in line


def test_keys_of_a_graph_are_unused_for_another_net(cluster, capsys):
    text = cluster.read_text().replace('net = "net.onnx"', 'net = "lenet"')
    text = text.replace("[1, 8, 8]", "[1, 28, 28]")
    cluster.write_text(text.replace("[train.data]", "[train.onnx]\nclasses = 4\n[train.data]"))
    assert main(["check", str(cluster)]) == 0
    assert "train.onnx: has no effect: train.net is not a graph" in capsys.readouterr().err


def test_a_graph_gets_other_classes(cluster, capsys):
    text = cluster.read_text().replace("classes = 10", "classes = 4")
    cluster.write_text(text.replace("[train.data]", "[train.onnx]\nclasses = 4\n[train.data]"))
    assert main(["up", str(cluster)]) == 0
    assert "fc/4_classes: not in the file" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [lambda data: data[:500], lambda data: b"no graph at all"])
def test_a_damaged_graph_is_one_line_and_exit_code_2(cluster, capsys, damage):
    path = Path("net.onnx")
    path.write_bytes(damage(path.read_bytes()))
    assert main(["check", str(cluster)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "cluster.toml:3: train.net: " in said[0]
    assert "it ends early or is damaged" in said[0]
