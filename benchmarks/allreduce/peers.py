"""One process of a peer's allreduce: `python -m benchmarks.allreduce.peers mpi|gloo NUMBERS
ROUNDS`.

Rank 0 prints the seconds of its rounds as JSON. MPI ranks are started by mpirun. gloo's ranks find
each other by the usual variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). `allreduce` starts
both.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from benchmarks.allreduce.members import input_of


def mpi(numbers: int) -> tuple[int, Callable[[], float]]:
    """The rank, and a function for a round of Open MPI's Allreduce from one array to another, which
    returns its seconds."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    mine = input_of(comm.rank, numbers)
    total = np.empty(numbers, np.float32)

    def one() -> float:
        started = time.perf_counter()
        comm.Allreduce(mine, total)
        return time.perf_counter() - started

    return comm.rank, one


def gloo(numbers: int) -> tuple[int, Callable[[], float]]:
    """The rank, and a function for a round of torch.distributed's all_reduce in place, which
    returns its seconds without the copy that renews the array."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    mine = torch.from_numpy(input_of(rank, numbers))
    total = torch.empty_like(mine)

    def one() -> float:
        total.copy_(mine)
        started = time.perf_counter()
        dist.all_reduce(total)
        return time.perf_counter() - started

    return rank, one


def main() -> None:
    """Run all rounds."""
    peer = sys.argv[1]
    numbers = int(sys.argv[2])
    rounds = int(sys.argv[3])
    rank, one = {"mpi": mpi, "gloo": gloo}[peer](numbers)
    seconds = [one() for _ in range(rounds)]
    if rank == 0:
        print(json.dumps(seconds), flush=True)
    if peer == "gloo":
        import torch.distributed as dist

        dist.barrier()  # a process that ends while another still sends aborts
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
