"""A conv model server by itself: it adds up the parts of a gradient, and knows what it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roles.messages import TRAIN, LayerGradient, PullLayer, Updated
from runtime import MessageError
from tests.roles.conv_model_alone import Model, envelope


async def test_a_layer_that_lies_elsewhere_is_neither_published_nor_updated(make_model: Any) -> None:
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
    parts = [tuple(rng.standard_normal(blob.shape).astype("f") for blob in read.blobs) for _ in order]
    for part in order:
        said = LayerGradient(
            group=0, number=0, layer="conv1", part=part, parts=3, formats=("float32",) * 2, blobs=parts[part]
        )
        await model.on_layer_gradient(said, envelope(said))
    assert [said.version for said in model.said if isinstance(said, Updated)] == [1]
    total = (parts[0][0] + parts[1][0]) + parts[2][0]
    decayed = total.astype(float) + 0.0005 * read.blobs[0]
    after = await model.pulled(0, 1, "conv1")
    np.testing.assert_allclose(after.blobs[0], read.blobs[0] - 0.01 * decayed, rtol=1e-5, atol=1e-7)
