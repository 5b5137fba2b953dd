"""One of two processes that exchange messages: `python -m benchmarks.messages.end KIND END
OPTIONS`.

The process prints where it is, reads where the other end is, and prints that it is linked. Then it
obeys orders, an order and an answer per line, until its standard input closes. Each kind's way of
sending is in `convoy` and `peers`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any, Protocol

from benchmarks.messages.pair import MARK
from runtime.machine.loop import event_loop_factory

KINDS = {  # kind -> the module and name of its class
    "convoy": ("benchmarks.messages.convoy", "Convoy"),
    "zmq.asyncio": ("benchmarks.messages.peers", "ZmqAsyncio"),
    "bare": ("benchmarks.messages.peers", "Bare"),
    "pyzmq": ("benchmarks.messages.peers", "Pyzmq"),
    "ray": ("benchmarks.messages.peers", "Ray"),
    "xoscar": ("benchmarks.messages.peers", "Xoscar"),
}


class Kind(Protocol):
    """The methods that every kind has. Its measurements are further methods."""

    async def open(self) -> Any:
        """Start. Returns where the other end finds this one."""

    async def connect(self, other: Any) -> None:
        """Link to the other end."""

    async def close(self) -> None:
        """Stop this end."""


async def serve(end: Kind) -> None:
    """Obey orders until standard input closes."""
    loop = asyncio.get_running_loop()
    _say(await end.open())
    await end.connect(json.loads(sys.stdin.readline()))
    _say("linked")
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, options = json.loads(line)
        _say(await getattr(end, name)(**options))
    await end.close()


def _say(what: Any) -> None:
    print(MARK + json.dumps(what), flush=True)


def main() -> None:
    """Run one end."""
    kind, name, options = sys.argv[1:]
    module, title = KINDS[kind]
    made: Kind = getattr(importlib.import_module(module), title)(name, **json.loads(options))
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(serve(made))


if __name__ == "__main__":
    main()
