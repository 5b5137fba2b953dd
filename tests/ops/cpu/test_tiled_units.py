"""How convolution on tiles divides a batch that it reads in place."""

from __future__ import annotations

import pytest

from ops.cpu.tiled.block import SIDE
from ops.cpu.tiled.image_plan import COPY_BYTES, Sweep
from ops.cpu.tiled.in_place import images_of_unit
from ops.cpu.tiled.windows import Axis

AXIS = Axis(7, 7, 1, -1, 1, (0, 1, 2))


@pytest.mark.parametrize("batch", range(SIDE, 1025, SIDE))
@pytest.mark.parametrize("channels", [64, 256, 2048])
def test_a_unit_of_any_batch_fits_the_cache_or_is_one_block(batch: int, channels: int) -> None:
    s = Sweep(batch, channels, 256, 1, AXIS, AXIS)
    images = images_of_unit(s)
    lines = AXIS.copied(2) * AXIS.size * channels * 2
    assert batch % images == 0
    assert images % SIDE == 0
    assert images == SIDE or images * lines <= COPY_BYTES


@pytest.mark.parametrize("batch", [SIDE, 3 * SIDE])
def test_a_unit_without_a_source_is_the_whole_batch(batch: int) -> None:
    unread = Axis(7, 7, 1, 0, 1, ())
    assert images_of_unit(Sweep(batch, 64, 32, 1, unread, unread)) == batch
