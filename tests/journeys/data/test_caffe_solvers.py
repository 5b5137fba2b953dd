"""A Caffe solver's settings in a run: nets, states, test nets, first weights, seed. Settings
without effect are reported."""

from __future__ import annotations

import itertools
import logging
import re
from pathlib import Path

import numpy as np
import pytest

from nets.definition.spec import ZOO
from nets.files.checkpoint import load as load_checkpoint
from nets.files.checkpoint import save
from nets.files.mean import write_mean
from roles.planning.script_topology import training
from runtime.cli.main import main
from runtime.errors import ConfigError
from runtime.runs.checking import check
from tests.helpers.support import configure, events, run_directory, run_up, train

DIGITS = '{ format = "digits", split = "%s" }'
LENET = (ZOO / "lenet.prototxt").read_text("utf-8")
DATA = re.compile(r"layer \{\n  name: \"images\".*?\n\}\n", re.DOTALL)
STAGED = """layer { name: "images" type: "Data" top: "data" top: "label" include { %s }
  transform_param { scale: %s } data_param { batch_size: %d } }
"""


def staged_lenet() -> str:
    """LeNet that trains on batches of 8. Two data layers test it, with batches of 40 and of 9."""
    layers = STAGED % ("phase: TRAIN", "0.0625", 8)
    layers += STAGED % ('phase: TEST stage: "on-train"', "0.0625", 40)
    layers += STAGED % ('phase: TEST stage: "on-test"', "0.03125", 9)
    return DATA.sub("", LENET).replace('name: "LeNet"\n', f'name: "LeNet"\n{layers}')


TWO_TESTS = (
    'test_interval: 2 test_state { stage: "on-train" } test_iter: 2 test_state { stage: '
    '"on-test" } test_iter: 5'
)


def two_tests(folder: Path, preset: str, **options: int) -> Path:
    """A run of four iterations whose solver has two test nets, on the training and on the test
    data."""
    cluster = configure(folder, preset, iterations=4, **options)
    tests = f"test = [{DIGITS % 'train'}, {DIGITS % 'test'}]"
    cluster.write_text(
        cluster.read_text().replace("[train.strategy]", f"{tests}\n[train.strategy]")
    )
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text() + TWO_TESTS)
    (folder / "lenet.prototxt").write_text(staged_lenet())
    return cluster


def nets_told(run) -> list[tuple[int, str]]:
    return [(found["iteration"], found["net"]) for found in run.journal.of("test")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(two_tests(tmp_path_factory.mktemp("alone"), "single"))


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("sync", {"workers": 2}),
        ("omnivore", {"workers": 4, "groups": 2}),
        ("one-weird-trick", {"workers": 2}),
        ("firecaffe", {"workers": 2}),
        ("sparknet", {"workers": 2}),
    ],
)
def test_every_strategy_tests_one_net_after_the_other_and_names_it(
    preset, options, tmp_path, alone
) -> None:
    run = train(two_tests(tmp_path, preset, **options))
    assert nets_told(run) == [(done, net) for done in (0, 2, 4) for net in ("on-train", "on-test")]
    first, second = (
        {name: found[name] for name in ("accuracy", "loss")} for found in run.journal.of("test")[:2]
    )
    assert first != second
    # tests of the first parameters, which are the same everywhere
    theirs = alone.journal.of("test")[:2]
    for mine, other in ((first, theirs[0]), (second, theirs[1])):
        assert mine == pytest.approx({name: other[name] for name in mine}, rel=1e-5)
    assert run.journal.of("finished")[0]["accuracy"] == run.journal.of("test")[-2]["accuracy"]


def test_the_state_chooses_batch_and_transform_of_each_test_net(tmp_path) -> None:
    cluster = two_tests(tmp_path, "single")
    plan = training(
        {
            "solver": str(tmp_path / "solver.prototxt"),
            "strategy": {"preset": "single"},
            "batch": 16,
            "data": {
                "test": [
                    {"format": "digits", "split": "train"},
                    {"format": "digits", "split": "test"},
                ]
            },
        },
        directory=cluster.parent,
    )
    lead = next(actor.options for actor in plan.actors if actor.name == "coordinator")
    assert [(test.name, test.rows, test.batch) for test in lead.timetable.tests] == [
        ("on-train", 80, 40),
        ("on-test", 45, 9),
    ]
    batches = [lead.job.batches(phase, lead.job.source(phase)) for phase in lead.job.phases]
    assert [(one.batch, one.transforms[0].scale) for one in batches] == [
        (16, 0.0625),
        (40, 0.0625),
        (9, 0.03125),
    ]


@pytest.mark.slow
def test_a_real_run_reports_the_tests_of_both_nets(tmp_path) -> None:
    cluster = two_tests(tmp_path, "sync", workers=2)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    found = [(event["iteration"], event["net"]) for event in events(run_directory(cluster), "test")]
    assert found == [(done, net) for done in (0, 2, 4) for net in ("on-train", "on-test")]


def test_one_table_of_test_data_for_two_test_nets_is_used_for_both_and_reported(
    tmp_path, caplog
) -> None:
    cluster = two_tests(tmp_path, "single")
    cluster.write_text(re.sub(r"test = \[.*\]", f"test = {DIGITS % 'test'}", cluster.read_text()))
    caplog.set_level(logging.WARNING)
    run = train(cluster)
    assert len(nets_told(run)) == 6
    assert "train.data.test: found one table for 2 test nets, so all of them read it" in caplog.text


def test_each_test_net_needs_its_own_table(tmp_path) -> None:
    cluster = two_tests(tmp_path, "single")
    cluster.write_text(cluster.read_text().replace(f", {DIGITS % 'test'}]", "]"))
    with pytest.raises(
        ConfigError, match=(r"train.data.test: found 1 tables, expected 2, one " r"per test net")
    ):
        train(cluster)


def test_a_solver_trains_its_train_net_and_tests_its_test_nets(tmp_path) -> None:
    cluster = two_tests(tmp_path, "single")
    (tmp_path / "test.prototxt").write_text(
        staged_lenet().replace('name: "LeNet"', 'name: "tested"')
    )
    solver = tmp_path / "solver.prototxt"
    solver.write_text(
        solver.read_text().replace("net:", "train_net:") + ' test_net: "test.prototxt"' * 2
    )
    assert nets_told(train(cluster)) == [
        (done, net) for done in (0, 2, 4) for net in ("on-train", "on-test")
    ]
    (tmp_path / "test.prototxt").unlink()
    with pytest.raises(
        ConfigError,
        match=(
            r"solver.prototxt:.*: key 'test_net': found 'test.prototxt', but "
            r"no such file exists"
        ),
    ):
        train(cluster)


def test_the_first_weights_and_the_seed_of_a_solver_count_unless_cluster_toml_overrides_them(
    tmp_path, caplog
) -> None:
    caplog.set_level(logging.WARNING)
    cluster = configure(tmp_path, "single", iterations=1)
    solver = tmp_path / "solver.prototxt"
    text = cluster.read_text()
    for name, value in (("one", 0.25), ("two", 0.5)):
        save(
            tmp_path / f"{name}.safetensors",
            {"ip2.0": np.full((10, 500), value, "f4"), "ip2.1": np.zeros(10, "f4")},
            {},
        )
    plain = solver.read_text().replace("base_lr: 0.01", "base_lr: 0 ")
    solver.write_text(plain + 'random_seed: 5 weights: "one.safetensors, two.safetensors"')
    cluster.write_text(text.replace("seed = 1\n", ""))
    found = train(cluster).arrays
    assert (found["ip2.0"] == 0.5).all(), "the last file must win"
    assert (
        "train.weights: layers conv1, conv2, ip1: not in the file, so their first values are random"
    ) in caplog.text
    cluster.write_text(text.replace("seed = 1\n", "seed = 5\n"))
    assert np.array_equal(train(cluster).arrays["conv1.0"], found["conv1.0"])
    cluster.write_text(text.replace("seed = 1\n", 'seed = 6\nweights = "one.safetensors"\n'))
    other = train(cluster).arrays
    assert not np.array_equal(other["conv1.0"], found["conv1.0"])
    assert (other["ip2.0"] == 0.25).all()


def test_without_snapshot_after_train_the_last_model_is_not_saved(tmp_path) -> None:
    cluster = configure(tmp_path, "single", iterations=3)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(
        solver.read_text().replace("snapshot: 0", ("snapshot: 2 snapshot_after_train: false"))
    )
    assert [event["iteration"] for event in train(cluster).journal.of("checkpoint")] == [2]
    assert load_checkpoint(tmp_path / "checkpoint-0000002.safetensors")[1]["iteration"] == "2"


def test_average_loss_gives_the_mean_over_that_many_iterations_in_every_report(tmp_path) -> None:
    plain, averaged = (
        configure(tmp_path / name, "single", iterations=4) for name in ("plain", "averaged")
    )
    solver = averaged.parent / "solver.prototxt"
    solver.write_text(solver.read_text() + "average_loss: 2")
    losses = train(plain).losses()
    expected = [losses[0], *((a + b) / 2 for a, b in itertools.pairwise(losses))]
    assert train(averaged).losses() == pytest.approx(expected)


@pytest.mark.parametrize(
    "command", [["check"], ["time", "--iterations", "1"], ["test", "w.safetensors"]]
)
def test_unused_solver_settings_are_reported_by_every_command_with_file_and_line(
    command, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = configure(tmp_path, "single", test=True)
    save(
        tmp_path / "w.safetensors",
        {"ip2.0": np.zeros((10, 500), "f4"), "ip2.1": np.zeros(10, "f4")},
        {},
    )
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text() + 'snapshot_prefix: "here"\n')
    net = LENET.replace(
        "data_param { batch_size: 64 }", ('data_param { batch_size: 64 source: "there" }')
    )
    (tmp_path / "lenet.prototxt").write_text(net)
    caplog.set_level(logging.WARNING)
    assert main([*command, "--set", "train.batch=4"]) == 0
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "cluster.toml:3: train.solver: solver.prototxt:5: key 'snapshot_prefix': not used: "
        "checkpoints are in the run directory",
        "cluster.toml:2: train.net: lenet.prototxt:10: layer 'images': key "
        "'data_param.source': not used: "
        "[train.data] in cluster.toml gives the source of the data, unless its format is 'net'",
    ]
    assert cluster.exists()


PUBLISHED = {  # folder and solver -> the shape of the images
    "bvlc_alexnet/solver": (3, 256, 256),
    "bvlc_reference_caffenet/solver": (3, 256, 256),
    "bvlc_googlenet/solver": (3, 256, 256),
    "bvlc_googlenet/quick_solver": (3, 256, 256),
    "cifar10_full/cifar10_full_solver": (3, 32, 32),
    "cifar10_full/cifar10_full_solver_lr1": (3, 32, 32),
    "cifar10_full/cifar10_full_solver_lr2": (3, 32, 32),
    "cifar10_quick/cifar10_quick_solver": (3, 32, 32),
    "cifar10_quick/cifar10_quick_solver_lr1": (3, 32, 32),
    "finetune_flickr_style/solver": (3, 256, 256),
    "lenet/lenet_adadelta_solver": (1, 28, 28),
    "lenet/lenet_consolidated_solver": (1, 28, 28),
    "lenet/lenet_multistep_solver": (1, 28, 28),
    "lenet/lenet_solver": (1, 28, 28),
    "lenet/lenet_solver_adam": (1, 28, 28),
    "lenet/lenet_solver_rmsprop": (1, 28, 28),
    "mnist_autoencoder/mnist_autoencoder_solver": (1, 28, 28),
    "mnist_autoencoder/mnist_autoencoder_solver_adadelta": (1, 28, 28),
    "mnist_autoencoder/mnist_autoencoder_solver_adagrad": (1, 28, 28),
    "mnist_autoencoder/mnist_autoencoder_solver_nesterov": (1, 28, 28),
    "mnist_siamese/mnist_siamese_solver": (2, 28, 28),
}


@pytest.mark.few(
    "[bvlc_alexnet", "[lenet/lenet_cons", "[mnist_autoencoder/mnist_autoencoder_solver]", "_lr1]"
)
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_solver_that_bvlc_published_is_planned_with_its_own_nets(
    name, shared_data, tmp_path, monkeypatch, caplog
) -> None:
    # the mean files that the nets name are placed as in a checkout of Caffe
    monkeypatch.chdir(tmp_path)
    for file, size in (("data/ilsvrc12/imagenet_mean", 256), ("examples/cifar10/mean", 32)):
        Path(file).parent.mkdir(parents=True)
        write_mean(Path(f"{file}.binaryproto"), np.zeros((3, size, size)))
    caplog.set_level(logging.WARNING)
    data = {"format": "blank", "shape": list(PUBLISHED[name]), "size": 300}
    solver = shared_data / "caffe" / "models" / f"{name}.prototxt"
    plan = training(
        {
            "solver": str(solver),
            "data": {"train": data, "test": data},
            "strategy": {"preset": "single"},
        }
    )
    lead = next(actor.options for actor in plan.actors if actor.name == "coordinator")
    several = "autoencoder" in name or "consolidated" in name
    assert [test.name.startswith("test-on-") for test in lead.timetable.tests] == (
        [True] * 2 if several else [False]
    )
    assert f"train.solver: {solver.name}" in caplog.text


def test_a_solver_without_the_values_that_cluster_toml_gives_trains(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=2)
    solver = tmp_path / "solver.prototxt"
    text = re.sub(r"max_iter: \d+|base_lr: \S+", "", solver.read_text())
    assert text != solver.read_text()
    solver.write_text(text)
    with pytest.raises(ConfigError, match="max_iter") as caught:
        check(cluster)
    assert "base_lr" in str(caught.value)
    settings = ["train.max_iter=3", "train.base_lr=0.01"]
    lead = check(cluster, settings).placement.topology.actors[0].options
    assert (lead.job.solver_spec.max_iter, lead.timetable.last) == (3, 3)
