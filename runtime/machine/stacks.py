"""The Python stacks of a process: which signals ask for them, and how they are written.

A dedicated thread of the process waits for two of the signals. It reads the stacks while it holds
the interpreter's lock. `faulthandler` on a signal would read the stacks of threads that run
meanwhile, and such a read has ended training with a segmentation fault.

The thread needs no event loop, and kernels release the lock. While a call into a library keeps the
lock, no Python code can answer. `LAST_WORDS` is then still answered, in C.
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
# writes into the log; sent only to a process that will be killed next, since it may crash
LAST_WORDS = signal.SIGQUIT


def stacks_of(directory: Path, process: str) -> Path:
    """Return the file to which a process of the run in `directory` appends its stacks at each
    INTO_FILE."""
    return directory / "logs" / f"{process}.stacks"


def answer(path: Path) -> None:
    """Answer the signals from now on, INTO_FILE into the file `path`. Call this before any other
    thread is started, since threads inherit the mask that blocks these signals."""
    faulthandler.enable()
    faulthandler.register(LAST_WORDS)
    signal.pthread_sigmask(signal.SIG_BLOCK, (INTO_LOG, INTO_FILE))
    threading.Thread(target=_answer, args=(path,), name="stacks", daemon=True).start()


def _answer(path: Path) -> None:
    """Wait for the signals and write the stacks, in the dedicated thread."""
    while True:
        number = signal.sigwait((INTO_LOG, INTO_FILE))
        try:
            into = _opened(path) if number == INTO_FILE else os.dup(2)
            with os.fdopen(into, "w", encoding="utf-8") as file:
                file.write(now())
        except OSError as error:
            logging.getLogger("convoy").warning("the stacks could not be written: %s", error)


def _opened(path: Path) -> int:
    return os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )


def now() -> str:
    """Return the stacks of all threads except the calling one, as lines with the most recent call
    first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    collects = gc.isenabled()
    gc.disable()  # Python 3.11.2 can deadlock if a collection starts here
    try:
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    del frames[threading.get_ident()]  # this frame would refer to itself
    parts = []
    for thread, frame in frames.items():
        parts.append(f"Thread {names.get(thread, thread)} (most recent call first):\n")
        for called, line in traceback.walk_stack(frame):
            code = called.f_code
            parts.append(f'  File "{code.co_filename}", line {line} in {code.co_name}\n')
    return "".join(parts) + "\n"
