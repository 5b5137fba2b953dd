"""A net of ours as PyTorch modules, made from the same prototxt, for comparisons of training time.

It is built layer by layer, as a PyTorch user would write it: BatchNorm with its Scale is one
BatchNorm2d, ReLU is in place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

from benchmarks.cifar94 import port
from benchmarks.helpers.vision import models
from nets.graph.graph import Net


class TorchPeer(nn.Module):
    """The layers of `net` (phase TRAIN, whole) in their order. `forward` returns the weighted loss.
    Raises NotImplementedError with the type of a layer that has no translation."""

    def __init__(self, net: Net, blobs: Any = None) -> None:
        """`blobs`: the first parameters in host memory; None makes the net's own."""
        super().__init__()
        self.steps: list[tuple[str, Any, list[str], list[str]]] = []
        self.parts = nn.ModuleDict()
        for node in net.nodes:
            proto = node.layer.proto
            if proto.type in ("Scale", "Accuracy", "Silence"):
                continue  # BatchNorm2d has the scale
            shape = net.wiring.values[node.bottoms[0]].shape
            work = self._translated(node.layer, shape)
            if isinstance(work, nn.Module):
                self.parts[proto.name] = work
            self.steps.append((proto.type, work, list(proto.bottom), list(proto.top)))
        self._copy_parameters(blobs or net.initial_blobs())

    def _translated(self, layer: Any, shape: tuple[int, ...]) -> Any:
        made = _MAKERS.get(layer.proto.type)
        if made is None:
            raise NotImplementedError(f"no translation of layer type {layer.proto.type}")
        return made(layer, shape)

    def _copy_parameters(self, first: Any) -> None:
        for name, blobs in first.items():
            part = dict(self.parts.items()).get(name)
            if isinstance(part, nn.Sequential | _Sequence):
                part = list(part.children())[-1]
            if isinstance(part, nn.Conv2d | nn.Linear | nn.Embedding):
                for parameter, blob in zip(part.parameters(), blobs, strict=True):
                    parameter.data.copy_(torch.from_numpy(blob))
            if isinstance(part, nn.LSTM):
                i_f_o_g = (0, 1, 3, 2)  # Caffe's gates in PyTorch's order: i, f, g, o
                w_x, b, w_h = (_gates(torch.from_numpy(blob), i_f_o_g) for blob in blobs)
                for parameter, blob in zip(
                    part.parameters(), (w_x, w_h, b, torch.zeros_like(b)), strict=True
                ):
                    parameter.data.copy_(blob)

    def forward(self, **inputs: Tensor) -> Tensor:
        """The loss for input blobs that are given by name."""
        blobs = dict(inputs)
        loss = torch.zeros((), device=next(iter(inputs.values())).device)
        for kind, work, bottoms, tops in self.steps:
            values = [blobs[name] for name in bottoms]
            if kind == "SoftmaxWithLoss":
                loss = loss + work(*values)
            else:
                blobs[tops[0]] = work(*values)
        return loss


class VisionPeer(nn.Module):
    """A net of torchvision with 1 000 classes and the loss of its scores. Raises
    ModuleNotFoundError without torchvision."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.net = models().get_model(name, weights=None)

    def forward(self, data: Tensor, label: Tensor) -> Tensor:
        """The loss for images and their labels."""
        return F.cross_entropy(self.net(data), label)


class AirbenchPeer(nn.Module):
    """airbench94 as benchmarks.cifar94's port to PyTorch writes it, with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = port.net_of()

    def forward(self, data: Tensor, label: Tensor) -> Tensor:
        """The loss for images and their labels."""
        return F.cross_entropy(self.net(data), label, label_smoothing=port.SMOOTHING)


def peer_of(model: str, net: Net, blobs: Any = None) -> nn.Module:
    """The peer of `net`: a port of ours, torchvision's net, or without a name its translation."""
    if model == "airbench94":
        return AirbenchPeer()
    return VisionPeer(model) if model else TorchPeer(net, blobs)


def _gates(blob: Tensor, order: tuple[int, ...]) -> Tensor:
    return torch.cat([blob.chunk(4)[at] for at in order])


def _conv(layer: Any, shape: tuple[int, ...]) -> nn.Module:
    geometry = layer.geometry
    outputs = layer.top_shape[1]
    return nn.Conv2d(
        shape[1],
        outputs,
        geometry.kernel,
        geometry.stride,
        geometry.pad,
        geometry.dilation,
        geometry.groups,
        bias=len(layer.params) > 1,
    )


def _dense(layer: Any, shape: tuple[int, ...]) -> nn.Module:
    linear = nn.Linear(layer.width, layer.top_shape[-1], bias=len(layer.params) > 1)
    return nn.Sequential(nn.Flatten(), linear) if len(shape) == 4 else linear


def _pool(layer: Any, shape: tuple[int, ...]) -> Any:
    geometry = layer.geometry
    options = {
        "kernel_size": geometry.kernel,
        "stride": geometry.stride,
        "padding": geometry.pad,
        "ceil_mode": True,
    }
    return nn.MaxPool2d(**options) if geometry.mode == "MAX" else nn.AvgPool2d(**options)


def _loss(layer: Any, shape: tuple[int, ...]) -> Any:
    weight = layer.loss_weights[0]

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        classes = scores.shape[-1] if scores.ndim == 3 else scores.shape[1]
        return weight * F.cross_entropy(scores.reshape(-1, classes), labels.reshape(-1))

    return loss


def _recurrent(layer: Any, shape: tuple[int, ...]) -> Any:
    made = nn.LSTM(layer.width, layer.hidden)
    return _Sequence(made)


class _Sequence(nn.Module):
    """An LSTM whose state starts at zero. Returns only its outputs."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, x: Tensor, cont: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


_MAKERS: dict[str, Any] = {
    "Convolution": _conv,
    "InnerProduct": _dense,
    "Pooling": _pool,
    "ReLU": lambda layer, shape: nn.ReLU(inplace=True),
    "Dropout": lambda layer, shape: nn.Dropout(layer.ratio),
    "LRN": lambda layer, shape: nn.LocalResponseNorm(layer.size, layer.alpha, layer.beta, layer.k),
    "BatchNorm": lambda layer, shape: nn.BatchNorm2d(shape[1]),
    "Concat": lambda layer, shape: lambda *values: torch.cat(values, 1),
    "Eltwise": lambda layer, shape: lambda *values: torch.add(*values),
    "Flatten": lambda layer, shape: nn.Flatten(),
    "SoftmaxWithLoss": _loss,
    "Embed": lambda layer, shape: nn.Embedding(layer.params[0].shape[0], layer.params[0].shape[1]),
    "LSTM": _recurrent,
}
