"""PyTorch's whole training step as one CUDA graph: the fastest way that a user has without a
compiler (PyTorch's notes on CUDA graphs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WARM = 3  # steps on a stream of their own before the graph is captured, as PyTorch's notes ask


def graph_step(
    net: Any, inputs: dict[str, Any], *, device: Any, autocast: bool, blobs: Any
) -> Callable[[], float]:
    """A step of forward, backward and SGD that is captured once, with channels last. Each step
    copies the images from page-locked memory, starts the graph and returns the loss."""
    import torch

    from benchmarks.training.torch_peer import TorchPeer

    layout = torch.channels_last
    peer = TorchPeer(net, blobs).to(device=device, memory_format=layout)
    given = {
        name: torch.from_numpy(array).to(memory_format=layout).pin_memory()
        if array.ndim == 4
        else torch.from_numpy(array).long().pin_memory()
        for name, array in inputs.items()
    }
    fed = {name: array.to(device) for name, array in given.items()}
    optimizer = torch.optim.SGD(peer.parameters(), 1e-3, 0.9, weight_decay=5e-4)

    def whole() -> Any:
        optimizer.zero_grad(set_to_none=True)
        # a graph may not keep casts of weights that were made outside of it
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast, cache_enabled=False):
            loss = peer(**fed)
        loss.backward()
        optimizer.step()
        return loss.detach()

    first = None
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM):
            loss = whole()
            first = float(loss) if first is None else first
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = whole()
    losses = iter((first,))  # the first call tells the loss of the first step

    def step() -> float:
        for name, array in given.items():
            fed[name].copy_(array, non_blocking=True)
        graph.replay()
        now = float(loss)
        return next(losses, now)

    return step
