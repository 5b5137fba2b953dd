"""The end of an actor and of its tasks: an error of a task fails the actor. Cancelling a task only
ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.misuse import was_cancelled
from runtime.errors import ProgramFailed, root_of
from runtime.user_code import told

STOP_SECONDS = 1.0  # seconds that on_stop may take


async def guarded(
    life: Callable[[], Coroutine[Any, Any, None]], failed: Callable[[BaseException], None]
) -> None:
    """Await `life()`. Calls `failed` with its error, as the user sees it."""
    try:
        await life()
    except SystemExit as error:  # it would end the event loop without a report
        failed(ProgramFailed(told(error)))
    except (Exception, asyncio.CancelledError) as error:
        if ends(error):
            raise
        failed(shown(error))


async def stopped(actor: Actor) -> None:
    """Call the actor's on_stop. An error is logged, since it must not keep other actors from their
    ends."""
    try:
        await asyncio.wait_for(actor.on_stop(), STOP_SECONDS)
    except (Exception, asyncio.CancelledError) as error:
        if ends(error):
            raise
        logging.getLogger("convoy").exception("%s: on_stop failed", actor.name)


def ends(error: BaseException) -> bool:
    """Whether the current task itself is cancelled, and not only something that it awaits."""
    task = asyncio.current_task()
    is_asked = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_asked


def shown(error: BaseException) -> BaseException:
    """Return the error that the user sees."""
    return was_cancelled(error) if isinstance(error, asyncio.CancelledError) else root_of(error)
