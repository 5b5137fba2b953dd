"""Memory that is used again when no array is in it any more."""

from __future__ import annotations

import threading

import numpy as np

from nets.data.batches.reused_memory import LEAST, MOST_FREE, ReusedMemory

SHAPE = (2, LEAST)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_the_last_view_of_its_array_is_gone():
    memory = ReusedMemory()
    first = memory.empty(SHAPE, np.float32)
    place = address(first)
    view = first[1:].reshape(-1)[5:]
    del first
    second = memory.empty(SHAPE, np.float32)
    assert address(second) != place
    del view
    assert address(memory.empty(SHAPE, np.float32)) == place


def test_arrays_that_live_at_the_same_time_share_no_memory_whatever_thread_asks():
    memory = ReusedMemory()
    wrong = []

    def use(number):
        for _ in range(200):
            array = memory.empty((LEAST,), np.uint8)
            array[:] = number
            if (array != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_of_another_size_or_dtype_are_right_and_old_blocks_are_given_up():
    memory = ReusedMemory()
    for shape, dtype in (((LEAST,), np.uint8), ((3, LEAST), np.float32), ((7,), np.float64)):
        array = memory.empty(shape, dtype)
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous
        array[...] = 3
    del array
    many = [memory.empty((LEAST,), np.uint8) for _ in range(5)]
    many.clear()
    assert len(memory._free) <= MOST_FREE
