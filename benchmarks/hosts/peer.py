"""A process of PyTorch's DDP over gloo on one of several machines: `python -m benchmarks.hosts.peer
KIND RANK OPTIONS`.

    work    a net of ours as PyTorch modules (`torch_peer`), trained on noise, or on the named data
    sleep   layers that compute nothing: each sleeps for its measured time, and has gradients of its size
    times   no DDP: the times of the layers on this machine, for `sleep`, and the faster of PyTorch's two layouts
    grid    no DDP: the iterations to a loss at each of several rates. DDP is synchronous, so one process that
            computes whole batches needs as many

DDP has its default settings: buckets of 25 MB, sent while the backward pass goes on. Orders and
answers are lines of JSON (`benchmarks.messages.pair.End`). The processes are started by `sides`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.hosts.rows import Rows, rows_of
from benchmarks.messages.pair import MARK
from benchmarks.training.torch_peer import TorchPeer
from nets import Net, load_net
from ops import get_backend

LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
MOMENTUM = 0.9
CHECKED = 10  # iterations between two checks of the loss
# a layer: the shapes of its parameters, seconds forward and backward
Part = tuple[list[list[int]], float, float]


class Peer:
    """A process of DDP. `iteration` trains on the next rows and returns their loss."""

    def __init__(self, options: dict[str, Any]) -> None:
        dist.init_process_group("gloo")
        side = Slept(options) if "parts" in options else distributed(options)
        self.iteration: Callable[[], Tensor] = side.iteration

    def turn(self, iterations: int) -> float:
        """The mean seconds of an iteration over so many, after one that does not count."""
        dist.barrier()
        self.iteration()
        began = time.perf_counter()
        for _ in range(iterations):
            self.iteration()
        return (time.perf_counter() - began) / iterations

    def learn(
        self, target: float, window: int, seconds: float, early: float
    ) -> tuple[float, int, float, float]:
        """Train until the mean loss of the last `window` iterations is at most `target`, or for so
        many seconds. Returns the seconds, the iterations, that loss, and the seconds until the loss
        `early`."""
        dist.barrier()
        began = time.perf_counter()
        losses = deque[float](maxlen=window)
        done = 0
        first = math.inf
        while True:
            told = torch.zeros(CHECKED, 2)
            for row in told:
                losses.append(float(self.iteration()))
                row[0] = mean(losses)
                row[1] = time.perf_counter() - began
            dist.all_reduce(told)  # all processes get the same numbers, and stop together
            for loss, taken in (told / dist.get_world_size()).tolist():
                done += 1
                if done >= window and loss <= early:
                    first = min(first, taken)
                if (done >= window and loss <= target) or taken > seconds:
                    return taken, done, loss, first


class Trained:
    """A net that is trained, with the solver's rates for each parameter. `wrapped` makes the model
    that is trained from the net's modules."""

    def __init__(
        self, options: dict[str, Any], rows: Rows, wrapped: Callable[[nn.Module], nn.Module]
    ) -> None:
        net = net_of(options)
        peer = TorchPeer(net).to(memory_format=LAYOUTS[options["layout"]])
        self._optimiser = optimiser_of(peer, net, options["rate"], options["decay"])
        self._model = wrapped(peer)
        self._rows = rows

    def iteration(self) -> Tensor:
        """Train on the next rows. Returns their loss."""
        x, labels = self._rows()
        self._optimiser.zero_grad()
        loss: Tensor = self._model(data=x, label=labels)
        loss.backward()
        self._optimiser.step()
        return loss.detach()


class Slept:
    """A net whose layers sleep."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._model = DistributedDataParallel(
            nn.Sequential(*(Sleeping(part) for part in options["parts"]))
        )
        self._update: float = options["update"]

    def iteration(self) -> Tensor:
        """Run both passes and the update, all of which sleep. Returns the loss of the pass."""
        loss = self._model(torch.zeros(1, requires_grad=True)).sum()
        self._model.zero_grad()
        loss.backward()
        time.sleep(self._update)
        return loss.detach()


class Sleeping(nn.Module):
    """A layer that sleeps."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        shapes, self._forward, self._backward = part
        self._blobs = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)

    def forward(self, x: Tensor) -> Tensor:
        """Return x after the layer's time."""
        time.sleep(self._forward)
        result: Tensor = _Backward.apply(x, self._backward, *self._blobs)
        return result


class _Backward(torch.autograd.Function):
    """Sleeps in the backward pass, and returns gradients of the parameters' sizes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float, *blobs: Tensor) -> Tensor:
        ctx.seconds = seconds
        ctx.blobs = blobs
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        until = time.perf_counter() + ctx.seconds
        gradients = [torch.zeros_like(blob) for blob in ctx.blobs]
        time.sleep(max(0.0, until - time.perf_counter()))
        return (dy, None, *gradients)


def distributed(options: dict[str, Any]) -> Trained:
    """A net that DDP trains, on this process's rows of each batch."""
    form = LAYOUTS[options["layout"]]
    rows = rows_of(options, form, dist.get_rank(), dist.get_world_size())
    return Trained(options, rows, DistributedDataParallel)


def net_of(options: dict[str, Any]) -> Net:
    """The net for this process's rows, with the first parameters of the seed."""
    spec = load_net(options["net"])
    image = tuple(options["shape"])
    return Net(
        spec,
        "TRAIN",
        ops=get_backend("numpy"),
        batch=options["rows"],
        input_shape=image,
        seed=options.get("seed", 0),
    )


def optimiser_of(peer: TorchPeer, net: Net, rate: float, decay: float) -> torch.optim.SGD:
    """Caffe's SGD: each blob's rate and decay are multiplied by the net's factors."""
    kinds: dict[tuple[float, float], list[nn.Parameter]] = {}
    for layer, params in net.params.items():
        for param, blob in zip(params, peer.parts[layer].parameters(), strict=True):
            kinds.setdefault((rate * param.lr_mult, decay * param.decay_mult), []).append(blob)
    groups = [
        {"params": blobs, "lr": lr, "weight_decay": less} for (lr, less), blobs in kinds.items()
    ]
    return torch.optim.SGD(groups, lr=rate, momentum=MOMENTUM)


def times(options: dict[str, Any]) -> dict[str, Any]:
    """The layout in which a step is faster. For this layout: the layers as `Part`, scaled so that
    they take as long as the whole step; the seconds of an update, and of the step with it."""
    net = net_of(options)
    steps = {layout: step_seconds(net, options, form) for layout, form in LAYOUTS.items()}
    layout = min(steps, key=lambda name: sum(steps[name]))
    passes, update = steps[layout]
    parts = parts_of(net, options, LAYOUTS[layout])
    share = passes / sum(forward + backward for _, forward, backward in parts)
    scaled = [(shapes, share * forward, share * backward) for shapes, forward, backward in parts]
    return {"layout": layout, "parts": scaled, "update": update, "step": passes + update}


def step_seconds(
    net: Net, options: dict[str, Any], form: torch.memory_format
) -> tuple[float, float]:
    """The seconds of both passes, and of the update."""
    peer = TorchPeer(net).to(memory_format=form)
    optimiser = optimiser_of(peer, net, options["rate"], options["decay"])
    rows = rows_of(options, form)
    passes = []
    updates = []
    for _ in range(options["repeats"]):
        optimiser.zero_grad()
        x, labels = rows()
        began = time.perf_counter()
        peer(data=x, label=labels).backward()
        passed = time.perf_counter()
        optimiser.step()
        passes.append(passed - began)
        updates.append(time.perf_counter() - passed)
    return median(passes[1:]), median(updates[1:])


def parts_of(net: Net, options: dict[str, Any], form: torch.memory_format) -> list[Part]:
    """The times of each layer alone, in the order of the net."""
    peer = TorchPeer(net).to(memory_format=form)
    x, labels = rows_of(options, form)()
    blobs = {"data": x, "label": labels}
    found = list[Part]()
    for _, work, bottoms, tops in peer.steps:
        taken: tuple[list[float], list[float]] = [], []
        for _ in range(options["repeats"]):
            given = [blobs[bottom].detach() for bottom in bottoms]
            if given[0].is_floating_point() and bottoms[0] != "data":
                given[0] = given[0].requires_grad_().clone()  # a ReLU overwrites it
            began = time.perf_counter()
            y = work(*given)
            passed = time.perf_counter()
            y.backward(torch.ones_like(y))
            taken[0].append(passed - began)
            taken[1].append(time.perf_counter() - passed)
        blobs[tops[0]] = y
        shapes = (
            [list(blob.shape) for blob in work.parameters()] if isinstance(work, nn.Module) else []
        )
        found.append((shapes, median(taken[0][1:]), median(taken[1][1:])))
    return found


def grid(options: dict[str, Any]) -> dict[str, int | None]:
    """The iterations until the mean loss of the last `window` iterations is at most `target`, by
    rate. None: `most` iterations do not reach it, or more than the best rate before needs; or the
    loss diverges."""
    found: dict[str, int | None] = {}
    most = options["most"]
    for rate in options["rates"]:
        rows = rows_of(options, LAYOUTS[options["layout"]])
        trained = Trained({**options, "rate": rate}, rows, lambda peer: peer)
        found[str(rate)] = taken = iterations_to(
            trained.iteration, options["target"], options["window"], most
        )
        most = min(most, taken or most)
    return found


def iterations_to(
    iteration: Callable[[], Tensor], target: float, window: int, most: int
) -> int | None:
    """The iterations until the mean of the last `window` losses is at most `target`; None if `most`
    do not reach it, or if the loss diverges."""
    losses = deque[float](maxlen=window)
    for number in range(1, most + 1):
        losses.append(float(iteration()))
        if not math.isfinite(losses[-1]):
            return None
        if number >= window and mean(losses) <= target:
            return number
    return None


ALONE = {"times": times, "grid": grid}


def main() -> None:
    """Obey orders until standard input ends."""
    kind = sys.argv[1]
    _ = sys.argv[2]
    options = json.loads(sys.argv[3])
    torch.set_num_threads(1)
    if kind in ALONE:
        say(ALONE[kind](options))
        return
    peer = Peer(options)
    say("ready")
    for line in sys.stdin:
        what, given = json.loads(line)
        say(getattr(peer, what)(**given))
    dist.barrier()  # a process that ends while another still sends aborts
    dist.destroy_process_group()


def say(what: Any) -> None:
    """Send an answer."""
    print(MARK + json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
