"""Training on arrays that cannot be converted to NumPy implicitly: no code may assume that arrays
are in host memory.

No GPU is needed: `tests.helpers.device_double` stands in for CuPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from nets import Net, NetError, load_net, load_solver
from nets.definition.params import generator
from nets.files import checkpoint
from ops.backends.cupy_backend import CupyBackend
from roles.learning.parameter_store import ParameterStore
from tests.helpers.device_double import DeviceArray, DeviceCupy
from tests.helpers.support import configure, train

NETS = {
    "lenet": (1, 28, 28),
    "cifar10_quick": (3, 32, 32),
    "cifar10_full": (3, 32, 32),
    "resnet20": (3, 32, 32),
}


@pytest.fixture
def double() -> DeviceCupy:
    try:
        return DeviceCupy()
    except ops.OpsError as missing:
        pytest.skip(str(missing))


def steps(
    name: str, backend: ops.Backend, count: int = 2
) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """The scores of `count` training passes and a test pass on two images, and the state for a
    checkpoint."""
    nets = {
        phase: Net(load_net(name), phase, ops=backend, batch=2, input_shape=NETS[name], seed=1)
        for phase in ("TRAIN", "TEST")
    }
    net = nets["TRAIN"]
    store = ParameterStore(net.params, net.initial_blobs(), load_solver(f"{name}_solver"), backend)
    arrays = (
        generator(3, name).standard_normal((2, *NETS[name]), dtype=np.float32),
        np.array([3, 1], np.float32),
    )
    given = dict(zip(net.inputs, arrays, strict=True))
    scores = []
    for number in range(count):
        scores.append(net.run(given, {layer: store.read(layer) for layer in store.layers}, number))
        found = {stage.layer: net.backward(stage) for stage in reversed(net.stages)}
        store.apply_all(
            {layer: gradients for layer, gradients in found.items() if layer is not None}
        )
    scores.append(nets["TEST"].run(given, {layer: store.read(layer) for layer in store.layers}))
    return scores, store.state()


@pytest.mark.parametrize("name", NETS)
def test_a_net_steps_on_a_device_as_on_the_cpu(name: str, double: DeviceCupy) -> None:
    on_device, state = steps(name, CupyBackend(xp=double))
    on_cpu, expected = steps(name, ops.get_backend("numpy"))
    for mine, right in zip(on_device, on_cpu, strict=True):
        assert mine == pytest.approx(right, rel=1e-3)
    assert state.keys() == expected.keys()
    for key, array in state.items():
        assert type(array) is np.ndarray
        np.testing.assert_allclose(
            array, expected[key], rtol=0, atol=1e-3 * max(1e-2, np.abs(expected[key]).max())
        )


@pytest.mark.slow  # 8 s each
@pytest.mark.parametrize(
    ("preset", "workers"), [("single", 1), ("sync", 2), ("local-fc-shards", 2)]
)
def test_whole_runs_train_test_and_save_with_all_actors_on_a_device(
    preset: str, workers: int, double: DeviceCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = train(configure(tmp_path / "cpu", preset, workers=workers, iterations=3, test=True))
    cluster = configure(tmp_path / "device", preset, workers=workers, iterations=3, test=True)
    cluster.write_text(
        cluster.read_text().replace("[train]\n", ('[train]\ndevices = { "*" = "cuda:0" }\n'))
    )
    real = ops.get_backend

    def chosen(
        name: str, b_p: int | None = None, device: int = 0, **options: object
    ) -> ops.Backend:
        return CupyBackend(b_p, xp=double) if name == "cupy" else real(name, b_p=b_p, **options)

    monkeypatch.setattr(ops, "get_backend", chosen)
    found = train(cluster)
    assert double.copies["to"] > 0 < double.copies["from"]
    np.testing.assert_allclose(found.losses(), expected.losses(), rtol=1e-4)
    for key, array in found.arrays.items():
        np.testing.assert_allclose(array, expected.arrays[key], rtol=0, atol=1e-5)


def test_a_checkpoint_starts_a_run_on_a_device(double: DeviceCupy, tmp_path: Path) -> None:
    backend = CupyBackend(xp=double)
    path = tmp_path / "a.safetensors"
    _, state = steps("lenet", backend, 1)
    checkpoint.save(path, state, {})
    net = Net(load_net("lenet"), "TRAIN", ops=backend, batch=2, input_shape=NETS["lenet"])
    store = ParameterStore(net.params, net.initial_blobs(), load_solver("lenet_solver"), backend)
    store.restore(checkpoint.load(path)[0], 1)
    assert all(type(blob) is DeviceArray for layer in store.layers for blob in store.read(layer))
    assert all(np.array_equal(array, state[key]) for key, array in store.state().items())


def test_a_version_is_copied_to_the_host_once_and_not_once_per_request(
    double: DeviceCupy,
) -> None:
    backend = CupyBackend(xp=double)
    net = Net(load_net("lenet"), "TRAIN", ops=backend, batch=2, input_shape=NETS["lenet"])
    blobs = net.initial_blobs()
    store = ParameterStore(net.params, blobs, load_solver("lenet_solver"), backend, publishes=True)
    assert double.copies["from"] == 8  # weights and biases of four layers, once
    first = store.published("conv1")
    assert store.published("conv1") is first and double.copies["from"] == 8
    store.apply("conv1", tuple(backend.zeros(blob.shape) + 1 for blob in store.read("conv1")))
    assert double.copies["from"] == 10
    second = store.published("conv1")
    assert double.copies["from"] == 10
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(second[0], backend.to_host(store.read("conv1")[0]))
    store.restore({name: array * 0 for name, array in store.state().items()}, 3)
    assert not store.published("conv1")[0].any()


def test_a_label_outside_the_classes_is_reported_with_its_layer(double: DeviceCupy) -> None:
    backend = CupyBackend(xp=double)
    net = Net(load_net("lenet"), "TRAIN", ops=backend, batch=2, input_shape=NETS["lenet"])
    images = np.zeros((2, *NETS["lenet"]), np.float32)
    labels = np.array([3, 10], np.float32)
    with pytest.raises(
        NetError, match=("layer 'loss': a label is 10, expected a whole number from 0 to 9")
    ):
        net.run(dict(zip(net.inputs, (images, labels), strict=True)), net.initial_blobs())


@pytest.mark.parametrize(
    "mistake", [np.asarray, np.sqrt, lambda x: x + np.ones(2), lambda x: np.ones(2) * x]
)
def test_the_stand_in_refuses_what_a_device_refuses(mistake: Any, double: DeviceCupy) -> None:
    with pytest.raises(TypeError):
        mistake(double.asarray(np.ones(2, np.float32)))
