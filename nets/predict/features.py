"""The features of images: the output of a layer inside a trained net."""

from __future__ import annotations

from dataclasses import replace

from nets.errors import NetError, did_you_mean
from nets.predict.deployment import Deployment


def up_to(deployment: Deployment, layer: str) -> Deployment:
    """Return the deployment whose output is the first top of `layer`, as the layer writes it. It
    has only the layers that this output depends on. Raises NetError if there is no such layer."""
    layers = deployment.net.for_phase("TEST").layers
    names = [each.proto.name for each in layers if each.proto.bottom]
    if layer not in names:
        near = did_you_mean(layer, names)
        raise NetError(
            f"layer '{layer}': net '{deployment.net.name}' has no such layer{near}; it has "
            f"{', '.join(names)}"
        )
    last = next(at for at, each in enumerate(layers) if each.proto.name == layer)
    output = layers[last].proto.top[0]
    wanted = {output}
    kept = []
    for each in reversed(layers[: last + 1]):
        if wanted & set(each.proto.top):
            kept.append(each)
            wanted |= set(each.proto.bottom)
    net = replace(deployment.net, layers=tuple(reversed(kept)), phase="TEST")
    return replace(deployment, net=net, output=output, classes=())
