"""One process of PyTorch's DDP over gloo: `python -m benchmarks.distributed.peer NET LAYOUT
SECONDS`.

It holds its part of the net's batch of made-up images. Rank 0 prints images a second of the whole
batch. Processes find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; `distributed`
starts them.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.training.torch_peer import TorchPeer
from benchmarks.training.training import WORKLOADS
from nets import Net, load_net
from ops import get_backend

WARM = 5  # iterations that do not count


def main() -> None:
    """Train for so many seconds after the first iterations."""
    name = sys.argv[1]
    layout = sys.argv[2]
    seconds = float(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work = WORKLOADS[name]
    members = dist.get_world_size()
    net = Net(
        load_net(work.net),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=work.batch // members,
        input_shape=work.image,
    )
    form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    model = DistributedDataParallel(TorchPeer(net).to(memory_format=form))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=0.0005)
    x = torch.randn(work.batch // members, *work.image or ()).contiguous(memory_format=form)
    labels = torch.randint(work.classes, (work.batch // members,))
    taken: list[float] = []
    while True:
        started = time.perf_counter()
        optimiser.zero_grad()
        model(data=x, label=labels).backward()
        optimiser.step()
        taken.append(time.perf_counter() - started)
        going = torch.tensor(float(sum(taken[WARM:]) < seconds))
        if len(taken) % 10 == 0:
            dist.broadcast(going, 0)
            if not going:
                break
    if os.environ["RANK"] == "0":
        print(work.batch / median(taken[WARM:]), flush=True)
    dist.barrier()  # a process that ends while another still sends aborts
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
