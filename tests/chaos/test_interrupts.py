"""Ctrl-C and SIGTERM at any moment of `up`, from its first line on: it ends within five seconds,
with a message instead of a traceback.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.test_startup import GONE_WITHIN, NURSERY, PAUSE, Start, started, talking
from tests.helpers.support import ROOT, configure, environment, runtime_command

__all__ = ["started"]

# seconds after the first line of Convoy's code has run
MOMENTS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0]


def hears(pid: int) -> bool:
    """Return whether the process catches SIGTERM. Python's own start does not, and no code of
    Convoy runs before the handler is set.
    """
    caught = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigCgt")
    )
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.few("[SIGINT-0.0]", "[SIGTERM-0.5]")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_while_up_starts_ends_it_in_words(
    tmp_path: Path, started: list[Start], number: signal.Signals, moment: float
) -> None:
    run = Start(talking(tmp_path))
    started.append(run)
    while not hears(run.process.pid):
        os.sched_yield()
    begin = time.monotonic()
    while time.monotonic() < begin + moment and not run.ended(PAUSE):
        run.look()
    run.process.send_signal(number)
    assert run.ended(GONE_WITHIN), f"not heard: {run.said(0)}{run.said(1)}"
    told = run.said(0) + run.said(1)
    assert run.process.returncode == 128 + number, told
    assert f"ended by {number.name}" in told or f"{number.name}: " in told
    assert "Traceback" not in told
    assert "Interrupt" not in told
    assert run.left() == []


def test_the_module_that_handles_signals_is_imported_before_any_slow_module() -> None:
    program = (
        "import sys, runtime.__main__; print([m for m in ('numpy', 'asyncio', "
        "'zmq', 'typing', 'pathlib', 're') if m in sys.modules])"
    )
    # -S: without the modules that an editable installation imports
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.few("[nursery]")
@pytest.mark.parametrize("victim", [NURSERY, "bert"])
def test_ctrl_c_ends_a_start_in_which_a_process_is_stopped(
    tmp_path: Path, started: list[Start], victim: str
) -> None:
    run = Start(talking(tmp_path))
    started.append(run)
    while victim not in (there := run.look()):
        assert not run.ended(PAUSE)
    os.kill(there[victim], signal.SIGSTOP)
    while not list((tmp_path / "runs").glob("*/plan.json")):
        assert not run.ended(PAUSE)
    run.process.send_signal(signal.SIGINT)
    assert run.ended(GONE_WITHIN), f"the signal had no effect: {run.said(0)}{run.said(1)}"
    assert (run.process.returncode, run.said(1)) == (130, "")
    assert "SIGINT: ending the run, which has not begun yet" in run.said(0)
    assert run.left() == []


def began(run: Start) -> dict[str, int]:
    """Wait until all processes have begun; return the pid of each name."""
    while "\nbegan" not in run.said(0):
        assert not run.ended(PAUSE)
    return run.look()


def test_a_stopped_nursery_hides_no_death(tmp_path: Path, started: list[Start]) -> None:
    run = Start(talking(tmp_path))
    started.append(run)
    there = began(run)
    os.kill(there[NURSERY], signal.SIGSTOP)
    os.kill(there["carl"], signal.SIGKILL)
    assert run.ended(GONE_WITHIN), f"hangs: {run.said(0)}{run.said(1)}"
    assert run.process.returncode == 4
    assert run.said(1).startswith("process carl (carl) on local (")
    assert "killed by SIGKILL" in run.said(1)
    assert run.left() == []


@pytest.mark.parametrize("victim", [NURSERY, "carl"])
def test_a_stopped_process_does_not_outlive_an_up_that_is_killed(
    tmp_path: Path, started: list[Start], victim: str
) -> None:
    run = Start(talking(tmp_path))
    started.append(run)
    os.kill(began(run)[victim], signal.SIGSTOP)
    run.process.kill()
    assert run.ended(GONE_WITHIN)
    assert run.left() == []


@pytest.mark.slow
def test_a_second_signal_ends_at_once_a_command_that_ignored_the_first(tmp_path: Path) -> None:
    """The program swallows the exception of the first signal, as some libraries do on import."""
    (tmp_path / "swallows.py").write_text(
        "print('here', flush=True)\nwhile True:\n    try:\n        input()\n    except "
        "BaseException:\n        pass\n"
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "swallows"\n')
    for signals in (2, 1):  # one signal is enough after a while
        with subprocess.Popen(
            runtime_command("check", cluster.name),
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
                while signals == 2 and process.poll() is None and not pending_is_empty(process.pid):
                    os.sched_yield()
            _, told = process.communicate(timeout=GONE_WITHIN)
        assert (process.returncode, told.decode()) == (143, "ended by SIGTERM\n")


def pending_is_empty(pid: int) -> bool:
    """Return whether the process has taken all signals that were sent to it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    return all(
        int(line.split()[1], 16) == 0 for line in lines if line.startswith(("SigPnd", "ShdPnd"))
    )


@pytest.mark.parametrize("command", ["check", "plan"])
def test_other_commands_end_in_words_too(tmp_path: Path, command: str) -> None:
    cluster = configure(tmp_path, "sync")
    draw = random.Random(command)
    with subprocess.Popen(
        runtime_command(command, cluster.name),
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not hears(process.pid):
            os.sched_yield()
        begin = time.monotonic()
        moment = draw.uniform(0, 0.3)
        while time.monotonic() < begin + moment:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=GONE_WITHIN)
    assert (process.returncode, told) == (130, "ended by SIGINT\n")


def test_a_signal_while_a_class_is_made_ends_a_command_in_words() -> None:
    """Python 3.11 turns an exception that is raised there into a RuntimeError. The import of a
    library makes many classes.
    """
    code = """
import os, signal, sys, types
from runtime.__main__ import command

class Member:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)

def main():
    return types.new_class("Made", exec_body=lambda space: space.update(member=Member()))

sys.modules["runtime.cli.main"] = types.SimpleNamespace(main=main)
sys.exit(command())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "ended by SIGTERM\n")
