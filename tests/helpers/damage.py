"""A real finished run directory, ways to damage it, and the commands that read it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.cluster.operators.operator_key import FILE as OPERATOR_KEY
from runtime.cluster.operators.operator_key import OperatorKey
from runtime.errors import ConvoyError
from runtime.runs.checking import Resume, check
from runtime.tracing.merging import Clock, part_of, write_clocks
from tests.helpers.support import configure, run_directory, run_up

CHECKPOINT = "checkpoint-0000060.safetensors"
TRACED = ("conv_model", "coordinator")
PART = part_of(Path(), TRACED[0], 1).as_posix()
# each file and folder that a run can leave
FILES = (
    *(
        "run.json",
        "plan.json",
        "config.toml",
        "versions.json",
        "said.toml",
        "events.jsonl",
        "usage.jsonl",
        "log.csv",
    ),
    *(
        "service-times.json",
        "tuning.json",
        "trace.json",
        "trace/clocks.json",
        PART,
        "trace",
        OPERATOR_KEY,
    ),
    *("logs/conv-0-0.log", "logs", "report.html", CHECKPOINT),
)
HANGS_SECONDS = 20.0  # after this, a command that waits for a named pipe is released
TUNING = {
    "choice": {"groups": 1, "momentum": 0.9, "base_lr": 0.01, "batch": 16},
    "why": "it learns fastest",
    "saturated_groups": 1,
    "next_groups": 1,
    "iteration_seconds": {"1": 0.1},
    "searches": [],
}


@dataclass(frozen=True)
class Finished:
    """A finished run. `folder` holds cluster.toml; `spare` is a copy of the run directory that is
    never damaged.
    """

    folder: Path
    directory: Path
    spare: Path

    @property
    def path(self) -> Path:
        """The run directory relative to `folder`, as a user types it."""
        return self.directory.relative_to(self.folder)

    @property
    def out(self) -> Path:
        """The folder into which commands write."""
        return self.folder

    def contents(self) -> dict[str, tuple[object, ...]]:
        """The mode, size and content of each file and folder in the run directory."""
        return {
            path.relative_to(self.directory).as_posix(): _about(path)
            for path in self.directory.rglob("*")
        }

    def restore(self, name: str) -> None:
        """Restore one file or folder from the spare copy."""
        remove(self.directory / name)
        if (self.spare / name).is_dir():
            shutil.copytree(self.spare / name, self.directory / name)
        else:
            shutil.copy2(self.spare / name, self.directory / name)


def _about(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size < 1 << 18 else b""
    return found.st_mode, found.st_size * stat.S_ISREG(found.st_mode), content


def changed(
    before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]
) -> set[str]:
    """The files and folders of a run directory that differ between the two times."""
    names = before.keys() | after.keys()
    return {name.partition("/")[0] for name in names if before.get(name) != after.get(name)}


def finished_run(folder: Path) -> Finished:
    """Train for sixty iterations, then add the files that only some runs leave: a tuner's record,
    the parts of a trace that a death has cut, the key of an operator.
    """
    more = "[run]\nrecord_service_times = true\ntrace = 4\n"
    cluster = configure(folder, "sync", iterations=60, more=more)
    assert run_up(cluster).returncode == 0
    directory = run_directory(cluster)
    (directory / "tuning.json").write_text(json.dumps(TUNING))
    usage = {"t": 1.0, "process": "coordinator", "actors": {}}
    # a run of less than a second leaves no usage.jsonl
    (directory / "usage.jsonl").write_text(json.dumps(usage) + "\n")
    (directory / "said.toml").write_text(cluster.read_text())
    (directory / "report.html").write_text("<p>an earlier report</p>")
    OperatorKey("127.0.0.1:9", b"u" * 32, b"p" * 32, b"s" * 32).write(directory / OPERATOR_KEY)
    write_clocks(directory, 1, 0.0, dict.fromkeys(TRACED, Clock(0.0, 0.001)))
    for process in TRACED:
        part_of(directory, process, 1).write_bytes((directory / "trace.json").read_bytes()[:20_000])
    spare = folder / "spare"
    shutil.copytree(directory, spare)
    return Finished(folder, directory, spare)


# -- damage


def remove(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _as_folder(path: Path) -> None:
    path.mkdir()


def _as_link(path: Path) -> None:
    path.symlink_to("not-there")


def _as_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


# the ways to replace a file
INSTEAD: dict[str, Callable[[Path], None]] = {
    "empty": partial(_as_file, content=b""),
    "a folder": _as_folder,
    "a named pipe": os.mkfifo,
    "a link to nothing": _as_link,
    "zeros": partial(_as_file, content=bytes(1000)),
    "a list": partial(_as_file, content=b"[1, 2]\n"),
    "a number": partial(_as_file, content=b"7\n"),
    "an empty object": partial(_as_file, content=b"{}\n"),
    "deep": partial(_as_file, content=b"[" * 100_000),
    "a huge number": partial(
        _as_file, content=b'{"t": 1e999, "choice": 1' + b"0" * 10_000 + b"}\n"
    ),
}


def instead(path: Path, kind: str) -> None:
    """Replace a file or folder by one of INSTEAD."""
    remove(path)
    INSTEAD[kind](path)


# -- commands


def _resume(run: Path) -> int:
    check(Path("cluster.toml"), (), Resume(run))
    return 0


def command(name: str, run: Path, out: Path) -> int:
    """Call a command that reads this run. `out` is the folder for its output."""
    if name == "resume":  # as `up --resume` does before it starts any process
        try:
            return _resume(run)
        except ConvoyError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    return main([word.format(run=run, out=out) for word in COMMANDS[name]])


PROFILE = ("plan", "cluster.toml", "--profile", "{run}/service-times.json")
TESTED = ("train.data.test.format=digits", "train.data.test.split=test")
TUNED = (
    "train.strategy.groups='auto'",
    "train.strategy.preset=omnivore",
    "train.strategy.workers=2",
)


def _set(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("--set", setting))


# the typed commands; {run} is the run directory, {out} a folder for output
COMMANDS: dict[str, tuple[str, ...]] = {
    "events": ("events", "{run}"),
    "events --json": ("events", "{run}", "--json"),
    "status": ("status", "{run}"),
    "status --json": ("status", "{run}", "--json"),
    "status by name": ("status", "lenet"),
    "down": ("down", "{run}"),
    "logs": ("logs", "{run}"),
    "logs of one": ("logs", "{run}", "conv-0-0"),
    "stack": ("stack", "{run}"),
    "report": ("report", "{run}", "-o", "{out}/page.html"),
    "report there": ("report", "{run}"),
    "top": ("top", "{run}", "--once"),
    "trace start": ("trace", "start", "{run}"),
    "trace stop": ("trace", "stop", "{run}"),
    "ps": ("ps", "runs"),
    "ps of one": ("ps", "{run}"),
    "scale": ("scale", "{run}", "--workers", "2"),
    "save": ("save", "{run}"),
    "resume": (),
    "plan --measured": (*PROFILE, "--measured", "{run}", "--chart", "{out}/chart.svg"),
    "plan --learnt": (*PROFILE, "--target", "loss=0.1", "--learnt", "{run}"),
    "check from tuning": ("check", *_set("train.tuning.start={run}/tuning.json", *TUNED)),
    "check from checkpoint": ("check", *_set(f"train.resume={{run}}/{CHECKPOINT}")),
    "predict": (
        "predict",
        f"{{run}}/{CHECKPOINT}",
        "--data",
        "format=digits,split=test",
        "--top",
        "1",
    ),
    "test": ("test", f"{{run}}/{CHECKPOINT}", *_set(*TESTED)),
    "convert": ("convert", f"{{run}}/{CHECKPOINT}", "{out}/net.onnx"),
    "connect": ("status", "--connect", f"{{run}}/{OPERATOR_KEY}"),
}
STANDING = ("run.json", "plan.json", "config.toml", "events.jsonl")
REPORTED = (*STANDING, "usage.jsonl", "trace.json", "tuning.json", "versions.json")
LEARNT = ("config.toml", "events.jsonl", "service-times.json")
# the files that a command reads, and whose names it prints if they are damaged
READS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("events", "events --json"), ("events.jsonl",)),
    **dict.fromkeys(("status", "status --json", "status by name", "down"), STANDING),
    **dict.fromkeys(("logs", "logs of one"), ("plan.json", "logs/conv-0-0.log", "logs")),
    **dict.fromkeys(("stack", "top", "scale", "save"), ("plan.json",)),
    **dict.fromkeys(("predict", "test", "convert", "check from checkpoint"), (CHECKPOINT,)),
    **dict.fromkeys(("plan --measured", "plan --learnt"), LEARNT),
    "trace stop": ("trace/clocks.json", PART, "trace"),
    "report": REPORTED,
    "report there": REPORTED,
    "resume": ("config.toml", "said.toml", CHECKPOINT),
    "check from tuning": ("tuning.json",),
    "connect": (OPERATOR_KEY,),
}


def is_noticed(file: str, kind: str) -> bool:
    """Return whether a reader can see that this file or folder is not the expected one."""
    if kind in ("a folder", "a named pipe", "a link to nothing"):
        return not (kind == "a folder" and file in ("logs", "trace"))
    if file.endswith(".toml"):
        return kind != "empty"
    if file in (
        "events.jsonl",
        "usage.jsonl",
        "trace.json",
        PART,
    ):  # an incomplete last line is still being written
        return kind not in ("empty", "zeros", "deep")
    return file != "versions.json" and not file.endswith(".log")  # their text is shown as it is


def written_by(name: str, code: int | None) -> set[str]:
    """The files that a command should write into the run directory."""
    if code:
        return set()
    return {"report there": {"report.html"}, "trace stop": {"trace.json", "trace"}}.get(name, set())


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    code: int | None
    out: str
    err: str
    trace: str = ""
    hung: bool = False


@contextmanager
def let_go(pipe: Path) -> Iterator[threading.Event]:
    """Release a command that waits for a named pipe after HANGS_SECONDS, and then set the event."""
    hung = threading.Event()
    over = threading.Event()

    def open_it() -> None:
        while not over.wait(HANGS_SECONDS):
            with suppress(OSError):  # no process waits for the pipe, or it is another kind of file
                if stat.S_ISFIFO(pipe.lstat().st_mode):
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                    hung.set()

    thread = threading.Thread(target=open_it)
    thread.start()
    try:
        yield hung
    finally:
        over.set()
        thread.join()


def outcome(
    name: str, run: Path, damaged: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> Outcome:
    """Call a command. `damaged` is the damaged file; if it is a named pipe, the command may wait
    for it.
    """
    capsys.readouterr()
    trace = ""
    code = None
    with let_go(damaged) as hung:
        try:
            code = command(name, run, out)
        except Exception:  # a person would see the traceback of any exception
            trace = traceback.format_exc()
    said = capsys.readouterr()
    return Outcome(code, said.out, said.err, trace, hung.is_set())
