"""A share that is requested early is read in the background. The number of such shares is limited,
and a read error reaches the caller that fetches the share."""

import threading

import numpy as np
import pytest

from nets import DataError
from nets.data import Batches, MemorySource, Prefetcher, Transform


class Slow(MemorySource):
    """A source that reads only when the test allows it."""

    def __init__(self):
        super().__init__("slow", np.arange(40, dtype=np.uint8).reshape(40, 1, 1, 1), np.arange(40))
        self.let = threading.Event()
        self.threads = []

    def read(self, indices):
        assert self.let.wait(20)
        self.threads.append(threading.current_thread().name)
        if 13 in indices:
            raise DataError("image 13 is damaged")
        return super().read(indices)


@pytest.fixture
def slow():
    return Slow()


def prefetcher(source, depth=2):
    return Prefetcher(Batches(source, Transform(), 10, shuffle=False, seed=0, train=True), depth)


def test_a_share_asked_for_is_read_in_the_other_thread_and_equals_a_direct_read(slow):
    slow.let.set()
    with prefetcher(slow) as ahead:
        assert ahead.request(2, 5)
        found = ahead.get(2, 5)
        direct = ahead.get(20, 24)
    assert [array.ravel().tolist() for array in found] == [[2, 3, 4]] * 2
    assert direct[1].tolist() == [20, 21, 22, 23]
    assert [name.startswith("prefetch") for name in slow.threads] == [True, False]


def test_no_more_shares_than_the_depth_are_held(slow):
    with prefetcher(slow) as ahead:
        assert [ahead.request(low, low + 10) for low in (0, 20, 30)] == [True, True, False]
        assert ahead.request(0, 10)
        assert repr(ahead) == "<Prefetcher held=2/2 ready=0 closed=False>"
        slow.let.set()
        assert ahead.get(0, 10)[1].tolist() == list(range(10))
        assert ahead.request(30, 40)


def test_an_error_reaches_the_caller_that_fetches_and_the_next_share_is_read(slow):
    slow.let.set()
    with prefetcher(slow) as ahead:
        ahead.request(10, 20)
        ahead.request(20, 30)
        with pytest.raises(DataError, match="image 13 is damaged"):
            ahead.get(10, 20)
        assert ahead.get(20, 30)[1][0] == 20


def test_a_forgotten_share_makes_room_and_is_read_again(slow):
    with prefetcher(slow, 1) as ahead:
        ahead.request(0, 10)
        ahead.forget()
        assert ahead.request(30, 40)
        slow.let.set()
        assert ahead.get(30, 40)[1][0] == 30


def test_closing_ends_the_thread_and_every_wait(slow):
    ahead = prefetcher(slow)
    ahead.request(0, 10)
    ahead.request(20, 30)
    failed = []

    def fetch():
        try:
            ahead.get(20, 30)
        except DataError as error:
            failed.append(str(error))

    waiter = threading.Thread(target=fetch)
    closer = threading.Thread(target=ahead.close)
    waiter.start()
    while "held=1" not in repr(ahead):
        waiter.join(0.001)
    closer.start()  # it waits for the read in progress; the wait for the other share ends at once
    waiter.join(20)
    slow.let.set()
    closer.join(20)
    ahead.close()
    assert failed == ["prefetch: closed while waiting for a share"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
    with pytest.raises(DataError, match="prefetch: it is closed"):
        ahead.request(0, 10)


def test_many_threads_may_read_one_shuffled_order():
    source = MemorySource("x", np.zeros((50, 1, 1, 1), np.uint8), np.arange(50))
    batches = Batches(source, Transform(), 30, shuffle=True, seed=0, train=True)
    expected = [batches.read(ticket, 0, 30)[1].tolist() for ticket in range(20)]
    found = {}

    def read(tickets):
        for ticket in tickets:
            found[ticket] = batches.read(ticket, 0, 30)[1].tolist()

    threads = [threading.Thread(target=read, args=(range(at, 20, 4),)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[ticket] for ticket in range(20)] == expected
