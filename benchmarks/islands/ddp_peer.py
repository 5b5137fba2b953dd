"""A process of PyTorch's DDP over gloo that computes nothing: `python -m benchmarks.islands.ddp_peer
RANK WORLD ADDRESS PORT SECONDS ITERATIONS NUMBERS`.

Each iteration sleeps for SECONDS, and sums a gradient of NUMBERS float32 over all processes. The
first process prints the seconds of an iteration, after one that does not count.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Parameters(torch.nn.Module):
    """So many parameters, whose gradient is the same number everywhere."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(numbers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of all parameters, times x."""
        return (self.weight * x).sum()


def main() -> None:
    """Train, and print the seconds."""
    rank, world, address, port, seconds, iterations, numbers = sys.argv[1:]
    dist.init_process_group(
        "gloo", init_method=f"tcp://{address}:{port}", rank=int(rank), world_size=int(world)
    )
    model = DistributedDataParallel(Parameters(int(numbers)))
    began = 0.0
    for number in range(int(iterations) + 1):
        began = time.perf_counter() if number == 1 else began
        time.sleep(float(seconds))
        model(torch.ones(1)).backward()
    if rank == "0":
        print((time.perf_counter() - began) / int(iterations))


if __name__ == "__main__":
    main()
