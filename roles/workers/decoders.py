"""The processes that decode a worker's pictures, if cores are free for them."""

from __future__ import annotations

from collections.abc import Iterable

from nets.data import DecodingProcesses, SharedMemory, Source
from roles.learning.backends import reader_threads
from runtime import Actor


def decoders_for(
    actor: Actor, sources: Iterable[Source], *, on_gpu: bool
) -> DecodingProcesses | None:
    """Let processes decode the pictures of these sources, one for each reading thread. They do not
    start by themselves. Returns None if one thread reads, if no source has encoded pictures, or if
    this process shares no memory."""
    threads = reader_threads(on_gpu=on_gpu)
    if threads < 2 or actor.memory_range is None:
        return None
    memory = SharedMemory(actor.memory, *actor.memory_range, actor.memory_file)
    found = DecodingProcesses(threads, memory)
    decodes = [source.decode_with(found) for source in sources]
    return found if any(decodes) else None
