"""A net written in Python instead of prototxt, and its training: LeNet on the digits in the
package.

    python -m examples.net_in_python
"""

from __future__ import annotations

import roles
import runtime
from nets import NetBuilder

XAVIER = {"type": "xavier"}
LEARN = [{"lr_mult": 1}, {"lr_mult": 2}]  # multipliers of weights and of biases


def lenet() -> NetBuilder:
    """Return the zoo's LeNet, with the same value in every field."""
    net = NetBuilder("LeNet")
    for phase, batch in (("TRAIN", 64), ("TEST", 100)):
        data, label = net.Data(
            "images",
            tops=("data", "label"),
            include={"phase": phase},
            batch_size=batch,
            transform_param={"scale": 1 / 256},
        )
    x = data
    for number, outputs in enumerate((20, 50), 1):
        x = net.Convolution(
            f"conv{number}", x, num_output=outputs, kernel_size=5, weight_filler=XAVIER, param=LEARN
        )
        x = net.Pooling(f"pool{number}", x, pool="MAX", kernel_size=2, stride=2)
    x = net.InnerProduct("ip1", x, num_output=500, weight_filler=XAVIER, param=LEARN)
    x = net.ReLU("relu1", x, in_place=True)
    x = net.InnerProduct("ip2", x, num_output=10, weight_filler=XAVIER, param=LEARN)
    net.Accuracy("accuracy", x, label, include={"phase": "TEST"})
    net.SoftmaxWithLoss("loss", x, label)
    return net


def main() -> None:
    """Train the net with two workers."""
    topology = roles.training(
        {"net": lenet(), "max_iter": 100, "strategy": {"preset": "sync", "workers": 2}}
    )
    result = runtime.run(topology, on_event=print)
    print(result["accuracy"])


if __name__ == "__main__":
    main()
