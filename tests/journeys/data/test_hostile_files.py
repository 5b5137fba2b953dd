"""Files of the wrong kind, or with contents that the net cannot take, are refused in one line.
Contents that are only odd give a warning."""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from nets.definition.spec import ZOO
from nets.files import checkpoint
from nets.regular import read_bytes, size_of
from roles import training
from runtime.cli.main import main
from runtime.errors import ConfigError
from runtime.report.console import RunConsole
from runtime.terminal_text import bounded, one_line, printable

Said = pytest.CaptureFixture[str]


def checked(text: str, capsys: Said, *more: str) -> tuple[int, list[str]]:
    """Run `check` in the working directory. Returns its exit code and the lines of stderr."""
    Path("cluster.toml").write_text(text)
    code = main(["check", "cluster.toml", *more])
    return code, capsys.readouterr().err.splitlines()


def idx(labels: list[int]) -> str:
    Path("i").write_bytes(struct.pack(">4I", 0x803, len(labels), 28, 28) + bytes(784 * len(labels)))
    Path("l").write_bytes(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    return '[train.data]\ntrain = { format = "idx", images = "i", labels = "l" }\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "place",
    [
        "[train]\nnet = '{}'\n", "[train]\nsolver = '{}'\n", "[train]\nresume = '{}'\n",
        "[train]\nweights = '{}.caffemodel'\n", "[train]\nweights = '{}.h5'\n",
        "[train]\ndevices = {{ '*' = 'emulated:{}' }}\n",
        "[train.data]\ntrain = {{ format = 'idx', images = '{0}', labels = '{0}' }}\n",
        "[train.data]\ntrain = {{ format = 'cifar10', files = ['{}'] }}\n",
        "[train.data]\ntrain = {{ format = 'lmdb', source = '{}' }}\n",
        "[train.data]\ntrain = {{ format = 'images', source = '{}' }}\n",
        "[train.data]\ntrain = {{ format = 'hdf5', source = '{}.h5' }}\n",
        "[train.data]\ntrain = {{ format = 'text', source = '{}' }}\n",
    ],
)  # fmt: skip
def test_a_named_pipe_is_refused_before_it_is_opened(place: str, capsys: Said) -> None:
    for ending in ("", ".caffemodel", ".h5"):
        os.mkfifo(f"pipe{ending}")
    code, said = checked(place.format("pipe"), capsys)
    assert (code, len(said)) == (2, 1)
    assert "a named pipe" in said[0]


def test_a_cluster_toml_that_is_a_pipe_a_device_or_a_folder_is_refused(capsys: Said) -> None:
    os.mkfifo("pipe.toml")
    Path("folder.toml").mkdir()
    for name in ("pipe.toml", "folder.toml", "/dev/zero"):
        assert main(["check", name]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        what = "found a folder, " if name == "folder.toml" else "cannot be read: "
        assert f"{name}: {what}" in line


def test_only_regular_files_of_a_bearable_size_are_read(here: Path) -> None:
    (here / "file").write_bytes(b"12345")
    assert (size_of(here / "file"), read_bytes(here / "file", 5)) == (5, b"12345")
    with pytest.raises(OSError, match="found 5 bytes, expected at most 4"):
        read_bytes(here / "file", 4)
    with pytest.raises(OSError, match="a device"):
        size_of(Path("/dev/null"))
    with pytest.raises(OSError, match="not a file name"):
        size_of(Path("a\0b"))
    assert read_bytes(Path("/proc/kmsg"), 10) == b""  # reading it would wait


def test_names_of_ten_thousand_characters_or_with_a_nul_are_one_line(capsys: Said) -> None:
    code, (line,) = checked(f"[train]\nresume = '{'n' * 10_000}'\n", capsys)
    assert code == 2
    assert len(line) < 2200
    assert "File name too long" in line
    code, said = checked('[train]\nresume = "a\\u0000b"\n', capsys)
    assert (code, said) == (
        2,
        [("cluster.toml:2: train.resume: found a NUL character, which a string cannot have")],
    )


def test_control_characters_never_reach_the_terminal(capsys: Said) -> None:
    code, said = checked('[train]\nnet = "\\u001b[2J\\u0007\\nx"\n', capsys)
    assert code == 2
    assert all(line.isprintable() for line in said)
    assert "train.net: \\x1b[2J\\x07\\nx: no such file" in said[0]
    assert (printable("a\x1b[1m\nb\u202e"), one_line("a\nb")) == ("a\\x1b[1m\nb\\u202e", "a\\nb")
    assert bounded("x" * 3000, 100) == f"{'x' * 50} ... (2900 characters) ... {'x' * 50}"
    console = RunConsole(live=False)
    console.event("a", "odd\x07", {"file": "\x1b]0;title\x07"})
    console.failed(ConfigError(["\x1b[31m"]))
    found = capsys.readouterr()
    assert "\x1b" not in found.out + found.err
    assert "\x07" not in found.out + found.err


def test_a_label_beyond_the_outputs_is_refused(capsys: Said) -> None:
    code, said = checked(idx([0, 1, 2, 10] * 20), capsys)
    text = "idx: 'label' holds 10, but layer 'loss' takes whole numbers from 0 to 9 (10 classes)"
    assert (code, said) == (2, [f"cluster.toml:2: train.data.train: {text}"])
    assert checked(idx([0, 1, 2, 9] * 20), capsys)[0] == 0


def test_a_prototxt_nested_beyond_reason_is_one_line(capsys: Said) -> None:
    Path("net.prototxt").write_text("layer { " * 50_000)
    code, said = checked("[train]\nnet = 'net.prototxt'\n", capsys)
    assert code == 2
    assert "net.prototxt:1: found blocks more than 32 deep" in said[-1]


def test_a_rate_of_nan_and_a_filler_that_cannot_fill_are_refused(capsys: Said) -> None:
    Path("s.prototxt").write_text('base_lr: 0.1 lr_policy: "exp" gamma: 1e38 max_iter: 20')
    code, (line,) = checked("[train]\nsolver = 's.prototxt'\n", capsys)
    assert (code, line) == (
        2,
        "cluster.toml:2: train.solver: s.prototxt: with lr_policy 'exp' the learning rate "
        "of iteration 9 is inf, "
        "expected a number >= 0",
    )
    Path("n.prototxt").write_text(
        (ZOO / "lenet.prototxt").read_text().replace('"xavier"', '"gaussian" std: -1', 1)
    )
    code, (line,) = checked("[train]\nnet = 'n.prototxt'\n", capsys)
    assert code == 2
    assert line.endswith(
        "key 'convolution_param.weight_filler.std': found -1, expected a number >= 0"
    )


def test_another_nets_checkpoint_is_refused_with_the_layers_that_do_not_fit(capsys: Said) -> None:
    arrays = {
        "conv1.0": np.zeros((20, 1, 5, 5), np.float32),
        "conv1.0.history": np.zeros((20, 1, 3, 3), np.float32),
    }
    checkpoint.save(Path("c.safetensors"), arrays, {"iteration": "3", "net": "other"})
    code, said = checked("[train]\nresume = 'c.safetensors'\n", capsys)
    assert code == 2
    assert said[0] == f"cluster.toml:2: train.resume: {Path('c.safetensors').resolve()}: " + (
        "the checkpoint of net 'other' does not fit this net and solver"
    )
    assert "'conv1.0.history': found shape (20, 1, 3, 3), expected shape (20, 1, 5, 5)" in said[1]
    assert said[-1].endswith("and 12 more such arrays")


@pytest.mark.parametrize("preset", ["single", "sync", "replicas", "local-fc-shards"])
def test_a_message_limit_below_the_largest_array_is_refused(preset: str, capsys: Said) -> None:
    text = f"[links]\nmax_message_bytes = 100_000\n[train.strategy]\npreset = '{preset}'\n"
    code, said = checked(text, capsys)
    assert code == 2
    assert said[0].startswith("cluster.toml:2: links.max_message_bytes: found 100000, but ")
    assert checked(text.replace("100_000", "1_800_000"), capsys)[0] == 0


# -- odd settings give a warning


def test_samples_in_the_order_of_their_classes_are_warned_of_unless_shuffled(capsys: Said) -> None:
    ordered = "[train]\nbatch = 30\n" + idx([0] * 20 + [1] * 20 + [2] * 20)
    code, (line,) = checked(ordered, capsys)
    assert code == 0
    assert line == (
        "warning: cluster.toml:4: train.data.train: the samples come in the order of their 3 "
        "classes and are not "
        "shuffled, so that most batches hold one class: set train.data.shuffle = true"
    )
    assert checked(ordered + "shuffle = true\n", capsys) == (0, [])
    assert checked("[train]\nbatch = 30\n" + idx([0, 1, 2] * 20), capsys) == (0, [])


def test_a_batch_that_is_larger_than_the_data_is_warned_of(capsys: Said) -> None:
    small = idx([0, 1, 2] * 20)
    code, (line,) = checked(f"[train]\nbatch = 61\n{small}", capsys)
    assert code == 0
    assert line == (
        "warning: cluster.toml:2: train.batch: found 61, more than the 60 samples of the data: a "
        "batch has samples several times"
    )
    assert checked(f"[train]\nbatch = 60\n{small}", capsys) == (0, [])


def test_a_folder_per_class_is_shuffled_unless_the_user_sets_otherwise(capsys: Said) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(8):
        folder = Path("photos") / "ab"[number // 4]
        folder.mkdir(parents=True, exist_ok=True)
        image.new("L", (28, 28)).save(folder / f"{number}.png")
    photographs = {"format": "images", "source": "photos", "color": "gray"}

    def shuffled(**data: object) -> bool:
        topology = training(
            {"kernels": "numpy", "batch": 4, "data": {"train": photographs, **data}}
        )
        found: bool = topology.actors[0].options.job.shuffle
        return found

    assert shuffled()
    assert not shuffled(shuffle=False)
    text = (
        "[train]\nbatch = 4\n[train.data]\ntrain = { format = 'images', source = "
        "'photos', color = 'gray' }\n"
    )
    assert checked(text, capsys) == (0, [])
    assert "2 classes" in checked(text + "shuffle = false\n", capsys)[1][0]


UNUSED = {
    (
        "[simulation]\nclock = 'virtual'\n[links]\ntransport = 'tcp'\n"
    ): "links.transport: has no effect with simulation",
    "[[machine]]\nport = 7000\n": (
        "machine[0].port: has no effect if no process listens at a TCP port"
    ),
    "[[machine]]\ncores = 2\nthreads = 1\n": "machine[0].cores: has no effect if threads",
    (
        "[[machine]]\n[[machine]]\nname = 'b'\n[[machine]]\nname = 'c'\n[[machine]]\nname = 'd'\n"
    ): "nothing is placed on machine 'd'",
    "[simulation]\nseed = 7\n": "simulation.seed: has no effect where nothing is emulated",
    (
        "[simulation]\nclock = 'virtual'\ninterfaces = 'link'\n"
    ): "simulation.interfaces: has no effect without",
}


@pytest.mark.parametrize("text", UNUSED)
def test_a_key_without_effect_at_its_place_is_reported(text: str, capsys: Said) -> None:
    code, (line,) = checked(text, capsys)
    assert code == 0
    assert line.startswith("warning: cluster.toml:")
    assert UNUSED[text] in line


def test_an_option_of_a_format_that_no_gradients_have_is_refused(capsys: Said) -> None:
    code, (line,) = checked("[train.gradients]\ntau = 0.5\n", capsys)
    assert (code, line) == (
        2,
        (
            "cluster.toml:2: train.gradients.tau: found 0.5, but no gradients travel in a "
            "format with this option"
        ),
    )
    assert checked("[train.gradients]\ntau = 0.5\nformat = 'threshold'\n", capsys)[0] == 0


def test_up_prints_its_warnings_before_it_starts_and_leaves_no_handler(capsys: Said) -> None:
    before = list(logging.getLogger().handlers)
    Path("cluster.toml").write_text(
        "[train]\nkernels = 'numpy'\nmax_iter = 1\n[train.strategy]\npreset = 'single'\n"
        "[simulation]\nclock = 'virtual'\n[metrics]\nport = 1\n"
    )
    assert main(["up"]) == 0
    assert "warning: cluster.toml:9: metrics.port: has no effect with" in capsys.readouterr().err
    assert logging.getLogger().handlers == before


# -- unknown file endings


def test_convert_to_an_unknown_ending_lists_the_known_ones(capsys: Said) -> None:
    assert main(["convert", "format=digits", "out.leveldb"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "out.leveldb: found the ending '.leveldb', expected .caffemodel, .h5, .hdf5, .safetensors"
    )
    assert not Path("out.leveldb").exists()


def test_a_broken_link_that_a_net_names_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "list").symlink_to("not-there")
    with pytest.raises(OSError, match="it is a link to nothing, expected a file"):
        read_bytes(tmp_path / "list", 100)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "not-there", 100)
