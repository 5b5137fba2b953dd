"""The segments of a JPEG file: one step for each, however many bytes are between them."""

import sys

import pytest

from nets.data.pictures.segments import START_OF_SCAN, segments

COMMENT = b"\xff\xfe\0\4hi"
SCAN = b"\xff\xda\0\2"


def lines_run(function):
    """How many lines of `segments` a function runs. Garbage that is collected meanwhile may run
    other lines, which do not count."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code is not segments.__code__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("between", [b"\xff", b"\xff\0", b"\xff\xd0", b"\0", b"\0\xff", b"x\xff\1"])
def test_bytes_between_segments_are_skipped_in_one_step(between):
    def found(count):
        return list(segments(b"\xff\xd8" + between * count + COMMENT + between * count + SCAN))

    for count in (0, 1, 1000):
        size = len(between) * count
        second = 2 + 2 * size + len(COMMENT)
        assert found(count) == [
            (0xFE, 2 + size, 2 + size + len(COMMENT)),
            (START_OF_SCAN, second, second + len(SCAN)),
        ]
    assert lines_run(lambda: found(1000)) == lines_run(lambda: found(1))


@pytest.mark.parametrize("cut", range(2, 12))
def test_a_file_that_ends_in_a_segment_has_the_segments_before_it(cut):
    data = (b"\xff\xd8" + COMMENT + SCAN)[:cut]
    assert [marker for marker, *_ in segments(data)] == (
        [] if cut < 6 else [0xFE] if cut < 12 else [0xFE, START_OF_SCAN]
    )
