"""A stream that does not wait for its reader, on real pipes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from runtime.report.nonblocking_stream import MOST, NonblockingStream, nonblocking

LINE = "a line of some length, as a run tells one\n"
MANY = 4 * MOST // len(LINE)  # more than the pipe and the stream hold


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield reading, stream


def read_all(reading: int, until: str) -> str:
    """Read from a pipe up to the line that ends with `until`."""
    found = b""
    while not found.decode(errors="replace").endswith(until):
        found += os.read(reading, 1 << 16)
    return found.decode()


def test_a_reader_gets_all_lines_in_the_order_of_writing(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    shown = nonblocking(stream)
    for number in range(100):
        shown.write(f"line {number} é\n")
    assert read_all(reading, "line 99 é\n").splitlines() == [
        f"line {number} é" for number in range(100)
    ]
    os.close(reading)


def test_a_writer_does_not_wait_for_a_slow_reader_which_later_gets_the_number_of_missing_lines(
    pipe: tuple[int, TextIO],
) -> None:
    reading, stream = pipe
    shown = NonblockingStream(stream, stream.fileno())
    for _ in range(MANY):
        shown.write(LINE)
    missed = shown.settle(0.01)
    assert 0 < missed < MANY
    lines = read_all(reading, "they were not read in time\n").splitlines()
    left_out = int(lines.pop().split()[1])
    assert lines == [LINE.rstrip()] * (MANY - left_out)
    assert shown.settle() == 0
    shown.write("and on\n")
    assert read_all(reading, "and on\n") == "and on\n"
    os.close(reading)


def test_the_last_line_counts_as_unread_until_the_reader_has_taken_it(
    pipe: tuple[int, TextIO],
) -> None:
    reading, stream = pipe
    os.set_blocking(stream.fileno(), False)
    with suppress(BlockingIOError):
        while True:
            os.write(stream.fileno(), b"x" * 1024)
    os.set_blocking(stream.fileno(), True)
    shown = NonblockingStream(stream, stream.fileno())
    shown.write(LINE)
    assert shown.settle(0.01) == 1
    assert read_all(reading, LINE).endswith(LINE)
    assert shown.settle() == 0
    os.close(reading)


def test_a_write_after_the_reader_has_gone_raises_an_error(
    pipe: tuple[int, TextIO],
) -> None:
    reading, stream = pipe
    shown = NonblockingStream(stream, stream.fileno())
    os.close(reading)
    shown.write(LINE)
    with pytest.raises(BrokenPipeError):
        shown.settle()
    shown.write(LINE)
    with pytest.raises(BrokenPipeError):
        shown.settle()


def test_a_character_that_the_encoding_of_the_reader_lacks_is_shown_as_its_escape() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="latin-1") as stream:
        shown = nonblocking(stream)
        shown.write("é дуб –\n")
        shown.write("done\n")
        shown.settle()  # type: ignore[attr-defined]
    with os.fdopen(reading, encoding="latin-1") as read:
        assert read.read() == "é \\u0434\\u0443\\u0431 \\u2013\ndone\n"


def test_a_stream_without_a_descriptor_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    assert nonblocking(sys.stdout) is sys.stdout
    assert capsys.readouterr().out == ""
