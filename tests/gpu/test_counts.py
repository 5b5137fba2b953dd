"""The operations that a training step asks of a device: launches, copies, synchronisations,
allocations."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda, with_cudnn
from tests.gpu.test_frontend import REASON

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# Per net: the launches and products of a step, and the largest image that a test of a few seconds
# can afford. Larger images take no more launches, unless windows exceed the limit of a lowering.
NETS = {"lenet": (40, 28), "caffenet": (102, 67), "resnet50": (589, 32)}
CUDNN = "cuDNN"  # the word for `tests.gpu.steps`
WITH_CUDNN = {"lenet": 33, "resnet50": 521}
MOST = {"lenet": 60, "caffenet": 150, "resnet50": 1200}


# further nets of the zoo, with the size of their images
OTHERS = {
    "airbench94": 32,
    "alexnet": 67,
    "cifar10_full": 32,
    "cifar10_quick": 32,
    "googlenet": 224,
    "mobilenet_v2": 64,
    "nin": 224,
    "resnet20": 32,
    "vgg16": 32,
}


def counted(stand_in: Path, name: str, *mistakes: str, steps: int = 3) -> dict[str, Any]:
    """The counts of some steps, as `tests.gpu.steps` prints them."""
    size = NETS[name][1] if name in NETS else OTHERS[name]
    words = ["-m", "tests.gpu.steps", name, str(size), str(steps), *mistakes]
    env = on_fake_cuda(stand_in)
    done = command(words, with_cudnn(stand_in, env) if CUDNN in mistakes else env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NETS)
def test_a_step_launches_little_waits_once_and_takes_no_memory_after_the_first(
    name: str, stand_in: Path
) -> None:
    found = counted(stand_in, name)
    first, second, third = found["steps"]
    size = NETS[name][1]
    image = (1 if name == "lenet" else 3) * size * size
    assert second == third
    assert second["launches"] + second["products"] <= min(NETS[name][0], MOST[name])
    # one wait, for the loss and for what is wrong with a label
    assert second["synchronisations"] == 1 and second["copies_to_host"] == 2
    assert second["bytes_to_host"] < 64
    assert second["allocations"] == 0 < first["allocations"]
    assert second["compilations"] == 0 < first["compilations"]
    assert second["copies_to_device"] == 2  # images and labels
    assert second["bytes_to_device"] == 2 * 4 * (image + 1)
    assert found["stopped"] == {}
    # every layer reads and writes in place
    assert second["copies_on_device"] == 0 and found["copied"] == []


@pytest.mark.skipif(importlib.util.find_spec("cudnn") is None, reason=REASON)
@pytest.mark.parametrize("name", WITH_CUDNN)
def test_a_step_with_plans_of_cudnn_launches_less(name: str, stand_in: Path) -> None:
    found = counted(stand_in, name, CUDNN)
    _, second, third = found["steps"]
    assert second == third and found["stopped"] == {}
    assert second["launches"] + second["products"] <= WITH_CUDNN[name]


@pytest.mark.parametrize("name", OTHERS)
def test_no_operation_of_a_zoo_net_is_kept_from_being_repeated(name: str, stand_in: Path) -> None:
    # what a first step does is recorded and repeated by a second one
    assert counted(stand_in, name, steps=2)["stopped"] == {}


PLANTED = {
    # LeNet has two layers of pooling
    "copy to the host": {"copies_to_host": 2, "synchronisations": 2},
    "allocation": {"allocations": 2},
    "copy of images": {},
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_shows_in_the_counts(mistake: str, stand_in: Path) -> None:
    right, planted = (counted(stand_in, "lenet", *mistakes) for mistakes in ((), (mistake,)))
    for what, more in PLANTED[mistake].items():
        assert planted["steps"][1][what] == right["steps"][1][what] + more
    assert bool(planted["copied"]) == (mistake == "copy of images")
    assert bool(planted["stopped"]) == (mistake == "copy of images")
