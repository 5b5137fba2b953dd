"""Free ports of this machine for a test: in a row, and used by no other test."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# Guard ports: each is held while a test uses some of the ports after it. All of them are below the
# ports that Linux gives to sockets that ask for any port (32768 and up), so no such socket can take
# one of these.
GUARDS = range(20_000, 32_000, 16)


@contextmanager
def free_ports(count: int = 1) -> Iterator[int]:
    """The first of `count` free ports in a row (15 at most) on 127.0.0.1. No other test on this
    machine uses them until the block ends.
    """
    guard, first = _guarded(count)
    with guard:
        yield first


def _guarded(count: int) -> tuple[socket.socket, int]:
    """The socket that holds a guard port, and the port after it. Raises OSError if no such row of
    ports is free.
    """
    assert count < GUARDS.step
    for start in random.sample(GUARDS, len(GUARDS)):
        try:
            with ExitStack() as held:
                guard, *_ = [
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
                    for port in range(start, start + count + 1)
                ]
                return guard.dup(), start + 1
        except OSError:
            continue
    raise OSError(f"no {count} free ports in a row in {GUARDS}")
