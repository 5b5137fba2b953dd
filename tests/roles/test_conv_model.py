"""A conv model server alone: it adds up the parts of a gradient, and knows which layers it
holds."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from roles.messages import TRAIN, GetState, LayerGradient, PullLayer, SetState, State, Updated
from roles.tuning.gradient_statistics import GetGradientStatistics, GradientStatistics
from runtime import MessageError
from runtime.messages.wire import decode, encode
from tests.roles.conv_model_alone import Model, envelope


async def test_a_layer_of_another_server_is_neither_published_nor_updated(
    make_model: Any,
) -> None:
    model: Model = await make_model(layers=["conv2"])
    pull = PullLayer(group=0, members=1, phase=TRAIN, number=0, layer="conv1", after=-1)
    with pytest.raises(MessageError, match=r"illegal: .* is 'on another server'"):
        await model.on_pull_layer(pull, envelope(pull))
    with pytest.raises(MessageError, match=r"illegal: .* is 'on another server'"):
        await model.given(0, 0, "conv1", ())
    assert model.said == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
async def test_the_parts_of_a_gradient_are_added_up_in_their_order_and_applied_once(
    make_model: Any, order: tuple[int, ...]
) -> None:
    model: Model = await make_model(layers=["conv1"])
    read = await model.pulled(0, 0, "conv1")
    rng = np.random.default_rng(0)
    parts = [
        tuple(rng.standard_normal(blob.shape).astype("f") for blob in read.blobs) for _ in order
    ]
    for part in order:
        said = LayerGradient(
            group=0,
            number=0,
            layer="conv1",
            part=part,
            parts=3,
            formats=("float32",) * 2,
            blobs=parts[part],
        )
        await model.on_layer_gradient(said, envelope(said))
    assert [said.version for said in model.said if isinstance(said, Updated)] == [1]
    total = (parts[0][0] + parts[1][0]) + parts[2][0]
    decayed = total.astype(float) + 0.0005 * read.blobs[0]
    after = await model.pulled(0, 1, "conv1")
    np.testing.assert_allclose(after.blobs[0], read.blobs[0] - 0.01 * decayed, rtol=1e-5, atol=1e-7)


async def test_a_model_server_answers_requests_for_momentum_and_noise(make_model: Any) -> None:
    model: Model = await make_model(layers=["conv1"])
    before = await statistics(model)
    assert (before.iteration, before.updates, before.momentum) == (0, 0, 0.0)
    assert [name for name, value in asdict(before).items() if math.isnan(value)] == [
        "groups", "staleness", "gradients", "gradients_error", "noise", "noise_error"
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    groups = 3
    read = await model.pulled(0, 0, "conv1")
    for number in range(1, groups):
        await model.pulled(number, number, "conv1")
    for number in range(160):  # each group in turn; 128 pairs of gradients are needed
        noisy = tuple((0.5 + rng.standard_normal(blob.shape)).astype("f") for blob in read.blobs)
        await model.given(number % groups, number, "conv1", noisy)
        await model.pulled(number % groups, number + groups, "conv1")
    after = await statistics(model)
    assert (after.iteration, after.updates) == (160, 160)
    assert after.groups == pytest.approx(2 / 3)
    # the implicit momentum of a delay that is always 2
    assert after.staleness == pytest.approx(0.5, abs=0.01)
    assert after.noise == pytest.approx(model._job.batch / 0.5**2, abs=4 * after.noise_error)
    assert 0 < after.noise_error < 0.5 * after.noise


async def test_a_request_for_later_statistics_is_answered_when_the_model_has_reached_them(
    make_model: Any,
) -> None:
    model: Model = await make_model(layers=["conv1"])
    asked = GetGradientStatistics(after=2)
    await model.on_get_gradient_statistics(asked, envelope(asked))
    told = []
    for number in range(3):
        read = await model.pulled(0, number, "conv1")
        await model.given(0, number, "conv1", read.blobs)
        told.append([said.iteration for said in model.said if isinstance(said, GradientStatistics)])
    assert told == [[], [2], [2]]


async def test_a_model_that_is_put_back_restarts_its_estimate_of_momentum(
    make_model: Any,
) -> None:
    model: Model = await make_model(layers=["conv1"])
    kept = GetState()
    await model.on_get_state(kept, envelope(kept))
    state = model.said[-1]
    assert isinstance(state, State)
    for number in range(20):
        read = await model.pulled(0, number, "conv1")
        await model.given(0, number, "conv1", read.blobs)
    assert (await statistics(model)).updates == 20
    back = SetState(names=state.names, arrays=state.arrays, version=state.version)
    await model.on_set_state(back, envelope(back))
    after = await statistics(model)
    assert (after.iteration, after.updates) == (0, 0)
    assert math.isnan(after.staleness)


async def statistics(model: Model) -> GradientStatistics:
    """Ask for the statistics. Returns the answer after encoding and decoding."""
    asked = GetGradientStatistics()
    await model.on_get_gradient_statistics(asked, envelope(asked))
    answer = decode(encode(envelope(model.said[-1]))).message
    assert isinstance(answer, GradientStatistics)
    return answer
