"""A worker of PyTorch's DDP under torchelastic, which resumes from a checkpoint: `-m
benchmarks.chaos.elastic_peer FOLDER SECONDS`, started by `torch.distributed.run`.

LeNet on noise over gloo. Its collectives wait for so many SECONDS (0: gloo's default). Rank 0 saves
once a second. It writes the number of each iteration, the time of its end and its own pid into
FOLDER/progress.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.training.torch_peer import TorchPeer
from nets import Net, load_net
from ops import get_backend

BATCH = 16
SHAPE = (1, 28, 28)
CLASSES = 10
SAVED_EVERY = 1.0  # seconds


def main(folder: Path, seconds: float) -> None:
    """Train until the process is killed."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds) if seconds else None)
    torch.set_num_threads(1)
    rank = dist.get_rank()
    rows = BATCH // dist.get_world_size()
    net = Net(load_net("lenet"), "TRAIN", ops=get_backend("numpy"), batch=rows, input_shape=SHAPE)
    model = DistributedDataParallel(TorchPeer(net))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=0.0005)
    saved = folder / "checkpoint.pt"
    done = 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
    noise = np.random.default_rng(1)
    x = torch.from_numpy(noise.random((rows, *SHAPE), np.float32))
    labels = torch.from_numpy(noise.integers(0, CLASSES, rows))
    at = time.monotonic()
    with (folder / "progress").open("a", buffering=1) as progress:
        while True:
            optimizer.zero_grad()
            model(data=x, label=labels).backward()
            optimizer.step()
            done += 1
            if rank:
                continue
            progress.write(f"{done} {time.monotonic()} {os.getpid()}\n")
            if time.monotonic() - at >= SAVED_EVERY:
                at = time.monotonic()
                half = saved.with_suffix(".half")
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "done": done,
                    },
                    half,
                )
                half.replace(saved)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
