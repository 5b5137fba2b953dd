"""`python -m tests.gpu.counted FOLDER CLUSTER`: a run by `up` on the stand-in, whose processes leave
their counts in FOLDER, one JSON file each.

A file has the counts of the stand-in, and `framed`: the bytes of arrays that the process sent
through sockets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runtime.__main__ import command
from runtime.actors.node import Node
from runtime.messages import wire
from runtime.transport.sockets import SocketTransport


def note(folder: Path) -> None:
    """Let every process that is forked from this one leave its counts when its node stops."""
    framed = [0]
    stop = Node.stop
    send = SocketTransport._send

    async def noted(self: Node, names: Iterable[str] | None = None) -> None:
        await stop(self, names)
        fake_cuda: Any = sys.modules.get("fake_cuda")
        if names is None and fake_cuda is not None:
            text = json.dumps({**fake_cuda.counts(), "framed": framed[0]})
            (folder / f"{self.process}.json").write_text(text)

    async def counted(self: Any, link: Any, envelope: Any, frames: Any, in_place: int) -> None:
        framed[0] += wire.size_of(frames) - len(frames[0])
        await send(self, link, envelope, frames, in_place)

    Node.stop = noted  # type: ignore[method-assign]
    SocketTransport._send = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    note(Path(sys.argv[1]))
    sys.argv = ["runtime", "up", sys.argv[2]]
    sys.exit(command())
