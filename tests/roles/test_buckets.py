"""Buckets of gradients that travel together: complete, in the order of the backward pass, and large
enough to be worth a message."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nets import Net, load_net
from ops import get_backend
from roles.exchange.buckets import BUCKET_BYTES, buckets_of
from roles.exchange.collective import CollectiveOptions

IMAGES = {"lenet": (1, 28, 28), "cifar10_quick": (3, 32, 32), "resnet20": (3, 32, 32)}


@cache
def net_of(name: str) -> Net:
    return Net(
        load_net(name),
        "TRAIN",
        ops=get_backend("cpu", threads=1),
        seed=1,
        batch=2,
        input_shape=IMAGES[name],
    )


@settings(deadline=None)
@given(name=st.sampled_from(sorted(IMAGES)), least=st.integers(1, 1 << 22))
def test_every_layers_gradients_are_in_one_bucket_in_backward_order_and_all_but_the_last_are_that_large(
    name: str, least: int
) -> None:
    net = net_of(name)
    buckets = buckets_of(net, least)
    stages = [stage for bucket in buckets for stage in bucket.stages]
    assert stages == list(reversed(net.stages))
    assert [bucket.number for bucket in buckets] == list(range(len(buckets)))
    assert [layer for bucket in buckets for layer in bucket.params] == [
        stage.layer for stage in stages if stage.layer is not None
    ]
    sizes = [bucket.size * net.dtype.itemsize for bucket in buckets]
    assert sum(sizes) == sum(
        4 * math.prod(param.shape) for params in net.params.values() for param in params
    )
    assert min(sizes[:-1], default=least) >= least


@pytest.mark.parametrize(
    ("name", "expected"), [("lenet", 2), ("cifar10_quick", 3), ("resnet20", 4)]
)
def test_small_nets_have_few_buckets_and_one_where_memory_is_shared(
    name: str, expected: int
) -> None:
    assert len(buckets_of(net_of(name))) == expected
    assert len(buckets_of(net_of(name), CollectiveOptions(members=("a", "b")).bucket_bytes)) == 1


def test_the_views_of_a_bucket_fill_its_array_without_gaps() -> None:
    for bucket in buckets_of(net_of("resnet20"), BUCKET_BYTES):
        flat = np.arange(bucket.size, dtype=np.float32)
        parts = [blob.reshape(-1) for blobs in bucket.views(flat).values() for blob in blobs]
        assert np.concatenate(parts).tobytes() == flat.tobytes()
