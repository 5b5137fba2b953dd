"""A part of the GPU benchmark: two workers on one card, in several processes and in one, compared
with one worker.

In several processes every array that workers exchange is copied to the host once. In one process it
stays on the card.
"""

from __future__ import annotations

from benchmarks.gpu.runs import configured, exposed, journal
from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import Record

PRESETS = ("omnivore", "host-accumulate")
PROCESSES = ("one-per-actor", "per-device")


def two_workers(record: Record, sizes: Sizes) -> None:
    """Record the speed of one worker, and of two with each preset and placement. Each row is saved
    when it is known."""
    record.table(
        "Two workers on one card",
        "net",
        "batch",
        "preset",
        "workers",
        "processes",
        "images/s",
        "seconds",
        "exposed, part of an iteration",
    )
    assert record.path is not None
    cases = [("single", 1, PROCESSES[0])]
    cases += [(preset, 2, processes) for preset in PRESETS for processes in PROCESSES]
    for net, batch, iterations in sizes.two_workers:
        for preset, workers, processes in cases:
            folder = record.path.with_suffix("") / f"{net}-{preset}-{processes}"
            configured(folder, net, batch, iterations, preset, workers, sizes.device, processes)
            made = journal(record, folder, f"{net}, {preset}, {processes}")
            if made is not None:
                end = made["finished"][-1]
                cells = end["images_per_second"], end["seconds"], exposed(made, batch)
                record.row(net, batch, preset, workers, processes, *cells)
