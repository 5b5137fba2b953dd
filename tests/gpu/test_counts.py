"""What a training step of LeNet asks of a device: launches, copies, synchronisations, allocations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

STEPS = """
import json, sys, fake_cuda
from benchmarks.training import made_up, our_step
from nets import Net, load_net
from ops import get_backend
backend = get_backend("cupy")
net = Net(load_net("lenet"), "TRAIN", ops=backend, batch=4, input_shape=(1, 28, 28), seed=1, memory="reused")
if "planted" in sys.argv:
    plain = backend.pool_forward
    backend.pool_forward = lambda x, *rest, **more: (float(x[0, 0, 0, 0]), plain(x, *rest, **more))[1]
step = our_step(net, made_up(net, 10))
step(), step()
print(json.dumps([fake_cuda.counted(step) for _ in range(2)]))
"""


def counted(stand_in: Path, *arguments: str) -> tuple[dict[str, int], dict[str, int]]:
    """Of the third and the fourth step."""
    done = script(STEPS, on_fake_cuda(stand_in), *arguments)
    assert done.returncode == 0, done.stderr
    third, fourth = json.loads(done.stdout)
    return third, fourth


def test_a_step_copies_its_batch_in_and_single_numbers_out_and_allocates_nothing_new(stand_in: Path) -> None:
    third, fourth = counted(stand_in)
    assert third == fourth
    assert third["copies_to_device"] == 2  # images and labels
    assert third["bytes_to_device"] == 4 * 4 * (28 * 28 + 1)
    assert third["copies_to_host"] == third["synchronisations"] == 1  # the scores; nothing else waits for the device
    assert third["bytes_to_host"] < 64
    assert "allocations" not in third and "compilations" not in third
    assert third["launches"] + third["products"] <= 50  # docs/gpu.md says how many


def test_a_planted_copy_to_the_host_shows_in_the_counts(stand_in: Path) -> None:
    right, _ = counted(stand_in)
    planted, _ = counted(stand_in, "planted")
    assert planted["copies_to_host"] == right["copies_to_host"] + 2  # two pooling layers
    assert planted["synchronisations"] > right["synchronisations"]
