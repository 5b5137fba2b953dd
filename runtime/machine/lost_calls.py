"""Mistakes for which Python itself only prints a line: a coroutine that was never awaited, so that
no message was sent, and a task that failed and that no code awaits."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any, TextIO

from runtime.errors import ProgramFailed
from runtime.user_code import is_users, line_of, short, told

NEVER_AWAITED = "was never awaited"


def watch_lost_calls(
    loop: asyncio.AbstractEventLoop, failed: Callable[[ProgramFailed], None]
) -> Callable[[], None]:
    """Call `failed`, on the loop, with each such mistake in the user's code from now on. Returns a
    function that ends this. Everything else is printed as before."""
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category is RuntimeWarning and NEVER_AWAITED in str(message) and is_users(filename):
            said = f"{short(filename)}:{lineno}: {message}: write `await` before the call"
            loop.call_soon_threadsafe(failed, ProgramFailed(said))
        shown(message, category, filename, lineno, file, line)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(context.get("future"), asyncio.Task) and error and line_of(error):
            failed(ProgramFailed(f"{told(error)} (in a task that no code awaits)"))
        loop.default_exception_handler(context)

    def end() -> None:
        warnings.showwarning = shown
        loop.set_exception_handler(None)

    warnings.showwarning = show
    loop.set_exception_handler(handle)
    return end
