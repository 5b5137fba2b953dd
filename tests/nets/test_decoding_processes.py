"""Processes that decode give the same images, in any number, and no picture or death of a process
makes a reader hang. They leave nothing behind."""

import fcntl
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nets.data import Batches, DecodingProcesses, Prefetcher, SharedMemory, Transform
from nets.data.batches import prefetch
from nets.data.decoding import processes
from nets.data.decoding.processes import READY, SIZES
from nets.data.lmdb.lmdb_source import open_lmdb
from nets.data.pictures.notices import NOTICES
from nets.data.sources.images import open_images
from nets.errors import DataError
from nets.tools.convert import images_to_lmdb
from runtime.memory.arena import Arena

simplejpeg = pytest.importorskip("simplejpeg")
pillow = pytest.importorskip("PIL.Image")

COUNT = 24


@pytest.fixture
def listed(tmp_path):
    """A list of JPEG files of several sizes."""
    rng = np.random.default_rng(7)
    for at in range(COUNT):
        pixels = rng.integers(0, 256, (90 + at, 120 - at, 3), dtype=np.uint8)
        (tmp_path / f"{at}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels, quality=90))
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{at}.jpg {at % 5}\n" for at in range(COUNT)))
    return path


@contextmanager
def pool_of(count):
    """This number of decoding processes, which have started."""
    arena = Arena("test")
    memory = SharedMemory(
        lambda size: arena.empty((size,), np.uint8),
        *arena.range,
        arena.address.partition(" ")[0],
    )
    decoders = DecodingProcesses(count, memory)
    decoders.start()
    decoders.wait_until_started()
    yield decoders
    decoders.close()
    arena.close()


@pytest.fixture(scope="module")
def shared():
    """One process, for the tests that leave it alive."""
    with pool_of(1) as decoders:
        yield decoders


@pytest.fixture
def two():
    with pool_of(2) as decoders:
        yield decoders


def source_of(path, **options):
    kind = open_lmdb if path.is_dir() else open_images
    return kind(base_dir=Path(), source=str(path), new_height=64, new_width=72, **options)


def batches(source):
    return Batches(source, Transform(crop=48), COUNT, shuffle=True, seed=3, train=True)


def pids(decoders):
    return [process._process.pid for process in decoders._all]


def test_batches_are_the_same_with_any_number_of_decoding_processes(
    listed, tmp_path, shared, two, monkeypatch
):
    monkeypatch.setattr(prefetch, "LEAST_NUMBERS", 1 << 10)
    database = tmp_path / "db"
    images_to_lmdb(listed, database, encoded=True)
    for path in (listed, database):
        expected = batches(source_of(path)).samples(5, 5 + COUNT)
        for count, decoders in ((1, shared), (2, two)):
            source = source_of(path)
            assert source.decode_with(decoders)
            assert repr(decoders) == f"<{count} decoding processes, {count} idle>"
            with Prefetcher(batches(source), threads=count) as ahead:
                found = ahead.get(5, 5 + COUNT)
            for one, other in zip(found, expected, strict=True):
                assert one.tobytes() == other.tobytes()


def test_images_lie_in_the_memory_that_the_processes_write(listed, shared):
    source = source_of(listed)
    source.decode_with(shared)
    images, _ = source.read(np.arange(COUNT))
    assert shared._memory.offset(images) is not None
    assert (images == source_of(listed).read(np.arange(COUNT))[0]).all()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:900]), "11.jpg: damaged JPEG image"),
        (lambda path: path.write_bytes(b"\0" * 900), "11.jpg: "),
        (lambda path: path.unlink(), "11.jpg: no such file"),
    ],
)
def test_a_damaged_picture_is_reported_as_without_processes_and_the_process_goes_on(
    listed, shared, written, expected
):
    source = source_of(listed)
    written(listed.with_name("11.jpg"))
    with pytest.raises(DataError) as plain:
        source.read(np.arange(COUNT))
    assert expected in str(plain.value)
    source.decode_with(shared)
    for _ in range(2):
        with pytest.raises(DataError) as error:
            source.read(np.arange(COUNT))
        assert error.value.problems == plain.value.problems
    assert len(source.read(np.arange(11))[0]) == 11
    assert repr(shared) == "<1 decoding processes, 1 idle>"


def test_a_picture_of_another_size_is_refused_by_its_name(listed, shared):
    source = open_images(base_dir=Path(), source=str(listed))
    source.decode_with(shared)
    with pytest.raises(DataError, match=r"/1\.jpg: found an image of shape .* like the first"):
        source.read(np.arange(COUNT))


def test_a_notice_about_a_picture_is_counted_in_the_reading_process(listed, shared):
    photo = listed.with_name("3.jpg")
    photo.write_bytes(photo.read_bytes()[:-2])  # no end marker
    source = source_of(listed)
    source.decode_with(shared)
    with NOTICES.counted() as counts:
        source.read(np.arange(COUNT))
    assert [list(names) for names in counts.values()] == [[str(photo)]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_of_a_terminal_or_a_job_is_left_to_the_parent(
    listed, shared, number
):
    source = source_of(listed)
    source.decode_with(shared)
    os.kill(*pids(shared), number)
    assert len(source.read(np.arange(COUNT))[0]) == COUNT
    assert shared._all[0].lives


def test_a_process_that_dies_names_its_picture_and_the_others_go_on(listed, two, caplog):
    source = source_of(listed)
    source.decode_with(two)
    idle, busy = pids(two)  # the last one that became idle is the first that is taken
    os.kill(busy, signal.SIGSTOP)
    failed = []

    def read():
        with pytest.raises(DataError) as error:
            source.read(np.arange(COUNT))
        failed.append(str(error.value))

    thread = threading.Thread(target=read)
    thread.start()
    while len(two._idle) == 2 and thread.is_alive():
        thread.join(0.01)
    os.kill(busy, signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive()
    assert "/0.jpg: the process that decoded this picture ended by SIGKILL" in failed[0]
    expected, _ = source_of(listed).read(np.arange(COUNT))
    assert repr(two) == "<2 decoding processes, 1 idle>"
    assert (source.read(np.arange(COUNT))[0] == expected).all()
    assert Path(f"/proc/{idle}").exists()
    os.kill(idle, signal.SIGKILL)
    os.waitid(os.P_PID, idle, os.WEXITED | os.WNOWAIT)
    with caplog.at_level(logging.WARNING):
        assert (source.read(np.arange(COUNT))[0] == expected).all()
    assert "an idle decoding process ended by SIGKILL" in caplog.text


def test_processes_end_at_once_even_if_stopped_and_with_their_parent(two):
    before = set(Path("/dev/shm").iterdir())
    stopped, other = pids(two)
    two._all[1]._requests.close()  # as the system does it when the parent is killed
    assert two._all[1]._process.wait(60) == 0
    os.kill(stopped, signal.SIGSTOP)
    two.close()
    two.close()
    assert not [pid for pid in (stopped, other) if Path(f"/proc/{pid}").exists()]
    assert set(Path("/dev/shm").iterdir()) == before
    assert two([], 0, (3, 64, 72)).shape == (0, 3, 64, 72)


def test_a_process_whose_parent_is_killed_within_a_request_ends_without_a_traceback():
    head = b"[]"
    whole = SIZES.pack(len(head), 1000) + head + bytes(1000)
    for end in (1, SIZES.size, SIZES.size + 1, len(whole) - 1):
        file = os.memfd_create("test")
        os.ftruncate(file, 4096)
        process = subprocess.Popen(
            [sys.executable, "-m", "nets.data.decoding.process", str(file), "4096"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(file,),
        )
        os.close(file)
        assert process.communicate(whole[:end], 60) == (READY, None)
        assert process.returncode == 0


PARENT = """
import numpy as np, signal
from nets.data import DecodingProcesses, SharedMemory
from runtime.memory.arena import Arena
arena = Arena("test")
memory = SharedMemory(
    lambda size: arena.empty((size,), np.uint8), *arena.range, arena.address.partition(" ")[0]
)
decoders = DecodingProcesses(2, memory)
decoders.start()
decoders.wait_until_started()
print(*[process._process.pid for process in decoders._all], flush=True)
signal.pause()
"""


def test_stopped_processes_end_when_their_parent_is_killed():
    words = [sys.executable, "-c", PARENT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        found = [int(pid) for pid in parent.stdout.readline().split()]
        handles = [os.pidfd_open(pid) for pid in found]
        os.kill(found[0], signal.SIGSTOP)
        parent.kill()
    for pid, handle in zip(found, handles, strict=True):
        ended, _, _ = select.select([handle], [], [], 60)
        os.close(handle)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        assert ended


def test_an_answer_that_a_death_cut_off_is_no_answer(listed, two):
    source = source_of(listed)
    source.decode_with(two)
    process = two._all[1]
    reader, writer = os.pipe()
    os.write(writer, b'[{"notices": [], "sha')
    os.close(writer)
    with os.fdopen(reader, "rb") as cut:
        process._answers, answers = cut, process._answers
        process._process.kill()
        with pytest.raises(DataError, match=r"/0\.jpg: the process that decoded this"):
            images = np.empty((1, 3, 64, 72), np.uint8)
            process.decode([source._picture(0)], images, np.zeros(1, np.int64), 0)
        process._answers = answers


def test_after_an_error_that_is_no_fault_of_a_picture_each_picture_gets_its_own_answer(
    listed, shared
):
    source = source_of(listed)
    pictures = [source._picture(at) for at in range(COUNT)]
    odd = pictures.copy()
    odd[COUNT - 4] = odd[COUNT - 4]._replace(size=("wide", 1))
    with pytest.raises(TypeError):
        shared(odd, COUNT, (3, 64, 72))
    pictures[-1] = pictures[-1]._replace(data=b"damaged")
    with pytest.raises(DataError, match=r"/23\.jpg: "):
        shared(pictures, COUNT, (3, 64, 72))


def test_processes_start_with_small_pipes_if_the_user_has_no_memory_for_large_ones(
    listed, monkeypatch, caplog
):
    monkeypatch.setattr(processes, "PIPE", 1 << 31)  # more than the system allows
    source = source_of(listed)
    expected, _ = source.read(np.arange(COUNT))
    with pool_of(1) as decoders:
        source.decode_with(decoders)
        assert repr(decoders) == "<1 decoding processes, 1 idle>"
        assert (source.read(np.arange(COUNT))[0] == expected).all()
    assert not caplog.records


def test_pipes_of_one_page_do_not_let_both_sides_wait_for_each_other(listed, two, tmp_path):
    deep = tmp_path / "/".join(["d" * 200] * 8)
    deep.mkdir(parents=True)
    for at in range(COUNT):
        photo = listed.with_name(f"{at}.jpg")
        (deep / photo.name).write_bytes(photo.read_bytes()[:-2])  # no end marker: a notice
    listed = listed.rename(deep / listed.name)
    source = source_of(listed)
    expected, _ = source.read(np.arange(COUNT))
    for process in two._all:
        for pipe in (process._requests, process._answers):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    source.decode_with(two)
    found = []
    reading = threading.Thread(target=lambda: found.append(source.read(np.arange(COUNT))[0]))
    reading.start()
    reading.join(60)
    if reading.is_alive():
        two.close()
    assert (found[0] == expected).all()


def test_processes_start_when_shares_are_late_several_times_in_a_row(listed):
    let = threading.Event()
    started = []

    class Late(Batches):
        def samples(self, low, high, into=None):
            assert let.wait(60)
            return super().samples(low, high, into)

    read = Late(source_of(listed), Transform(), COUNT, shuffle=False, seed=3, train=True)
    with Prefetcher(read, starved=lambda: started.append(True)) as ahead:
        for at in range(6):
            let.clear()
            ahead.request(at, at + 1)
            threading.Timer(0.05, let.set).start()
            ahead.get(at, at + 1)
            assert bool(started) == (at >= prefetch.STARVED - 1)
    assert started == [True]
