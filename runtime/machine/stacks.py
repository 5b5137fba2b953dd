"""The Python stacks of a process: which signal asks for them, and who writes them.

A thread of the process waits for two of the signals and does nothing else. It reads the stacks
while it holds the interpreter's lock: `faulthandler` on a signal reads those of threads that run
meanwhile, and such a read has ended training with a segmentation fault. The thread needs no event
loop, and kernels let the lock go. While a call into a library keeps the lock, nothing of Python can
answer: `LAST_WORDS` then still does, in C.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

INTO_LOG = signal.SIGUSR1
INTO_FILE = signal.SIGUSR2
# into the log; only to a process that is killed next: it may crash of it
LAST_WORDS = signal.SIGQUIT


def stacks_of(directory: Path, process: str) -> Path:
    """Where a process of the run in `directory` appends its stacks whenever it gets INTO_FILE."""
    return directory / "logs" / f"{process}.stacks"


def answer(path: Path) -> None:
    """Answer from now on, INTO_FILE into this one. To be called before any other thread is started:
    threads inherit that these signals are not theirs."""
    faulthandler.enable()
    faulthandler.register(LAST_WORDS)
    signal.pthread_sigmask(signal.SIG_BLOCK, (INTO_LOG, INTO_FILE))
    threading.Thread(target=_answer, args=(path,), name="stacks", daemon=True).start()


def _answer(path: Path) -> None:
    """The life of the thread."""
    while True:
        number = signal.sigwait((INTO_LOG, INTO_FILE))
        try:
            with os.fdopen(_opened(path) if number == INTO_FILE else os.dup(2), "w") as file:
                file.write(now())
        except OSError as error:
            logging.getLogger("convoy").warning("the stacks could not be written: %s", error)


def _opened(path: Path) -> int:
    return os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )


def now() -> str:
    """Those of all threads but the calling one, as lines: what was called last comes first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    collects = gc.isenabled()
    gc.disable()  # Python 3.11.2 can wait for itself for ever if it collects in here
    try:
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    del frames[threading.get_ident()]  # this frame would hold itself
    parts = []
    for thread, frame in frames.items():
        parts.append(f"Thread {names.get(thread, thread)} (most recent call first):\n")
        for called, line in traceback.walk_stack(frame):
            code = called.f_code
            parts.append(f'  File "{code.co_filename}", line {line} in {code.co_name}\n')
    return "".join(parts) + "\n"
