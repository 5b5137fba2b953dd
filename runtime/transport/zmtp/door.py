"""The door of a ZeroMQ listener: it follows each connection, and accepts the next one when there is
a place for it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from runtime.reasons import reason_of
from runtime.transport.zmtp.strangers import PROVEN_AFTER, Strangers
from runtime.transport.zmtp.turnstile import Turnstile

OF_PROCESS = Strangers()
# The system would let 4 MB wait, which leave the CPU caches before they are sent. With 512 KB, 1 MB
# arrays are 1.3 times as fast. A link of 10 Gbit/s is still full at round trips up to 0.4 ms.
SEND_BUFFER = 512 << 10
RETRY_SECONDS = 1.0  # seconds until the next try after a connection could not be accepted
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Door:
    """The door at HOST:PORT, see `Turnstile`.

    `bind(descriptor)` passes a listening socket to ZeroMQ. `on_refused(peer, reason)` is called for
    connections that cannot be accepted. Close the door before ZeroMQ's socket. Raises OSError if it
    cannot listen.
    """

    def __init__(
        self,
        address: str,
        bind: Callable[[int], None],
        on_refused: Callable[[str, str], None],
        strangers: Strangers = OF_PROCESS,
    ) -> None:
        self._turnstile = Turnstile(address, SEND_BUFFER)
        self._turnstile.hand_over(bind)
        self._on_refused = on_refused
        self._strangers = strangers
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._open = True

    def __repr__(self) -> str:
        return f"<door at {self._turnstile.address}, {self._strangers!r}>"

    def accepted(self, connection: int) -> None:
        """Note that ZeroMQ has accepted a connection with this descriptor."""
        self._strangers.come(self, connection, self._loop.time())
        self._next()

    def not_accepted(self, number: int) -> None:
        """Handle a connection that ZeroMQ could not accept. `number` is the system's error
        number."""
        if number in _LACKING:
            self._on_refused("a stranger", f"it cannot be accepted: {reason_of(number)}")
            self._loop.call_later(RETRY_SECONDS, self._next)
        else:  # the peer has left again
            self._next()

    def proven(self, _: int) -> None:
        """Note that a peer that connected here has proven its identity. ZeroMQ does not report
        which peer."""
        self._strangers.proven(self)

    def left(self, connection: int) -> None:
        """Note that a connection has ended."""
        self._strangers.left(self, connection)

    def admit(self) -> None:
        """Accept the next connection; see Waiting.admit."""
        if self._open:
            self._turnstile.turn()

    def close(self) -> None:
        """Accept nothing more."""
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        self._strangers.forget(self)

    def _next(self) -> None:
        if self._open:
            self._strangers.next_for(self)
            self._tidy()

    def _tidy(self) -> None:
        """Free places now, and again when the oldest stranger must have left or proven its
        identity, as long as doors wait for a place."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = self._strangers.tidy(self._loop.time())
        self._timer = (
            self._loop.call_later(min(seconds, PROVEN_AFTER), self._tidy) if seconds > 0 else None
        )
