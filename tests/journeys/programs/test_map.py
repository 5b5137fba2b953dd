"""`runtime.map` in processes: results in order, mistakes with their item, deaths survived, arrays
in shared memory, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime
from runtime import ConfigError, ConvoyError, ItemFailed
from tests.helpers.support import environment


def square(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return number * number


def file_of(array: np.ndarray) -> str:
    """The file in whose mapping an array lies."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, file = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= address < high:
            return file
    return ""


def shifted(array: np.ndarray) -> tuple[np.ndarray, bool, str]:
    """The array plus one, and the memory of the given one."""
    return array + 1, array.flags.writeable, file_of(array)


def dying(item: dict[str, Any]) -> int:
    """Kill the worker so many times, counted by files, before it returns its process id."""
    folder = Path(item["folder"])
    deaths = len(list(folder.glob(f"{item['name']}-*")))
    if deaths < item["deaths"]:
        (folder / f"{item['name']}-{deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def unsendable(number: int) -> object:
    return print


@pytest.mark.parametrize("processes", ["one-per-actor", "here"])
def test_results_come_in_the_order_of_the_items(tmp_path: Path, processes: Any) -> None:
    settings = {"directory": tmp_path, "processes": processes}
    assert runtime.map(square, range(20), workers=2, **settings) == [n * n for n in range(20)]


async def test_on_an_event_loop_map_is_called_in_a_thread(tmp_path: Path) -> None:
    with pytest.raises(ConvoyError, match=r"an event loop runs here, as in a notebook"):
        runtime.map(square, [1])
    settings = {"workers": 1, "directory": tmp_path}
    assert await asyncio.to_thread(runtime.map, square, [1, 2], **settings) == [1, 4]


def test_no_items_have_no_results(tmp_path: Path) -> None:
    assert runtime.map(square, [], workers=1, directory=tmp_path) == []


def test_arrays_are_read_in_place_and_results_outlive_the_workers(tmp_path: Path) -> None:
    items = [np.full((64, 1024), number, np.float32) for number in range(6)]
    found = runtime.map(shifted, items, workers=2, directory=tmp_path)
    for item, (array, writeable, file) in zip(items, found, strict=True):
        assert np.array_equal(array, item + 1)
        assert not writeable
        assert "memfd:convoy-supervisor-" in file
        assert "memfd:convoy-worker-" in file_of(array)


def test_an_error_of_the_function_names_the_item_and_the_line(tmp_path: Path) -> None:
    lines = Path(__file__).read_text().splitlines()
    raised = 1 + lines.index('        raise ValueError("negative")')
    with pytest.raises(ItemFailed) as failed:
        runtime.map(square, [1, -2, 3], workers=1, directory=tmp_path)
    expected = f"test_map.py:{raised}, in square: ValueError: negative"
    assert str(failed.value).startswith("item 1 (-2): ")
    assert str(failed.value).endswith(expected)
    assert (failed.value.number, failed.value.item) == (1, -2)


@pytest.mark.parametrize(
    ("function", "item", "expected"),
    [
        (square, print, "item 0 (<built-in function print>): it cannot be sent: value: found bu"),
        (unsendable, 1, "item 0 (1): its result cannot be sent: value: found builtin"),
    ],
)
def test_an_item_or_a_result_that_no_message_can_hold_is_named(
    tmp_path: Path, function: Any, item: object, expected: str
) -> None:
    with pytest.raises(ItemFailed) as failed:
        runtime.map(function, [item], workers=1, directory=tmp_path)
    assert str(failed.value).startswith(expected)


def test_a_worker_that_dies_is_replaced_and_its_item_is_done(tmp_path: Path) -> None:
    items = [
        {"folder": str(tmp_path), "name": f"item{number}", "deaths": number % 2}
        for number in range(4)
    ]
    found = runtime.map(dying, items, workers=2, directory=tmp_path / "runs")
    assert len(found) == 4
    assert len(list(tmp_path.glob("item*"))) == 2


def test_an_item_that_kills_its_workers_is_reported_after_so_many_deaths(tmp_path: Path) -> None:
    item = {"folder": str(tmp_path), "name": "deadly", "deaths": 9}
    with pytest.raises(ItemFailed) as failed:
        runtime.map(dying, [item], workers=1, deaths=2, directory=tmp_path / "runs")
    assert "its worker died 2 times, the last time: process worker-0 on local" in str(failed.value)
    assert "killed by SIGKILL" in str(failed.value)
    assert len(list(tmp_path.glob("deadly-*"))) == 2


def test_mistakes_in_the_call_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        runtime.map(square, [1], workers=0, deaths=True)
    assert refused.value.problems == [
        "map(): workers: found 0, expected a whole number >= 1",
        "map(): deaths: found True, expected a whole number >= 1",
    ]
    with pytest.raises(ConfigError, match="a lambda has no name"):
        runtime.map(lambda number: number, [1])


SCRIPT = """
import os, signal, sys, time
import runtime

def slow(number):
    print("computing", os.getpid(), flush=True)
    (open(f"pid-{os.getpid()}", "w")).close()
    time.sleep(number)
    return number

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    print(runtime.map(slow, [float(word) for word in sys.argv[1:]], workers=2))
"""


def test_a_function_of_the_script_itself_is_called_in_its_workers(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "slow.py", "0", "0.5"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "[0.0, 0.5]\n"), done.stderr


def test_ctrl_c_ends_the_script_and_its_workers(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SCRIPT)
    command = [sys.executable, "slow.py", "600", "600"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        while len(list(tmp_path.glob("pid-*"))) < 2:
            assert process.poll() is None
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert error.splitlines()[-1] == "KeyboardInterrupt"
    for file in tmp_path.glob("pid-*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.name.removeprefix("pid-")), 0)
