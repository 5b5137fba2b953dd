"""Scripts as a user runs them: roles and messages of `__main__` are used in other processes,
without a module or a cluster.toml."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.support import environment

ROLES = """
import asyncio, sys
import runtime
from runtime import Actor, ActorSpec, Envelope, Message, Topology, WindDown, message

@message
class Square(Message):
    number: int

@message
class Squared(Message):
    number: int

class Squarer(Actor):
    async def on_square(self, message: Square, envelope: Envelope) -> None:
        await self.reply(envelope, Squared(number=message.number ** 2))

class Asker(Actor):
    async def run(self):
        answers = [await self.ask("squarer", Square(number=number), Squared) for number in range(4)]
        self.emit("sum", squares=sum(answer.number for answer in answers))

class Endless(Actor):
    async def run(self):
        self.emit("ready")
        await asyncio.Event().wait()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.emit("wound down")
        self.finish()

ROLES = {"squarer": Squarer, "asker": Asker, "endless": Endless}
TOPOLOGY = Topology(
    __name__, (ActorSpec("asker", "asker"), ActorSpec("squarer", "squarer")), (("asker", "squarer"),), "asker"
)
"""
RUN = "print(runtime.run(TOPOLOGY))"
GUARDED = f"\nif __name__ == '__main__':\n    {RUN}\n"


def script(directory: Path, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    command = (sys.executable, *command)
    given = {"cwd": directory, "env": environment(), "input": text, "timeout": 60}
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)  # type: ignore[call-overload]


def test_roles_and_messages_of_the_script_itself_live_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "my squares").write_text(ROLES + GUARDED)  # a file name that cannot be imported
    done = script(tmp_path, "my squares")
    assert (done.returncode, done.stdout) == (0, "{'squares': 14}\n"), done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.endswith("-my-squares")
    assert sorted(log.name for log in (directory / "logs").iterdir()) == [
        "asker.log",
        "squarer.log",
    ]


def test_roles_and_messages_of_a_module_run_by_its_name_live_in_other_processes_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "squares.py").write_text(ROLES + GUARDED)
    done = script(tmp_path, "-m", "tools.squares")
    assert (done.returncode, done.stdout) == (0, "{'squares': 14}\n"), done.stderr


@pytest.mark.slow
def test_a_script_that_starts_its_run_when_it_is_loaded_gets_advice_to_guard_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "squares.py").write_text(f"{ROLES}\n{RUN}\n")
    done = script(tmp_path, "squares.py")
    path = tmp_path / "squares.py"
    expected = (
        f"{path}: starts a run when its roles are loaded: keep that under `if "
        '__name__ == "__main__":`'
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"runtime.errors.LaunchError: {expected}"
    (tmp_path / "squares.py").write_text(
        f"{ROLES}\nif __name__ == '__main__':\n    {RUN}\nsys.exit(0)\n"
    )
    done = script(tmp_path, "squares.py")
    assert (f"{path}: ends when its roles are loaded: keep that under") in done.stderr.splitlines()[
        -1
    ]


def test_without_a_file_actors_live_in_this_process_or_the_error_names_the_remedy(
    tmp_path: Path,
) -> None:
    done = script(tmp_path, "-", text=f'{ROLES}\nprint(runtime.run(TOPOLOGY, processes="here"))\n')
    assert (done.returncode, done.stdout) == (0, "{'squares': 14}\n"), done.stderr
    done = script(tmp_path, "-", text=f"{ROLES}\n{RUN}\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "runtime.errors.ConfigError: topology: the topology's program is __main__, which has "
        "no file here: its roles "
        "cannot reach other processes; write them into a module, or run the actors in this "
        "process with "
        "processes='here'"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_winds_a_scripts_run_down_and_then_stops_the_script(
    tmp_path: Path, number: signal.Signals
) -> None:
    endless = "Topology(__name__, (ActorSpec('one', 'endless'),), (), 'one')"
    told = "lambda event: print(event.name, flush=True)"
    run = f"runtime.run({endless}, on_event={told})\n    print('not reached')"
    # a background job ignores SIGINT
    heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    (tmp_path / "endless.py").write_text(
        f"{ROLES}\n{heard}\nif __name__ == '__main__':\n    {run}\n"
    )
    command = [sys.executable, "endless.py"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready"):
                break
        process.send_signal(number)
        said, error = process.communicate(timeout=30)
    assert (process.returncode, said) == (-number, "wound down\n")
    assert [line for line in error.splitlines() if line and not line.startswith(" ")][1:] == (
        ["KeyboardInterrupt"] if number == signal.SIGINT else []
    )
