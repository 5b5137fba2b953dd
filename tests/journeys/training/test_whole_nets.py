"""Presets whose workers hold the whole net: sums by a tree and at an accumulator, and averaged
parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from nets.files import checkpoint
from ops import Array
from ops.backends.cupy_backend import CupyBackend
from roles import ROLES, Options, plan
from roles.messages import Contribution, SharedSum
from roles.planning.strategies import PRESETS
from roles.workers.averaging import AveragingReplica
from runtime.actors.router import Router
from runtime.config.file import load_with_program
from runtime.errors import ConfigError, MessageError
from runtime.messages.message import Message
from runtime.plan.placement import place
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from runtime.transport.inproc import InprocNetwork
from tests.helpers.device_double import DeviceCupy
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

SUMMING = ["firecaffe", "host-accumulate"]
AVERAGING = ["sparknet", "dl4j"]


def relative_difference(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def same_bits(a: dict[str, Array], b: dict[str, Array]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].tobytes() == array.tobytes() for name, array in b.items()
    )


def averaging(
    directory: Path,
    preset: str,
    tau: int,
    *,
    momentum: float = 0.9,
    solver: str = "",
    **options: Any,
) -> Path:
    """A configuration with `tau`, this momentum and lines added to the solver."""
    cluster = configure(directory, preset, **options)
    cluster.write_text(cluster.read_text() + f"tau = {tau}\n" * ("tau" in PRESETS[preset].uses))
    file = cluster.with_name("solver.prototxt")
    file.write_text(file.read_text().replace("momentum: 0.9", f"momentum: {momentum}") + solver)
    return cluster


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Ten iterations in one process."""
    return train(configure(tmp_path_factory.mktemp("single"), "single"))


@pytest.mark.few("[firecaffe-5-3]", "[host-accumulate-3-2]")
@pytest.mark.parametrize(
    ("preset", "workers", "fan_in"),
    [("firecaffe", workers, 2) for workers in (1, 2, 3, 4, 5, 8)]
    + [("firecaffe", workers, 3) for workers in (3, 4, 5, 8)]
    + [("host-accumulate", workers, 2) for workers in (1, 2, 3)],
)
def test_workers_that_sum_equal_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, single: Simulated, preset: str, workers: int, fan_in: int
) -> None:
    found = train(configure(tmp_path, preset, workers=workers, fan_in=fan_in))
    assert len(single.arrays) == 16  # weights and biases of 4 layers, with their momentum
    assert found.arrays.keys() == single.arrays.keys()
    for name, expected in single.arrays.items():
        assert relative_difference(found.arrays[name], expected) <= 1e-5, name
    assert found.losses() == pytest.approx(single.losses(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("preset", SUMMING)
def test_summing_presets_equal_single_on_cifar10_full_with_its_normalisation_across_channels(
    tmp_path: Path, shared_data: Path, preset: str
) -> None:
    found = []
    for name, workers in (("single", 1), (preset, 3)):
        cluster = configure(tmp_path / name, name, workers=workers, iterations=3, batch=12)
        solver = cluster.with_name("solver.prototxt")
        text = cluster.read_text()
        solver.write_text(
            solver.read_text().replace("lenet.prototxt", "cifar10_full").replace("0.01", "0.001")
        )
        data = f'format = "cifar10", files = ["{shared_data}/cifar10/test_batch_1000.bin.gz"]'
        text = text.replace('format = "digits", split = "train"', data)
        cluster.write_text(text.replace("[train]\n", '[train]\nnet = "cifar10_full"\n', 1))
        found.append(train(cluster))
    expected = found[0].arrays
    arrays = found[1].arrays
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert relative_difference(arrays[name], array) <= 1e-5, name


@pytest.mark.few("[firecaffe]")
@pytest.mark.parametrize("preset", SUMMING + AVERAGING)
def test_runs_repeat_themselves_to_the_last_bit_whatever_the_timing(
    tmp_path: Path, preset: str
) -> None:
    delays = np.random.default_rng(0)
    first = train(averaging(tmp_path / "a", preset, 2, workers=3, iterations=5))
    second = train(
        averaging(tmp_path / "b", preset, 2, workers=3, iterations=5),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    assert same_bits(first.arrays, second.arrays)
    assert all(np.isfinite(array).all() for array in first.arrays.values())


@pytest.mark.slow
@pytest.mark.parametrize("preset", SUMMING + AVERAGING)
def test_real_processes_have_the_bits_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    # like the processes below: sums depend on their division among threads
    monkeypatch.setenv("CONVOY_THREADS", "1")
    simulated = train(averaging(tmp_path / "sim", preset, 2, workers=3, iterations=5, test=True))
    one_thread = "[[machine]]\nthreads = 1\n"
    cluster = averaging(
        tmp_path / "up", preset, 2, workers=3, iterations=5, test=True, more=one_thread
    )
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    assert same_bits(arrays, simulated.arrays)


CLIP = "clip_gradients: 0.5"


@pytest.mark.parametrize("preset", SUMMING)
def test_gradients_are_clipped_by_the_norm_of_the_whole_batch(
    tmp_path: Path, single: Simulated, preset: str
) -> None:
    options = {"solver": CLIP, "iterations": 3}
    alone = train(averaging(tmp_path / "alone", "single", 1, **options))
    three = train(averaging(tmp_path / "three", preset, 1, workers=3, **options))
    for name, expected in alone.arrays.items():
        assert relative_difference(three.arrays[name], expected) <= 1e-5, name
    free = train(averaging(tmp_path / "free", "single", 1, iterations=3))
    # the norm was above the limit, so the comparison means something
    assert not same_bits(alone.arrays, free.arrays)


@pytest.mark.parametrize("preset", AVERAGING)
def test_replicas_that_are_averaged_clip_each_its_own_gradient(tmp_path: Path, preset: str) -> None:
    free, tight = (
        train(averaging(tmp_path / name, preset, 1, workers=2, iterations=1, solver=clip)).arrays
        for name, clip in (("free", ""), ("tight", "clip_gradients: 0.01"))
    )
    steps = [np.linalg.norm(arrays["ip1.0.history"]) for arrays in (free, tight)]
    assert steps[1] < steps[0] / 2


@pytest.mark.parametrize(("preset", "momentum", "kept"), [("sparknet", 0, 8), ("dl4j", 0.9, 16)])
def test_an_average_after_every_iteration_equals_single(
    tmp_path: Path, preset: str, momentum: float, kept: int
) -> None:
    """Only the parameters are equal with SparkNet without momentum, whose histories belong to each
    worker. All arrays are equal with DL4J."""
    options: dict[str, Any] = {"momentum": momentum, "iterations": 5}
    alone = train(averaging(tmp_path / "single", "single", 1, **options)).arrays
    three = train(averaging(tmp_path / preset, preset, 1, workers=3, **options)).arrays
    compared = [name for name in alone if kept == 16 or "history" not in name]
    assert len(compared) == kept and three.keys() == alone.keys()
    for name in compared:
        assert relative_difference(three[name], alone[name]) <= 1e-5, name


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str, Any]]]:
    """(iteration, name, bits of a replica's array) after every pass. The iteration of a test is
    -1."""
    found: list[tuple[int, str, Any]] = []
    report = AveragingReplica._report

    def note(self: AveragingReplica, ticket: Any, *scores: Any) -> None:
        number = ticket.number if ticket.phase == "TRAIN" else -1
        state = self._store.state()
        found.extend((number, what, state[what].tobytes()) for what in ("ip1.0", "ip1.0.history"))
        report(self, ticket, *scores)

    monkeypatch.setattr(AveragingReplica, "_report", note)
    yield found


PASSES = (*range(7), -1)


@pytest.mark.few("[sparknet]")
@pytest.mark.parametrize("preset", AVERAGING)
def test_replicas_differ_between_two_averages_and_agree_after_one_and_in_a_test_histories_only_with_dl4j(
    tmp_path: Path, preset: str, seen: list[tuple[int, str, Any]]
) -> None:
    run = train(averaging(tmp_path, preset, 3, workers=3, iterations=7, test=True))
    kinds = {
        what: [
            len({bits for entry in seen if entry[:2] == (number, what) for bits in entry[2:]})
            for number in PASSES
        ]
        for what in ("ip1.0", "ip1.0.history")
    }
    assert kinds["ip1.0"] == [3, 3, 1, 3, 3, 1, 3, 1]
    assert kinds["ip1.0.history"] == ([3] * 8 if preset == "sparknet" else [3, 3, 1, 3, 3, 1, 3, 1])
    tested = next(bits for number, what, bits in seen if (number, what) == (-1, "ip1.0"))
    assert run.arrays["ip1.0"].tobytes() == tested  # the mean of equal arrays, to the last bit


@pytest.mark.parametrize("preset", AVERAGING)
def test_a_checkpoint_between_two_averages_holds_the_mean_of_all_replicas(
    tmp_path: Path, preset: str, seen: list[tuple[int, str, Any]]
) -> None:
    run = train(averaging(tmp_path, preset, 5, workers=3, iterations=2))
    last = [
        np.frombuffer(bits, np.float32)
        for number, what, bits in seen
        if (number, what) == (1, "ip1.0")
    ]
    expected = np.mean(np.array(last, np.float64), axis=0)
    np.testing.assert_allclose(run.arrays["ip1.0"].ravel(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.few("[dl4j-2]")
@pytest.mark.parametrize(("preset", "tau"), [("firecaffe", 1), ("host-accumulate", 1), ("dl4j", 2)])
def test_a_run_resumed_after_an_average_equals_an_unbroken_one_to_the_last_bit(
    tmp_path: Path, preset: str, tau: int
) -> None:
    whole = train(averaging(tmp_path / "whole", preset, tau, workers=3, iterations=6))
    train(averaging(tmp_path / "half", preset, tau, workers=3, iterations=4))
    cluster = averaging(tmp_path / "rest", preset, tau, workers=3, iterations=6)
    resume = '[train]\nresume = "../half/checkpoint-0000004.safetensors"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", resume, 1))
    assert same_bits(train(cluster).arrays, whole.arrays)


def test_running_statistics_are_averaged_too(tmp_path: Path) -> None:
    net = (Path(ops.__file__).parents[1] / "nets" / "zoo" / "lenet.prototxt").read_text()
    bn = 'layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" }\n'
    marker = 'layer {\n  name: "pool1"'
    found = {}
    for preset, workers in (("single", 1), ("sparknet", 2)):
        cluster = averaging(tmp_path / preset, preset, 2, workers=workers, iterations=4)
        cluster.with_name("own.prototxt").write_text(net.replace(marker, bn + marker, 1))
        cluster.write_text(
            cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
        )
        found[preset] = train(cluster).arrays
    np.testing.assert_allclose(found["sparknet"]["bn.2"], found["single"]["bn.2"], rtol=1e-6)
    np.testing.assert_allclose(
        found["sparknet"]["bn.0"], found["single"]["bn.0"], rtol=0.05, atol=0.05
    )


@pytest.mark.few("[dl4j-Contribution]", "[firecaffe-SharedSum]")
@pytest.mark.parametrize("kind", [Contribution, SharedSum])
@pytest.mark.parametrize("preset", [*SUMMING, "dl4j"])
def test_a_run_in_which_every_part_of_a_sum_is_sent_twice_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, kind: type[Message]
) -> None:
    clean = train(averaging(tmp_path / "clean", preset, 1, workers=3, iterations=2))
    send = Router.send
    reject = Router.reject
    reasons: list[str] = []

    async def twice(router: Router, sender: str, to: str, message: Message, **about: Any) -> None:
        await send(router, sender, to, message, **about)
        if type(message) is kind:
            await send(router, sender, to, message, **about)

    def count(router: Router, peer: str, error: MessageError | None) -> None:
        reasons.extend([] if error is None else [error.reason])
        reject(router, peer, error)

    monkeypatch.setattr(Router, "send", twice)
    monkeypatch.setattr(Router, "reject", count)
    doubled = train(averaging(tmp_path / "doubled", preset, 1, workers=3, iterations=2))
    assert set(reasons) == {"illegal"}
    assert same_bits(doubled.arrays, clean.arrays)


@pytest.mark.slow
@pytest.mark.parametrize("preset", [*SUMMING, *AVERAGING, "replicas"])
def test_workers_may_be_devices_whose_arrays_are_not_in_host_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    try:
        double = DeviceCupy()
    except ops.OpsError as missing:
        pytest.skip(str(missing))
    options: dict[str, Any] = {"workers": 2, "iterations": 2, "test": True, "solver": CLIP}
    expected = train(averaging(tmp_path / "cpu", preset, 1, **options))
    cluster = averaging(tmp_path / "device", preset, 1, **options)
    devices = 'devices = { "replica-0" = "cuda:0", "replica-1" = "cuda:1" }'
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\n{devices}\n", 1))
    real = ops.get_backend

    def chosen(
        name: str, b_p: int | None = None, device: int = 0, **options: object
    ) -> ops.Backend:
        return CupyBackend(b_p, xp=double) if name == "cupy" else real(name, b_p=b_p, **options)

    monkeypatch.setattr(ops, "get_backend", chosen)
    found = train(cluster)
    assert double.copies["to"] > 0 < double.copies["from"]
    np.testing.assert_allclose(found.losses(), expected.losses(), rtol=1e-4)
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[name], array, rtol=0, atol=1e-5, err_msg=name)


def test_sums_travel_while_the_backward_pass_goes_on(tmp_path: Path) -> None:
    """On devices that take a second for each of LeNet's two buckets, over links that take a second
    for each message, only the sum of the last bucket lengthens an iteration: up the tree, and
    down."""
    cluster = configure(tmp_path, "firecaffe", workers=2, iterations=1)
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    placement = place(plan(loaded.config, loaded.options), loaded.config)

    def service(actor: str, label: str) -> float:
        return 1.0 if label in ("forward", "backward") else 0.0

    network = InprocNetwork(latency=1.0)
    journal = run_virtual(
        simulate(placement, ROLES, service_time=service, network=network, directory=tmp_path)
    )
    (reported,) = [time for time, _, event, _ in journal.entries if event == "progress"]
    ticket = 2.0
    buckets = 2.0
    last_sum = 2.0
    report = 1.0
    assert reported == pytest.approx(ticket + buckets + last_sum + report)


def with_test_batch(cluster: Path, rows: int) -> Path:
    """The same run, tested with this number of images at a time."""
    net = (Path(ops.__file__).parents[1] / "nets" / "zoo" / "lenet.prototxt").read_text()
    assert net.count("batch_size: 100") == 1
    cluster.with_name("own.prototxt").write_text(
        net.replace("batch_size: 100", f"batch_size: {rows}")
    )
    cluster.write_text(
        cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
    )
    return cluster


def test_a_last_test_batch_with_fewer_images_than_workers_does_not_block_averaged_workers(
    tmp_path: Path,
) -> None:
    cluster = averaging(tmp_path, "sparknet", 5, workers=3, iterations=1, test=True)
    run = train(with_test_batch(cluster, 119))  # of 359 images: the last batch has 2
    (tested,) = run.journal.of("test")
    assert 0 < tested["accuracy"] < 1


def test_a_test_that_not_all_averaged_workers_would_join_is_refused(
    tmp_path: Path,
) -> None:
    cluster = with_test_batch(averaging(tmp_path, "dl4j", 5, workers=3, iterations=1, test=True), 2)
    with pytest.raises(
        ConfigError,
        match=(r"workers: found 3, but they meet in the first " r"batch .* which has 2 images"),
    ):
        train(cluster)
