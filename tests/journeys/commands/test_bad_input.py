"""The answers to bad input: one readable line per mistake, exit 2 (or 3), no traceback, and no
process started."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from nets.definition.spec import ZOO
from nets.definition.zoo import NETS
from roles.planning.strategies import PRESETS
from runtime.cli.main import main
from tests.helpers.ports import free_ports
from tests.helpers.support import configure, run_up

NET = (ZOO / "lenet.prototxt").read_text()
SOLVER = (ZOO / "lenet_solver.prototxt").read_text()
ZOO_FILES = {path.stem for path in ZOO.glob("*.prototxt") if not path.stem.endswith("_solver")}
ZOO_NAMES = ", ".join(sorted({*ZOO_FILES, *NETS}))
PRESET_NAMES = [f"'{name}'" for name in PRESETS]
ACTORS = "coordinator, conv_model, fc_server, conv-0-0, conv-0-1"


def images(count: int) -> bytes:
    return (
        (0x803).to_bytes(4, "big")
        + count.to_bytes(4, "big")
        + (28).to_bytes(4, "big") * 2
        + bytes(784 * count)
    )


def labels(count: int) -> bytes:
    return (0x801).to_bytes(4, "big") + count.to_bytes(4, "big") + bytes(count)


def idx(name: str = "i") -> str:
    return f'[train.data]\ntrain = {{ format = "idx", images = "{name}", labels = "l" }}\n'


def net(old: str, new: str) -> dict[str, str | bytes]:
    assert old in NET
    return {"net.prototxt": NET.replace(old, new, 1)}


OWN_NET = "[train]\nnet = 'net.prototxt'\n"
OWN_SOLVER = "[train]\nsolver = 's.prototxt'\n"
AT_NET = "cluster.toml:2: train.net: "
AT_DATA = "cluster.toml:2: train.data.train: "
SEED = "expected an integer >= 0 and < 9223372036854775808"

# name -> (cluster.toml, further files, further arguments, the exact lines)
BROKEN: dict[str, tuple[str, Mapping[str, str | bytes], list[str], list[str]]] = {
    "unknown key": (
        "[train.strategy]\ngroop = 2\n",
        {},
        [],
        ["cluster.toml:2: train.strategy.groop: unknown key (did you mean 'groups'?)"],
    ),
    "unknown section": (
        "[trane]\nnet = 'lenet'\n",
        {},
        [],
        ["cluster.toml:1: trane: unknown key (did you mean 'train'?)"],
    ),
    "wrong type": (
        "[train]\nseed = 'one'\n",
        {},
        [],
        [f"cluster.toml:2: train.seed: found 'one' (string), {SEED}"],
    ),
    "unknown preset": (
        "[train.strategy]\npreset = 'omnivor'\n",
        {},
        [],
        [
            "cluster.toml:2: train.strategy.preset: found 'omnivor' (string), expected "
            f"{' or '.join(PRESET_NAMES)} or "
            "'auto' (did you mean 'omnivore'?)"
        ],
    ),
    "no workers": (
        "[train.strategy]\nworkers = 0\n",
        {},
        [],
        ["cluster.toml:2: train.strategy.workers: found 0 (integer), expected an integer >= 1"],
    ),
    "momentum of one and a half": (
        "[train]\nmomentum = 1.5\n",
        {},
        [],
        [
            (
                "cluster.toml:2: train.momentum: found 1.5 (float), expected a number >= 0 "
                "and < 1, 'auto' or 'solver'"
            )
        ],
    ),
    "more groups than workers": (
        "[train.strategy]\nworkers = 2\ngroups = 3\n",
        {},
        [],
        [
            (
                "cluster.toml:3: train.strategy.groups: found 3, expected at most 2, the number of "
                "workers"
            )
        ],
    ),
    "more members than images in a batch": (
        "[train]\nbatch = 2\n[train.strategy]\npreset='sync'\nworkers = 3\n",
        {},
        [],
        [
            (
                "cluster.toml:5: train.strategy.workers: found 3: a group of 3 workers "
                "cannot share "
                "a batch of 2 images"
            )
        ],
    ),
    "unknown machine": (
        "[[process]]\nname = 'a'\nmachine = 'lokal'\nactors = ['conv-*']\n",
        {},
        [],
        ["cluster.toml:3: process[0].machine: no machine is named 'lokal' (did you mean 'local'?)"],
    ),
    "a machine elsewhere": (
        "[[machine]]\nname='b'\naddress='10.1.2.3'\n",
        {},
        [],
        [
            "cluster.toml:3: machine[0].address: machine 'b' has address '10.1.2.3': "
            "launcher 'local' starts processes on this machine only, at a loopback address: set "
            "launcher.kind, such as to 'ssh'"
        ],
    ),
    "a port that does not exist": (
        "[[machine]]\nport = 70000\n",
        {},
        [],
        [
            (
                "cluster.toml:2: machine[0].port: found 70000 (integer), expected an integer "
                "from 1 "
                "to 65535"
            )
        ],
    ),
    "a process that no actor uses": (
        "[[process]]\nname = 'a'\nactors = ['worker-*']\n",
        {},
        [],
        [
            (
                "cluster.toml:3: process[0].actors: no actor left matches ['worker-*']; the actors "
                f"are {ACTORS}"
            )
        ],
    ),
    "two processes of one name": (
        "[[process]]\nname = 'a'\nactors = ['conv-*']\n[[process]]\nname = 'a'\nactors = ['fc*']\n",
        {},
        [],
        ["cluster.toml:5: process[1].name: a process named 'a' exists already (cluster.toml:2)"],
    ),
    "unknown transport": (
        "[links]\ntransport = 'udp'\n",
        {},
        [],
        [
            (
                "cluster.toml:2: links.transport: found 'udp' (string), expected 'auto' or "
                "'ipc' or "
                "'tcp'"
            )
        ],
    ),
    "no size": (
        "[links]\ncredit_bytes = 'lots'\n",
        {},
        [],
        [
            "cluster.toml:2: links.credit_bytes: found 'lots' (string), "
            "expected a size in bytes >= 1, such as 1048576 or '64MiB'"
        ],
    ),
    "unknown launcher": (
        "[launcher]\nkind = 'pbs'\n",
        {},
        [],
        [
            "cluster.toml:2: launcher.kind: no launcher is named 'pbs' (allowed: kubernetes, "
            "local, manual, ray, "
            "slurm, ssh)"
        ],
    ),
    "no TOML": (
        "[train\nnet = 1\n",
        {},
        [],
        ["cluster.toml:1: column 7: not TOML: expected ']' at the end of a table declaration"],
    ),
    "unknown program": (
        "program = 'rolls'\n",
        {},
        [],
        ["cluster.toml:1: program: no module named 'rolls' on Python's path or next to the file"],
    ),
    "unknown override": (
        "",
        {},
        ["--set", "train.strategy.group=4"],
        [
            (
                "--set train.strategy.group=4: train.strategy.group: unknown key (did you mean "
                "'groups'?)"
            )
        ],
    ),
    "override of a wrong type": (
        "",
        {},
        ["--set", "train.seed=x"],
        [f"--set train.seed=x: train.seed: found 'x' (string), {SEED}"],
    ),
    "three mistakes at once": (
        "[train]\nseed = -1\nnett = 'lenet'\n[liveness]\nmissed = 0\n",
        {},
        [],
        [
            f"cluster.toml:2: train.seed: found -1 (integer), {SEED}",
            "cluster.toml:3: train.nett: unknown key (did you mean 'net'?)",
            "cluster.toml:5: liveness.missed: found 0 (integer), expected an integer >= 1",
        ],
    ),
    "unknown net": (
        "[train]\nnet = 'lenett'\n",
        {},
        [],
        [
            (
                f"{AT_NET}lenett: no such file, and the zoo has no such name (did you mean "
                f"'lenet'?); it has {ZOO_NAMES}"
            )
        ],
    ),
    "unknown layer type": (
        OWN_NET,
        net('"Pooling"', '"Poling"'),
        [],
        [
            f"{AT_NET}net.prototxt:38: layer 'pool1': key 'type': found 'Poling', "
            "expected a layer type (did you mean 'Pooling'?)"
        ],
    ),
    "unknown field": (
        OWN_NET,
        net("num_output", "num_outputs"),
        [],
        [
            (
                f"{AT_NET}net.prototxt:31: unknown key 'num_outputs' in ConvolutionParameter (did "
                "you mean 'num_output'?)"
            )
        ],
    ),
    "a prototxt that ends too early": (
        OWN_NET,
        {"net.prototxt": NET[:-2]},
        [],
        [
            (
                f"{AT_NET}net.prototxt:97: found the end of the file, expected '}}' for the block "
                "opened here"
            )
        ],
    ),
    "unknown bottom": (
        OWN_NET,
        net('bottom: "pool1"', 'bottom: "pol1"'),
        [],
        [
            f"{AT_NET}net.prototxt:46: layer 'conv2': key 'bottom': found 'pol1', "
            "but no layer above has such a top (did you mean 'pool1'?)"
        ],
    ),
    "a kernel larger than the image": (
        OWN_NET,
        net("kernel_size: 5", "kernel_size: 50"),
        [],
        [
            f"{AT_NET}net.prototxt:32: layer 'conv1': key 'convolution_param.kernel_size': "
            "convolution: "
            "input height is 28 (28 with padding), expected at least the kernel's extent 50"
        ],
    ),
    "a prototxt that is not text": (
        OWN_NET,
        {"net.prototxt": b"\xff\x00\x80"},
        [],
        [f"{AT_NET}net.prototxt:1: found bytes that are not UTF-8, expected text"],
    ),
    "unknown learning rate policy": (
        OWN_SOLVER,
        {"s.prototxt": SOLVER.replace('"inv"', '"invv"')},
        [],
        [
            "cluster.toml:2: train.solver: s.prototxt:6: key 'lr_policy': found 'invv', "
            "expected one of fixed, step, "
            "exp, inv, multistep, poly, sigmoid (did you mean 'inv'?)"
        ],
    ),
    "a solver without end": (
        OWN_SOLVER,
        {"s.prototxt": 'base_lr: 0.1 lr_policy: "fixed"'},
        [],
        [
            (
                "cluster.toml:2: train.solver: s.prototxt:1: key 'max_iter': missing, expected an "
                "integer >= 0"
            )
        ],
    ),
    "unknown split": (
        "[train.data]\ntrain = { format = 'digits', split = 'training' }\n",
        {},
        [],
        [f"{AT_DATA}digits: split: found 'training', expected 'train' or 'test'"],
    ),
    "a key of the data misspelt": (
        "[train.data]\ntrain = { format = 'idx', image = 'a', labels = 'l' }\n",
        {"l": labels(3)},
        [],
        [
            f"{AT_DATA}idx: images: missing, expected a string",
            f"{AT_DATA}idx: image: unknown key (did you mean 'images'?)",
        ],
    ),
    "a data file that is not there": (
        idx(),
        {"l": labels(3)},
        [],
        [f"{AT_DATA}{{here}}/i: no such file"],
    ),
    "a truncated IDX file": (
        idx(),
        {"i": images(3)[:-5], "l": labels(3)},
        [],
        [f"{AT_DATA}{{here}}/i: found 2347 bytes of data, expected 2352 for shape (3, 28, 28)"],
    ),
    "an IDX file that ends in its header": (
        idx(),
        {"i": images(3)[:9], "l": labels(3)},
        [],
        [f"{AT_DATA}{{here}}/i: the file ends in its sizes: found 5 bytes, expected 12"],
    ),
    "a file that is not IDX": (
        idx(),
        {"i": b"PNG!" + images(3)[4:], "l": labels(3)},
        [],
        [f"{AT_DATA}{{here}}/i: found magic number 504e 47 21, expected 0000 08 03 or 0000 08 04"],
    ),
    "fewer labels than images": (
        idx(),
        {"i": images(3), "l": labels(2)},
        [],
        [f"{AT_DATA}{{here}}/i has 3 images but {{here}}/l has 2 labels, expected the same number"],
    ),
    "a truncated gzip file": (
        idx("i.gz"),
        {"i.gz": gzip.compress(images(3))[:-20], "l": labels(3)},
        [],
        [
            (
                f"{AT_DATA}{{here}}/i.gz: damaged gzip file: Compressed file ended before the end-of-stream "
                "marker was reached"
            )
        ],
    ),
    "a checkpoint that is not there": (
        "[train]\nresume = 'c.safetensors'\n",
        {},
        [],
        ["cluster.toml:2: train.resume: {here}/c.safetensors: no such checkpoint"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_input_gets_its_exact_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, files, arguments, expected = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    for file, content in files.items():
        Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["check", "cluster.toml", *arguments]) == 2
    found = capsys.readouterr()
    assert found.err.splitlines() == [line.replace("{here}", str(tmp_path)) for line in expected]
    assert found.out == ""


def test_the_unbroken_input_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(
        OWN_NET + "solver = 's.prototxt'\n" + idx().replace("[train.data]", "[train.data]")
    )
    for file, content in (("net.prototxt", NET), ("s.prototxt", SOLVER)):
        Path(file).write_text(content)
    Path("i").write_bytes(images(3))
    Path("l").write_bytes(labels(3))
    assert main(["check", "cluster.toml"]) == 0


def test_up_with_a_mistake_starts_nothing(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync")
    cluster.write_text(cluster.read_text().replace("sync", "sink"))
    done = run_up(cluster)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "cluster.toml:11: train.strategy.preset: found 'sink' (string), expected"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_metrics_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = run_up(configure(tmp_path, "single"), "--set", f"metrics.port={port}")
    assert done.returncode == 3
    assert done.stderr == (
        f"metrics cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another metrics.port in cluster.toml, or 0 for any free one\n"
    )


def test_a_process_port_in_use_is_named_with_its_process(tmp_path: Path) -> None:
    # the ports after it are for other processes
    with free_ports(8) as port, socket.create_server(("127.0.0.1", port)):
        more = f'[links]\ntransport = "tcp"\n[[machine]]\nport = {port}\n'
        done = run_up(configure(tmp_path, "single", more=more))
    assert done.returncode == 3
    assert done.stderr == (
        f"process 'coordinator' cannot listen on tcp://127.0.0.1:{port}: Address already in use\n"
    )


def test_an_unknown_command_is_reported_and_exits_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["upp"]) == 2
    assert "upp" in capsys.readouterr().err


def test_training_that_diverges_ends_with_exit_1_and_advice(tmp_path: Path) -> None:
    done = run_up(configure(tmp_path, "single", iterations=200), "--set", "train.base_lr=1e6")
    assert done.returncode == 1
    assert "training diverged" in done.stderr
    assert "try a smaller base_lr" in done.stderr
    assert "Traceback" not in done.stderr
