"""The parts that nets in Python share: data layers of photographs, convolutions, norms, gates and
the end of a classifier. Layers have the names of torchvision's modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nets.definition.builder import NetBuilder

# ImageNet's mean and deviation per channel (red, green, blue), for bytes, as torchvision's weights
# expect them
MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
FAN_OUT = {"type": "msra", "variance_norm": "FAN_OUT"}  # He et al. 2015
SMALL = {"type": "gaussian", "std": 0.01}


class Modules:
    """A net under construction whose layers are named by torchvision's modules.

    `eps` and `keep` are those of every BatchNorm: a number that is added to the variance, and the
    share of the running statistics that an update keeps (1 - torch's momentum). `filler` draws the
    first weights of convolutions.
    """

    def __init__(
        self,
        name: str,
        *,
        eps: float = 1e-5,
        keep: float = 0.9,
        filler: Mapping[str, Any] = FAN_OUT,
    ) -> None:
        self.net = NetBuilder(name)
        self._eps = eps
        self._keep = keep
        self._filler = dict(filler)

    def images(
        self,
        side: int,
        batch: int,
        *,
        mean: tuple[float, ...] = MEAN,
        deviation: tuple[float, ...] = DEVIATION,
    ) -> str:
        """Add the data layers of both phases: square images of `side` pixels, cropped from larger
        ones, in batches of `batch`. Returns the blob of images (N, 3, side, side)."""
        known = {"crop_size": side, "mean_value": mean, "deviation_value": deviation, "rgb": True}
        for phase, rows, more in (("TRAIN", batch, {"mirror": True}), ("TEST", 25, {})):
            self.net.Data(
                "data",
                tops=("data", "label"),
                include={"phase": phase},
                batch_size=rows,
                transform_param=known | more,
            )
        return "data"

    def conv(
        self,
        name: str,
        x: str,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        pad: int | None = None,
        group: int = 1,
        bias: bool = False,
    ) -> str:
        """Add a convolution. Without `pad` it keeps the size of the plane at stride 1."""
        depthwise = group > 1 and group == outputs
        groups: dict[str, Any] = {} if group == 1 or depthwise else {"group": group}
        found = self.net.layer(
            "DepthwiseConvolution" if depthwise else "Convolution",
            name,
            x,
            num_output=outputs,
            kernel_size=kernel,
            stride=stride,
            pad=kernel // 2 if pad is None else pad,
            bias_term=bias,
            weight_filler=self._filler,
            **groups,
        )
        return str(found)

    def norm(self, name: str, x: str, *, apart: bool = False) -> str:
        """Add a BatchNorm with its Scale. `apart`: other layers read its bottom, too."""
        into: dict[str, Any] = {} if apart else {"in_place": True}
        normed = self.net.layer(
            "BatchNorm", name, x, eps=self._eps, moving_average_fraction=self._keep, **into
        )
        return str(
            self.net.layer("Scale", f"{name}/scale", str(normed), in_place=True, bias_term=True)
        )

    def act(self, kind: str, x: str, *, apart: bool = False) -> str:
        """Add an activation, named after the blob that it changes. `ReLU6` is a Clip."""
        into: dict[str, Any] = {} if apart else {"in_place": True}
        name = f"{x}/{kind}"
        if kind == "ReLU6":
            return str(self.net.layer("Clip", name, x, min=0, max=6, **into))
        return str(self.net.layer(kind, name, x, **into))

    def conv_norm(
        self, conv: str, norm: str, x: str, outputs: int, kernel: int, act: str = "", **more: Any
    ) -> str:
        """Add a convolution, a BatchNorm and an activation (none by default)."""
        x = self.norm(norm, self.conv(conv, x, outputs, kernel, **more))
        return self.act(act, x) if act else x

    def add(self, name: str, x: str, shortcut: str) -> str:
        """Add the sum of a branch and its shortcut."""
        return str(self.net.layer("Eltwise", name, shortcut, x))

    def skip(self, name: str, x: str, ratio: float) -> str:
        """Add stochastic depth at the end of a branch, unless the ratio is 0."""
        if not ratio:
            return x
        return str(self.net.layer("StochasticDepth", name, x, dropout_ratio=ratio))

    def squeeze_excitation(
        self,
        name: str,
        x: str,
        channels: int,
        squeezed: int,
        act: str = "ReLU",
        gate: str = "Sigmoid",
    ) -> str:
        """Add a gate on each channel, computed from the means of all channels (Hu et al. 2018)."""
        means = self.mean(f"{name}/mean", x)
        inner = self.act(act, self.conv(f"{name}.fc1", means, squeezed, 1, bias=True))
        gates = self.act(gate, self.conv(f"{name}.fc2", inner, channels, 1, bias=True))
        flat = self.net.layer("Flatten", f"{name}/flat", gates)
        return str(self.net.layer("Scale", name, x, str(flat), axis=0))

    def mean(self, name: str, x: str) -> str:
        """Add the mean of each plane, (N, C, 1, 1)."""
        return str(self.net.layer("Pooling", name, x, pool="AVE", global_pooling=True))

    def max_pool(self, name: str, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        """Add maxima of windows. Sizes are rounded down, as in torch."""
        return str(
            self.net.layer(
                "Pooling",
                name,
                x,
                pool="MAX",
                kernel_size=kernel,
                stride=stride,
                pad=pad,
                round_mode="FLOOR",
            )
        )

    def dropout(self, name: str, x: str, ratio: float) -> str:
        """Add dropout."""
        return str(self.net.layer("Dropout", name, x, in_place=True, dropout_ratio=ratio))

    def dense(self, name: str, x: str, outputs: int) -> str:
        """Add a dense layer with a bias."""
        return str(self.net.layer("InnerProduct", name, x, num_output=outputs, weight_filler=SMALL))

    def scores(self, name: str, x: str, classes: int) -> NetBuilder:
        """Add the scores of classes, their loss, and the accuracies of tests. Returns the net."""
        x = self.dense(name, x, classes)
        tests: dict[str, Any] = {"include": {"phase": "TEST"}}
        self.net.Accuracy("accuracy", x, "label", **tests)
        if classes > 5:
            self.net.Accuracy("top5", x, "label", top_k=5, **tests)
        self.net.SoftmaxWithLoss("loss", x, "label")
        return self.net
