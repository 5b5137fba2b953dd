"""Synchronous training computes the same numbers for any number of members, any tree and any
division into processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets.files import checkpoint
from runtime.transport.inproc import InprocNetwork
from tests.helpers.support import configure, events, run_directory, run_up, train


def relative_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.few("[3-3]")
@pytest.mark.parametrize(("workers", "fan_in"), [(1, 2), (2, 2), (3, 2), (3, 3), (4, 2), (4, 3)])
def test_sync_equals_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, workers: int, fan_in: int
) -> None:
    reference = train(configure(tmp_path / "single", "single"))
    distributed = train(configure(tmp_path / "sync", "sync", workers=workers, fan_in=fan_in))
    assert len(reference.arrays) == 16  # weights and biases of 4 layers, with their momentum
    assert reference.arrays.keys() == distributed.arrays.keys()
    for name, expected in reference.arrays.items():
        assert relative_difference(distributed.arrays[name], expected) <= 1e-5, name


@pytest.mark.few("[3]")
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_replicas_equal_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, workers: int
) -> None:
    reference = train(configure(tmp_path / "single", "single"))
    distributed = train(configure(tmp_path / "replicas", "replicas", workers=workers))
    assert reference.arrays.keys() == distributed.arrays.keys()
    for name, expected in reference.arrays.items():
        assert relative_difference(distributed.arrays[name], expected) <= 1e-5, name
    # the loss of the whole batch, not of a part
    assert distributed.losses() == pytest.approx(reference.losses(), rel=1e-4)


@pytest.mark.slow
def test_sync_with_4_members_has_the_loss_of_single_after_100_iterations(tmp_path: Path) -> None:
    reference = train(configure(tmp_path / "single", "single", iterations=100)).losses()
    distributed = train(configure(tmp_path / "sync", "sync", workers=4, iterations=100)).losses()
    assert len(reference) == len(distributed) == 100
    assert distributed[-1] == pytest.approx(reference[-1], rel=0.02)
    assert reference[-1] < reference[0] / 4  # it has learnt, so the comparison means something


@pytest.mark.parametrize("preset", ["sync", "replicas"])
def test_two_runs_with_one_seed_are_identical_to_the_last_bit_whatever_the_timing(
    tmp_path: Path, preset: str
) -> None:
    delays = np.random.default_rng(0)
    first = train(configure(tmp_path / "a", preset, workers=3, iterations=5))
    second = train(
        configure(tmp_path / "b", preset, workers=3, iterations=5),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    for name, expected in first.arrays.items():
        assert first.arrays[name].tobytes() == second.arrays[name].tobytes(), name
        assert np.isfinite(expected).all()


def test_another_seed_gives_other_numbers(tmp_path: Path) -> None:
    one = train(configure(tmp_path / "a", "single", iterations=2, seed=1))
    two = train(configure(tmp_path / "b", "single", iterations=2, seed=2))
    assert one.arrays["conv1.0"].tobytes() != two.arrays["conv1.0"].tobytes()


@pytest.mark.slow
def test_real_processes_give_the_bits_of_one_process_and_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # like the processes below: sums depend on their division among threads
    monkeypatch.setenv("CONVOY_THREADS", "1")
    simulated = train(configure(tmp_path / "sim", "sync", workers=2, iterations=5))
    found = {}
    one_thread = "[[machine]]\nthreads = 1\n"  # with two threads, BLAS adds in another order
    for name, together in (
        ("many", ""),
        ("again", ""),
        ("one", '[placement]\nprocesses = "one"\n'),
    ):
        more = one_thread + together
        cluster = configure(tmp_path / name, "sync", workers=2, iterations=5, more=more)
        done = run_up(cluster)
        assert done.returncode == 0, done.stderr
        directory = run_directory(cluster)
        assert len(list((directory / "logs").iterdir())) == (1 if name == "one" else 5)
        file = events(directory, "checkpoint")[-1]["file"]
        found[name] = (directory / file).read_bytes()
    assert found["many"] == found["again"] == found["one"]
    arrays, _ = checkpoint.load(directory / file)
    for name, expected in simulated.arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.slow
def test_replicas_in_real_processes_have_the_bits_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")
    simulated = train(configure(tmp_path / "sim", "replicas", workers=3, iterations=5))
    cluster = configure(
        tmp_path / "up", "replicas", workers=3, iterations=5, more="[[machine]]\nthreads = 1\n"
    )
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    for name, expected in simulated.arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.slow
def test_actors_may_share_processes_by_configuration_alone(tmp_path: Path) -> None:
    more = (
        '[[process]]\nname = "servers"\nactors = ["conv_model", "fc_server", '
        '"coordinator", "reducer-*"]\n'
    )
    cluster = configure(tmp_path, "sync", workers=3, iterations=2, more=more)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    logs = {path.stem for path in (run_directory(cluster) / "logs").iterdir()}
    assert logs == {"servers", "conv-0-0", "conv-0-1", "conv-0-2"}
