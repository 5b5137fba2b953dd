"""The stacks of a running process: they are written whatever its threads do, and a request for them
does no harm.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.machine.stacks import INTO_FILE, INTO_LOG, stacks_of
from tests.helpers.support import ROOT, environment

# An event loop whose coroutines come and go, together with a thread in kernels, which release the
# interpreter's lock.
PROCESS = """
import asyncio, sys, threading
from pathlib import Path
import numpy
from runtime.machine import stacks

stacks.answer(stacks.stacks_of(Path(sys.argv[1]), "p"))
sys.setswitchinterval(0.0001)  # threads take turns fifty times as often as usual

def computing():
    a = numpy.ones((64, 64), "float32")
    while True:
        a @ a

async def deep(calls):
    await (deep(calls - 1) if calls else asyncio.sleep(0))

async def looping():
    while not ended.is_set():
        await asyncio.gather(deep(10), deep(5))

def waiting():
    sys.stdin.read()
    ended.set()

ended = threading.Event()
for work in (computing, waiting):
    threading.Thread(target=work, name=work.__name__, daemon=True).start()
print("began", flush=True)
asyncio.run(looping())
print("ended", flush=True)
"""


class Asked:
    """The process, with a pipe for its file and one for its log."""

    def __init__(self, directory: Path, process: subprocess.Popen[str], file: int) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process = process
        self.place = stacks_of(directory, "p")
        self._gone = os.pidfd_open(process.pid)
        self._pipes = {INTO_FILE: file, INTO_LOG: process.stderr.fileno()}
        assert process.stdout.readline() == "began\n"

    def writes(self, asked: signal.Signals, into: signal.Signals) -> str:
        """Send the signal; return the text that the process then writes into that pipe. Raises
        AssertionError if the signal kills it.
        """
        os.kill(self.process.pid, asked)
        ready, _, _ = select.select([self._pipes[into], self._gone], [], [])
        assert self._gone not in ready, f"it died: {self.process.wait()}"
        return os.read(self._pipes[into], 1 << 16).decode()


@contextmanager
def running(directory: Path) -> Iterator[Asked]:
    place = stacks_of(directory, "p")
    pipe = subprocess.PIPE
    place.parent.mkdir()
    os.mkfifo(place)
    file = os.open(place, os.O_RDWR)
    command = [sys.executable, "-c", PROCESS, str(directory)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        try:
            yield Asked(directory, process, file)
        finally:
            process.kill()
            os.close(file)


@pytest.mark.slow  # 5 s
def test_a_process_with_running_threads_survives_thousands_of_requests_for_its_stacks(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as asked:
        for _ in range(3000):
            asked.writes(INTO_FILE, INTO_FILE)
        assert asked.process.communicate("") == ("ended\n", "") and asked.process.returncode == 0


@pytest.mark.parametrize("number", [INTO_FILE, INTO_LOG], ids=["into its file", "into its log"])
def test_the_stacks_have_every_thread_with_its_name_and_the_most_recent_call_first(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path) as asked:
        text = asked.writes(number, number)
    names = re.findall(r"^Thread (.*) \(most recent call first\):$", text, re.MULTILINE)
    assert sorted(names) == ["MainThread", "computing", "waiting"]
    waiting = text[text.index("Thread waiting") :].split("Thread ")[1].splitlines()[1:]
    assert waiting[0] == (
        '  File "<string>", line '
        f"{PROCESS.splitlines().index('    sys.stdin.read()') + 1} in waiting"
    )
    called = [line.rpartition(" in ")[2] for line in waiting if line]
    assert called == ["waiting", "run", "_bootstrap_inner", "_bootstrap"]


def test_stacks_that_cannot_be_written_are_reported_and_may_be_requested_again(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as asked:
        asked.place.rename(tmp_path / "elsewhere")
        asked.place.parent.rmdir()
        said = asked.writes(INTO_FILE, INTO_LOG)
        assert said.startswith("the stacks could not be written: ") and "No such file" in said
        asked.place.parent.mkdir()
        (tmp_path / "elsewhere").rename(asked.place)
        assert "Thread MainThread" in asked.writes(INTO_FILE, INTO_FILE)
