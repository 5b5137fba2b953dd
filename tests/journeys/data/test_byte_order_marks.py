"""Text files that an editor of Windows saved: a byte order mark before the first character, and
lines that end with a carriage return. They are read as if neither were there."""

from __future__ import annotations

import codecs
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from nets import load_net, load_solver
from nets.data import open_source
from nets.predict.deployment import read_classes
from roles.forecasting.catalogue import kinds
from runtime.cli.join import _first_line
from runtime.cli.main import main
from runtime.compute.service_times import read_table
from runtime.config.file import load
from runtime.records.run_files import read_json, read_toml

NET = """name: "tiny"
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 1 dim: 1 dim: 28 dim: 28 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 } }
"""
SOLVER = 'base_lr: 0.01\nlr_policy: "fixed"\nmax_iter: 10\n'
KINDS = "[machine.mine]\nflops = 1e12\nshare = 0.5\n"
MACHINES = "program = 'p'\n[launcher]\nkind = 'ssh'\n[[machine]]\nhostfile = 'hosts'\n"


def saved(path: Path, text: str) -> Path:
    """Write a text as Notepad does."""
    path.write_bytes(codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode())
    return path


def a_list_of_images(folder: Path) -> object:
    for name in "01":
        Image.new("L", (4, 4)).save(folder / f"{name}.png")
    saved(folder / "list.txt", "0.png 0\n1.png 1\n")
    return len(open_source({"format": "images", "source": "list.txt"}, folder))


def a_list_of_hdf5_files(folder: Path) -> object:
    with h5py.File(folder / "a.h5", "w") as file:
        file["data"] = np.zeros((3, 1, 2, 2), "f4")
        file["label"] = np.zeros(3, "f4")
    saved(folder / "list.txt", "a.h5\n")
    return len(open_source({"format": "hdf5", "source": "list.txt"}, folder))


def a_text_to_learn(folder: Path) -> object:
    saved(folder / "t.txt", "ab" * 20)
    asked = {"format": "text", "source": "t.txt", "streams": 1, "length": 4}
    return open_source(asked, folder).alphabet


def a_hostfile(folder: Path) -> object:
    (folder / "p.py").write_text("def plan(config, options): ...\n")
    saved(folder / "hosts", "big slots=8\nsmall\n")
    return [m.name for m in load(saved(folder / "cluster.toml", MACHINES)).machine]


# kind of file -> (a function that reads one in a folder, its result)
READERS: dict[str, tuple[Callable[[Path], object], object]] = {
    "net": (lambda folder: load_net(saved(folder / "n.prototxt", NET)).proto.name, "tiny"),
    "solver": (
        lambda folder: load_solver(saved(folder / "s.prototxt", SOLVER)).proto.max_iter,
        10,
    ),
    "classes": (
        lambda folder: read_classes(saved(folder / "c.txt", "oak\npine\n")),
        ("oak", "pine"),
    ),
    "images": (a_list_of_images, 2),
    "hdf5": (a_list_of_hdf5_files, 3),
    "text": (a_text_to_learn, "ab"),
    "hostfile and cluster.toml": (a_hostfile, ["big", "small"]),
    "catalogue": (lambda folder: list(kinds(saved(folder / "kinds.toml", KINDS))), ["mine"]),
    "profile": (
        lambda folder: read_table(saved(folder / "p.json", json.dumps({"a": 1}))),
        {"a": 1},
    ),
    "configuration of a run": (
        lambda folder: read_toml(saved(folder / "config.toml", "a = 1\n")),
        {"a": 1},
    ),
    "record of a run": (lambda folder: read_json(saved(folder / "tuning.json", "{}\n")), {}),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_text_file_with_a_byte_order_mark_is_read_as_if_it_had_none(
    kind: str, tmp_path: Path
) -> None:
    read, expected = READERS[kind]
    assert read(tmp_path) == expected


def test_the_commands_of_a_program_are_found_in_a_cluster_toml_with_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "marked_program.py").write_text(
        "def hello() -> int:\n"
        "    print('hello')\n"
        "    return 0\n"
        "COMMANDS = {'hello': 'marked_program:hello'}\n"
        "ROLES = {}\n"
        "def plan(config, options): ...\n"
    )
    saved(tmp_path / "cluster.toml", "program = 'marked_program'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (main(["hello"]), capsys.readouterr().out) == (0, "hello\n")


def test_the_line_of_join_may_come_from_a_file_with_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "line", "key key key\n")
    before = os.dup(0)
    try:
        with (tmp_path / "line").open("rb") as file:
            os.dup2(file.fileno(), 0)
            monkeypatch.setattr("sys.stdin", io.StringIO())
            assert _first_line() == "key key key\r\n"
    finally:
        os.dup2(before, 0)
        os.close(before)
